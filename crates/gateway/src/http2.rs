//! HTTP/2 with clients (RFC 9113), by the `h2` crate: one connection from its preface to its end. Each stream is an
//! exchange as a request of HTTP/1.1 is ([`crate::exchange`]); what is in memory is answered without a task.
//!
//! ```text
//!              request                     answered at once
//!   poll_accept ──────▶ exchange::begin ──────────────────────▶ response
//!        ▲                     │ a task for the stream             ▲
//!        │                     └───────────────────────────────────┘
//!   FrameCounter: floods end the connection
//! ```
//!
//! Of a connection's streams at most `limits.streams` are open at a time; what they hold is bounded by
//! [`STREAM_WINDOW`], [`CONNECTION_WINDOW`] and [`MAX_SEND_BUFFER`].
//!
//! Invariant: the connection's task alone reads and writes the socket; no stream waits for another one but for room in
//! the connection's windows.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::admission::Checked;
use crate::client::outgoing::Outgoing;
use crate::client::received::ReceivedRequest;
use crate::deadline::Deadline;
use crate::downstream::Downstream;
use crate::exchange::{self, Reply};
use crate::linger::linger;
use crate::options::{Limits, Settings};
use crate::peer_address::PeerAddress;
use crate::problem;
use crate::request_body::BodySource;
use crate::response::ResponseHead;
use crate::timing::Moment;
use crate::worker::Worker;

mod answer;
mod body;
mod frame_counter;
mod io;
mod request;
mod response;
mod session;
mod stream;
mod tunnel;

use body::StreamBody;
use io::Shared;
use request::Received;
use session::{Sent, Session};
use stream::Stream;

/// What a client may send of one request's body before the service has taken it.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// What is held of one response when the client's windows have room and its socket does not.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// Streams that a client has reset before the gateway has looked at them; more end the connection (CVE-2023-44487).
/// [`frame_counter::MAX_RESETS`] bounds the others.
const MAX_UNSEEN_RESETS: usize = 128;
/// How long a client may take to its end of the connection when the gateway has ended it.
const ENDING: Duration = Duration::from_secs(2);

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
    /// The client's end of the connection.
    End,
}

struct Connection<S> {
    session: Rc<Session>,
    io: Shared<S>,
    h2: server::Connection<Shared<S>, Bytes>,
    streams: JoinSet<()>,
    deadline: Deadline,
    waits: Option<Waits>,
    has_answered: bool,
    /// GOAWAY was sent: streams that are open go on.
    is_leaving: bool,
    /// GOAWAY was sent, and nothing goes on.
    is_ending: bool,
}

/// Serves a client that speaks HTTP/2. `read_ahead`: what was read of the connection before that was known, the
/// preface first.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(crate) async fn serve<S>(
    worker: &Rc<Worker>,
    stream: S,
    read_ahead: BytesMut,
    peer: Rc<PeerAddress>,
    settings: Arc<Settings>,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let io = Shared::new(stream, read_ahead);
    let deadline = worker.deadlines.deadline();
    deadline.set(settings.limits.header_timeout);
    let session = Rc::new(Session {
        worker: Rc::clone(worker),
        peer,
        settings,
        unwritten: std::cell::RefCell::default(),
        sent: Box::new(io.clone()),
    });
    let Some(h2) = begin(&session, &io, &deadline).await else { return };
    worker.connection_counts().http2.add(1);
    let mut connection = Connection {
        session: Rc::clone(&session),
        io: io.clone(),
        h2,
        streams: JoinSet::new(),
        deadline,
        waits: None,
        has_answered: false,
        is_leaving: false,
        is_ending: false,
    };
    if let Err(e) = poll_fn(|cx| connection.poll(cx)).await {
        tracing::debug!(peer = %session.peer, "a client's connection ended: {e}");
    }
    drop(connection);
    session.written();
    let is_stopping = session.worker.is_stopping();
    drop(session);
    if !is_stopping && let Some(stream) = io.into_stream() {
        linger(stream).await;
    }
}

