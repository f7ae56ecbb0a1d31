//! What services and instances are doing, for people.

use crate::error::StartError;
use crate::instance::InstanceState;
use crate::isolation::SandboxBounds;
use crate::policy::circuit::CircuitState;
use crate::queue::Entrances;
use crate::spec::ServiceSpec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

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
    /// Instances in a row that failed to start or ended early.
    pub failures: u32,
    /// Why the last instance failed to start or ended by itself, if it did.
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
    /// Releases that were tried.
    pub deploys: Deploys,
    /// Instances that were ended because a request took longer than `max_request_time`.
    pub stuck: u64,
    /// Instances that were told to end and did, for whatever reason, and what became of their requests.
    pub stopped: Stopped,
    /// Invocations that failed, as the function says, if it is one of AWS Lambda.
    pub function_errors: FunctionErrors,
    /// The parent of its instances, if it has `preload`.
    pub zygote: Option<ZygoteStatus>,
    /// Instances that made room for another service of its group.
    pub made_room: u64,
    /// What of its sandbox was in force for the last instance that was executed, if it has one.
    pub sandbox: Option<SandboxBounds>,
    /// Its settings.
    pub spec: Arc<ServiceSpec>,
}

impl Status {
    pub(crate) fn new(spec: &Arc<ServiceSpec>) -> Self {
        Self {
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
            deploys: Deploys::default(),
            stuck: 0,
            stopped: Stopped::default(),
            function_errors: FunctionErrors::default(),
            zygote: spec.zygote().map(|_| ZygoteStatus::default()),
            made_room: 0,
            sandbox: None,
            spec: Arc::clone(spec),
        }
    }
}

impl Status {
    /// Whether there are as many ready instances as there may be, and each has as many requests as it may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Some(concurrency) = self.spec.concurrency else { return false };
        let ready = self.instances.iter().filter(|instance| instance.state == InstanceState::Ready);
        let busy = ready.filter(|instance| instance.open_exchanges() >= u64::from(concurrency)).count();
        busy >= self.spec.max_instances as usize
    }
}

/// Invocations of a function that failed, as it says itself, since the gateway started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionErrors {
    /// How many.
    pub count: u64,
    /// What the last one said, and when.
    pub last: Option<(String, Instant)>,
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

/// Releases that were tried since the gateway started, by what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deploys {
    /// They became the current one.
    pub used: u64,
    /// They did not start, or were not healthy.
    pub refused: u64,
    /// They were not tried to the end, or could not be made the current one.
    pub abandoned: u64,
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
    /// Its container's number, if it runs in one.
    pub container: Option<Arc<str>>,
    /// Where it listens, if that is not where it was told to
    /// ([`ServiceSpec::other_port`](crate::ServiceSpec::other_port)).
    pub listens_at: Option<SocketAddr>,
    /// What its start waits for, as what follows "it", if that is known.
    pub waits_for: Option<String>,
    /// Its state.
    pub state: InstanceState,
    /// When its start was begun.
    pub begun: Instant,
    /// The release that it runs, of a service that has releases.
    pub release: Option<Arc<str>>,
    pub(crate) entrances: Entrances,
}

impl InstanceStatus {
    /// Exchanges that it is busy with at this moment.
    #[must_use]
    pub fn open_exchanges(&self) -> u64 {
        self.entrances.iter().map(|entrance| entrance.counter.open()).sum()
    }

    /// Exchanges that it was ever given.
    #[must_use]
    pub fn begun_exchanges(&self) -> u64 {
        self.entrances.iter().map(|entrance| entrance.counter.begun()).sum()
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
