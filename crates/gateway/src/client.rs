//! A client's connection as hyper sees it: the socket, with the times that a slow client may take and with writes gathered.
//!
//! ```text
//!            bytes of a head        head whole            answer given
//!   Idle ───────────────────▶ Head ────────────▶ Busy ──────────────────▶ Idle
//!    │ keepalive_timeout        │ header_timeout    │ (body_timeout while a write is blocked)
//!    ▼                          ▼                   ▼
//!   closed                   408, closed         closed
//! ```
//!
//! hyper flushes after every answer. Here a flush waits for the end of the turn ([`Client::poll_flush_out`]), so that the answers
//! to pipelined requests go out in one write. hyper's own option for that (`pipeline_flush`) takes from a body without end
//! when the client does not read, and holds back a stream while another request waits behind it.
//!
//! hyper answers heads that it cannot parse by itself, with an empty body; what it writes then is replaced by a problem
//! document, so that the client learns which setting to change.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline::Deadline;
use crate::net::Socket;
use crate::options::{Limits, Settings};
use crate::problem;
use crate::record::Record;
use crate::strangers::Stranger;
use crate::timing::{Layer, Moment};
use crate::upstream::Upgraded;

mod asking;
mod framing;
mod half_closed;
mod hits;
mod intake;
mod interim;
mod tally;

pub(crate) use asking::Ahead;
use asking::Asking;
use framing::{Framing, Wrong};
use half_closed::HalfClosed;
pub(crate) use hits::Desk;
use intake::{Intake, Share};

/// Bytes gathered before they are written in the middle of a turn. Larger pieces are not copied at all.
const MAX_GATHERED: usize = 64 * 1024;
/// A client that is quiet for so long after an answer is served with less memory from then on.
const REST_AFTER: Duration = Duration::from_secs(1);
/// Pieces of at least this size are written from where they are.
const DIRECT_WRITE: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Head,
    Busy,
    /// Upgraded: bytes pass through, no limits of HTTP apply.
    Tunnel,
}

/// The times that apply to a client's connection.
#[derive(Clone, Copy)]
struct ClientTimes {
    header: Duration,
    write: Duration,
    idle: Duration,
    /// Only for the text of 431.
    header_size: usize,
}

impl ClientTimes {
    fn of(limits: &Limits) -> Self {
        Self {
            header: limits.header_timeout,
            write: limits.body_timeout,
            idle: limits.keepalive_timeout,
            header_size: limits.header_size,
        }
    }
}

/// What the parts of the gateway that serve one connection share.
pub(crate) struct Client {
    /// `address:port`, or empty on a Unix socket.
    pub(crate) peer: Rc<str>,
    /// Those of the time when it connected.
    pub(crate) settings: Arc<Settings>,
    phase: Cell<Phase>,
    deadline: Deadline,
    times: ClientTimes,
    io: RefCell<Io>,
    write_blocked: Cell<bool>,
    half_closed: HalfClosed,
    /// hyper has begun to write, and has not flushed since: it may hold more.
    hyper_has_unwritten: Cell<bool>,
    /// Whether the client may still be sending when the connection is closed.
    lingers: Cell<bool>,
    /// Set by an exchange that ended in 101; the connection becomes a tunnel when hyper lets go of it.
    upgraded: RefCell<Option<Upgraded>>,
    /// When the first byte of the request came that hyper is given next.
    begun: Cell<Option<Moment>>,
    /// The first of the unread requests, while Redis is asked for its answer.
    asking: RefCell<Option<Asking>>,
    /// What Redis had for the request that hyper is given next.
    ahead: Cell<Option<Ahead>>,
    /// Requests that are answered, but not all of whose bytes are written.
    unwritten: RefCell<Vec<Rc<Record>>>,
    /// The status of an answer to what was no request.
    rejected: Cell<Option<u16>>,
    /// What the client speaks, if it is not HTTP/1.1.
    stranger: Cell<Option<Stranger>>,
    /// At least one request was answered.
    has_answered: Cell<bool>,
    /// Nothing has come for [`REST_AFTER`] since the last answer.
    rests: Cell<bool>,
}

struct Io {
    socket: Socket,
    intake: Intake,
    /// Of what hyper has been given.
    framing: Framing,
    out: BytesMut,
}

