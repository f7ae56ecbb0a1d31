//! What a service is and how it is run: the settings of this crate.

mod container;

pub use container::{ContainerOptions, ContainerSource, ContainerSpec, ImageSpec, Pull};

use crate::group::GroupShare;
use crate::isolation::{Isolation, Sandbox};
use crate::log::LogLine;
use crate::policy::recycle::RecycleLimits;
use crate::waiting::QueueLimits;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

const DAY: u64 = 24 * 3600;

/// Settings of the supervisor.
#[derive(Debug)]
pub struct SupervisorOptions {
    /// Worker threads of the gateway, at least 1; they are numbered from 0.
    pub workers: usize,
    /// Folder of `pipe.sock` and the sockets of services; created with mode 0700, locked while in use. Its path must
    /// leave room for a file name within 107 bytes.
    pub runtime_dir: PathBuf,
    /// What runs [`guardian::main`](crate::guardian::main); usually this very binary with a hidden argument.
    pub guardian: Program,
    /// Where lines of services' output go. When it is full, lines are dropped and counted in the next one that fits.
    /// [`MAX_LOG_LINES`](crate::limits::MAX_LOG_LINES) is a good size.
    pub log: mpsc::Sender<LogLine>,
    /// The engine of containers; asked for nothing unless a service is one.
    pub containers: ContainerOptions,
}

/// A program and how it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// What follows its name.
    pub arguments: Vec<OsString>,
}

/// Settings of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Name for people; unique.
    pub name: String,
    /// Program (looked up in `PATH` if it has no slash) and arguments.
    pub argv: Vec<OsString>,
    /// The container that it runs in; then there is no program. Default `None`: it is a process.
    pub container: Option<Box<ContainerSpec>>,
    /// Working directory; the gateway's if none.
    pub dir: Option<PathBuf>,
    /// Environment on top of what is inherited.
    pub env: Vec<(String, String)>,
    /// What of the gateway's environment it inherits. Default `None`: everything, and little in a sandbox or under
    /// another user.
    pub inherit_env: Option<InheritEnv>,
    /// How the service is spoken to.
    pub transport: Transport,
    /// A Python program's instances are forked from a parent that has imported this, unless `isolation` asks for
    /// anything. Default `None`.
    pub preload: Option<Preload>,
    /// In which order an instance is replaced. Default [`RestartOrder::StartFirst`].
    pub restart: RestartOrder,
    /// What becomes of it if it listens elsewhere than on its `PORT`. Default [`OtherPort::Named`].
    pub other_port: OtherPort,
    /// Whether requests are given to an instance that does not accept yet. Default [`EarlyRequests::Given`].
    pub early_requests: EarlyRequests,
    /// Whether it runs without being asked for.
    pub min_instances: MinInstances,
    /// How long a start may take. Default 10 s.
    pub start_timeout: Duration,
    /// Stop after this time without an exchange; `None` never. Default 15 min.
    pub idle_timeout: Option<Duration>,
    /// Freeze an instance (SIGSTOP) after this time without an exchange, until it gets the next; `None` never. Default
    /// `None`.
    pub freeze_after: Option<Duration>,
    /// How long open exchanges may go on when the instance is stopped. Default 30 s.
    pub drain_timeout: Duration,
    /// How long the process group may take after SIGTERM before SIGKILL. Default 10 s.
    pub stop_grace: Duration,
    /// Most instances that take requests; more than 1 only with `concurrency`. Default 1.
    pub max_instances: u32,
    /// Requests of one instance at once; `None`: no limit but its own. Default `None`.
    pub concurrency: Option<u32>,
    /// Whether an instance is ready beyond those that are needed. Default none.
    pub spare: Spare,
    /// The requests that wait for an instance.
    pub queue: QueueLimits,
    /// How long a request waits before another instance is started. Default 100 ms.
    pub scale_up_after: Duration,
    /// How long fewer instances must have been enough before one is stopped. Default 1 min.
    pub scale_down_after: Duration,
    /// When an instance is replaced by a fresh one. Default never.
    pub recycle: RecycleLimits,
    /// How long a request may be without an answer before its instance counts as stuck and is ended. Default `None`:
    /// for ever.
    pub max_request_time: Option<Duration>,
    /// Starts that may fail in a row before requests are refused at once. Default 3.
    pub max_failures: u32,
    /// What it may use of the machine. Default: whatever Pilotlight may.
    pub isolation: Isolation,
    /// The group whose budget it shares with other services. Default `None`.
    pub group: Option<GroupShare>,
    /// The folder of its releases; `dir` is the link to the current one. Default `None`: it has none.
    pub releases: Option<PathBuf>,
    /// Releases that are kept; what makes new ones removes older ones. Default 5.
    pub keep_releases: usize,
    /// What an instance of a new release is asked before it gets requests.
    pub health: HealthCheck,
}

/// The request that an instance of a new release has to answer well before it gets any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query. Default `/`.
    pub target: String,
    /// The host that it names. Default `localhost`.
    pub host: String,
    /// What it has to be answered with. Default [`ExpectedStatus::NoServerError`].
    pub status: ExpectedStatus,
    /// How long the answer may take. Default 5 s.
    pub timeout: Duration,
}

