//! HTTP/2 with prior knowledge to a service (`transport = "h2c"`): a few connections of each worker, many exchanges at
//! once on each.
//!
//! A task of the worker drives each connection; an exchange sends its body and takes its response through the `h2`
//! crate, at the pace of the service's windows and of the client. Trailers pass both ways, so gRPC does.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE};
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use http_body::Frame;
use pilotlight_exchange::retry::Reuse;
use pilotlight_supervisor::{Lease, Service};

use super::first_byte::{Awaited, Awaiting, FirstByte};
use super::http::place;
use super::one_try::{Kept, Try};
use super::silence::Silence;
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, UpstreamError, backlog, closed};
use crate::body::{CutError, ResponseBody, Source};
use crate::fields::{is_hop_by_hop, strip_hop_by_hop};
use crate::net::Destination;
use crate::options::ExternalAddr;
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use crate::spawn::Spawner;

mod upload;

use upload::Upload;

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
struct Connection {
    /// The instance it leads to, 0 for a server of somebody else's.
    instance: u64,
    requests: SendRequest<Bytes>,
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

    /// Closes what has not been used for long. Streams that are open keep their connection.
    pub(crate) fn close_idle(&self) {
        let is_kept = |one: &Rc<Connection>| {
            !one.is_closed.get() && (one.open.get() > 0 || one.last_used.get().elapsed() <= MAX_IDLE_TIME)
        };
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
    async fn connection(
        &self,
        to: Destination<'_>,
        instance: u64,
        kept: Kept,
        first_byte: &FirstByte,
    ) -> Result<(Rc<Connection>, Reuse), SendError> {
        if let Some(connection) = (kept == Kept::MayBeUsed).then(|| self.take(instance)).flatten() {
            return Ok((connection, Reuse::Kept));
        }
        let connected = Box::pin(first_byte.within(self.connect(to, instance))).await;
        let connection = connected.unwrap_or_else(|| Err(first_byte.over(&self.service).into()))?;
        Ok((connection, Reuse::New))
    }

    async fn connect(&self, to: Destination<'_>, instance: u64) -> Result<Rc<Connection>, SendError> {
        let socket = backlog::connect(to, &self.service, self.queue.as_ref()).await?;
        let mut builder = client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(MAX_SEND_BUFFER)
            .max_header_list_size(MAX_FIELDS);
        let begun = builder.handshake::<_, Bytes>(socket).await;
        let (requests, driver) = begun.map_err(|e| failure(&self.service, &e, Sent::Nothing))?;
        let (open, last_used, is_closed) = (Cell::new(0), Cell::new(Instant::now()), Cell::new(false));
        let connection = Rc::new(Connection { instance, requests, open, last_used, is_closed });
        let (driven, service) = (Rc::downgrade(&connection), self.service.clone());
        self.spawner.spawn(async move {
            if let Err(e) = driver.await {
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
struct Counted(Rc<Connection>);

impl Counted {
    fn new(connection: Rc<Connection>) -> Self {
        connection.open.set(connection.open.get() + 1);
        Self(connection)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.last_used.set(Instant::now());
    }
}

/// Sends a request and waits for the head of the response. `external`: the address of a server of somebody else's.
///
/// # Cancel safety
/// Dropping it resets the stream, which is how HTTP/2 tells a service that the client has gone.
pub(crate) async fn send(
    pool: &Rc<Pool>,
    external: Option<&ExternalAddr>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let instance = one.lease.as_ref().map(|lease| Arc::clone(lease.instance()));
    let number = instance.as_ref().map_or(0, |instance| instance.number());
    let whole = |body, error, reuse| Failed { error, body: BodyLeft::Whole(body), reuse };
    let (Some(place), Some(first_byte)) = (place(instance.as_ref().map(|i| i.endpoint()), external), &*one.first_byte)
    else {
        let what = "cannot be reached by HTTP/2".to_owned();
        return Err(whole(body, UpstreamError::Protocol { service: pool.service.clone(), what }.into(), Reuse::New));
    };
    first_byte.service_turn();
    let (connection, reuse) = match pool.connection(place, number, kept, first_byte).await {
        Ok(found) => found,
        Err(error) => return Err(whole(body, error, Reuse::New)),
    };
    let request = match request(outbound) {
        Ok(request) => request,
        Err(what) => {
            let error = UpstreamError::Protocol { service: pool.service.clone(), what };
            return Err(whole(body, error.into(), reuse));
        }
    };
    let mut requests = connection.requests.clone();
    let counted = Counted::new(connection);
    // A service allows so many streams at a time.
    let begun = match first_byte.within(poll_fn(|cx| requests.poll_ready(cx))).await {
        None => Err(first_byte.over(&pool.service).into()),
        Some(Err(e)) => Err(failure(&pool.service, &e, Sent::Nothing)),
        Some(Ok(())) => {
            requests.send_request(request, body.is_none()).map_err(|e| failure(&pool.service, &e, Sent::Nothing))
        }
    };
    drop(requests); // the connection ends with its last user
    let (response, to_service) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            counted.0.is_closed.set(true); // it takes no further request: the service is going away, say
            return Err(whole(body, error, reuse));
        }
    };
    let mut exchange = Exchange { response, upload: Upload::new(to_service, body), counted };
    let from = Awaiting { pool: &**pool, service: &pool.service, instance: instance.as_deref(), outbound };
    match first_byte.head(&mut exchange, &from).await.inspect(|_| first_byte.came()) {
        Ok(head) => Ok(exchange.into_response(pool, head, one)),
        Err(error) => Err(Failed { error, body: exchange.upload.reclaim(), reuse }),
    }
}

/// A request as HTTP/2 has it.
fn request(outbound: &Outbound) -> Result<Request<()>, String> {
    let authority = if outbound.head.authority().is_empty() { "localhost" } else { outbound.head.authority() };
    let uri = Uri::builder().scheme(outbound.origin().scheme.as_str()).authority(authority);
    let uri = uri.path_and_query(&*outbound.target()).build();
    let uri = uri.map_err(|e| format!("cannot be sent this request's target or authority by HTTP/2 ({e})"))?;
    let mut headers = HeaderMap::with_capacity(16);
    let mut put = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            && name != HOST
            && !is_hop_by_hop(&name)
        {
            headers.append(name, value);
        }
    };
    outbound.received_fields(&mut put);
    outbound.own_fields(|name, value| put(name, &value.concat()));
    // RFC 9110 §10.1.4: of this connection, on which the gateway takes them. gRPC asks for it.
    headers.insert(TE, HeaderValue::from_static("trailers"));
    let mut request = Request::new(());
    *request.method_mut() = outbound.head.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}

struct Exchange {
    response: ResponseFuture,
    upload: Upload,
    counted: Counted,
}

impl Exchange {
    fn into_response(mut self, pool: &Rc<Pool>, head: Response<RecvStream>, one: &mut Try<'_>) -> ServiceResponse {
        self.upload.forget_sent();
        let lease = one.lease.take();
        if let Some(lease) = &lease {
            lease.instance().mark_answered();
        }
        let (parts, received) = head.into_parts();
        let (status, mut fields) = (parts.status, parts.headers);
        strip_hop_by_hop(&mut fields);
        let is_ended = received.is_end_stream();
        if is_ended && self.upload.is_done() {
            return ServiceResponse { status, fields: fields.into(), body: ResponseBody::Empty, upgraded: None };
        }
        let said = fields.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = if has_none || is_ended { Some(0) } else { said };
        let silence = one.first_byte.take();
        let silence = silence.map(|wait| wait.then(fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes)));
        let body = Http2Body {
            received,
            upload: self.upload,
            length,
            taken: 0,
            is_ended,
            silence,
            pool: Rc::clone(pool),
            lease,
            counted: Some(self.counted),
        };
        let body = ResponseBody::Streamed(Box::new(body));
        ServiceResponse { status, fields: fields.into(), body, upgraded: None }
    }
}

impl Awaited for Exchange {
    type Pool = Pool;
    type Head = Response<RecvStream>;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Pool,
        outbound: &Outbound,
    ) -> Poll<Result<Self::Head, SendError>> {
        self.upload.poll(cx).map_err(SendError::Client)?;
        // RFC 9110 §15.2: any number of interim responses come before the final one.
        while let Poll::Ready(Some(Ok(interim))) = self.response.poll_informational(cx) {
            if let Some(client) = &outbound.interim {
                client.send_interim(interim.status(), interim.headers());
            }
        }
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        Poll::Ready(response.map_err(|e| failure(&pool.service, &e, Sent::Something)))
    }

    fn waits_for_client(&self) -> bool {
        self.upload.waits_for_client()
    }

    fn take_moved(&mut self) -> bool {
        self.upload.take_moved()
    }
}

/// How far a request has come when it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    Something,
}