impl Client {
    pub(crate) fn new(socket: Socket, peer: &str, deadline: Deadline, settings: Arc<Settings>) -> Rc<Self> {
        let times = ClientTimes::of(&settings.limits);
        deadline.set(times.idle.min(times.header)); // a connection that never sends anything is not kept for long
        let io = RefCell::new(Io { socket, intake: Intake::new(), framing: Framing::new(), out: BytesMut::new() });
        let write_blocked = Cell::new(false);
        let upgraded = RefCell::new(None);
        let (phase, lingers) = (Cell::new(Phase::Idle), Cell::new(false));
        Rc::new(Self {
            peer: peer.into(),
            settings,
            phase,
            deadline,
            times,
            io,
            write_blocked,
            half_closed: HalfClosed::default(),
            hyper_has_unwritten: Cell::new(false),
            lingers,
            upgraded,
            begun: Cell::new(None),
            asking: RefCell::default(),
            ahead: Cell::default(),
            unwritten: RefCell::default(),
            rejected: Cell::new(None),
            stranger: Cell::new(None),
            has_answered: Cell::new(false),
            rests: Cell::new(false),
        })
    }

    /// Writes what was gathered; to be called at the end of every turn of the connection's task.
    pub(crate) fn poll_flush_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io.borrow_mut();
        if io.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Io { socket, out, .. } = &mut *io;
        let before = out.len();
        let written = socket.poll_write_all(cx, out);
        if self.write_blocked.get() && out.len() < before {
            self.deadline.set(self.times.write); // slow, but it takes something
        }
        self.watch_write(&mut io, cx, written)
    }

    /// Everything that was gathered is written: the answers in it are over.
    pub(crate) fn written(&self) {
        let mut unwritten = self.unwritten.borrow_mut();
        if !unwritten.is_empty() {
            let now = Moment::now();
            unwritten.drain(..).for_each(|record| record.timeline.lap(Layer::Write, now));
        }
    }

    /// When the first byte of the request came that hyper has read.
    pub(crate) fn take_begun(&self) -> Option<Moment> {
        self.begun.take()
    }

    /// What the client speaks, if its first bytes were no HTTP/1.1.
    pub(crate) fn stranger(&self) -> Option<Stranger> {
        self.stranger.get()
    }

    /// The status of the answer to what was no request.
    pub(crate) fn rejected(&self) -> Option<u16> {
        self.rejected.get()
    }

    /// A client that takes nothing for too long is cut.
    fn watch_write<T>(&self, io: &mut Io, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &written {
            Poll::Pending if !self.write_blocked.replace(true) => {
                self.deadline.set(self.times.write);
                // Registered, so that the end of the wait wakes the task.
                let _ = self.deadline.poll(cx);
            }
            Poll::Pending => {
                if let Some(e) = self.timed_out(io, cx) {
                    return Poll::Ready(Err(e));
                }
            }
            Poll::Ready(_) if self.write_blocked.replace(false) => match self.phase.get() {
                Phase::Idle => self.deadline.set(self.first_idle_time()),
                Phase::Head => self.deadline.set(self.times.header),
                _ => self.deadline.clear(),
            },
            Poll::Ready(_) => {}
        }
        written
    }

    fn timed_out(&self, io: &mut Io, cx: &mut Context<'_>) -> Option<io::Error> {
        if self.deadline.poll(cx).is_pending() {
            return None;
        }
        let setting = match self.phase.get() {
            _ if self.write_blocked.get() => "body_timeout",
            Phase::Head => {
                let mut text = problem::header_timeout(self.times.header);
                // Nothing else is being written while a head is awaited; a client that cannot take even this is not told.
                let _ = io.socket.poll_write_all(cx, &mut text);
                self.rejected.set(Some(408));
                "header_timeout"
            }
            Phase::Idle if self.has_answered.get() && self.times.idle > REST_AFTER && !self.rests.replace(true) => {
                self.deadline.set(self.times.idle - REST_AFTER);
                // Registered, so that the end of the wait wakes the task.
                let _ = self.deadline.poll(cx);
                return None;
            }
            Phase::Idle => "keepalive_timeout",
            Phase::Busy | Phase::Tunnel => return None,
        };
        Some(io::Error::new(io::ErrorKind::TimedOut, setting))
    }

    /// The head of a request is whole.
    pub(crate) fn request_began(&self) {
        self.phase.set(Phase::Busy);
        self.forget_end();
        self.set_unless_blocked(None);
    }

    /// The last request has a body, of which part may be unread when the connection ends.
    pub(crate) fn set_lingers(&self, lingers: bool) {
        self.lingers.set(lingers);
    }

    /// What still comes is read and thrown away, whatever it is.
    pub(crate) fn discard_rest(&self) {
        self.phase.set(Phase::Tunnel);
        self.deadline.clear();
        self.io.borrow_mut().framing = Framing::new();
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.get()
    }

    /// The answer has been handed over, body and all.
    pub(crate) fn request_ended(&self) {
        if self.phase.get() == Phase::Busy {
            self.phase.set(Phase::Idle);
            self.answered();
        }
    }

    /// A request was answered; the next one is waited for.
    fn answered(&self) {
        self.has_answered.set(true);
        self.rests.set(false);
        self.set_unless_blocked(Some(self.first_idle_time()));
    }

    fn first_idle_time(&self) -> Duration {
        self.times.idle.min(REST_AFTER)
    }

    /// Requests were answered, and none is under way.
    pub(crate) fn is_between_requests(&self) -> bool {
        self.has_answered.get() && self.phase.get() == Phase::Idle && self.io.borrow().intake.bytes.is_empty()
    }

    /// The client has been quiet for a while, and owes and is owed nothing.
    pub(crate) fn is_resting(&self) -> bool {
        self.rests.get() && !self.write_blocked.get() && self.is_between_requests() && self.io.borrow().out.is_empty()
    }

    /// What hyper had read of a further request goes before what comes; what was kept for further answers is given up.
    pub(crate) fn take_back(&self, unread: &[u8]) {
        let mut io = self.io.borrow_mut();
        io.intake.bytes = BytesMut::from(unread);
        io.framing = Framing::new(); // what is unread begins a request
        io.out = BytesMut::new();
        self.unwritten.borrow_mut().shrink_to_fit();
    }

    /// Waits, without hyper, for something that hyper has to look at; an error when the client was quiet for too long.
    pub(crate) fn poll_quiet(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io.borrow_mut();
        let has_come = match io.intake.share {
            Share::Nothing => !io.intake.bytes.is_empty(),
            Share::Head(_) => true,
            Share::Everything => !io.intake.bytes.is_empty() || io.socket.poll_readable(cx).is_ready(),
        };
        if has_come {
            return Poll::Ready(Ok(()));
        }
        self.timed_out(&mut io, cx).map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    /// While a write is blocked the deadline is that write's.
    fn set_unless_blocked(&self, after: Option<Duration>) {
        if !self.write_blocked.get() {
            self.deadline.set_or_clear(after);
        }
    }

    /// The connection is over. A request that goes on without it holds neither its socket nor its buffers.
    pub(crate) fn hang_up(&self) {
        // Nobody else uses it at this moment; if somebody did, the socket would go with the last reference.
        if let Ok(mut io) = self.io.try_borrow_mut() {
            *io = Io { socket: Socket::Closed, intake: Intake::new(), framing: Framing::new(), out: BytesMut::new() };
        }
        self.phase.set(Phase::Idle); // so that interim answers are left out
    }

    pub(crate) fn upgrade_to(&self, upgraded: Upgraded) {
        *self.upgraded.borrow_mut() = Some(upgraded);
    }

    pub(crate) fn take_upgraded(&self) -> Option<Upgraded> {
        let upgraded = self.upgraded.borrow_mut().take();
        if upgraded.is_some() {
            self.phase.set(Phase::Tunnel);
            self.deadline.clear();
        }
        upgraded
    }

    /// Makes room for more to be gathered.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.io.borrow().out.len() < MAX_GATHERED { Poll::Ready(Ok(())) } else { self.poll_flush_out(cx) }
    }

    fn on_read(&self) {
        if self.phase.get() == Phase::Idle {
            self.phase.set(Phase::Head);
            if self.begun.get().is_none() {
                self.begun.set(Some(Moment::now()));
            }
            self.set_unless_blocked(Some(self.times.header));
        }
    }
}

