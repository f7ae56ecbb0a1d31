//! A client's connection: its socket, what has been read and what waits to be written, and the times that a slow client
//! may take.
//!
//! ```text
//!            bytes of a head        head whole            answer given
//!   Idle ───────────────────▶ Head ────────────▶ Busy ──────────────────▶ Idle
//!    │ keepalive_timeout        │ header_timeout    │ (body_timeout while a write is blocked)
//!    ▼                          ▼                   ▼
//!   closed                   408, closed         closed
//! ```
//!
//! What is read and written, and in which order, is the business of [`crate::connection`]. The parts of it are here:
//! requests ([`requests`]), their bodies ([`body`]), answers ([`response`]).
//!
//! Answers are gathered and written at the end of a turn ([`Client::poll_flush_out`]), so those to pipelined requests
//! go out in one write.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue};
use pilotlight_http1::ServerConnection;

use crate::client_socket::ClientSocket;
use crate::deadline::Deadline;
use crate::downstream::{Downstream, TakesInterim};
use crate::options::{Limits, ServerTiming, Settings};
use crate::peer_address::PeerAddress;
use crate::problem;
use crate::record::Record;
use crate::target::{Hop, Scheme, Trust};
use crate::timing::{Layer, Moment};
use crate::upstream::Upgraded;

pub(crate) mod body;
mod direct;
mod half_closed;
pub(crate) mod hit_timer;
pub(crate) mod hits;
pub(crate) mod outgoing;
mod pending_lookup;
pub(crate) mod received;
mod redis_lookup;
pub(crate) mod requests;
pub(crate) mod response;

use direct::Direct;
use pending_lookup::PendingLookup;

/// Bytes gathered before they are written in the middle of a turn. Larger pieces are not copied at all.
const MAX_GATHERED: usize = 64 * 1024;
/// Bytes of one body that are taken in one turn, if they are always there: then the worker's other connections have
/// theirs.
const MAX_TURN: u64 = 1024 * 1024;
/// A client that is quiet for so long after a response is served with less memory from then on.
const REST_AFTER: Duration = Duration::from_secs(1);
/// Pieces of at least this size are written from where they are.
const DIRECT_WRITE: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Head,
    Busy,
}

/// The times that apply to a client's connection.
#[derive(Clone, Copy)]
struct ClientTimes {
    header: Duration,
    write: Duration,
    idle: Duration,
}

impl ClientTimes {
    fn of(limits: &Limits) -> Self {
        Self { header: limits.header_timeout, write: limits.body_timeout, idle: limits.keepalive_timeout }
    }
}

/// What the parts of the gateway that serve one connection share.
pub(crate) struct Client {
    pub(crate) peer: Rc<PeerAddress>,
    /// Those of the time when it connected.
    pub(crate) settings: Arc<Settings>,
    /// That of its connection.
    scheme: Scheme,
    /// It came by plain HTTP, and routes may be for TLS.
    pub(crate) may_redirect: Cell<bool>,
    /// Whether the cache is looked at before a request is made of what was read.
    is_peeked: bool,
    phase: Cell<Phase>,
    deadline: Deadline,
    times: ClientTimes,
    io: RefCell<Io>,
    write_blocked: Cell<bool>,
    half_closed: HalfClosed,
    /// Whether the request's client takes trailers (RFC 9110 §10.1.4).
    takes_trailers: Cell<bool>,
    /// `Trailer` of its response, if so.
    announced: RefCell<Vec<HeaderValue>>,
    /// Set by an exchange that ended in 101; the connection becomes a tunnel behind that response.
    upgraded: RefCell<Option<Box<Upgraded>>>,
    /// When the first byte of the head came that is not whole.
    begun: Cell<Option<Moment>>,
    /// The request for which Redis is asked.
    pending_lookup: RefCell<Option<PendingLookup>>,
    /// Requests that are answered, but not all of whose bytes are written.
    unwritten: RefCell<Vec<Rc<Record>>>,
    /// The status of a response to what was no request.
    rejected: Cell<Option<u16>>,
    /// At least one request was answered.
    has_answered: Cell<bool>,
    /// Nothing has come for [`REST_AFTER`] since the last response.
    rests: Cell<bool>,
}

/// What is known of the client's direction.
#[derive(Default)]
struct HalfClosed {
    /// Since its end so often looked at; `None` before.
    checks: Cell<Option<u32>>,
    /// The head of a response is awaited, and the client takes interim responses.
    takes_interim: Cell<bool>,
    /// Its head has been handed over.
    is_answered: Cell<bool>,
    /// Looks since a byte of the response was written.
    silence: Cell<u32>,
}

