//! A service, as workers see it.

use crate::error::{Phase, StartError};
use crate::in_flight::{InFlightCounter, Lease, Padded, pick};
use crate::instance::{InstanceState, Notice};
use crate::isolation::SandboxBounds;
use crate::policy::circuit::CircuitState;
use crate::queue::{Joined, Queue};
use crate::spec::ServiceSpec;
use crate::waiting::{Refused, Waiting, WaitingLimit};
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// A service's place in the list given to [`start`](crate::start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(pub usize);

/// A service, shared by all workers.
#[derive(Debug)]
pub struct Service {
    id: ServiceId,
    name: Arc<str>,
    /// For each worker its counters at the ready instances.
    slots: Box<[Padded<Slot>]>,
    pub(crate) queue: Arc<Queue>,
    /// How many requests wait, in the queue and elsewhere.
    pub(crate) waiting: Arc<WaitingLimit>,
    /// Milliseconds; 0: for ever.
    max_request_time_ms: AtomicU64,
    /// Whether the requests of an instance are limited: only then can there be several. Written when the settings
    /// change.
    is_limited: AtomicBool,
    status: Mutex<Status>,
    /// Counted by those who read its output.
    pub(crate) dropped_lines: Arc<AtomicU64>,
}

/// One worker's counters at the ready instances. The first has a place of its own, because for most services it is the
/// only one, and two pointers are more than one.
#[derive(Debug, Default)]
struct Slot {
    first: ArcSwapOption<InFlightCounter>,
    /// All of them, oldest first, if their requests are limited.
    all: ArcSwapOption<Box<[Arc<InFlightCounter>]>>,
}

/// What a service is doing, for people.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its state.
    pub state: ServiceState,
    /// The number of its last instance; 0 before the first.
    pub instance: u64,
    /// Process id of its first ready, or else its first starting, instance.
    pub pid: Option<i32>,
    /// Those that are starting or ready, oldest first, then the one that is to replace another, then those that end.
    pub instances: Vec<InstanceStatus>,
    /// Failed or short runs in a row.
    pub failures: u32,
    /// Why the last start or run failed, if it did.
    pub last_error: Option<StartError>,
    /// Whether it may be started (see `max_failures`).
    pub circuit: CircuitState,
    /// When the next start may be tried, after failures.
    pub next_attempt: Option<Instant>,
    /// Instances that became ready since the gateway started.
    pub starts: u64,
    /// Instances that did not become ready, or that ended before their first answer.
    pub failed_starts: u64,
    /// Instances that were replaced by fresh ones.
    pub replaced: Replaced,
    /// Instances that were ended because a request took longer than `max_request_time`.
    pub stuck: u64,
    /// Instances that were told to end and did, for whatever reason, and what became of their requests.
    pub stopped: Stopped,
    /// The parent of its instances, if it has `preload`.
    pub zygote: Option<ZygoteStatus>,
    /// What of its sandbox was in force for the last instance that was executed, if it has one.
    pub sandbox: Option<SandboxBounds>,
    /// Its settings.
    pub spec: Arc<ServiceSpec>,
}

/// What the zygote of a service is doing, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZygoteStatus {
    /// Its state.
    pub state: ZygoteState,
    /// Its process, once it is executed.
    pub pid: Option<i32>,
    /// Why the last one was of no use.
    pub reason: Option<String>,
}

/// The state of a zygote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZygoteState {
    /// There is none; the next start of an instance begins with one.
    #[default]
    Stopped,
    /// It imports.
    Starting,
    /// Instances are forked from it.
    Ready,
    /// It is of no use (see the reason): instances are started in the ordinary way.
    GivenUp,
}

impl ZygoteState {
    /// Its name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::GivenUp => "given up",
        }
    }
}

/// Instances that were replaced by fresh ones, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// `max_requests`.
    pub requests: u64,
    /// `max_age`.
    pub age: u64,
    /// `max_memory`.
    pub memory: u64,
    /// People asked for it.
    pub asked: u64,
}