/// The preface of both sides (RFC 9113 §3.4).
async fn begin<S>(
    session: &Session,
    io: &Shared<S>,
    deadline: &Deadline,
) -> Option<server::Connection<Shared<S>, Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = &session.settings.limits;
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_size).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .max_pending_accept_reset_streams(MAX_UNSEEN_RESETS)
        .enable_connect_protocol();
    let mut handshake = builder.handshake(io.clone());
    let begun = poll_fn(|cx| {
        let begun = Pin::new(&mut handshake).poll(cx);
        // What it wrote was gathered. A client that takes nothing is found out by the deadline.
        if let Poll::Ready(Err(e)) = io.poll_flush_out(cx) {
            return Poll::Ready(Err(e.to_string()));
        }
        if begun.is_ready() {
            return begun.map_err(|e| e.to_string());
        }
        deadline.poll(cx).map(|()| Err("header_timeout".to_owned()))
    });
    begun.await.inspect_err(|e| tracing::debug!(peer = %session.peer, "a client's connection did not begin: {e}")).ok()
}

impl<S: AsyncRead + AsyncWrite + Unpin + 'static> Connection<S> {
    /// Goes on until something has to be waited for, or the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
                if let Err(e) = ended
                    && e.is_panic()
                {
                    tracing::error!("a stream's task panicked: {e}; this is a bug of Pilotlight");
                }
            }
            self.leave();
            if let Some(flood) = self.io.flood().filter(|_| !self.is_ending) {
                tracing::warn!(peer = %self.session.peer, "a client's connection is ended: {flood}");
                self.end(Reason::ENHANCE_YOUR_CALM);
            }
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.accept(cx, request, respond);
                    continue;
                }
                Poll::Ready(over) => {
                    // GOAWAY may be among what was gathered.
                    ready!(self.poll_flush_last(cx))?;
                    return Poll::Ready(over.transpose().map(drop).map_err(Ended::Protocol));
                }
                Poll::Pending => {}
            }
            if self.io.flood().is_some() && !self.is_ending {
                continue;
            }
            if self.io.poll_flush_out(cx)?.is_ready() {
                self.session.written();
            }
            ready!(self.poll_times(cx))?; // ready: GOAWAY is to be sent
        }
    }

    /// What was gathered goes out, if the client takes it within [`ENDING`].
    fn poll_flush_last(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.io.poll_flush_out(cx)?.is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.wait_for(Waits::End);
        self.deadline.poll(cx).map(|()| Err(Ended::Late("it did not take its last response")))
    }

    fn accept(&mut self, cx: &mut Context<'_>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let begun = Moment::now();
        self.has_answered = true;
        let worker = &self.session.worker;
        worker.connection_counts().http2_requests.add(1);
        let (parts, received) = request.into_parts();
        let stream = Stream::new(&self.session, respond);
        let method = parts.method.clone();
        let Received { head, is_extended_connect } = match request::received(parts, &self.session.settings.limits) {
            Ok(received) => received,
            Err(why) => return self.refuse(&stream, &method, why),
        };
        let has_body = !received.is_end_stream() && !is_extended_connect;
        let (body, tunnel) = match has_body {
            true => {
                let length =
                    head.field(&CONTENT_LENGTH).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
                let expects = head.has(&EXPECT).then(|| Rc::clone(&stream));
                (Some(Box::new(StreamBody::new(received, length, expects)) as Box<dyn BodySource>), None)
            }
            false => (None, is_extended_connect.then_some(received)),
        };
        let request =
            ReceivedRequest { head, body, begun, read: begun, checked: Checked::Not, known: None, redis: None };
        let client: Rc<dyn Downstream> = Rc::<Stream>::clone(&stream);
        match (exchange::begin(worker, client, Box::new(request)), tunnel) {
            (Reply::Now(answer), None) => self.answer_now(cx, &stream, &method, *answer),
            (Reply::Now(answer), Some(_)) => self.answer_now(cx, &stream, &method, tunnel::refused(*answer)),
            (Reply::Later(later), None) => {
                self.streams.spawn_local(answer::run(stream, method, later));
            }
            (Reply::Later(later), Some(received)) => {
                self.streams.spawn_local(tunnel::run(stream, later, received));
            }
        }
    }

    /// Without a task, unless the client's windows have no room for all of it.
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
    fn refuse(&self, stream: &Rc<Stream>, method: &Method, why: problem::MalformedRequest) {
        let worker = &self.session.worker;
        let (mut head, body) = problem::malformed_request(why, &self.session.settings.limits).into_parts();
        worker.common.metrics.none.book(worker.index).rejected(head.status.as_u16());
        head.headers.insert(CONTENT_LENGTH, http::HeaderValue::from(body.len()));
        let body = if *method == Method::HEAD { Bytes::new() } else { body };
        let sent = stream.send_head(http::Response::from_parts(head, ()), body.is_empty());
        // It is small: what the client's window has no room for is held for it, and counts among its streams.
        let sent = sent.and_then(|mut to| if body.is_empty() { Ok(()) } else { to.send_data(body, true) });
        answer::note(&self.session.peer, sent.map_err(Into::into));
    }

    /// Tells the client that the gateway is on its way out.
    fn leave(&mut self) {
        let worker = &self.session.worker;
        if worker.is_leaving() && !self.is_leaving && !self.is_ending {
            self.is_leaving = true;
            self.h2.graceful_shutdown();
        }
        if worker.is_stopping() && !self.is_ending && self.is_idle() {
            self.end(Reason::NO_ERROR);
        }
    }

    fn is_idle(&self) -> bool {
        self.streams.is_empty() && !self.h2.has_streams()
    }

    /// Ends the connection now.
    fn end(&mut self, reason: Reason) {
        self.is_ending = true;
        self.h2.abrupt_shutdown(reason);
    }

    fn wait_for(&mut self, waits: Waits) {
        if self.waits.replace(waits) == Some(waits) {
            return;
        }
        if waits == Waits::Request {
            self.io.rest();
        }
        let limits = &self.session.settings.limits;
        self.deadline.set_or_clear(match waits {
            Waits::Streams => None,
            Waits::Head => Some(limits.header_timeout),
            Waits::Socket(_) => Some(limits.body_timeout),
            Waits::Request if self.has_answered => Some(limits.keepalive_timeout),
            Waits::Request => Some(limits.keepalive_timeout.min(limits.header_timeout)),
            Waits::End => Some(ENDING),
        });
    }

    /// Ready when something took too long, and the client is to be told so.
    fn poll_times(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let (is_blocked, written) = self.io.is_blocked();
        // What no task waits for any more is on its way out, or would be if the client let it.
        let is_leaving_us = self.streams.is_empty() && self.h2.has_streams();
        let waits = match () {
            () if self.is_ending => Waits::End,
            () if is_blocked || is_leaving_us => Waits::Socket(written),
            () if self.io.is_in_head() => Waits::Head,
            () if self.is_idle() => Waits::Request,
            () => Waits::Streams,
        };
        self.wait_for(waits);
        ready!(self.deadline.poll(cx));
        match waits {
            Waits::Request => self.end(Reason::NO_ERROR),
            Waits::Head => {
                let worker = &self.session.worker;
                worker.common.metrics.none.book(worker.index).rejected(408);
                self.end(Reason::ENHANCE_YOUR_CALM);
            }
            Waits::Socket(_) => return Poll::Ready(Err(Ended::Late("body_timeout"))),
            Waits::End => return Poll::Ready(Err(Ended::Late("it did not end its side"))),
            Waits::Streams => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

/// How a connection ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    #[error(transparent)]
    Protocol(h2::Error),
    #[error("{0}")]
    Late(&'static str),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sent for Shared<S> {
    fn data(&self) {
        self.sent_data();
    }

    fn response(&self) {
        self.answered();
    }
}

/// The least that a client needs for a request, so that no limit keeps all of them away.
const _: () = assert!(*Limits::STREAMS.start() > 0);
