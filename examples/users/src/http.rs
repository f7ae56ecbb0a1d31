//! Requests over HTTP/1.1, without a gateway: threads that share nothing but the port, each with a listener, a reader
//! of the database and connections to Redis of its own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::api::{Api, MAX_BODY_BYTES, RETRY_AFTER, Refusal};
use crate::problem::Problem;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// How long a client may take for the head of a request, counted from the answer before: so a connection may be idle
/// for as long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a connection's requests that may lie in memory unread; pipelined requests beyond wait in the kernel.
const MAX_READ_BYTES: usize = 64 * 1024;
/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where to listen, and limits.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: SocketAddr,
    pub(crate) threads: usize,
    /// Of each thread.
    pub(crate) max_connections: usize,
    /// What open requests get after SIGTERM.
    pub(crate) grace: Duration,
}

/// Serves until SIGTERM or SIGINT, then until open requests are answered. `make` is called once on each thread.
pub(crate) fn serve(
    settings: &Settings,
    make: impl Fn() -> anyhow::Result<Rc<Api>> + Send + Sync + Clone + 'static,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot listen on {}", settings.address);
    let first = bind(settings.address, settings.threads).with_context(cannot)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    while listeners.len() < settings.threads {
        listeners.push(bind(address, settings.threads).with_context(cannot)?);
    }
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _context = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let mut threads = Vec::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        let (make, stopped, settings) = (make.clone(), stopped.clone(), settings.clone());
        let work = move || run(listener, &make()?, &settings, stopped);
        threads.push(thread::Builder::new().name(format!("users-{number}")).spawn(work)?);
    }
    // Whoever started this process waits for the line.
    println!("listening on http://{address}");
    runtime.block_on(async {
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} () = stop.closed() => {} }
    });
    drop(stopped);
    stop.send_replace(true);
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(())
}

fn bind(address: SocketAddr, threads: usize) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // The kernel spreads connections over the listeners of one port.
    socket.set_reuse_port(threads > 1)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// One thread, from its start to its last answer.
fn run(
    listener: StdListener,
    api: &Rc<Api>,
    settings: &Settings,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        api.start();
        let mut connections = JoinSet::new();
        accept(TcpListener::from_std(listener)?, api, settings, stopped, &mut connections).await;
        let rest = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(settings.grace, rest).await.is_err() {
            eprintln!("users: {} connections are cut after {} s", connections.len(), settings.grace.as_secs());
        }
        Ok(())
    })
}

/// Accepts until it is told to stop; closes the listener.
async fn accept(
    listener: TcpListener,
    api: &Rc<Api>,
    settings: &Settings,
    mut stopped: watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) {
    let places = Arc::new(Semaphore::new(settings.max_connections));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            Some(_ended) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = next => accepted,
        };
        match accepted {
            (Ok(place), Ok((socket, _))) => {
                let stopped = stopped.clone();
                connections.spawn_local(connection(socket, Rc::clone(api), stopped, place));
            }
            (_, Err(error)) => {
                eprintln!("users: a connection could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (Err(_closed), _) => return,
        }
    }
}

async fn connection(socket: TcpStream, api: Rc<Api>, mut stopped: watch::Receiver<bool>, _place: OwnedSemaphorePermit) {
    // A connection that is not fast is one all the same.
    let _slower = socket.set_nodelay(true);
    let handler = service_fn(move |request| {
        let api = Rc::clone(&api);
        async move { Ok::<_, Infallible>(answer(&api, request).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_READ_BYTES)
            // Answers to pipelined requests leave together.
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(socket), handler)
    );
    tokio::select! {
        // A connection that its client cuts concerns nobody else.
        _ended = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}

async fn answer(api: &Rc<Api>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = match read(&head, body).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response().map(Full::new),
    };
    let response = match api.answer(&head, body).await {
        Ok(response) => response,
        Err(Refusal::Problem(problem)) => problem.into_response(),
        Err(Refusal::Overloaded(text)) => Problem::overloaded(text, RETRY_AFTER.as_secs() as u32).into_response(),
    };
    response.map(Full::new)
}

async fn read(head: &http::request::Parts, body: Incoming) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let declared = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(Problem::too_large(MAX_BODY_BYTES));
    }
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(MAX_BODY_BYTES)),
        Err(error) => Err(Problem::bad_request(None, format!("the body did not come: {error}"))),
    }
}
