//! What the supervisor's thread knows of an instance.

use super::timers::{Timer, Timers};
use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::error::Exit;
use crate::in_flight::InFlightCounter;
use crate::instance::{Endpoint, Instance, InstanceState};
use crate::listener::Listener;
use crate::log::Tail;
use crate::policy::recycle::{LimitReached, RecycleLimits};
use crate::queue::Entrances;
use crate::start_times::StartTimes;
use crate::status::InstanceStatus;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::AbortHandle;

/// An instance as the supervisor sees it.
#[derive(Debug)]
pub(super) struct InstanceRecord {
    pub(super) service: usize,
    /// What workers hold of it.
    pub(super) handle: Arc<Instance>,
    /// The release that it runs.
    pub(super) release: Option<Arc<str>>,
    pub(super) entrances: Entrances,
    pub(super) stage: Stage,
    pub(super) deadline: Option<Instant>,
    pub(super) begun: Instant,
    pub(super) spawned_at: Option<Instant>,
    pub(super) connected_at: Option<Instant>,
    pub(super) ready_at: Option<Instant>,
    /// When its start was over.
    pub(super) settled_at: Option<Instant>,
    pub(super) pid: Option<i32>,
    pub(super) runtime: RuntimeKind,
    pub(super) container: Option<Arc<str>>,
    /// Its container goes on when it ends here.
    pub(super) is_left: bool,
    /// What its start waits for.
    pub(super) waits_for: Option<String>,
    /// The user that it was started with, if not the gateway's.
    pub(super) uid: Option<u32>,
    pub(super) token: Option<String>,
    /// A variable in the environment of it and of all that it starts: the guardian knows them by that.
    pub(super) mark: String,
    pub(super) listener: Option<Listener>,
    pub(super) tail: Arc<Tail>,
    pub(super) outputs_open: u8,
    pub(super) exit: Option<Exit>,
    /// The limit that it reached, if that ended it.
    pub(super) limit: Option<String>,
    /// It ends because it was asked to.
    pub(super) stop_asked: bool,
    /// Its start has been reported as failed.
    pub(super) failed: bool,
    /// Whether it was seen to accept connections; true where the system does not show that.
    pub(super) accepts: bool,
    /// Whether its start is over, so that it can no longer fail.
    pub(super) start_over: bool,
    /// Requests in flight when it was told to end.
    pub(super) in_flight_at_stop: u64,
    /// Requests still in flight when it got SIGTERM, or SIGKILL without a SIGTERM before.
    pub(super) cut: u64,
    /// It got SIGKILL.
    pub(super) killed: bool,
    pub(super) drain_sent: bool,
    /// When its time to drain is over.
    pub(super) drain_until: Option<Instant>,
    /// Shared connections of each worker.
    pub(super) links: Vec<u32>,
    /// When a shared connection was last asked for, for each worker.
    pub(super) asked: Vec<Option<Instant>>,
    /// The worker that gets the first connection.
    pub(super) first_worker: usize,
    pub(super) probe: Option<AbortHandle>,
    /// Its limits, with their jitter.
    pub(super) recycle_limits: RecycleLimits,
    /// Bytes of its processes, when they were last looked at.
    pub(super) memory: u64,
    /// Bytes that it counted for in its group when it was started.
    pub(super) group_memory: u64,
    /// Somebody asked for its replacement.
    pub(super) replace_asked: bool,
    /// `ServiceRecord::version` when it was started.
    pub(super) version: u64,
    /// The instance whose place it is to take.
    pub(super) replaces: Option<u64>,
    /// The limit that the instance it replaces had reached, if that is why.
    pub(super) limit_reached: Option<LimitReached>,
    pub(super) frozen: Frozen,
    /// When it was last thawed.
    pub(super) thawed_at: Option<Instant>,
}

/// What runs an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuntimeKind {
    /// The guardian.
    Process,
    /// The engine of containers.
    Container,
}

/// Whether the processes of an instance are stopped (SIGSTOP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frozen {
    No,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The guardian was asked.
    Spawning,
    /// It runs and is not ready.
    Starting,
    /// It could be ready, and is asked whether it is healthy first.
    Examining,
    /// It takes exchanges.
    Ready,
    /// It takes no more exchanges.
    Draining,
    /// It got SIGTERM, or will as soon as it is spawned.
    Terminating,
    /// It got SIGKILL.
    Killing,
    /// It has exited; its output may still be read.
    Exited,
}

