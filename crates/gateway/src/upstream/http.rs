//! HTTP/1.1 to a service: a pool of kept connections per worker, and one exchange at a time on each.
//!
//! The task that serves the client also reads and writes the service's socket: no task, queue or wake-up lies between
//! the two connections, so an exchange costs one write and one read more than a response from memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http_body::Frame;
use pilotlight_exchange::retry::Reuse;
use pilotlight_http1::FieldTable;
use pilotlight_send_batch::Batch;
use pilotlight_supervisor::{Endpoint, Lease, Service};

use super::backlog;
use super::first_byte::{Awaited, Awaiting};
use super::http1::{self, BodyLength, Decoded, Decoder, Keep, Malformed};
use super::one_try::{Kept, Try};
use super::silence::Silence;
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, Upgraded, UpstreamError, closed};
use crate::body::{CutError, ResponseBody, Source};
use crate::net::{Destination, Socket};
use crate::options::ExternalAddr;
use crate::outbound::Outbound;
use crate::protocols::ServiceProtocol;
use crate::pump::{BodyFraming, Pump, PumpError};
use crate::request_body::RequestBody;
use crate::upgrades;

/// Connections kept open to one service by one worker.
const MAX_IDLE: usize = 256;
/// How long a connection is kept without use: below the 5 s after which Node's server closes its side, so that a
/// request is rarely sent into a closing connection.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);
const READ_SIZE: usize = 16 * 1024;

/// One worker's kept connections to one service.
pub(crate) struct Pool {
    pub(crate) service: String,
    /// Whose settings those wait by that meet a full backlog; none: it is somebody else's service.
    queue: Option<Arc<Service>>,
    /// That of the worker.
    batch: Batch,
    idle: RefCell<Vec<(Connection, Instant)>>,
    /// Exchanges whose response has not begun.
    waiting: Cell<usize>,
    /// Where the fields of the response are that is being parsed.
    fields: RefCell<FieldTable>,
}

/// A connection between two exchanges.
struct Connection {
    socket: Socket,
    read: BytesMut,
    /// The instance it leads to, 0 for a server of somebody else's.
    instance: u64,
}

impl Pool {
    pub(crate) fn new(service: String, queue: Option<Arc<Service>>, batch: Batch) -> Rc<Self> {
        Rc::new(Self {
            service,
            queue,
            batch,
            idle: RefCell::default(),
            waiting: Cell::new(0),
            fields: RefCell::default(),
        })
    }

    /// Whether it keeps no connection.
    pub(crate) fn is_unused(&self) -> bool {
        self.idle.borrow().is_empty()
    }