struct Io {
    socket: ClientSocket,
    /// Unread bytes.
    read: BytesMut,
    http: ServerConnection,
    out: BytesMut,
    /// What is written behind `out`, from where it is.
    direct: Direct,
    /// Whether a part of `out` came from a service: then it may go out with the worker's batch. Hits alone gain nothing
    /// by that (docs/adr/0026).
    is_passed_on: bool,
}

impl Io {
    fn new(socket: ClientSocket, limits: pilotlight_http1::Limits) -> Self {
        let http = ServerConnection::new(limits);
        Self { socket, read: BytesMut::new(), http, out: BytesMut::new(), direct: Direct::NOTHING, is_passed_on: false }
    }

    /// What the socket did not take of what was put in the batch is to be written again.
    fn settle(&mut self) -> io::Result<()> {
        self.socket.settle(&mut self.out)
    }

    fn is_written(&self) -> bool {
        self.unwritten() == 0
    }

    /// Bytes that wait to be written.
    fn unwritten(&self) -> usize {
        self.out.len() + self.direct.len() + self.socket.unsent()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, out, direct, http, is_passed_on, .. } = self;
        let is_passed_on = std::mem::take(is_passed_on);
        if direct.is_nothing() && is_passed_on {
            return socket.poll_send_all(cx, out);
        }
        if direct.is_nothing() {
            return socket.poll_write_all(cx, out);
        }
        let written = direct.poll_write(cx, socket, out);
        // Taken whole, though with TLS it may not have gone.
        if direct.is_nothing() {
            *direct = Direct::NOTHING;
            http.end_piece(out);
        }
        written
    }
}

impl Client {
    pub(crate) fn new(
        socket: ClientSocket,
        peer: Rc<PeerAddress>,
        deadline: Deadline,
        settings: Arc<Settings>,
        is_cached: bool,
    ) -> Rc<Self> {
        let times = ClientTimes::of(&settings.limits);
        deadline.set(times.idle.min(times.header)); // a connection that never sends anything is not kept for long
        let limits = pilotlight_http1::Limits {
            max_head: settings.limits.header_size,
            max_fields: settings.limits.header_count,
            ..pilotlight_http1::Limits::REQUEST
        };
        Rc::new(Self {
            // A client with a certificate is answered by services alone.
            is_peeked: is_cached && settings.server_timing != ServerTiming::Always && peer.certificate().is_none(),
            scheme: peer.scheme(),
            may_redirect: Cell::new(false),
            peer,
            settings,
            phase: Cell::new(Phase::Idle),
            deadline,
            times,
            io: RefCell::new(Io::new(socket, limits)),
            write_blocked: Cell::new(false),
            half_closed: HalfClosed::default(),
            takes_trailers: Cell::new(false),
            announced: RefCell::default(),
            upgraded: RefCell::default(),
            begun: Cell::new(None),
            pending_lookup: RefCell::default(),
            unwritten: RefCell::default(),
            rejected: Cell::new(None),
            has_answered: Cell::new(false),
            rests: Cell::new(false),
        })
    }

    /// The connection of a request with these fields, as far as its origin goes.
    #[inline]
    fn hop_of(&self, headers: &HeaderMap) -> Hop {
        let trust = Trust::of(&self.settings.trust_forwarded, self.peer.address(), || headers);
        Hop { scheme: self.scheme, trust }
    }

