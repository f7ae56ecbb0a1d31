//! HTTP/2 with clients (RFC 9113), as `crates/http2` reads and writes it: one connection from its preface to its end.
//! Each stream is an exchange as a request of HTTP/1.1 is ([`crate::exchange`]); hits in memory are no streams at all.
//!
//! ```text
//!            request           not in memory                 answered at once
//!   receive ────────▶ hits ───────────────────▶ exchange::begin ──────────────▶ response
//!                      │                               │ a task for the stream     ▲
//!                      └─▶ written in the same turn    └───────────────────────────┘
//!   FrameCounter: floods end the connection
//! ```
//!
//! Of a connection's streams at most `limits.streams` are open at a time; what they hold is bounded by
//! [`STREAM_WINDOW`], [`CONNECTION_WINDOW`] and [`MAX_UNWRITTEN`].
//!
//! Invariant: the connection's task alone reads and writes the socket; no stream waits for another one but for room in
//! the connection's windows.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use http::Method;
use http::header::{CONTENT_LENGTH, EXPECT};
use pilotlight_http2::{self as proto, ErrorCode, FieldTable, Fields, Request, ServerConnection, Violation};
use tokio::task::JoinSet;

use crate::admission::Checked;
use crate::client::hit_timer::HitTimer;
use crate::client::outgoing::Outgoing;
use crate::client::received::ReceivedRequest;
use crate::client_socket::ClientSocket;
use crate::deadline::Deadline;
use crate::downstream::Downstream;
use crate::exchange::{self, Reply};
use crate::linger::{Reason, linger};
use crate::options::{Limits, Settings};
use crate::peer_address::PeerAddress;
use crate::problem;
use crate::request_body::BodySource;
use crate::response::ResponseHead;
use crate::routes::Table;
use crate::timing::Moment;
use crate::worker::Worker;

mod answer;
mod body;
mod frame_counter;
mod hits;
mod input;
mod request;
mod response;
mod session;
mod stream;
mod tunnel;

use body::{FromClient, StreamBody};
use frame_counter::{Flood, FrameCounter};
use input::Input;
use request::Received;
use session::Session;
use stream::Stream;

/// What a client may send of one request's body before the service has taken it.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// What is held of the responses of all streams when the client's windows have room and its socket does not.
const MAX_UNWRITTEN: usize = 64 * 1024;
/// How long a client may take to its end of the connection when the gateway has ended it.
const ENDING: Duration = Duration::from_secs(2);
/// A client that is quiet for so long after a response is served with less memory from then on.
const REST_AFTER: Duration = Duration::from_secs(1);

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    /// Services, or the client's windows, which have limits of their own.
    Streams,
    /// The rest of a head.
    Head,
    /// The client, to take what was sent; its socket has taken so much.
    Socket(u64),
    /// Another request.
    Request,
    /// The same, for longer than [`REST_AFTER`].
    Rest,
    /// The client, to take the last of what was sent.
    End,
}

struct Connection {
    session: Rc<Session>,
    input: Input,
    streams: JoinSet<()>,
    deadline: Deadline,
    waits: Option<Waits>,
    looks_for_hits: bool,
    has_answered: bool,
    rests: bool,
    /// How it ended: what is left is to write what was gathered.
    over: Option<Result<(), Ended>>,
}

/// Serves a client that speaks HTTP/2. `read_ahead`: what was read of the connection before that was known, the
/// preface first.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    socket: ClientSocket,
    read_ahead: BytesMut,
    peer: Rc<PeerAddress>,
    settings: Arc<Settings>,
) {
    let limits = proto::Limits {
        streams: settings.limits.streams,
        header_list: settings.limits.header_size,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        unwritten: MAX_UNWRITTEN,
    };
    let mut counter = FrameCounter::default();
    let over = counter.received(&read_ahead).err().map(|flood| Err(Ended::Flood(flood)));
    let session = Rc::new(Session {
        worker: Rc::clone(worker),
        peer,
        settings,
        h2: RefCell::new(ServerConnection::new(limits)),
        counter: RefCell::new(counter),
        unwritten: RefCell::default(),
    });
    let mut connection = Connection {
        session: Rc::clone(&session),
        input: Input::new(socket, read_ahead),
        streams: JoinSet::new(),
        deadline: worker.deadlines.deadline(),
        waits: None,
        looks_for_hits: hits::are_possible(&session),
        has_answered: false,
        rests: false,
        over: None,
    };
    if let Some(flood) = over {
        connection.ended(flood);
    }
    worker.connection_counts().http2.add(1);
    let mut reason = Reason::Over;
    if let Err(e) = poll_fn(|cx| connection.poll(cx)).await {
        tracing::debug!(peer = %session.peer, "a client's connection ended: {e}");
        if matches!(e, Ended::Flood(_)) {
            reason = Reason::Flood;
        }
    }
    session.h2.borrow_mut().close();
    let Connection { input, streams, .. } = connection;
    drop(streams);
    session.written();
    let is_stopping = session.worker.is_stopping();
    drop(session);
    if !is_stopping {
        linger(input.socket, reason).await;
    }
}

