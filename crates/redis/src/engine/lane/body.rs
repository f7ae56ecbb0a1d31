//! The lane itself: what is behind its lock, what can be asked of it, and how it ends.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::settings::{Dial, DialError, Settings, Watch};
use super::spares::Spares;
use super::state::{State, Ticket};
use crate::address::NodeAddress;
use crate::credentials::Credentials;
use crate::engine::submission::Outcome;
use crate::error::{ErrorKind, TimeoutReport};
use crate::net::connection::Connection;
use crate::net::stream::InlineWriter;
use crate::net::wire::Wire;
use crate::proto::handshake::ServerMode;
use crate::proto::topology::Role;
use crate::reply::Spare;
use crate::stats::Snapshot;

/// See the module.
pub(crate) struct Lane {
    pub(super) shared: Mutex<Shared>,
    pub(super) settings: Settings,
    pub(super) dial: Box<dyn Dial>,
    pub(super) watch: Arc<dyn Watch>,
    /// Another lane to the same node, for large commands.
    pub(super) large: Option<Arc<Self>>,
    /// Of the node, in microseconds and at least one; 0: not known.
    pub(super) latency: Arc<AtomicU64>,
    /// Ends the pause between two attempts to connect.
    pub(super) hurry: Notify,
    /// Counts connections made and lost: odd while there is one.
    pub(super) epoch: AtomicU64,
    /// A reply is overdue, and nothing was read for as long.
    pub(super) is_suspect: AtomicBool,
    /// There is room in the byte budget for one of those who wait for it.
    pub(super) room: Notify,
    /// One of them was told and has not made use of it yet: told twice, two would come, and the second lose its place.
    /// Changed under the lock.
    pub(super) is_room_told: AtomicBool,
    /// Vectors of replies that were read.
    pub(super) spares: Arc<Spares>,
}

/// In-flight commands of a server that somebody else says is not the primary any more have so long to be answered: it
/// may be dead.
const DRAIN: Duration = Duration::from_millis(250);

/// A server that says that it is not the primary is looked for again after this time, and no sooner: the address may
/// lead to another one by then. Meanwhile its answer is the commands' answer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    pub(super) state: State,
    pub(super) phase: Phase,
    /// The driver, when it waits for something to do.
    pub(super) driver: Option<Waker>,
    /// The driver looks at deadlines every [`driver::TICK`]; else it has to be woken when an idle lane gets busy.
    pub(super) ticking: bool,
    /// From so many bytes on, new commands are refused: the byte budget, or nothing while others wait for it.
    pub(super) limit_bytes: usize,
    /// Callers that wait for the byte budget.
    pub(super) waiting_for_room: usize,
    /// Who waits for the lane's end.
    pub(super) enders: Vec<Waker>,
    /// The connection is to be given up.
    pub(super) condemned: Option<Condemned>,
    /// The connection is to authenticate anew.
    pub(super) renewal: Option<Credentials>,
    /// Of the server connected to last.
    pub(super) address: NodeAddress,
    /// The same, as text.
    pub(super) node: Arc<str>,
    pub(super) connected_at: Instant,
    /// How the server says that it runs.
    pub(super) mode: Option<ServerMode>,
    /// When a connection was last given up because its server was not what it was.
    pub(super) looked_at: Option<Instant>,
    pub(super) inline: Option<InlineWriter>,
}

/// A connection on which nothing new is sent.
pub(super) struct Condemned {
    pub(super) reason: ErrorKind,
    pub(super) since: Instant,
    /// How long it may answer what is in flight.
    pub(super) patience: Patience,
}

/// How long a server that is not what it was may answer what is in flight.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    /// Until it has been silent for [`Settings::stall`], or until then. A server that was paused for its failover
    /// answers only after it.
    Silence(Option<Instant>),
    /// Until it is silent and the deadline of the oldest command has passed: it is alive, and may be slow.
    Deadlines,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
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
            mode: None,
            looked_at: None,
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
            spares: Arc::default(),
        })
    }

    /// Takes back the emptied vectors of a reply.
    pub(crate) fn keep(&self, spare: Spare) {
        self.spares.keep(spare);
    }

    /// [`Lane::address`], as text.
    pub(crate) fn node(&self) -> Arc<str> {
        Arc::clone(&self.shared.lock().node)
    }

    /// The server connected to last; before that, the first that was configured.
    pub(crate) fn address(&self) -> NodeAddress {
        self.shared.lock().address.clone()
    }

    /// How the server connected to last says that it runs.
    pub(crate) fn mode(&self) -> Option<ServerMode> {
        self.shared.lock().mode
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
    pub(crate) fn fitting(self: &Arc<Self>, bytes: impl FnOnce() -> usize) -> &Arc<Self> {
        match &self.large {
            Some(large) if bytes() >= self.settings.large_bytes => large,
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

    /// Makes one of those as good as new, and says who its server takes the client for.
    pub(crate) async fn reset_another(
        &self,
        wire: &mut Wire,
        address: &NodeAddress,
    ) -> Result<Option<Credentials>, DialError> {
        self.dial.reset(wire, address).await
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

    /// Whether the node is a replica that is silent while a reply is due: its primary may be asked instead. It takes no
    /// lock.
    pub(crate) fn is_silent_replica(&self) -> bool {
        self.settings.role == Role::Replica && self.is_suspect.load(Ordering::Relaxed)
    }

    /// Has those who wait for a replica decide whether they go on waiting.
    pub(super) fn wake_readers(&self) {
        if self.is_silent_replica() {
            let mut wakers = Vec::new();
            self.shared.lock().state.wakers_in_flight(&mut wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// When a command was submitted.
    pub(crate) fn submitted_at(&self, ticket: &Ticket) -> Instant {
        self.shared.lock().state.submitted_at(ticket)
    }

    /// Whether a reply is overdue and nothing was read for as long.
    pub(crate) fn is_stalled(&self) -> bool {
        let now = Instant::now();
        self.settings.stall.is_some_and(|stall| self.shared.lock().state.is_stalled(now, stall))
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.shared.lock().state.is_idle()
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
        let mut shared = self.shared.lock();
        match shared.phase {
            Phase::Up if shared.connected_at <= asked => {
                shared.looked_at = Some(Instant::now());
                self.condemn(shared, reason, Patience::Silence(None));
            }
            Phase::Up => {}
            // It was a connection of the pool, and the next attempt makes another.
            _ => shared.looked_at = Some(Instant::now()),
        }
    }

    /// Whether a command submitted at `asked` met the server that a new connection has just led to
    /// ([`reconnect`](Self::reconnect)): another one would lead to the same.
    pub(crate) fn has_just_looked(&self, asked: Instant) -> bool {
        let looked_at = self.shared.lock().looked_at;
        looked_at.is_some_and(|at| asked.checked_duration_since(at).is_some_and(|since| since < LOOK_AGAIN))
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

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("node", &self.node()).field("snapshot", &self.snapshot()).finish()
    }
}