/// Marks the end of a request when the answer's body is done or dropped.
pub(crate) struct RequestGuard {
    client: Rc<Client>,
    record: Rc<Record>,
}

impl RequestGuard {
    pub(crate) fn new(client: &Rc<Client>, record: Rc<Record>) -> Self {
        client.request_began();
        Self { client: Rc::clone(client), record }
    }

    /// Bytes of the answer's body were handed over.
    pub(crate) fn sent(&self, bytes: usize) {
        self.record.sent(bytes);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.client.request_ended();
        self.record.lap(Layer::Body);
        self.client.unwritten.borrow_mut().push(Rc::clone(&self.record));
    }
}

/// The connection as hyper reads and writes it.
pub(crate) struct ClientIo(pub(crate) Rc<Client>);

impl ClientIo {
    /// Whether `buf` is an answer that hyper made up itself to a head it could not parse.
    fn is_rejection(&self, buf: &[u8]) -> bool {
        // Every answer of the gateway's has `cache-status`; a pipelined one may still wait when the next head is half here.
        // What came while the request before was answered begins no phase of its own.
        let head = matches!(self.0.phase.get(), Phase::Head | Phase::Idle) && buf.starts_with(b"HTTP/1.1 4");
        head && memchr::memmem::find(buf, b"\r\ncache-status: ").is_none()
    }
}

