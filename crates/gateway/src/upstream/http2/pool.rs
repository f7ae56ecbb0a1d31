//! One worker's connections to one service that speaks HTTP/2, and the streams that begin on them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use pilotlight_exchange::retry::Reuse;
use pilotlight_supervisor::Service;

use super::greeting::Greeting;
use crate::client_socket::ServerSocket;
use crate::net::Destination;
use crate::spawn::Spawner;
use crate::upstream::first_byte::FirstByte;
use crate::upstream::one_try::Kept;
use crate::upstream::secure;
use crate::upstream::server::Server;
use crate::upstream::{Delivery, SendError, UpstreamError, closed};

/// Connections of one worker to one instance. A further one is opened when those there are have all the streams that
/// the service allows; beyond this number an exchange waits for a stream.
const MAX_CONNECTIONS: usize = 4;
/// How long a connection is kept without use.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// What a service may send of one response before the client has taken it.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all responses on a connection.
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// What is held of one request's body when the service's windows have room and its socket does not.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// Bytes of a response's fields, or of its trailers, with 32 for each (RFC 9113 §6.5.2).
const MAX_FIELDS: u32 = 64 * 1024;

/// One worker's connections to one service.
pub(crate) struct Pool {
    pub(crate) service: String,
    /// Whose settings those wait by that meet a full backlog; none: it is somebody else's service.
    queue: Option<Arc<Service>>,
    spawner: Spawner,
    connections: RefCell<Vec<Rc<Connection>>>,
}

/// A connection, which its task drives.
pub(in crate::upstream) struct Connection {
    /// The instance it leads to, or the server of somebody else's.
    instance: u64,
    pub(super) requests: SendRequest<Bytes>,
    pub(super) greeting: Rc<Greeting>,
    /// Exchanges on it.
    open: Cell<usize>,
    last_used: Cell<Instant>,
    is_closed: Cell<bool>,
}

impl Pool {
    pub(crate) fn new(service: String, queue: Option<Arc<Service>>, spawner: Spawner) -> Rc<Self> {
        Rc::new(Self { service, queue, spawner, connections: RefCell::default() })
    }

    /// Whether it keeps no connection.
    pub(crate) fn is_unused(&self) -> bool {
        self.connections.borrow().is_empty()
    }

    /// Closes what has not been used for long, or leads to an instance or server that is not there any more. Streams
    /// that are open keep their connection.
    pub(crate) fn close_idle(&self, is_there: impl Fn(u64) -> bool) {
        let is_used = |one: &Connection| {
            one.open.get() > 0 || one.last_used.get().elapsed() <= MAX_IDLE_TIME && is_there(one.instance)
        };
        let is_kept = |one: &Rc<Connection>| !one.is_closed.get() && is_used(one);
        self.connections.borrow_mut().retain(is_kept);
    }

