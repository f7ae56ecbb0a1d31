//! A service, as workers see it.

use crate::error::{Phase, StartError};
use crate::log::{ErrorLog, LogLine};
use crate::notice::Notice;
use crate::padded::Padded;
use crate::queue::{Entrance, Entrances, Joined, Lease, Queue, pick};
use crate::service_id::ServiceId;
use crate::spec::ServiceSpec;
use crate::status::Status;
use crate::waiting::{Refused, Waiting, WaitingLimit};
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedSender};

/// A service, shared by all workers.
#[derive(Debug)]
pub struct Service {
    id: ServiceId,
    name: Arc<str>,
    /// For each worker its entrances to the ready instances.
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
    /// Requests that were given to another service because this one had no room.
    given_away: [AtomicU64; 2],
    /// Where lines of its output go.
    log: mpsc::Sender<LogLine>,
}

/// Why a request was given to another service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenAway {
    /// There were as many instances as there may be, and each had as many requests as it may.
    Full,
    /// Too many requests waited.
    Queue,
}

/// One worker's entrances to the ready instances. The first has a place of its own, because for most services it is the
/// only one, and two pointers are more than one.
#[derive(Debug, Default)]
struct Slot {
    first: ArcSwapOption<Entrance>,
    /// All of them, oldest first, if their requests are limited.
    all: ArcSwapOption<Box<[Arc<Entrance>]>>,
}

impl Service {
    pub(crate) fn new(
        id: usize,
        spec: &Arc<ServiceSpec>,
        workers: usize,
        notices: UnboundedSender<Notice>,
        log: mpsc::Sender<LogLine>,
    ) -> Self {
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
            status: Mutex::new(Status::new(spec)),
            dropped_lines: Arc::default(),
            given_away: Default::default(),
            log,
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

    /// How many requests wait: for an instance, or in a [`Waiting`] for a connection to the instance that they have.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// Why no instance is started for those who wait, if the group of the service has no room for one.
    #[must_use]
    pub fn held_back(&self) -> Option<Arc<str>> {
        self.waiting.held_back()
    }

    /// Whether there are as many ready instances as there may be, and each has as many requests as it may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.status_mut().is_full()
    }

    /// A request was given to another service.
    pub fn count_given_away(&self, why: GivenAway) {
        self.given_away[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were, since the gateway started.
    #[must_use]
    pub fn given_away(&self, why: GivenAway) -> u64 {
        self.given_away[why as usize].load(Ordering::Relaxed)
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
    /// `queue.max` requests wait already.
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
    fn enter_limited(&self, entrances: &ArcSwapOption<Box<[Arc<Entrance>]>>) -> Option<Lease> {
        let entrances = entrances.load();
        let entrances = entrances.as_deref()?;
        if self.queue.waiting() > 0 {
            return None; // they were here before
        }
        let lease = pick(&entrances.iter())?;
        self.queue.taken(entrances.iter());
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

    /// A log for what an instance writes to standard error by way of its protocol.
    #[must_use]
    pub fn error_log(&self, instance: u64) -> ErrorLog {
        ErrorLog::new(Arc::clone(&self.name), instance, Arc::clone(&self.dropped_lines), self.log.clone())
    }

    /// A function of AWS Lambda failed, and said why.
    pub fn report_function_error(&self, why: &str) {
        let functions = &mut self.status_mut().function_errors;
        functions.count += 1;
        functions.last = Some((why.to_owned(), Instant::now()));
    }

    /// Lines of output that were dropped because the log's queue was full.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.dropped_lines.load(Ordering::Relaxed)
    }

    pub(crate) fn status_mut(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the entrances of a ready instance in place, instead of those of another if there is one to go; leases
    /// already given stay counted. Those who wait enter.
    pub(crate) fn change(&self, add: Option<&Entrances>, remove: Option<u64>) {
        self.queue.change(add.cloned(), remove, |ready| {
            for (worker, Padded(slot)) in self.slots.iter().enumerate() {
                let mut entrances = ready.iter().filter_map(|entrances| entrances.get(worker).cloned());
                if self.is_limited.load(Ordering::Relaxed) {
                    let all: Box<[_]> = entrances.collect();
                    slot.all.store(Some(Arc::new(all)));
                } else {
                    slot.first.store(entrances.next());
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