/// What became of instances that were told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// How many.
    pub instances: u64,
    /// Requests that were in flight and came to their end.
    pub finished: u64,
    /// Requests that were still in flight when it got SIGTERM, after `drain_timeout`, or ended by itself.
    pub cut: u64,
    /// Instances that did not end by SIGTERM within `stop_grace`.
    pub killed: u64,
}

/// What an instance is doing, for people.
#[derive(Clone, Debug)]
pub struct InstanceStatus {
    /// Its number, counted from 1 for each service.
    pub number: u64,
    /// Its process, once it is executed.
    pub pid: Option<i32>,
    /// Its state.
    pub state: InstanceState,
    /// When its start was begun.
    pub begun: Instant,
    pub(crate) counters: Vec<Arc<InFlightCounter>>,
}

impl InstanceStatus {
    /// Exchanges that it is busy with at this moment.
    #[must_use]
    pub fn open_exchanges(&self) -> u64 {
        self.counters.iter().map(|counter| counter.open()).sum()
    }

    /// Exchanges that it was ever given.
    #[must_use]
    pub fn begun_exchanges(&self) -> u64 {
        self.counters.iter().map(|counter| counter.begun()).sum()
    }
}

/// The state of a service. Stopped is healthy: the next request starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// No instance takes exchanges; the next request starts one.
    Stopped,
    /// An instance is starting.
    Starting,
    /// An instance takes exchanges.
    Ready,
    /// All that would take exchanges are frozen; the next request thaws one.
    Frozen,
}

impl ServiceState {
    /// Its name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Frozen => "frozen",
        }
    }
}

impl Service {
    pub(crate) fn new(id: usize, spec: &Arc<ServiceSpec>, workers: usize, notices: UnboundedSender<Notice>) -> Self {
        let name = spec.name.as_str().into();
        let waiting = Arc::new(WaitingLimit::new(&name, spec.queue));
        let queue = Queue::new(id, spec, Arc::clone(&waiting), notices);
        Self {
            id: ServiceId(id),
            name,
            slots: (0..workers).map(|_| Padded::default()).collect(),
            queue: Arc::new(queue),
            waiting,
            max_request_time_ms: AtomicU64::new(millis(spec.max_request_time)),
            is_limited: AtomicBool::new(spec.concurrency.is_some()),
            status: Mutex::new(Status {
                state: ServiceState::Stopped,
                instance: 0,
                pid: None,
                instances: Vec::new(),
                failures: 0,
                last_error: None,
                circuit: CircuitState::Closed,
                next_attempt: None,
                starts: 0,
                failed_starts: 0,
                replaced: Replaced::default(),
                stuck: 0,
                stopped: Stopped::default(),
                zygote: spec.zygote().map(|_| ZygoteStatus::default()),
                sandbox: None,
                spec: Arc::clone(spec),
            }),
            dropped_lines: Arc::default(),
        }
    }

    /// Its place in the list given to [`start`](crate::start).
    #[must_use]
    pub fn id(&self) -> ServiceId {
        self.id
    }

    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How long a request may be without an answer before its instance counts as stuck; see
    /// [`Instance::report_stuck`](crate::Instance::report_stuck).
    #[must_use]
    pub fn max_request_time(&self) -> Option<Duration> {
        let limit_ms = self.max_request_time_ms.load(Ordering::Relaxed);
        (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
    }

    /// How many requests wait: for an instance, or in a [`Waiting`] for something of one that they have.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// Requests that were refused, since the gateway started.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.waiting.refused_requests()
    }

    /// Counts a request that has an instance and waits for something else: a place in the backlog of its socket, room
    /// on its connections. `queue.max` bounds them together with those that wait for an instance.
    ///
    /// # Errors
    /// As many wait already as may.
    pub fn wait(&self) -> Result<Waiting, StartError> {
        self.waiting.join().ok_or_else(|| self.waiting.full())
    }