fn failure(service: &str, error: &h2::Error, sent: Sent) -> SendError {
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

/// The rest of a response, read as the client takes it.
struct Http2Body {
    received: RecvStream,
    upload: Upload,
    length: Option<u64>,
    /// Bytes that were handed out and count against the service's window.
    taken: usize,
    is_ended: bool,
    silence: Option<Silence>,
    pool: Rc<Pool>,
    lease: Option<Lease>,
    counted: Option<Counted>,
}

impl Source for Http2Body {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        // The service may answer before it has read everything: both directions go on together.
        if let Err(e) = self.upload.poll(cx) {
            return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
        }
        self.give_back();
        let Poll::Ready(frame) = self.poll_received(cx) else {
            let Some(silence) = &mut self.silence else { return Poll::Pending };
            let silent = silence.poll(cx, self.upload.waits_for_client(), self.upload.take_moved());
            return silent.map(|what| self.cut(&what)).map(|cut| Some(Err(cut)));
        };
        if let Some(silence) = &mut self.silence {
            silence.heard();
        }
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.taken = data.len();
                    self.length = self.length.map(|left| left.saturating_sub(data.len() as u64));
                }
                if frame.is_trailers() || self.received.is_end_stream() {
                    self.end();
                }
                Some(Ok(frame))
            }
            Some(Err(e)) => Some(Err(self.cut(&format!("it ended the stream ({e})")))),
            None => {
                self.end();
                None
            }
        })
    }

    fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Http2Body {
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        Poll::Ready(match ready!(self.received.poll_data(cx)) {
            Some(data) => Some(data.map(Frame::data)),
            None => ready!(self.received.poll_trailers(cx)).map(|trailers| trailers.map(Frame::trailers)).transpose(),
        })
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            // An error means that the stream has ended: then there is no window.
            let _ = self.received.flow_control().release_capacity(taken);
        }
    }

    fn end(&mut self) {
        self.give_back();
        self.is_ended = true;
        self.lease = None;
        self.counted = None;
    }

    fn cut(&mut self, what: &str) -> CutError {
        self.end();
        self.upload.abandon();
        CutError { service: self.pool.service.clone(), what: what.to_owned() }
    }
}
