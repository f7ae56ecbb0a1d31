//! A service, as workers see it.

use crate::error::{Phase, StartError};
use crate::instance::InstanceState;
use crate::seat::{Lease, Padded, Seat};
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// A service's place in the list given to [`start`](crate::start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(pub usize);

/// A service, shared by all workers.
#[derive(Debug)]
pub struct Service {
    id: ServiceId,
    name: Arc<str>,
    slots: Box<[Padded<ArcSwapOption<Seat>>]>,
    requests: mpsc::Sender<Request>,
    status: Mutex<Status>,
    dropped_lines: AtomicU64,
}

/// A worker asks for a ready instance.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) service: usize,
    pub(crate) worker: usize,
    pub(crate) reply: oneshot::Sender<Result<Lease, StartError>>,
}

/// What a service is doing, for people.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its state.
    pub state: ServiceState,
    /// The number of its current, or last, instance; 0 before the first.
    pub instance: u64,
    /// Process id of the current instance.
    pub pid: Option<i32>,
    /// Failed or short runs in a row.
    pub failures: u32,
    /// Why the last start or run failed, if it did.
    pub last_error: Option<StartError>,
    /// Instances that became ready since the gateway started.
    pub starts: u64,
    /// Its instances that are starting or take exchanges.
    pub instances: Vec<InstanceStatus>,
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
    pub(crate) seats: Vec<Arc<Seat>>,
}

impl InstanceStatus {
    /// Exchanges that it is busy with at this moment.
    #[must_use]
    pub fn open_exchanges(&self) -> u64 {
        self.seats.iter().map(|seat| seat.open()).sum()
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
}

impl ServiceState {
    /// Its name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Ready => "ready",
        }
    }
}

impl Service {
    pub(crate) fn new(id: usize, name: Arc<str>, workers: usize, requests: mpsc::Sender<Request>) -> Self {
        Self {
            id: ServiceId(id),
            name,
            slots: (0..workers).map(|_| Padded::default()).collect(),
            requests,
            status: Mutex::new(Status {
                state: ServiceState::Stopped,
                instance: 0,
                pid: None,
                failures: 0,
                last_error: None,
                starts: 0,
                instances: Vec::new(),
            }),
            dropped_lines: AtomicU64::new(0),
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

    /// Counts an exchange with the ready instance, if there is one. The hot path: no lock, and no atomic that another
    /// worker writes to. `None` for a worker that does not exist.
    #[must_use]
    pub fn enter(&self, worker: usize) -> Option<Lease> {
        self.slots.get(worker)?.0.load_full()?.enter()
    }

    /// Counts an exchange with the ready instance, started now if there is none. Concurrent callers share one start.
    ///
    /// # Errors
    /// The start failed, is not tried because of earlier failures, or the supervisor is stopping.
    ///
    /// # Cancel safety
    /// The start goes on; the exchange is not counted.
    pub async fn ready(&self, worker: usize) -> Result<Lease, StartError> {
        if let Some(lease) = self.enter(worker) {
            return Ok(lease);
        }
        let (reply, answer) = oneshot::channel();
        let request = Request { service: self.id.0, worker, reply };
        if self.requests.send(request).await.is_err() {
            return Err(self.stopping());
        }
        answer.await.unwrap_or_else(|_| Err(self.stopping()))
    }

    /// Pipe: this worker has no shared connection to the ready instance; one is asked for and comes as
    /// [`WorkerEvent::Connected`](crate::WorkerEvent::Connected). Does nothing if there is no ready instance, or if one was
    /// asked for less than [`HELLO_TIMEOUT`](crate::limits::HELLO_TIMEOUT) ago.
    pub fn want_shared(&self, worker: usize) {
        if let Some(seat) = self.slots.get(worker).and_then(|slot| slot.0.load_full()) {
            seat.want_shared();
        }
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

    pub(crate) fn count_dropped_line(&self) {
        self.dropped_lines.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn status_mut(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the workers' seats of a ready instance in place.
    pub(crate) fn open(&self, seats: &[Arc<Seat>]) {
        for (slot, seat) in self.slots.iter().zip(seats) {
            slot.0.store(Some(Arc::clone(seat)));
        }
    }

    /// Takes the seats away. Leases already given stay counted.
    pub(crate) fn close(&self) {
        for slot in &self.slots {
            slot.0.store(None);
        }
    }

    fn stopping(&self) -> StartError {
        StartError::new(&self.name, Phase::Stopping, "the gateway is stopping", Instant::now())
            .retry_after(Duration::from_secs(1))
    }
}
