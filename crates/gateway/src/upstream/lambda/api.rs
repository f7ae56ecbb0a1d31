//! The Runtime API of one instance, served on its own loopback port by one worker.
//!
//! `pilotlight_lambda::Runtime` decides; here its decisions are carried out, and sockets are read and written.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use pilotlight_lambda::{Call, CallId, FunctionError, Input, Output, Runtime};
use pilotlight_supervisor::{Instance, Lease, Service};
use rustc_hash::FxHashMap;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::invocation::{Functions, Handed, Invocation, InvokeError, Outcome};
use crate::descriptors;
use crate::upstream::Delivery;

mod answers;
mod caller;
mod replies;

use replies::{accepted, refused, unknown};

/// Connections of one instance; a runtime client has one or two.
const MAX_CONNECTIONS: usize = 16;
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the head of a call.
const MAX_HEAD: usize = 16 * 1024;

/// Who is served.
pub(crate) struct Served {
    pub(crate) instance: Arc<Instance>,
    pub(crate) service: Arc<Service>,
    /// The user that it runs as.
    pub(crate) user: u32,
}

/// Serves an instance until it ends, or misses a deadline.
pub(crate) async fn serve(functions: &Functions, served: Served, listener: std::net::TcpListener) {
    let Served { instance, service, user } = served;
    let number = instance.number();
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(e) => return tracing::error!(service = %service.name(), instance = number, "no Runtime API: {e}"),
    };
    let (_open, mut invocations) = functions.open(&instance);
    let api = Api::new(Arc::clone(&instance), service, user);
    let mut connections = JoinSet::new();
    loop {
        let deadline = api.state.borrow().runtime.deadline();
        tokio::select! {
            _ = instance.ended() => break api.ended(),
            Some(invocation) = invocations.recv() => api.invoke(invocation),
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, from)) => {
                    connections.spawn_local(converse(Rc::clone(&api), stream, from));
                }
                Err(e) => {
                    let (service, hint) = (api.service.name(), descriptors::hint(&e));
                    tracing::error!(%service, instance = number, "the Runtime API cannot accept: {e}{hint}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = until(deadline) => {
                if api.is_late() {
                    break;
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

async fn converse(api: Rc<Api>, stream: TcpStream, from: SocketAddr) {
    if !api.is_its_own(&stream, from).await {
        return;
    }
    let _ = stream.set_nodelay(true); // without it answers are late, not wrong
    let service = service_fn(|request| {
        let api = Rc::clone(&api);
        async move { Ok::<_, std::convert::Infallible>(api.call(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = connection.await {
        tracing::debug!(service = %api.service.name(), instance = api.instance.number(), "a call of the Runtime API ended: {e}");
    }
}

/// What is known of an instance. Its tasks are all on one thread.
struct Api {
    service: Arc<Service>,
    instance: Arc<Instance>,
    /// The user that it runs as.
    user: u32,
    has_refused: Cell<bool>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    runtime: Runtime,
    last_call: CallId,
    /// Calls for the next invocation.
    waiting: FxHashMap<CallId, oneshot::Sender<Handed>>,
    current: Option<Current>,
}

/// The invocation that the instance has, or gets next.
struct Current {
    handed: Handed,
    /// Taken when the answer begins.
    reply: Option<oneshot::Sender<Result<Outcome, InvokeError>>>,
    max_payload: usize,
    max_stream: u64,
    /// Its place at the instance.
    _lease: Lease,
}

impl Api {
    fn new(instance: Arc<Instance>, service: Arc<Service>, user: u32) -> Rc<Self> {
        Rc::new(Self { service, instance, user, has_refused: Cell::new(false), state: RefCell::default() })
    }

    /// Whether a connection is of a process of the instance's user, or of root. One of another user could take
    /// invocations, and answer them.
    async fn is_its_own(&self, stream: &TcpStream, from: SocketAddr) -> bool {
        if !caller::are_known() {
            return true;
        }
        let Ok(to) = stream.local_addr() else { return false };
        let user = caller::user(from, to).await;
        let is_own = user.is_some_and(|user| user == self.user || user == 0);
        if !is_own && !self.has_refused.replace(true) {
            tracing::warn!(service = %self.service.name(), instance = self.instance.number(), user,
                "a connection to the Runtime API is not of user id {}: it is closed, and so are others like it", self.user);
        }
        is_own
    }

    /// A worker has an invocation for it.
    fn invoke(&self, invocation: Invocation) {
        let Invocation { handed, max_payload, max_stream, lease, reply } = invocation;
        let mut state = self.state.borrow_mut();
        let output = state.runtime.step(Input::Invoke(&handed.id, handed.deadline));
        if let Output::Refuse(why) = output {
            let _ = reply.send(Err(InvokeError::Ended(format!("took no invocation ({why})"), Delivery::No)));
            return;
        }
        state.current = Some(Current { handed, reply: Some(reply), max_payload, max_stream, _lease: lease });
        state.hand(output);
    }

    /// The deadline may be over. Whether it is.
    fn is_late(&self) -> bool {
        let mut state = self.state.borrow_mut();
        if state.runtime.step(Input::Tick(Instant::now())) != Output::Late {
            return false;
        }
        self.instance.report_stuck(); // before its place is free
        state.fail(InvokeError::Late);
        true
    }

    /// The instance has ended.
    fn ended(&self) {
        let how = self.instance.ended_now().and_then(|ended| ended.exit);
        let what = how.map_or_else(|| "was killed".to_owned(), |exit| exit.to_string());
        let mut state = self.state.borrow_mut();
        // It had one thing to do: sent again, that might end the next instance, too.
        let delivery = if state.runtime.is_given() { Delivery::No } else { Delivery::Suspect };
        state.fail(InvokeError::Ended(what, delivery));
    }

    async fn call(self: Rc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        match Call::parse(method.as_str(), &path) {
            Ok(Call::Next) => self.next().await,
            Ok(Call::Response(id)) => self.response(id, request).await,
            Ok(Call::Error(id)) => self.error(id, request).await,
            Ok(Call::InitError) => self.init_error(request).await,
            Err(why) => unknown(why),
        }
    }

    fn begin(&self) -> CallGuard<'_> {
        let mut state = self.state.borrow_mut();
        state.last_call += 1;
        CallGuard { api: self, call: state.last_call, is_open: true }
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        let mut guard = self.begin();
        let (sender, handed) = oneshot::channel();
        {
            let mut state = self.state.borrow_mut();
            state.waiting.insert(guard.call, sender);
            match state.runtime.step(Input::Next(guard.call)) {
                Output::Ready => self.instance.report_ready(),
                Output::Refuse(why) => {
                    state.waiting.remove(&guard.call);
                    return refused(why);
                }
                output => state.hand(output),
            }
        }
        let handed = handed.await;
        guard.is_open = false;
        match handed {
            Ok(handed) => replies::invocation(&handed),
            Err(_) => refused(pilotlight_lambda::Refusal::Over), // not reachable: the sender lives as long as the call
        }
    }

    /// The function failed, as it says.
    fn note_failure(&self, id: &str, error: &FunctionError) {
        let text = error.to_string();
        tracing::error!(service = %self.service.name(), instance = self.instance.number(), invocation = id,
            "the function failed: {}", pilotlight_printable::text(text.as_bytes()));
        self.service.report_function_error(&text);
    }
}

impl State {
    /// Carries out what is to be done about the invocation.
    fn hand(&mut self, output: Output) {
        let mut output = output;
        while let (Output::Hand(call), Some(current)) = (output, &self.current) {
            let is_taken = self.waiting.remove(&call).is_some_and(|call| call.send(current.handed.clone()).is_ok());
            if is_taken {
                return;
            }
            output = self.runtime.not_handed();
        }
    }

    /// The invocation has failed: who waits for it is told.
    fn fail(&mut self, error: InvokeError) {
        if let Some(reply) = self.current.take().and_then(|current| current.reply) {
            let _ = reply.send(Err(error)); // nobody may wait for it any more
        }
    }
}

/// Notices that a call went before it was answered.
struct CallGuard<'a> {
    api: &'a Api,
    call: CallId,
    is_open: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let mut state = self.api.state.borrow_mut();
        state.waiting.remove(&self.call);
        if state.runtime.step(Input::Gone(self.call)) == Output::Broken {
            state.fail(InvokeError::Broken);
        }
    }
}