impl Connection {
    /// Goes on until something has to be waited for, or the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.session.h2.borrow_mut().begin_turn();
        loop {
            while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
                if let Err(e) = ended
                    && e.is_panic()
                {
                    tracing::error!("a stream's task panicked: {e}; this is a bug of Pilotlight");
                }
            }
            self.leave();
            if self.over.is_none()
                && let Poll::Ready(ended) = self.poll_receive(cx)
            {
                self.ended(ended);
            }
            if self.over.is_none() && self.session.h2.borrow().has_left() {
                self.over = Some(Ok(()));
            }
            if self.poll_write(cx)?.is_ready() {
                self.session.written();
                if let Some(over) = self.over.take() {
                    return Poll::Ready(over);
                }
            }
            self.session.h2.borrow_mut().register(cx);
            ready!(self.poll_times(cx))?; // ready: something is to be sent
        }
    }

    /// The client's direction is over, or to be.
    fn ended(&mut self, ended: Result<(), Ended>) {
        match &ended {
            Err(Ended::Flood(flood)) => {
                let peer = &self.session.peer;
                tracing::warn!(peer = %peer, "a client's connection is ended: {flood}");
                let Session { worker, settings, .. } = &*self.session;
                let is_proxy = settings.trust_forwarded.believes(peer.address());
                let came = |address| worker.common.floods.came(address, Instant::now());
                if !is_proxy && peer.address().is_some_and(came) {
                    tracing::warn!(peer = %peer, "new connections from there are closed at once for some seconds");
                }
                self.session.h2.borrow_mut().end(ErrorCode::ENHANCE_YOUR_CALM);
            }
            Err(Ended::Protocol(violation)) => self.session.h2.borrow_mut().end(violation.code()),
            _ => self.session.h2.borrow_mut().close(),
        }
        self.over.get_or_insert(ended);
    }

    /// Takes what is there, and answers what can be answered at once. Ready when the client's direction is over.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let worker = Rc::clone(&self.session.worker);
        let mut fields = {
            let scratch = &mut *worker.scratch.borrow_mut();
            self.input.borrow(&mut scratch.bytes);
            let mut h2 = self.session.h2.borrow_mut();
            if h2.output().capacity() == 0 {
                std::mem::swap(h2.output(), &mut scratch.http2_out);
            }
            std::mem::take(&mut scratch.http2_fields)
        };
        let result = self.poll_frames(cx, &worker, &mut fields);
        let scratch = &mut *worker.scratch.borrow_mut();
        self.input.give_back(&mut scratch.bytes);
        scratch.http2_fields = fields;
        result
    }

    fn poll_frames(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        fields: &mut FieldTable,
    ) -> Poll<Result<(), Ended>> {
        let table = worker.common.table.load(); // one for all that are here
        let mut hit_timer = HitTimer::default();
        loop {
            self.take_frames(cx, &table, &mut hit_timer, fields)?;
            hit_timer.time(); // reading and writing are not their time
            // A client that sends requests and takes no responses is not read on: what waits for it is bounded.
            if self.session.h2.borrow().is_full() {
                ready!(self.poll_write(cx))?;
                continue;
            }
            match ready!(self.input.poll_fill(cx, &self.session))? {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(_) => hit_timer = HitTimer::default(),
                Err(flood) => return Poll::Ready(Err(Ended::Flood(flood))),
            }
        }
    }

    /// Takes the frames that are here whole.
    fn take_frames<'a>(
        &mut self,
        cx: &mut Context<'_>,
        table: &'a Table,
        hit_timer: &mut HitTimer<'a>,
        fields: &mut FieldTable,
    ) -> Result<(), Ended> {
        let session = Rc::clone(&self.session);
        loop {
            let mut h2 = session.h2.borrow_mut();
            if h2.is_full() || self.input.read.is_empty() {
                return Ok(());
            }
            let (taken, received) = h2.receive(&self.input.read, fields)?;
            self.input.read.advance(taken);
            let (request, fields) = match received {
                proto::Received::Incomplete if taken == 0 => return Ok(()),
                proto::Received::Incomplete | proto::Received::Frame => {
                    session.count(h2.take_events())?;
                    continue;
                }
                proto::Received::Request(request, fields) => (request, fields),
            };
            session.worker.connection_counts().http2_requests.add(1);
            self.waits = None;
            (self.has_answered, self.rests) = (true, false);
            let looked = match self.looks_for_hits {
                true => hits::answer(&session, &mut h2, table, hit_timer, request, fields),
                false => Err(Checked::Not),
            };
            match looked {
                Ok(()) => session.counter.borrow_mut().hit(),
                Err(checked) => {
                    h2.open(request);
                    drop(h2);
                    hit_timer.time();
                    let begun = hit_timer.begun();
                    *hit_timer = HitTimer::default();
                    self.begin(cx, Begun { request, at: begun, checked }, fields);
                }
            }
        }
    }

    /// Has a request answered.
    fn begin(&mut self, cx: &mut Context<'_>, begun: Begun, fields: Fields<'_>) {
        let Begun { request, at, checked } = begun;
        let session = Rc::clone(&self.session);
        let stream = Stream::new(&session, request.stream());
        let from_client = (!request.ends()).then(|| FromClient::new(&session, request.stream()));
        let Received { head, is_extended_connect } = match request::received(fields, &session.settings.limits) {
            Ok(received) => received,
            Err(why) => return self.refuse(stream, fields.method() == Some(b"HEAD"), why),
        };
        let method = head.method.clone();
        let (body, tunnel) = match from_client {
            Some(from_client) if !is_extended_connect => {
                let length =
                    head.field(&CONTENT_LENGTH).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
                let expects = head.has(&EXPECT).then(|| Rc::clone(&stream));
                (Some(Box::new(StreamBody::new(from_client, length, expects)) as Box<dyn BodySource>), None)
            }
            from_client => {
                let tunnelled = || FromClient::new(&session, stream.id());
                (None, is_extended_connect.then(|| from_client.unwrap_or_else(tunnelled)))
            }
        };
        let request = ReceivedRequest { head, body, begun: at, read: at, checked, known: None, redis: None };
        let client: Rc<dyn Downstream> = Rc::<Stream>::clone(&stream);
        match (exchange::begin(&session.worker, client, Box::new(request)), tunnel) {
            (Reply::Now(answer), _) if is_extended_connect => {
                self.answer_now(cx, &stream, &method, tunnel::refused(*answer));
            }
            (Reply::Now(answer), _) => self.answer_now(cx, &stream, &method, *answer),
            (Reply::Later(later), Some(from_client)) => {
                self.streams.spawn_local(tunnel::run(stream, later, from_client));
            }
            (Reply::Later(later), None) => {
                self.streams.spawn_local(answer::run(stream, method, later));
            }
        }
    }

    /// Without a task, unless there is no room for all of it.
    fn answer_now(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Rc<Stream>,
        method: &Method,
        response: (ResponseHead, Outgoing),
    ) {
        let peer = Rc::clone(&self.session.peer);
        match response::send_head(stream, method, response) {
            Ok(Some(mut sending)) => match sending.poll(cx) {
                Poll::Ready(result) => answer::note(&peer, result),
                Poll::Pending => {
                    self.streams.spawn_local(async move { answer::note(&peer, sending.run().await) });
                }
            },
            Ok(None) => {}
            Err(e) => answer::note(&peer, Err(e.into())),
        }
    }

    /// A request that cannot be one.
    fn refuse(&mut self, stream: Rc<Stream>, is_head: bool, why: problem::MalformedRequest) {
        let worker = &self.session.worker;
        let document = problem::malformed_request(why, &self.session.settings.limits);
        worker.common.metrics.none.book(worker.index).rejected(document.status().as_u16());
        let peer = Rc::clone(&self.session.peer);
        self.streams.spawn_local(async move {
            answer::note(&peer, response::send_document(stream, document, is_head).await);
        });
    }

    /// Tells the client that the gateway is on its way out.
    fn leave(&mut self) {
        let worker = &self.session.worker;
        if worker.is_leaving() && self.over.is_none() {
            self.session.h2.borrow_mut().leave();
        }
        if worker.is_stopping() && self.over.is_none() && self.is_idle() {
            self.end(ErrorCode::NO_ERROR);
        }
    }

    fn is_idle(&self) -> bool {
        self.streams.is_empty() && !self.session.h2.borrow().has_streams()
    }

    /// Ends the connection now.
    fn end(&mut self, code: ErrorCode) {
        self.session.h2.borrow_mut().end(code);
        self.over = Some(Ok(()));
    }

    /// Writes what was gathered.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Input { socket, is_blocked, written, .. } = &mut self.input;
        let mut h2 = self.session.h2.borrow_mut();
        let out = h2.output();
        let before = out.len() + socket.unsent();
        if before == 0 {
            *is_blocked = false;
            return Poll::Ready(Ok(()));
        }
        let result = socket.poll_write_all(cx, out);
        *written += (before as u64).saturating_sub((out.len() + socket.unsent()) as u64);
        *is_blocked = result.is_pending();
        if out.is_empty() {
            self.session.worker.scratch.borrow_mut().http2_out = std::mem::take(out);
        }
        h2.written();
        result
    }

    fn wait_for(&mut self, waits: Waits) {
        if self.waits.replace(waits) == Some(waits) {
            return;
        }
        if waits == Waits::Rest {
            self.input.socket.rest();
        }
        let limits = &self.session.settings.limits;
        self.deadline.set_or_clear(match waits {
            Waits::Streams => None,
            Waits::Head => Some(limits.header_timeout),
            Waits::Socket(_) => Some(limits.body_timeout),
            Waits::Request if self.has_answered => Some(limits.keepalive_timeout.min(REST_AFTER)),
            Waits::Request => Some(limits.keepalive_timeout.min(limits.header_timeout)),
            Waits::Rest => Some(limits.keepalive_timeout.saturating_sub(REST_AFTER)),
            Waits::End => Some(ENDING),
        });
    }

    /// Ready when something took too long, and the client is to be told so.
    fn poll_times(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let Input { is_blocked, written, .. } = self.input;
        // What no task waits for any more is on its way out, or would be if the client let it.
        let is_leaving_us = self.streams.is_empty() && self.session.h2.borrow().has_streams();
        let waits = match () {
            () if self.over.is_some() => Waits::End,
            () if is_blocked || is_leaving_us => Waits::Socket(written),
            () if self.session.counter.borrow().is_in_head() => Waits::Head,
            () if self.is_idle() && self.rests => Waits::Rest,
            () if self.is_idle() => Waits::Request,
            () => Waits::Streams,
        };
        self.wait_for(waits);
        ready!(self.deadline.poll(cx));
        match waits {
            Waits::Request if self.has_answered && self.session.settings.limits.keepalive_timeout > REST_AFTER => {
                self.rests = true;
            }
            Waits::Request | Waits::Rest => self.end(ErrorCode::NO_ERROR),
            Waits::Head if !self.session.h2.borrow().has_begun() => {
                return Poll::Ready(Err(Ended::Late("header_timeout")));
            }
            Waits::Head => {
                let worker = &self.session.worker;
                worker.common.metrics.none.book(worker.index).rejected(408);
                self.end(ErrorCode::ENHANCE_YOUR_CALM);
            }
            Waits::Socket(_) => return Poll::Ready(Err(Ended::Late("body_timeout"))),
            Waits::End => return Poll::Ready(Err(Ended::Late("it did not take its last response"))),
            Waits::Streams => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

/// A request whose stream was opened.
struct Begun {
    request: Request,
    /// When its head was there.
    at: Moment,
    checked: Checked,
}

/// How a connection ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] Violation),
    #[error(transparent)]
    Flood(#[from] Flood),
    #[error("{0}")]
    Late(&'static str),
}

/// The least that a client needs for a request, so that no limit keeps all of them away.
const _: () = assert!(*Limits::STREAMS.start() > 0);