    /// Writes what was gathered; to be called at the end of every turn of the connection's task.
    pub(crate) fn poll_flush_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io.borrow_mut();
        io.settle()?;
        if io.is_written() {
            return Poll::Ready(Ok(()));
        }
        let before = io.unwritten();
        let written = io.poll_write(cx);
        if self.write_blocked.get() && io.unwritten() < before {
            self.deadline.set(self.times.write); // slow, but it takes something
        }
        self.watch_write(&mut io, cx, written)
    }

    /// The same behind the last response: nothing is left in the batch either.
    pub(crate) fn poll_flush_last(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush_out(cx))?;
        self.io.borrow().socket.send_now();
        self.poll_flush_out(cx)
    }

    /// Everything that was gathered is written: the responses in it are over.
    pub(crate) fn written(&self) {
        let mut unwritten = self.unwritten.borrow_mut();
        if !unwritten.is_empty() {
            let now = Moment::now();
            unwritten.drain(..).for_each(|record| record.timeline.end_phase(Layer::Write, now));
        }
    }

    /// The status of the response to what was no request.
    pub(crate) fn rejected(&self) -> Option<u16> {
        self.rejected.get()
    }

    /// A client that takes nothing for too long is cut.
    fn watch_write(&self, io: &mut Io, cx: &mut Context<'_>, written: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
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
                Phase::Busy => self.deadline.clear(),
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
                // Nothing else is being written while a head is awaited; a client that cannot take even this is not
                // told.
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
            Phase::Busy => return None,
        };
        Some(io::Error::new(io::ErrorKind::TimedOut, setting))
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
        self.has_answered.get()
            && self.phase.get() == Phase::Idle
            && !self.has_pending_lookup()
            && self.io.borrow().read.is_empty()
    }

    /// Gives up what was kept for further responses when the client has been quiet for a while; whether there was
    /// anything.
    pub(crate) fn rest(&self) -> bool {
        if !self.rests.get() || self.write_blocked.get() || !self.is_between_requests() {
            return false;
        }
        let io = &mut *self.io.borrow_mut();
        let has_freed = io.out.capacity() > 0 && io.is_written();
        if has_freed {
            io.out = BytesMut::new();
            io.read = BytesMut::new();
            io.socket.rest();
            self.unwritten.borrow_mut().shrink_to_fit();
            self.peer.forget_lines();
        }
        has_freed
    }

    /// While a write is blocked the deadline is that write's.
    fn set_unless_blocked(&self, after: Option<Duration>) {
        if !self.write_blocked.get() {
            self.deadline.set_or_clear(after);
        }
    }

    /// The connection is over. A request that goes on without it holds neither its socket nor its buffers.
    pub(crate) fn hang_up(&self) {
        let _ = self.take_socket();
        self.phase.set(Phase::Idle); // so that interim answers are left out
    }

    /// Tells the client that this was all, where there is a way to.
    pub(crate) fn say_end(&self) {
        if let Ok(mut io) = self.io.try_borrow_mut() {
            io.socket.say_end();
        }
    }

    /// The socket, and what has been read of what follows the last request.
    pub(crate) fn take_socket(&self) -> (ClientSocket, BytesMut) {
        self.deadline.clear();
        // Nobody else uses it at this moment; if somebody did, the socket would go with the last reference.
        let Ok(mut io) = self.io.try_borrow_mut() else { return (ClientSocket::CLOSED, BytesMut::new()) };
        let io = std::mem::replace(&mut *io, Io::new(ClientSocket::CLOSED, pilotlight_http1::Limits::REQUEST));
        (io.socket, io.read)
    }

    /// Whether the response that was written last was 101.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.upgraded.borrow().is_some()
    }

    /// Whether the last response has been written, as far as the two sides have said.
    pub(crate) fn is_over(&self) -> bool {
        self.io.borrow().http.is_over()
    }

    pub(crate) fn take_upgraded(&self) -> Option<Box<Upgraded>> {
        self.upgraded.borrow_mut().take()
    }

    /// Makes room for more to be gathered.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = self.io.borrow();
        if io.out.len() < MAX_GATHERED && io.direct.is_nothing() {
            return Poll::Ready(Ok(()));
        }
        drop(io);
        self.poll_flush_out(cx)
    }
}

impl Downstream for Client {
    fn peer(&self) -> &Rc<PeerAddress> {
        &self.peer
    }

    fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    fn request_began(&self) {
        self.phase.set(Phase::Busy);
        self.forget_end();
        self.set_unless_blocked(None);
    }

    fn request_ended(&self, record: Rc<Record>) {
        if self.phase.get() == Phase::Busy {
            self.phase.set(Phase::Idle);
            self.answered();
        }
        self.unwritten.borrow_mut().push(record);
    }

    fn awaits_response(&self, takes_interim: TakesInterim) {
        self.half_closed.takes_interim.set(takes_interim == TakesInterim::Yes);
        self.half_closed.is_answered.set(false);
    }

    /// From now on half-closed clients are not sent a 100.
    fn response_began(&self) {
        self.half_closed.takes_interim.set(false);
        self.half_closed.is_answered.set(true);
    }

    fn skip_body(&self) -> bool {
        self.skip_read_body()
    }

    fn upgrade_to(&self, upgraded: Box<Upgraded>) {
        *self.upgraded.borrow_mut() = Some(upgraded);
    }
}