    /// The connection to an instance with the fewest exchanges, unless another one may be opened and should be.
    fn take(&self, instance: u64) -> Option<Rc<Connection>> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|one| !one.is_closed.get());
        let to_it = || connections.iter().filter(|one| one.instance == instance);
        let best = to_it().min_by_key(|one| one.open.get())?;
        let is_full = best.open.get() >= best.requests.current_max_send_streams();
        (!is_full || to_it().count() >= MAX_CONNECTIONS).then(|| Rc::clone(best))
    }

    /// A connection that is kept, or a new one.
    pub(super) async fn connection(
        &self,
        to: Destination<'_>,
        server: Option<&Server<'_>>,
        instance: u64,
        kept: Kept,
        first_byte: &FirstByte,
    ) -> Result<(Rc<Connection>, Reuse), SendError> {
        if let Some(connection) = (kept == Kept::MayBeUsed).then(|| self.take(instance)).flatten() {
            return Ok((connection, Reuse::Kept));
        }
        let connected = Box::pin(first_byte.within(self.connect(to, server, instance))).await;
        let connection = connected.unwrap_or_else(|| Err(first_byte.over(&self.service).into()))?;
        Ok((connection, Reuse::New))
    }

    async fn connect(
        &self,
        to: Destination<'_>,
        server: Option<&Server<'_>>,
        instance: u64,
    ) -> Result<Rc<Connection>, SendError> {
        let socket = secure::connect(to, server, &self.service, self.queue.as_ref()).await?;
        self.begin(socket, instance).await
    }

    /// Speaks HTTP/2 on a new connection, which is kept.
    pub(in crate::upstream) async fn begin(
        &self,
        socket: ServerSocket,
        instance: u64,
    ) -> Result<Rc<Connection>, SendError> {
        let mut builder = client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(MAX_SEND_BUFFER)
            .max_header_list_size(MAX_FIELDS);
        let begun = builder.handshake::<_, Bytes>(socket).await;
        let (requests, mut driver) = begun.map_err(|e| failure(&self.service, &e, Sent::Nothing))?;
        let (greeting, has_come) = Greeting::new();
        let greeting = Rc::new(greeting);
        let (asked, ping) = (Rc::clone(&greeting), driver.ping_pong());
        let (open, last_used, is_closed) = (Cell::new(0), Cell::new(Instant::now()), Cell::new(false));
        let connection = Rc::new(Connection { instance, requests, greeting, open, last_used, is_closed });
        let (driven, service) = (Rc::downgrade(&connection), self.service.clone());
        self.spawner.spawn(async move {
            let asking = async {
                if let Some(ping) = ping {
                    asked.ask(ping, &has_come).await;
                }
                std::future::pending().await
            };
            let ended = tokio::select! { biased; ended = driver => ended, never = asking => never };
            if let Err(e) = ended {
                tracing::debug!(service, "a connection to the service ended: {e}");
            }
            if let Some(connection) = driven.upgrade() {
                connection.is_closed.set(true);
            }
        });
        self.connections.borrow_mut().push(Rc::clone(&connection));
        Ok(connection)
    }
}

/// An exchange on a connection.
pub(super) struct Counted(Rc<Connection>);

impl Counted {
    pub(super) fn new(connection: Rc<Connection>) -> Self {
        connection.open.set(connection.open.get() + 1);
        Self(connection)
    }
}

/// What follows the head of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    Body,
}

/// A stream that has begun.
pub(super) type Begun = (ResponseFuture, SendStream<Bytes>);

impl Counted {
    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }

    /// Begins a stream with the head of a request.
    pub(super) async fn begin(
        &self,
        pool: &Pool,
        first_byte: &FirstByte,
        request: Request<()>,
        follows: Follows,
    ) -> Result<Begun, SendError> {
        let mut requests = self.0.requests.clone(); // not kept: the connection ends with its last user
        // A service allows so many streams at a time.
        let begun = match first_byte.within(poll_fn(|cx| requests.poll_ready(cx))).await {
            None => Err(first_byte.over(&pool.service).into()),
            Some(Err(e)) => Err(failure(&pool.service, &e, Sent::Nothing)),
            Some(Ok(())) => {
                let sent = requests.send_request(request, follows == Follows::Nothing);
                sent.map_err(|e| failure(&pool.service, &e, Sent::Nothing))
            }
        };
        if begun.is_err() {
            self.0.is_closed.set(true); // it takes no further request: the service is going away, say
        }
        begun
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.last_used.set(Instant::now());
    }
}

/// How far a request has come when it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Nothing,
    Something,
}

pub(super) fn failure(service: &str, error: &h2::Error, sent: Sent) -> SendError {
    // RFC 9113 §8.7: neither a refused stream nor one above the last of GOAWAY has been processed.
    let is_unprocessed = error.is_remote() && (error.reason() == Some(Reason::REFUSED_STREAM) || error.is_go_away());
    let delivery = if sent == Sent::Nothing || is_unprocessed { Delivery::No } else { Delivery::Maybe };
    if !error.is_io() && !error.is_remote() {
        let what = match error.is_go_away() {
            true => format!("it is to speak HTTP/2 with prior knowledge (h2c), and what came is not that: {error}"),
            false => error.to_string(),
        };
        return UpstreamError::Protocol { service: service.to_owned(), what }.into();
    }
    closed(service, &format!("ended the stream ({error})"), delivery).into()
}