    /// The most recently used connection that is still open.
    fn take(&self, instance: u64) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        // With one instance that is the last; a service may have several.
        while let Some(index) = idle.iter().rposition(|(connection, _)| connection.instance == instance) {
            let (connection, since) = idle.remove(index);
            if since.elapsed() > MAX_IDLE_TIME {
                continue;
            }
            // Bytes or an end that came in between make the connection unusable.
            let quiet = connection.socket.try_read(&mut [0; 1]);
            if matches!(quiet, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MAX_IDLE {
            idle.push((connection, Instant::now()));
        }
    }

    /// Closes what has not been used for long.
    pub(crate) fn close_idle(&self) {
        self.idle.borrow_mut().retain(|(_, since)| since.elapsed() <= MAX_IDLE_TIME);
    }
}

/// Sends a request and waits for the head of the response. `external`: the address of a server of somebody else's.
///
/// # Cancel safety
/// Dropping it closes the connection, which is how HTTP/1.1 tells a service that the client has gone.
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
    let Some(place) = place(instance.as_ref().map(|i| i.endpoint()), external) else {
        return Err(no_place(pool, body));
    };
    let Some(first_byte) = &*one.first_byte else { return Err(no_wait(pool, body)) };
    // After one that was closed, the others may be as well: they are of the same age.
    let (connection, reuse) = match (kept == Kept::MayBeUsed).then(|| pool.take(number)).flatten() {
        Some(connection) => (connection, Reuse::Kept),
        None => {
            first_byte.service_turn();
            let connected = Box::pin(first_byte.within(connect(pool, place, number))).await;
            match connected.unwrap_or_else(|| Err(first_byte.over(&pool.service).into())) {
                Ok(connection) => (connection, Reuse::New),
                Err(error) => return Err(Failed { error, body: BodyLeft::Whole(body), reuse: Reuse::New }),
            }
        }
    };
    let mut exchange = Exchange::new(connection, outbound, body);
    let counted = Counted::new(&pool.waiting);
    let from = Awaiting { pool: &**pool, service: &pool.service, instance: instance.as_deref(), outbound };
    let answer = first_byte.head(&mut exchange, &from);
    // A try that failed goes on to use up its time: the next one has what is left of it.
    let answer = answer.await.inspect(|_| first_byte.came());
    exchange.settle_now(); // an answer may come before the end of the turn in which its request was put out
    let alone = pool.waiting.get() == 1;
    drop(counted);
    match answer {
        Ok(head) if head.status == StatusCode::SWITCHING_PROTOCOLS && !exchange.may_switch(&head, outbound) => {
            let what = "it switched to another protocol without being asked to".to_owned();
            let error = UpstreamError::Protocol { service: pool.service.clone(), what };
            Err(Failed { error: error.into(), body: BodyLeft::Spent, reuse })
        }
        Ok(head) => Ok(exchange.into_response(pool, head, one)),
        Err(mut error) => {
            if let SendError::Upstream(UpstreamError::Closed { delivery: delivery @ Delivery::Maybe, .. }) = &mut error
                && exchange.read_to_the_end
                && alone
                && reuse == Reuse::New
            {
                *delivery = Delivery::Suspect; // sent again, it might end the next instance, too
            }
            Err(Failed { error, body: exchange.pump.reclaim(), reuse })
        }
    }
}

/// Where it listens; `None` for what speaks no HTTP.
pub(super) fn place<'a>(endpoint: Option<&'a Endpoint>, external: Option<&'a ExternalAddr>) -> Option<Destination<'a>> {
    match (endpoint, external) {
        (Some(Endpoint::Http(address)), _) => Some(Destination::Instance(address)),
        (_, Some(addr)) => Some(Destination::External(addr)),
        (Some(Endpoint::Pipe) | None, None) => None,
    }
}

/// Not reachable: the upstream's kind is the transport.
fn no_place(pool: &Pool, body: Option<Box<RequestBody>>) -> Failed {
    let cause = "it speaks the pipe, not HTTP".to_owned();
    let error = UpstreamError::Connect { service: pool.service.clone(), place: "the pipe".to_owned(), cause };
    Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }
}

/// Not reachable: every try has a wait.
fn no_wait(pool: &Pool, body: Option<Box<RequestBody>>) -> Failed {
    let error = UpstreamError::Protocol { service: pool.service.clone(), what: "was not waited for".to_owned() };
    Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }
}

/// Counts while it lives.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn connect(pool: &Pool, place: Destination<'_>, instance: u64) -> Result<Connection, SendError> {
    let socket = backlog::connect(place, &pool.service, pool.queue.as_ref()).await?;
    let socket = socket.in_batch(&pool.batch);
    Ok(Connection { socket, read: BytesMut::with_capacity(READ_SIZE), instance })
}

struct Exchange {
    connection: Connection,
    pump: Pump,
    /// Set when the service closed its reading side; it may still answer.
    write_failed: bool,
    any_byte: bool,
    /// Whether the service closed the connection in order: it has read the request then, and may have ended by it.
    read_to_the_end: bool,
}

impl Exchange {
    fn new(connection: Connection, outbound: &Outbound, body: Option<Box<RequestBody>>) -> Self {
        let known = outbound.head.has(&CONTENT_LENGTH);
        let chunked = body.is_some() && !known;
        let framing = if chunked { BodyFraming::Chunked } else { BodyFraming::Length };
        let mut out = BytesMut::with_capacity(1024);
        http1::encode_request_head(&mut out, outbound, chunked);
        Self {
            connection,
            pump: Pump::new(out, body, framing),
            write_failed: false,
            any_byte: false,
            read_to_the_end: false,
        }
    }

