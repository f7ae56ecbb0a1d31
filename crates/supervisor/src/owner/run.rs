//! What is known of a service, and of each of its runs. A run is an instance as the supervisor sees it.

use super::bounds::Said;
use super::timers::{Timer, Timers};
use crate::error::{Exit, StartError};
use crate::instance::{Endpoint, Instance};
use crate::listener::Listener;
use crate::log::Tail;
use crate::policy::backoff::Backoff;
use crate::seat::Seat;
use crate::service::{Request, Service, ServiceState};
use crate::spec::{HttpSocket, ServiceSpec, Transport};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::AbortHandle;

/// A service.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) service: Arc<Service>,
    pub(super) spec: ServiceSpec,
    pub(super) backoff: Backoff,
    /// Callers that wait for `current` to be ready.
    pub(super) waiters: Vec<Request>,
    /// The run that is starting or ready, if there is one.
    pub(super) current: Option<u64>,
    pub(super) last_number: u64,
    pub(super) last_failure: Option<StartError>,
    /// When a service that always runs is started again.
    pub(super) restart: Option<Instant>,
    /// What has been said about its bounds.
    pub(super) said: Said,
}

impl Record {
    pub(crate) fn new(service: Arc<Service>, spec: ServiceSpec) -> Self {
        Self {
            service,
            spec,
            backoff: Backoff::default(),
            waiters: Vec::new(),
            current: None,
            last_number: 0,
            last_failure: None,
            restart: None,
            said: Said::default(),
        }
    }

    pub(crate) fn service(&self) -> Arc<Service> {
        Arc::clone(&self.service)
    }

    /// Tells everybody who waits.
    pub(super) fn fail_waiters(&mut self, error: &StartError) {
        for waiter in self.waiters.drain(..) {
            // A caller that has gone away needs no answer.
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    /// Shows the state to whoever asks.
    pub(super) fn publish(&self, current: Option<&Run>) {
        let mut status = self.service.status_mut();
        status.state = match current {
            Some(run) if run.stage == Stage::Ready => ServiceState::Ready,
            Some(_) => ServiceState::Starting,
            None => ServiceState::Stopped,
        };
        status.instance = self.last_number;
        status.pid = current.and_then(|run| run.pid);
        status.failures = self.backoff.failures();
        status.last_error.clone_from(&self.last_failure);
    }
}

/// An instance as the supervisor sees it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) service: usize,
    pub(super) instance: Arc<Instance>,
    pub(super) seats: Vec<Arc<Seat>>,
    pub(super) stage: Stage,
    pub(super) deadline: Option<Instant>,
    pub(super) begun: Instant,
    pub(super) ready_at: Option<Instant>,
    pub(super) pid: Option<i32>,
    pub(super) token: Option<String>,
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
    /// Whether it can fail to start no more.
    pub(super) start_over: bool,
    pub(super) drain_sent: bool,
    /// Shared connections of each worker.
    pub(super) links: Vec<u32>,
    /// When a shared connection was last asked for, for each worker.
    pub(super) asked: Vec<Option<Instant>>,
    /// The worker that gets the first connection.
    pub(super) first_worker: usize,
    pub(super) probe: Option<AbortHandle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The guardian was asked.
    Spawning,
    /// It runs and is not ready.
    Starting,
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

impl Run {
    /// A run that the guardian has been asked for, on behalf of the first worker of so many.
    pub(super) fn new(
        (instance, begun): (Arc<Instance>, Instant),
        (first_worker, workers): (usize, usize),
        token: Option<String>,
        listener: Option<Listener>,
        tail: Arc<Tail>,
    ) -> Self {
        Self {
            service: instance.service().0,
            seats: (0..workers).map(|worker| Arc::new(Seat::new(Arc::clone(&instance), worker))).collect(),
            instance,
            stage: Stage::Spawning,
            deadline: None,
            begun,
            ready_at: None,
            pid: None,
            token,
            listener,
            tail,
            outputs_open: 2,
            exit: None,
            limit: None,
            stop_asked: false,
            failed: false,
            start_over: false,
            drain_sent: false,
            links: vec![0; workers],
            asked: vec![None; workers],
            first_worker: first_worker.min(workers - 1),
            probe: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.instance.run
    }

    pub(super) fn is_pipe(&self) -> bool {
        *self.instance.endpoint() == Endpoint::Pipe
    }

    pub(super) fn open_exchanges(&self) -> u64 {
        self.seats.iter().map(|seat| seat.open()).sum()
    }

    pub(super) fn last_use(&self) -> Instant {
        let ready_at = self.ready_at.unwrap_or(self.begun);
        self.seats.iter().map(|seat| seat.last_use()).fold(ready_at, Instant::max)
    }

    pub(super) fn enter_stage(&mut self, stage: Stage, deadline: Option<Instant>, timers: &mut Timers) {
        self.stage = stage;
        self.set_deadline(deadline, timers);
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>, timers: &mut Timers) {
        timers.set(Timer::Run(self.id()), &mut self.deadline, deadline);
    }

    /// To be added to what is said about its end.
    pub(super) fn limit_said(&self) -> String {
        self.limit.as_ref().map(|limit| format!("; {limit}")).unwrap_or_default()
    }

    pub(super) fn stop_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            probe.abort();
        }
    }
}

/// Whether the service listens by itself.
pub(super) fn uses_port(transport: Transport) -> bool {
    transport == Transport::Http(HttpSocket::Port)
}