impl HealthCheck {
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);
    /// Values of an [`ExpectedStatus::Exactly`].
    pub const STATUS: RangeInclusive<u16> = 200..=599;
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            target: "/".to_owned(),
            host: "localhost".to_owned(),
            status: ExpectedStatus::NoServerError,
            timeout: Duration::from_secs(5),
        }
    }
}

/// The statuses that count as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedStatus {
    /// Whatever is below 500: nothing is known of what the service answers at that path.
    NoServerError,
    /// 200 to 299.
    Success,
    /// This one.
    Exactly(u16),
}

impl ExpectedStatus {
    /// Whether an answer with this status is a healthy one.
    #[must_use]
    pub fn has(self, status: u16) -> bool {
        match self {
            Self::NoServerError => status < 500,
            Self::Success => (200..300).contains(&status),
            Self::Exactly(expected) => status == expected,
        }
    }
}

impl std::fmt::Display for ExpectedStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoServerError => f.write_str("a status below 500"),
            Self::Success => f.write_str("a status from 200 to 299"),
            Self::Exactly(status) => write!(f, "status {status}"),
        }
    }
}

/// What of the gateway's environment a service inherits. Never: what tells another process about itself
/// (`PILOTLIGHT_SOCKET`, `LISTEN_FDS`, `NOTIFY_SOCKET` and their like).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InheritEnv {
    /// Everything.
    All,
    /// `PATH`, `LANG`, `LC_*`, `TZ` and `HOME`.
    Little,
    /// These as well as that little.
    Named(Vec<String>),
}

impl InheritEnv {
    /// Whether a variable of this name is inherited.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        let is_basic = BASIC.iter().any(|basic| name == *basic) || name.as_encoded_bytes().starts_with(b"LC_");
        match self {
            Self::All => true,
            Self::Little => is_basic,
            Self::Named(more) => is_basic || more.iter().any(|one| name == one.as_str()),
        }
    }
}

/// What every program needs of its environment, and what says nothing about anybody else.
const BASIC: [&str; 4] = ["PATH", "LANG", "TZ", "HOME"];

/// Whether an instance is ready beyond those that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// No.
    None,
    /// One, as long as `max_instances` allows; also when nothing is asked for.
    One,
}

impl ServiceSpec {
    /// Values of `start_timeout`.
    pub const START_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);
    /// Values of `idle_timeout`.
    pub const IDLE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(365 * DAY);
    /// Values of `freeze_after`.
    pub const FREEZE_AFTER: RangeInclusive<Duration> = Self::IDLE_TIMEOUT;
    /// Values of `drain_timeout`.
    pub const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
    /// Values of `stop_grace`.
    pub const STOP_GRACE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
    /// Values of `max_instances`.
    pub const MAX_INSTANCES: RangeInclusive<u32> = 1..=256;
    /// Values of `concurrency`.
    pub const CONCURRENCY: RangeInclusive<u32> = 1..=100_000;
    /// Values of `scale_up_after`.
    pub const SCALE_UP_AFTER: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);
    /// Values of `scale_down_after`.
    pub const SCALE_DOWN_AFTER: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(DAY);
    /// Values of `max_request_time`.
    pub const MAX_REQUEST_TIME: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(DAY);
    /// Values of `max_failures`.
    pub const MAX_FAILURES: RangeInclusive<u32> = 1..=1000;
    /// Values of `keep_releases`.
    pub const KEEP_RELEASES: RangeInclusive<usize> = 1..=1000;

    /// A service with default settings.
    #[must_use]
    pub fn new(name: impl Into<String>, argv: Vec<OsString>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            argv,
            container: None,
            dir: None,
            env: Vec::new(),
            inherit_env: None,
            transport,
            preload: None,
            restart: RestartOrder::StartFirst,
            other_port: OtherPort::Named,
            early_requests: EarlyRequests::Given,
            min_instances: MinInstances::Zero,
            start_timeout: Duration::from_secs(10),
            idle_timeout: Some(Duration::from_secs(15 * 60)),
            freeze_after: None,
            drain_timeout: Duration::from_secs(30),
            stop_grace: Duration::from_secs(10),
            max_instances: 1,
            concurrency: None,
            spare: Spare::None,
            queue: QueueLimits::default(),
            scale_up_after: Duration::from_millis(100),
            scale_down_after: Duration::from_secs(60),
            recycle: RecycleLimits::default(),
            max_request_time: None,
            max_failures: 3,
            isolation: Isolation::default(),
            group: None,
            releases: None,
            keep_releases: 5,
            health: HealthCheck::default(),
        }
    }

    /// What of the gateway's environment it inherits.
    pub(crate) fn inherited(&self) -> InheritEnv {
        let Isolation { user, group, sandbox, .. } = &self.isolation;
        let is_apart = user.is_some() || group.is_some() || *sandbox != Sandbox::None;
        let default = || if is_apart { InheritEnv::Little } else { InheritEnv::All };
        self.inherit_env.clone().unwrap_or_else(default)
    }

    /// What its zygote imports. One that is kept within bounds has none: bounds are set between fork and exec, for each
    /// instance. One of a group has none either: a zygote would stay when its instances make room.
    pub(crate) fn zygote(&self) -> Option<&Preload> {
        self.preload.as_ref().filter(|_| self.isolation.is_none() && self.group.is_none())
    }

    /// Whether instances that were started with `old` must be replaced to follow these settings. What is not named here
    /// reaches a process only at its start.
    #[must_use]
    pub fn needs_new_instances(&self, old: &Self) -> bool {
        let followed = Self {
            restart: self.restart,
            other_port: self.other_port,
            early_requests: self.early_requests,
            min_instances: self.min_instances,
            start_timeout: self.start_timeout,
            idle_timeout: self.idle_timeout,
            freeze_after: self.freeze_after,
            drain_timeout: self.drain_timeout,
            stop_grace: self.stop_grace,
            max_instances: self.max_instances,
            spare: self.spare,
            queue: self.queue,
            scale_up_after: self.scale_up_after,
            scale_down_after: self.scale_down_after,
            max_request_time: self.max_request_time,
            max_failures: self.max_failures,
            keep_releases: self.keep_releases,
            health: self.health.clone(),
            // Instances of a service without a group do not tell when they are idle.
            group: if old.group.is_some() && self.group.is_some() { self.group.clone() } else { old.group.clone() },
            ..old.clone()
        };
        followed != *self
    }
}