    /// RFC 9110 §7.8: a service switches only to what it was asked for, and only when it has the whole request.
    fn may_switch(&self, head: &http1::ResponseHead, outbound: &Outbound) -> bool {
        let chosen = head.fields.get(&UPGRADE).zip(outbound.upgrade.as_ref());
        chosen.is_some_and(|(chosen, offered)| upgrades::is_among(chosen, offered)) && self.pump.is_done()
    }

    /// Moves the request on. A service that stops reading may still answer, so its error is kept for later.
    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Result<(), crate::request_body::BodyError> {
        self.settle();
        if self.write_failed || self.pump.is_done() {
            return Ok(());
        }
        match self.pump.poll(&mut self.connection.socket, cx) {
            Poll::Ready(Err(PumpError::Body(e))) => Err(e),
            Poll::Ready(Err(PumpError::Socket)) => {
                self.write_failed = true;
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Learns what became of what was put in the batch.
    fn settle(&mut self) {
        if !self.write_failed && self.pump.settle(&mut self.connection.socket).is_err() {
            self.write_failed = true;
        }
    }

    /// The same before the end of the turn.
    fn settle_now(&mut self) {
        self.connection.socket.send_now();
        self.settle();
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let Connection { socket, read, .. } = &mut self.connection;
        if read.capacity() - read.len() < READ_SIZE / 4 {
            read.reserve(READ_SIZE);
        }
        socket.poll_read_buf(cx, read)
    }

    fn into_response(mut self, pool: &Rc<Pool>, head: http1::ResponseHead, one: &mut Try<'_>) -> ServiceResponse {
        let http1::ResponseHead { status, fields, body, keep_alive } = head;
        self.pump.forget_sent();
        let lease = one.lease.take();
        if let Some(lease) = &lease {
            lease.instance().mark_answered();
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let Connection { socket, read, .. } = self.connection;
            let upgraded = Some(Box::new(Upgraded::of_socket(socket, ServiceProtocol::Http, read, lease)));
            return ServiceResponse { status, fields, body: ResponseBody::Empty, upgraded };
        }
        // The common small response is in the buffer whole. One that came before the end of the request goes out as
        // well, and the connection, which still carries the request, is closed.
        let whole = match body {
            BodyLength::Empty => Some(Bytes::new()),
            BodyLength::Exactly(n) if n <= self.connection.read.len() as u64 => {
                Some(self.connection.read.split_to(n as usize).freeze())
            }
            _ => None,
        };
        if let Some(data) = whole {
            self.recycle(pool, keep_alive);
            return ServiceResponse { status, fields, body: ResponseBody::full(data), upgraded: None };
        }
        let decoder = Decoder::new(body);
        let silence = one.first_byte.take().map(|first_byte| first_byte.then(fields.get(&CONTENT_TYPE)));
        let pool = Rc::clone(pool);
        let body = HttpBody { exchange: Some(self), decoder, keep_alive, silence, pool, lease };
        ServiceResponse { status, fields, body: ResponseBody::Streamed(Box::new(body)), upgraded: None }
    }

    /// Keeps the connection for the next exchange if both sides are done with this one.
    fn recycle(mut self, pool: &Rc<Pool>, keep_alive: bool) {
        self.settle_now();
        if keep_alive && self.pump.is_done() && !self.write_failed && self.connection.read.is_empty() {
            pool.give_back(self.connection);
        }
    }
}

impl Awaited for Exchange {
    type Pool = Pool;
    type Head = http1::ResponseHead;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Pool,
        outbound: &Outbound,
    ) -> Poll<Result<Self::Head, SendError>> {
        let service = &pool.service;
        self.poll_pump(cx).map_err(SendError::Client)?;
        loop {
            if !self.connection.read.is_empty() {
                self.any_byte = true;
                let table = &mut pool.fields.borrow_mut();
                let keep = if outbound.is_cached { Keep::Map } else { Keep::Lines };
                match http1::parse_response_head(&mut self.connection.read, &outbound.head.method, keep, table) {
                    // RFC 9110 §15.2: any number of interim responses come before the final one.
                    Ok(Some(mut head))
                        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS =>
                    {
                        if let Some(client) = &outbound.interim {
                            client.send_interim(head.status, head.fields.map());
                        }
                        continue;
                    }
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(e) => return Poll::Ready(Err(protocol(service, &e).into())),
                }
            }
            match ready!(self.poll_fill(cx)) {
                Ok(0) => {
                    self.read_to_the_end = true;
                    self.settle_now();
                    let begun = self.pump.has_begun() || self.any_byte;
                    let delivery = if self.write_failed && !begun { Delivery::No } else { Delivery::Maybe };
                    return Poll::Ready(Err(closed(service, "closed the connection", delivery).into()));
                }
                Ok(_) => {}
                Err(e) => {
                    self.settle_now();
                    // On a Unix socket a reset means that it was closed with the request unread.
                    let unread = self.connection.socket.is_unix()
                        && e.kind() == std::io::ErrorKind::ConnectionReset
                        && !self.any_byte
                        && self.pump.is_head_only();
                    let delivery = if unread { Delivery::No } else { Delivery::Maybe };
                    return Poll::Ready(Err(closed(service, &format!("broke the connection ({e})"), delivery).into()));
                }
            }
        }
    }

    fn waits_for_client(&self) -> bool {
        self.pump.waits_for_client()
    }

    fn take_moved(&mut self) -> bool {
        self.pump.take_moved()
    }
}

fn protocol(service: &str, error: &Malformed) -> UpstreamError {
    UpstreamError::Protocol { service: service.to_owned(), what: error.to_string() }
}

/// The rest of a response, read as the client takes it.
pub(crate) struct HttpBody {
    exchange: Option<Exchange>,
    decoder: Decoder,
    keep_alive: bool,
    silence: Option<Silence>,
    pool: Rc<Pool>,
    lease: Option<Lease>,
}

impl Source for HttpBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        loop {
            let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
            // The service may answer before it has read everything: both directions go on together.
            if let Err(e) = exchange.poll_pump(cx) {
                return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
            }
            let decoded = self.decoder.decode(&mut exchange.connection.read, &mut self.pool.fields.borrow_mut());
            match decoded {
                Ok(Decoded::Data(data)) => {
                    if self.decoder.is_ended() {
                        self.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Decoded::Trailers(trailers)) => {
                    self.end();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => {
                    self.end();
                    return Poll::Ready(None);
                }
                Ok(Decoded::More) => {}
                Err(e) => return Poll::Ready(Some(Err(self.cut(&e.to_string())))),
            }
            let filled = exchange.poll_fill(cx);
            if !matches!(filled, Poll::Ready(Ok(1..)))
                && let Some(data) = self.decoder.take_gathered()
            {
                return Poll::Ready(Some(Ok(Frame::data(data)))); // the end, or the error, is met again
            }
            let Poll::Ready(filled) = filled else {
                let pump = &mut exchange.pump;
                let Some(silence) = &mut self.silence else { return Poll::Pending };
                let silent = silence.poll(cx, pump.waits_for_client(), pump.take_moved());
                return silent.map(|what| self.cut(&what)).map(|cut| Some(Err(cut)));
            };
            if let Some(silence) = &mut self.silence {
                silence.heard();
            }
            match filled {
                Ok(0) if self.decoder.closed().is_ok() => {
                    self.end();
                    return Poll::Ready(None);
                }
                Ok(0) => return Poll::Ready(Some(Err(self.cut("it closed the connection")))),
                Ok(_) => {}
                Err(e) => return Poll::Ready(Some(Err(self.cut(&e.to_string())))),
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.decoder.is_ended()
    }

    fn length(&self) -> Option<u64> {
        self.decoder.remaining()
    }
}

impl HttpBody {
    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.recycle(&self.pool, self.keep_alive);
        }
        self.lease = None;
    }

    fn cut(&mut self, what: &str) -> CutError {
        self.exchange = None;
        self.lease = None;
        CutError { service: self.pool.service.clone(), what: what.to_owned() }
    }
}