    /// Counts an exchange with a ready instance that has room, if there is one and nobody waits. The hot path: no lock,
    /// and no atomic that another worker writes to, but where `concurrency` is limited: there it is one counter for
    /// each instance. `None` for a worker that does not exist.
    #[must_use]
    pub fn enter(&self, worker: usize) -> Option<Lease> {
        let slot = &self.slots.get(worker)?.0;
        if self.is_limited.load(Ordering::Relaxed) {
            self.enter_limited(&slot.all)
        } else {
            slot.first.load_full()?.enter()
        }
    }

    #[inline(never)] // so that it costs the others nothing
    fn enter_limited(&self, counters: &ArcSwapOption<Box<[Arc<InFlightCounter>]>>) -> Option<Lease> {
        let counters = counters.load();
        let counters = counters.as_deref()?;
        if self.queue.waiting() > 0 {
            return None; // they were here before
        }
        let lease = pick(&counters.iter())?;
        self.queue.taken(counters.iter());
        Some(lease)
    }

    /// Counts an exchange with a ready instance that has room, started now if need be. Concurrent callers share starts.
    /// Waits among at most `queue.max` others and for at most `queue.timeout`.
    ///
    /// # Errors
    /// No instance was free in time, the start failed, is not tried because of earlier failures, or the supervisor is
    /// stopping.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its time enabled.
    ///
    /// # Cancel safety
    /// The place in the queue is free again, and the exchange is not counted. A start that has begun goes on.
    pub async fn ready(&self, worker: usize) -> Result<Lease, StartError> {
        let mut place = match self.queue.join(worker) {
            Joined::Entered(lease) => return Ok(lease),
            Joined::Waiting(place) => place,
            Joined::Full => return Err(self.waiting.full()),
            Joined::Closed => return Err(self.stopping()),
        };
        self.waiting.within("no instance was free", &mut place.answer).await?.unwrap_or_else(|_| Err(self.stopping()))
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status_mut().clone()
    }

    /// Lines of output that were dropped because the log's queue was full.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.dropped_lines.load(Ordering::Relaxed)
    }

    pub(crate) fn status_mut(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the counters of a ready instance in place, instead of those of another if there is one to go; leases
    /// already given stay counted. Those who wait enter.
    pub(crate) fn change(&self, add: Option<&[Arc<InFlightCounter>]>, remove: Option<u64>) {
        self.queue.change(add.map(Arc::from), remove, |ready| {
            for (worker, Padded(slot)) in self.slots.iter().enumerate() {
                let mut counters = ready.iter().filter_map(|counters| counters.get(worker).cloned());
                if self.is_limited.load(Ordering::Relaxed) {
                    let all: Box<[_]> = counters.collect();
                    slot.all.store(Some(Arc::new(all)));
                } else {
                    slot.first.store(counters.next());
                }
            }
        });
    }

    /// Follows other settings. Instances that were started before keep their places until they are replaced.
    pub(crate) fn configure(&self, spec: &ServiceSpec) {
        self.max_request_time_ms.store(millis(spec.max_request_time), Ordering::Relaxed);
        self.waiting.configure(spec.queue);
        self.queue.configure(spec);
        if self.is_limited.swap(spec.concurrency.is_some(), Ordering::Relaxed) != spec.concurrency.is_some() {
            self.change(None, None); // into the other kind of slot
            for Padded(slot) in &self.slots {
                if spec.concurrency.is_some() { slot.first.store(None) } else { slot.all.store(None) }
            }
        }
    }

    fn stopping(&self) -> StartError {
        StartError::new(&self.name, Phase::Stopping, "the gateway is stopping", Instant::now())
            .retry_after(Duration::from_secs(1))
    }
}

/// 0 for none; a limit below a millisecond is one.
fn millis(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1))
}
