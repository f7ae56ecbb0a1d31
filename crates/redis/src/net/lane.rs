//! A lane: one logical connection that many tasks share. It outlives its sockets.
//!
//! A caller encodes its command straight into the lane's output and takes a waiter's cell in the same critical section;
//! the lane's driver, one task, writes waves, reads, and completes cells. Reading never waits for writing. See
//! [`state`] for what the lock protects.

mod driver;
mod input;
mod renewal;
mod room;
mod session;
mod silence;
mod state;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use pilotlight_resp::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::config::{Credentials, NodeAddress};
use crate::error::{ErrorKind, TimeoutReport};
use crate::net::connect::Connection;
use crate::net::out::{Cursor, Out};
use crate::net::stream::InlineWriter;
use crate::proto::backoff::Backoff;
use crate::proto::handshake::ServerInfo;
use crate::proto::topology::Role;
pub(crate) use silence::{MAX_SILENCE, Sign};
pub use state::Counters;
pub(crate) use state::{Kind, Outcome, Submission, SubmissionError, Ticket};
use state::{Oldest, State};

/// Most bytes that a caller writes by itself: it holds the lane's lock meanwhile.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Makes a lane's connections: dial and handshake, within the connect timeout.
pub(crate) trait Dial: Send + Sync + 'static {
    /// A new connection.
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>>;
    /// A new connection in database 0: a server that is busy with a script refuses to `SELECT` another.
    fn dial_bare(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>>;
    /// What the node at `address` says on a connection of its own.
    fn probe<'d>(&'d self, address: &'d NodeAddress) -> Pin<Box<dyn Future<Output = Sign> + Send + 'd>>;
    /// Credentials as they change, if they do: each is sent on the live connection.
    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        None
    }
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct DialError {
    pub(crate) text: Arc<str>,
    /// Trying again will not help (wrong password): whoever waits is told at once.
    pub(crate) is_final: bool,
}

/// Who is told what happens to a lane.
pub(crate) trait Watch: Send + Sync + 'static {
    /// An attempt to connect begins.
    fn dialling(&self) {}
    /// A connection was made, to the server at this address, which says this of itself.
    fn up(&self, _address: &NodeAddress, _server: &ServerInfo) {}
    /// The connection was lost, or could not be made.
    fn down(&self, _reason: &str) {}
    /// A command's reply is overdue, and nothing was read for as long.
    fn stalled(&self) {}
    /// The server pushed something. All replies that it sent before have been given to their callers, and none of those
    /// that it sent after.
    fn pushed(&self, _push: Vec<Value>) {}
    /// There is no connection any more, for whatever reason: nothing of it will be pushed, and nobody has been told yet
    /// that his command failed.
    fn disconnected(&self) {}
}

impl Watch for () {}

/// What happens to commands while there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    /// They wait, up to their deadlines.
    Queue,
    /// They fail at once, certainly not sent.
    Fail,
}

/// What happens when the byte budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// A command is refused; its caller may wait for room.
    Refuse,
    /// The commands that wait longest to be written give way.
    Shed,
}

/// How a lane behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What the node is taken for.
    pub(crate) role: Role,
    pub(crate) max_queued_bytes: usize,
    /// So many may wait for the byte budget.
    pub(crate) max_waiting: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) when_down: WhenDown,
    pub(crate) backoff: Backoff,
    /// An idle lane is pinged this often; `None`: never.
    pub(crate) idle_ping: Option<Duration>,
    /// A connection that is silent for this long while a reply is due makes the node suspect; `None`: never.
    pub(crate) stall: Option<Duration>,
    /// A busy lane is pinged this often, to measure how long the node takes to answer; `None`: only an idle one is.
    pub(crate) busy_ping: Option<Duration>,
    /// Waves are put off for so long.
    pub(crate) flush_delay: Option<Duration>,
    /// Commands from so many bytes on go another way, if there is one.
    pub(crate) large_bytes: usize,
}