impl InstanceRecord {
    /// An instance that the guardian has been asked for, on behalf of a worker.
    pub(super) fn new(handle: Arc<Instance>, entrances: Entrances, first_worker: usize, begun: Instant) -> Self {
        let workers = entrances.len();
        Self {
            service: handle.service().0,
            entrances,
            handle,
            release: None,
            stage: Stage::Spawning,
            deadline: None,
            begun,
            spawned_at: None,
            connected_at: None,
            ready_at: None,
            settled_at: None,
            pid: None,
            runtime: RuntimeKind::Process,
            container: None,
            is_left: false,
            waits_for: None,
            uid: None,
            token: None,
            mark: String::new(),
            listener: None,
            tail: Arc::default(),
            outputs_open: 2,
            exit: None,
            limit: None,
            stop_asked: false,
            failed: false,
            accepts: true,
            start_over: false,
            in_flight_at_stop: 0,
            cut: 0,
            killed: false,
            drain_sent: false,
            drain_until: None,
            links: vec![0; workers],
            asked: vec![None; workers],
            first_worker: first_worker.min(workers - 1),
            probe: None,
            recycle_limits: RecycleLimits::default(),
            memory: 0,
            group_memory: 0,
            replace_asked: false,
            version: 0,
            replaces: None,
            limit_reached: None,
            frozen: Frozen::No,
            thawed_at: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.handle.id
    }

    pub(super) fn is_pipe(&self) -> bool {
        *self.handle.endpoint() == Endpoint::Pipe
    }

    pub(super) fn status(&self) -> InstanceStatus {
        let state = match self.stage {
            Stage::Spawning | Stage::Starting | Stage::Examining => InstanceState::Starting,
            Stage::Ready if !self.accepts => InstanceState::Starting,
            Stage::Ready if self.frozen == Frozen::Yes => InstanceState::Frozen,
            Stage::Ready => InstanceState::Ready,
            Stage::Draining | Stage::Terminating | Stage::Killing => InstanceState::Draining,
            Stage::Exited => InstanceState::Ended,
        };
        let (number, pid, begun) = (self.handle.number(), self.pid, self.begun);
        let (release, container) = (self.release.clone(), self.container.clone());
        let waits_for = self.waits_for.clone().filter(|_| state == InstanceState::Starting);
        InstanceStatus {
            number,
            pid,
            container,
            listens_at: self.handle.moved_to(),
            waits_for,
            state,
            begun,
            release,
            entrances: Arc::clone(&self.entrances),
        }
    }

    /// When it reached the steps of its start, `ready` being the last.
    pub(super) fn start_times(&self, ready: Instant) -> StartTimes {
        let spawned = self.spawned_at.unwrap_or(ready);
        // An inherited socket takes connections from the moment on at which there is somebody to accept them.
        let connected = self.connected_at.unwrap_or(spawned);
        StartTimes { asked: self.begun, spawned, connected, ready }
    }

    /// Its count of exchanges, for each worker.
    pub(super) fn counters(&self) -> impl Iterator<Item = &InFlightCounter> {
        self.entrances.iter().map(|entrance| &entrance.counter)
    }

    pub(super) fn open_exchanges(&self) -> u64 {
        self.counters().map(InFlightCounter::open).sum()
    }

    /// How many exchanges it has been given.
    pub(super) fn begun_exchanges(&self) -> u64 {
        self.counters().map(InFlightCounter::begun).sum()
    }

    /// The places that its exchanges take, if they are limited.
    pub(super) fn limiter(&self) -> Option<&ConcurrencyLimiter> {
        self.counters().next().and_then(InFlightCounter::limiter)
    }

    pub(super) fn last_use(&self) -> Instant {
        let ready_at = self.thawed_at.or(self.ready_at).unwrap_or(self.begun);
        self.counters().map(InFlightCounter::last_use).fold(ready_at, Instant::max)
    }

    pub(super) fn enter_stage(&mut self, stage: Stage, deadline: Option<Instant>, timers: &mut Timers) {
        self.stage = stage;
        self.set_deadline(deadline, timers);
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>, timers: &mut Timers) {
        timers.set(Timer::Instance(self.id()), &mut self.deadline, deadline);
    }

    /// The limit that it reached, as an addition to the message about its end.
    pub(super) fn limit_said(&self) -> String {
        self.limit.as_ref().map(|limit| format!("; {limit}")).unwrap_or_default()
    }

    pub(super) fn stop_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            probe.abort();
        }
    }
}

/// Who wants a drain: to the service's own DRAIN the gateway's is the answer when its exchanges are done (P-32).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AskedBy {
    Gateway,
    Service,
}