/// What the zygote of a service imports. Its command must run Python with the SDK, its transport be the pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    /// Names of modules; may be empty: then only the SDK and the compiled program are shared.
    pub modules: Vec<String>,
    /// When the zygote is started.
    pub at: PreloadAt,
}

/// When a zygote is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadAt {
    /// With the gateway.
    Boot,
    /// With the first instance.
    First,
}

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It dials in and speaks Pipe/1.
    Pipe,
    /// It serves HTTP/1.1.
    Http(HttpSocket),
    /// It serves HTTP/2 with prior knowledge (RFC 9113 §3.3), as servers of gRPC do.
    H2c(HttpSocket),
    /// It serves FastCGI. It inherits its socket as descriptor 0 (`FCGI_LISTENSOCK_FILENO`) as well, and
    /// `FPM_SOCKETS`, by which php-fpm takes it.
    FastCgi(HttpSocket),
    /// It serves SCGI.
    Scgi(HttpSocket),
    /// It serves the protocol of uWSGI.
    Uwsgi(HttpSocket),
    /// It is a function of AWS Lambda: its runtime client asks the Runtime API, which the gateway serves to each
    /// instance on a loopback port of its own ([`WorkerEvent::RuntimeApi`](crate::WorkerEvent::RuntimeApi)).
    Lambda,
    /// It dials in and speaks Pipe/1, as the adapter of a program that speaks lines on its standard streams.
    Stdio,
}

impl Transport {
    /// Where it listens, unless it dials in.
    #[must_use]
    pub fn socket(self) -> Option<HttpSocket> {
        match self {
            Self::Pipe | Self::Lambda | Self::Stdio => None,
            Self::Http(socket)
            | Self::H2c(socket)
            | Self::FastCgi(socket)
            | Self::Scgi(socket)
            | Self::Uwsgi(socket) => Some(socket),
        }
    }
}

/// Where a service listens that does not dial in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpSocket {
    /// On a Unix socket that it inherits as descriptor 3.
    Unix,
    /// On a loopback TCP socket that it inherits as descriptor 3.
    Tcp,
    /// On the loopback port in its environment variable `PORT`: the last resort. Readiness is found by connecting, and
    /// another program may take the port between its choice and the service's `bind`.
    Port,
}

/// In which order an instance is replaced: after a change of its settings, by hand, or because it has reached a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartOrder {
    /// The new one starts, and when it is ready the old one ends: no request waits.
    #[default]
    StartFirst,
    /// The old one ends, then the new one starts: for programs that must be alone. Requests wait meanwhile. No instance
    /// of the service ever starts before another one has ended.
    StopFirst,
}

impl RestartOrder {
    /// Those that a configuration may name.
    pub const NAMES: [(&'static str, Self); 2] = [("start-first", Self::StartFirst), ("stop-first", Self::StopFirst)];
}

/// What becomes of a service that listens elsewhere than on its `PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherPort {
    /// It is said, and the start fails at its timeout.
    Named,
    /// It is said, and requests go there.
    Taken,
}

/// Where requests wait for the first instance of a service that inherits its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyRequests {
    /// In its socket: nothing is quicker.
    Given,
    /// In the queue, until it accepts: a start that is given up costs none of them.
    Held,
}

/// Whether a service runs without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinInstances {
    /// Started by its first request, stopped when idle.
    Zero,
    /// Started with the gateway, started again when it ends, never stopped for idleness.
    One,
}