/// See the module.
pub(crate) struct Lane {
    shared: Mutex<Shared>,
    settings: Settings,
    dial: Box<dyn Dial>,
    watch: Arc<dyn Watch>,
    /// Another lane to the same node, for large commands.
    large: Option<Arc<Self>>,
    /// Of the node, in microseconds and at least one; 0: not known.
    latency: Arc<AtomicU64>,
    /// Ends the pause between two attempts to connect.
    hurry: Notify,
    /// Counts connections made and lost: odd while there is one.
    epoch: AtomicU64,
    /// A reply is overdue, and nothing was read for as long.
    is_suspect: AtomicBool,
    /// There is room in the byte budget for one of those who wait for it.
    room: Notify,
    /// One of them was told and has not made use of it yet: told twice, two would come, and the second lose its place.
    /// Changed under the lock.
    is_room_told: AtomicBool,
}

/// In-flight commands of a server that somebody else says is not the primary any more have so long to be answered: it
/// may be dead.
const DRAIN: Duration = Duration::from_millis(250);

struct Shared {
    state: State,
    phase: Phase,
    /// The driver, when it waits for something to do.
    driver: Option<Waker>,
    /// The driver looks at deadlines every [`driver::TICK`]; else it has to be woken when an idle lane gets busy.
    ticking: bool,
    /// From so many bytes on, new commands are refused: the byte budget, or nothing while others wait for it.
    limit_bytes: usize,
    /// Callers that wait for the byte budget.
    waiting_for_room: usize,
    /// Who waits for the lane's end.
    enders: Vec<Waker>,
    /// The connection is to be given up.
    condemned: Option<Condemned>,
    /// The connection is to authenticate anew.
    renewal: Option<Credentials>,
    /// Of the server connected to last.
    address: NodeAddress,
    /// The same, as text.
    node: Arc<str>,
    connected_at: Instant,
    inline: Option<InlineWriter>,
}

/// A connection on which nothing new is sent.
struct Condemned {
    reason: ErrorKind,
    since: Instant,
    /// How long it may answer what is in flight.
    patience: Patience,
}

/// How long a server that is not what it was may answer what is in flight.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// Until it has been silent for [`Settings::stall`], or until then. A server that was paused for its failover
    /// answers only after it.
    Silence(Option<Instant>),
    /// Until it is silent and the deadline of the oldest command has passed: it is alive, and may be slow.
    Deadlines,
}

#[derive(Debug, Clone)]
enum Phase {
    /// No driver: the next command starts it.
    New,
    /// Dialling, or waiting to dial again; why the last attempt failed.
    Down(Option<ErrorKind>),
    Up,
    /// No new commands; the driver ends when nothing is awaited any more.
    Draining,
    Closed,
}

/// Why a lane takes nothing.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The byte budget is used up; bytes in use.
    Full(usize),
    /// There is no connection, and its policy is not to wait.
    Down(ErrorKind),
    Closed,
    /// There is no tokio runtime to run the driver on.
    NoRuntime,
}

impl Lane {
    pub(crate) fn new(
        address: NodeAddress,
        settings: Settings,
        dial: Box<dyn Dial>,
        watch: Arc<dyn Watch>,
        large: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let state = State::new(now);
        let node = address.to_string().into();
        let shared = Shared {
            state,
            phase: Phase::New,
            driver: None,
            ticking: false,
            limit_bytes: settings.max_queued_bytes,
            waiting_for_room: 0,
            enders: Vec::new(),
            condemned: None,
            renewal: None,
            address,
            node,
            connected_at: now,
            inline: None,
        };
        Arc::new(Self {
            latency: Arc::clone(&shared.state.latency),
            shared: Mutex::new(shared),
            settings,
            dial,
            watch,
            large,
            hurry: Notify::new(),
            epoch: AtomicU64::new(0),
            is_suspect: AtomicBool::new(false),
            room: Notify::new(),
            is_room_told: AtomicBool::new(false),
        })
    }