fn inexact() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its chunked framing is not exact (RFC 9112 section 7.1)")
}

impl AsyncRead for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A client that sends requests and takes no answers is not read on: what waits for it is bounded.
        if matches!(self.0.phase.get(), Phase::Idle | Phase::Head) {
            ready!(self.0.poll_room(cx))?;
        }
        let client = &self.0;
        let mut io = client.io.borrow_mut();
        let before = buf.filled().len();
        if io.framing.is_over() {
            return Poll::Ready(Err(inexact()));
        }
        if client.is_half_closed() && client.has_ended_behind(&io) {
            return client.poll_gone(cx, &mut io);
        }
        let Io { socket, intake, framing, .. } = &mut *io;
        match intake.poll_read(cx, socket, buf) {
            Poll::Ready(Ok(())) => {
                if buf.filled().len() == before {
                    // hyper would end the exchange with the client's direction.
                    let is_behind = client.has_ended_behind(&io);
                    return if is_behind { client.poll_gone(cx, &mut io) } else { Poll::Ready(Ok(())) };
                }
                if !client.has_answered.get() && client.phase.get() == Phase::Idle {
                    client.stranger.set(Stranger::of(&buf.filled()[before..]));
                }
                client.on_read();
                // A head that was looked at before has no body.
                if intake.share == Share::Everything
                    && client.phase.get() != Phase::Tunnel
                    && let Err(Wrong(at)) = framing.follow(&mut buf.filled_mut()[before..])
                {
                    buf.set_filled(before + at);
                    // Nothing more would be the end of the stream.
                    return Poll::Ready(if at == 0 { Err(inexact()) } else { Ok(()) });
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Pending => client.timed_out(&mut io, cx).map_or(Poll::Pending, |e| Poll::Ready(Err(e))),
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when its own buffer is empty.
        self.0.hyper_has_unwritten.set(false);
        match self.0.phase.get() {
            Phase::Tunnel => self.0.poll_flush_out(cx),
            Phase::Idle => {
                // hyper flushes when it has nothing left to write.
                self.0.io.borrow_mut().intake.answered();
                Poll::Ready(Ok(()))
            }
            _ => Poll::Ready(Ok(())), // at the end of the turn
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_flush_out(cx))?;
        Pin::new(&mut self.0.io.borrow_mut().socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.hyper_has_unwritten.set(true);
        self.0.answer_moves();
        ready!(self.0.poll_room(cx))?;
        let client = &self.0;
        let mut io = client.io.borrow_mut();
        let size = bufs.iter().map(|b| b.len()).sum();
        if size >= DIRECT_WRITE && io.out.is_empty() {
            let written = Pin::new(&mut io.socket).poll_write_vectored(cx, bufs);
            return client.watch_write(&mut io, cx, written);
        }
        if bufs.iter().find(|b| !b.is_empty()).is_some_and(|first| self.is_rejection(first)) {
            let rejected = bufs.iter().find(|b| !b.is_empty()).map_or(&[][..], |b| b);
            let replacement = problem::rejection(rejected, client.times.header_size);
            let status = replacement.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            client.rejected.set(status);
            io.out.extend_from_slice(&replacement);
            client.phase.set(Phase::Busy); // nothing of this connection is read any more
            client.lingers.set(true);
            return Poll::Ready(Ok(size));
        }
        bufs.iter().for_each(|b| io.out.extend_from_slice(b));
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