    /// [`Lane::address`], as text.
    pub(crate) fn node(&self) -> Arc<str> {
        Arc::clone(&self.shared.lock().node)
    }

    /// The server connected to last; before that, the first that was configured.
    pub(crate) fn address(&self) -> NodeAddress {
        self.shared.lock().address.clone()
    }

    pub(crate) fn role(&self) -> Role {
        self.settings.role
    }

    /// Whether there is a connection. It takes no lock.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.connection().is_some()
    }

    /// The lane to the same node for a command of so many bytes.
    #[inline]
    pub(crate) fn fitting(self: &Arc<Self>, bytes: usize) -> &Arc<Self> {
        match &self.large {
            Some(large) if bytes >= self.settings.large_bytes => large,
            _ => self,
        }
    }

    /// How long the node took to answer lately, from the writing to the reading; `None`: it was not measured on this
    /// connection. It takes no lock.
    pub(crate) fn latency(&self) -> Option<Duration> {
        Some(self.latency.load(Ordering::Relaxed)).filter(|&micros| micros > 0).map(Duration::from_micros)
    }

    /// A connection to the same node that nobody shares.
    pub(crate) async fn dial_another(&self) -> Result<Connection, DialError> {
        self.dial.dial().await
    }

    /// The same in database 0, whichever is configured.
    pub(crate) async fn dial_bare(&self) -> Result<Connection, DialError> {
        self.dial.dial_bare().await
    }

    /// Whether the connection was lost or could not be made.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.shared.lock().phase, Phase::Down(Some(_)))
    }

    /// The number of the connection, another one for each; `None`: there is none. It takes no lock.
    #[inline]
    pub(crate) fn connection(&self) -> Option<u64> {
        let epoch = self.epoch.load(Ordering::Acquire);
        (epoch % 2 == 1).then_some(epoch)
    }

    /// Whether there is a connection, and it is not known to be silent while a reply is due. It takes no lock.
    #[inline]
    pub(crate) fn is_lively(&self) -> bool {
        self.is_up() && !self.is_suspect.load(Ordering::Relaxed)
    }

    /// Whether a reply is overdue and nothing was read for as long.
    pub(crate) fn is_stalled(&self) -> bool {
        let now = Instant::now();
        self.settings.stall.is_some_and(|stall| self.shared.lock().state.is_stalled(now, stall))
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.shared.lock().state.is_idle()
    }

    /// Connects, if that was not begun, and there is a runtime to do it on.
    pub(crate) fn begin(self: &Arc<Self>) {
        let shared = self.shared.lock();
        if let Ok(Some(runtime)) = self.check_phase(&shared) {
            self.start(shared, &runtime);
        }
    }

    /// Accepts what `encode` appends. `waker` is woken when the outcome is there.
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        submission: Submission,
        waker: Option<&Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Result<Ticket, Refused> {
        let shared = self.shared.lock();
        let limit_bytes = shared.limit_bytes;
        self.accept(shared, limit_bytes, submission, waker, encode)
    }

    #[inline]
    fn accept(
        self: &Arc<Self>,
        mut shared: MutexGuard<'_, Shared>,
        limit_bytes: usize,
        submission: Submission,
        waker: Option<&Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Result<Ticket, Refused> {
        let mut runtime = None;
        loop {
            if !matches!(shared.phase, Phase::Up) {
                runtime = self.check_phase(&shared)?;
            }
            if shared.state.budget_used() < limit_bytes {
                break;
            }
            shared = self.make_room(shared)?;
        }
        let was_idle = shared.state.is_idle();
        shared.state.advance_for(submission.timeout, was_idle);
        let ticket = shared.state.submit(submission, waker.cloned(), encode);
        // Alone on an idle lane, the caller writes by itself: no task is woken for it. Where callers come in crowds
        // that would cut up their wave. What has no time left is not sent.
        let has_time = submission.timeout != Some(Duration::ZERO);
        let is_written = was_idle && has_time && shared.state.last_batch <= 1 && shared.write_inline();
        let driver = if is_written && shared.ticking { None } else { shared.driver.take() };
        if let Some(runtime) = runtime {
            self.start(shared, &runtime);
        } else {
            drop(shared);
        }
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(ticket)
    }

    /// The byte budget is used up: those who wait longest give way, if they are to and there are any.
    #[cold]
    fn make_room<'g>(&self, mut shared: MutexGuard<'g, Shared>) -> Result<MutexGuard<'g, Shared>, Refused> {
        let mut wakers = Vec::new();
        if self.settings.when_full == WhenFull::Shed {
            shared.state.shed(self.settings.max_queued_bytes, &mut wakers);
        }
        let used = shared.state.budget_used();
        if used >= self.settings.max_queued_bytes || self.settings.when_full == WhenFull::Refuse {
            drop(shared);
            wakers.into_iter().for_each(Waker::wake);
            return Err(Refused::Full(used));
        }
        MutexGuard::unlocked(&mut shared, || wakers.into_iter().for_each(Waker::wake));
        Ok(shared)
    }

    /// The runtime to run the driver on, if there is no driver yet.
    #[cold]
    fn check_phase(&self, shared: &Shared) -> Result<Option<Handle>, Refused> {
        match &shared.phase {
            Phase::New => Handle::try_current().map(Some).map_err(|_| Refused::NoRuntime),
            Phase::Down(Some(reason)) if self.settings.when_down == WhenDown::Fail => {
                Err(Refused::Down(reason.clone()))
            }
            Phase::Down(_) | Phase::Up => Ok(None),
            Phase::Draining | Phase::Closed => Err(Refused::Closed),
        }
    }

    /// Starts the driver.
    #[cold]
    fn start(self: &Arc<Self>, mut shared: MutexGuard<'_, Shared>, runtime: &Handle) {
        shared.phase = Phase::Down(None);
        drop(shared);
        // Not under the lock: a runtime that is shutting down drops the driver at once, and that takes the lock.
        runtime.spawn(driver::Driver::new(Arc::clone(self)).run());
    }

    /// The outcome, if there is one; else `waker` is woken when there is.
    #[inline]
    pub(crate) fn poll(&self, ticket: &Ticket, waker: &Waker) -> Option<(Outcome, Instant)> {
        let polled = self.shared.lock().state.poll(ticket, waker);
        polled.ok()
    }

    /// Gives up waiting. What was not written yet is never sent.
    pub(crate) fn cancel(&self, ticket: &Ticket) {
        let mut shared = self.shared.lock();
        let waker = shared.state.cancel(ticket);
        // The last of those for whom a closed lane goes on.
        let driver = if matches!(shared.phase, Phase::Draining) { shared.driver.take() } else { None };
        let has_room = self.is_room_wanted(&shared);
        drop(shared);
        drop(waker);
        self.tell_room(has_room);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends the lane. What is in flight may finish, as long as somebody waits for it; new commands are refused.
    pub(crate) fn close(&self) {
        let mut shared = self.shared.lock();
        let mut enders = Vec::new();
        shared.phase = match shared.phase {
            Phase::New | Phase::Closed => {
                enders.append(&mut shared.enders);
                Phase::Closed
            }
            _ => Phase::Draining,
        };
        let driver = shared.driver.take();
        drop(shared);
        self.room.notify_waiters();
        enders.into_iter().chain(driver).for_each(Waker::wake);
    }

    /// Ends the lane at once: whoever waits is told that it is closed.
    pub(crate) fn abort(&self) {
        self.end(Phase::Closed, &ErrorKind::Closed);
    }

    /// Waits for the end of a lane that is closed.
    pub(crate) async fn ended(&self) {
        poll_fn(|cx| {
            let mut shared = self.shared.lock();
            if matches!(shared.phase, Phase::Closed) {
                return Poll::Ready(());
            }
            shared.enders.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Ends the lane to a node that is gone. What is in flight may finish unless the node is silent; what was not
    /// written fails, certainly not sent.
    pub(crate) fn retire(&self, reason: &str) {
        self.condemn(self.shared.lock(), reason, Patience::Silence(None));
        self.close();
    }

    /// Ends the lane to a node that has another role: as [`Lane::retire`], but the node is there, so what is in flight
    /// has time up to its deadlines.
    pub(crate) fn replace(&self, reason: &str) {
        self.condemn(self.shared.lock(), reason, Patience::Deadlines);
        self.close();
    }

    /// Makes a new connection, as the server is not what it was, once what is in flight was answered. A connection that
    /// was made after `asked` is not meant.
    pub(crate) fn reconnect(&self, reason: &str, asked: Instant) {
        let shared = self.shared.lock();
        if matches!(shared.phase, Phase::Up) && shared.connected_at <= asked {
            self.condemn(shared, reason, Patience::Silence(None));
        }
    }

    /// The server to be connected to is at `address` now: gives up the connection to another one, or tries again
    /// without delay.
    pub(crate) fn move_to(&self, address: &NodeAddress, reason: &str) {
        let shared = self.shared.lock();
        match shared.phase {
            Phase::Up if shared.address != *address => {
                self.condemn(shared, reason, Patience::Silence(Some(Instant::now() + DRAIN)));
            }
            Phase::Down(_) => self.hurry.notify_one(),
            _ => {}
        }
    }

    fn condemn(&self, mut shared: MutexGuard<'_, Shared>, reason: &str, patience: Patience) {
        if shared.condemned.is_some() {
            return;
        }
        // Callers do not write by themselves any more; yet their half of the socket stays: dropped, it would tell the
        // server that nothing more comes, and the server need not answer what it has.
        shared.condemned =
            Some(Condemned { reason: ErrorKind::Connection(reason.into()), since: Instant::now(), patience });
        let driver = shared.driver.take();
        drop(shared);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// What can be said about the lane at this moment, for a command that gave up before the lane took it.
    pub(crate) fn report(&self) -> TimeoutReport {
        self.shared.lock().state.report(0)
    }

    /// What it has done so far, and what it is doing now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let shared = self.shared.lock();
        Snapshot {
            counters: shared.state.counters,
            queued: shared.state.queued(),
            in_flight: shared.state.in_flight(),
            budget_used_bytes: shared.state.budget_used(),
            cells_in_use: shared.state.cells_in_use(),
            is_connected: matches!(shared.phase, Phase::Up),
            latency: self.latency(),
        }
    }
}

/// A lane at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Since the lane began.
    pub counters: Counters,
    /// Commands not yet written.
    pub queued: usize,
    /// Commands whose replies are awaited.
    pub in_flight: usize,
    /// Of [`max_queued_bytes`](crate::Config::max_queued_bytes).
    pub budget_used_bytes: usize,
    /// Waiters, including those whose callers have left before the reply.
    pub cells_in_use: usize,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// How long the node took to answer a `PING` lately, on average: on an idle connection, or with
    /// [`ReadFrom::LowestLatency`](crate::config::ReadFrom::LowestLatency) on any. `None`: it was not measured on this
    /// connection.
    pub latency: Option<Duration>,
}

impl Shared {
    /// The lane was idle, and one command is queued: writes it. False: not all of it.
    fn write_inline(&mut self) -> bool {
        let Some(inline) = self.inline.as_ref().filter(|_| self.condemned.is_none()) else { return false };
        let Some(bytes) = self.state.out.contiguous(Cursor::default()) else { return false };
        if bytes.len() > MAX_INLINE_BYTES {
            return false;
        }
        match inline.try_write(bytes) {
            Ok(written) => {
                let is_complete = written == bytes.len();
                self.state.wrote_inline(written);
                is_complete
            }
            // Full, or broken: the driver will find out.
            Err(_) => false,
        }
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("node", &self.node()).field("snapshot", &self.snapshot()).finish()
    }
}
