//! What a valid file means: plain values, defaults filled in, paths joined to the file's folder.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_gateway::{
    AccessLogOptions, BodyTimeout, PolicyOptions, RedisConfig, RouteControl, RouteRules, ServerTiming, Upgrades,
};
use pilotlight_supervisor::{InheritEnv, Isolation, QueueLimits};

use super::diagnostic::Span;

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where clients connect; at least one.
    pub listen: Vec<Listener>,
    /// How many worker threads answer.
    pub workers: Workers,
    /// Whether a client is shown the last output of a service that fails to start.
    pub dev: bool,
    /// Whether `Forwarded` and `X-Forwarded-*` of clients are kept and extended instead of replaced.
    pub trust_forwarded: bool,
    /// Limits for clients.
    pub limits: Limits,
    /// The response cache; none: nothing is cached.
    pub cache: Option<CacheLimits>,
    /// The cache's tier in Redis, if there is one.
    pub cache_redis: Option<CacheRedis>,
    /// What the operator sees.
    pub operate: Operate,
    /// The services, in the order of the file.
    pub services: Vec<Service>,
    /// The routes, in the order of the file, which has no meaning for precedence.
    pub routes: Vec<Route>,
}

impl Config {
    /// The service that a route leads to.
    #[must_use]
    pub fn service_of(&self, route: &Route) -> Option<&Service> {
        self.services.get(route.service)
    }

    /// All of it but services and routes.
    pub(crate) fn without_services(&self) -> Self {
        let Self { listen, workers, dev, trust_forwarded, limits, cache, cache_redis, operate, .. } = self;
        Self {
            listen: listen.clone(),
            workers: *workers,
            dev: *dev,
            trust_forwarded: *trust_forwarded,
            limits: limits.clone(),
            cache: cache.clone(),
            cache_redis: cache_redis.clone(),
            operate: operate.clone(),
            services: Vec::new(),
            routes: Vec::new(),
        }
    }
}

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: ListenerAddress,
    pub(super) at: Span,
}

/// An address that can be listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerAddress {
    /// An IP address and a port; port 0 lets the kernel choose one.
    Tcp(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

impl ListenerAddress {
    /// Whether only this machine can connect to it.
    pub(super) fn is_local(&self) -> bool {
        match self {
            ListenerAddress::Tcp(address) => address.ip().is_loopback(),
            ListenerAddress::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenerAddress::Tcp(address) => write!(formatter, "{address}"),
            ListenerAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// What the operator sees of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operate {
    /// The admin interface; none: it is off.
    pub admin: Option<AdminSocket>,
    /// Where metrics are given out over TCP.
    pub metrics: Option<SocketAddr>,
    /// Which clients get `Server-Timing`.
    pub server_timing: ServerTiming,
    /// A line for each request.
    pub access_log: Option<AccessLogOptions>,
    pub(super) at: OperateSpans,
}

/// The socket of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSocket {
    /// `admin.sock` in the gateway's runtime folder.
    InRuntimeDir,
    /// At this path.
    At(PathBuf),
}

/// Where the parts of [`Operate`] stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OperateSpans {
    pub(super) socket: Span,
    pub(super) metrics: Span,
    pub(super) log: Span,
}

/// How many worker threads answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core that this process may use.
    PerCore,
    /// This many, at least one.
    Exactly(usize),
}

/// Limits for clients. Their ranges and defaults are in [`super::schema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a request's first line and header fields together.
    pub header_size: u64,
    /// Most header fields of a request.
    pub header_count: usize,
    /// Most bytes of a request's body; none: no limit.
    pub body_size: Option<u64>,
    /// Longest time from a request's first byte (or the connection) to the end of its header.
    pub header_timeout: Duration,
    /// Longest time in which a client neither sends a byte of its body nor takes a byte of the answer that waits for
    /// it.
    pub body_timeout: Duration,
    /// Longest time that a connection stays open between two requests.
    pub keepalive_timeout: Duration,
    /// Longest time from the whole request to the head of the service's answer.
    pub response_timeout: Duration,
    /// Longest time in which a service sends nothing in the middle of an answer; none: no limit.
    pub response_body_timeout: Option<Duration>,
    /// Longest time that open exchanges get at shutdown.
    pub shutdown_timeout: Duration,
    /// Most connections from clients at once.
    pub connections: usize,
}

/// The response cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most bytes in memory, keys and header fields included.
    pub memory: u64,
    /// Most bytes of one stored answer; at most `memory`.
    pub max_object: u64,
    /// What the RFCs leave open.
    pub policy: PolicyOptions,
    /// Clients get `Cache-Tag` and `Surrogate-Key`.
    pub keep_tags: bool,
    /// An answer whose client has gone is fetched to its end, for the cache, even if nobody waits for it.
    pub finish_abandoned: bool,
}

/// The tier in Redis, which several gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRedis {
    /// The servers, as the client of Redis reads it.
    pub url: RedisUrl,
    /// Before all keys.
    pub prefix: String,
    /// How long a request waits for Redis.
    pub budget: Duration,
    /// How long a request waits for the fetch of another gateway; `None`: it does not.
    pub lease: Option<Duration>,
    /// Most answers of one worker that wait to be written.
    pub queue: usize,
    /// Their bytes.
    pub queue_memory: usize,
    /// How long stale answers that can be validated are kept.
    pub keep_stale: Duration,
}

/// A URL that is known to be one, and may have a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(pub(super) String);

impl RedisUrl {
    /// What it says.
    ///
    /// # Panics
    /// Never: it was read before.
    #[must_use]
    pub fn config(&self) -> RedisConfig {
        RedisConfig::from_url(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(a URL, which may have a password in it)")
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name, unique in the file: 1–64 of `a-z`, `0-9`, `-`, `_`.
    pub name: String,
    /// Who starts it.
    pub kind: ServiceKind,
    pub(super) at: Span,
}

/// Who starts a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Pilotlight starts and stops it.
    Managed(Box<Managed>),
    /// Somebody else does; it speaks HTTP at this address.
    External(Upstream),
}

/// A service that Pilotlight starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The program: a path joined to `dir`, or a bare name to be looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments, without the program's name.
    pub args: Vec<String>,
    /// The folder that it runs in.
    pub dir: PathBuf,
    /// Environment variables that it gets on top of Pilotlight's own, sorted by name.
    pub env: Vec<(String, String)>,
    /// How requests reach it.
    pub transport: Transport,
    /// Longest time from the start to the first connection.
    pub start_timeout: Duration,
    /// It is stopped after this long without a request; none: never.
    pub idle_timeout: Option<Duration>,
    /// Longest time that its open exchanges get when it is stopped.
    pub drain_timeout: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// 1: it is started with Pilotlight and started again when it ends; 0: on its first request.
    pub min_instances: u8,
    /// How many instances there are, and how long they live.
    pub scaling: Scaling,
    /// What makes its starts short.
    pub cold_start: ColdStart,
    /// What it may use of the machine.
    pub isolation: Isolation,
    /// What of Pilotlight's environment it inherits, if the file says so.
    pub inherit_env: Option<InheritEnv>,
    pub(super) at: ManagedSpans,
}

/// What makes the starts of a service short, or rare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdStart {
    /// Its instances are forked from a parent that has imported this; none: executed.
    pub preload: Option<Preload>,
    /// An instance is frozen after this long without a request; none: never.
    pub freeze_after: Option<Duration>,
}

/// What the zygote of a service imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    /// Python modules, at least one.
    pub modules: Vec<String>,
    /// When it does.
    pub at: PreloadAt,
}

/// When a zygote is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadAt {
    /// With Pilotlight.
    Boot,
    /// With the first request.
    First,
}

/// How many instances a service has, who waits for them, and when they are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Most instances that take requests; more than 1 only with `concurrency`.
    pub max_instances: u32,
    /// Most requests of one instance at once; none: no limit.
    pub concurrency: Option<u32>,
    /// Instances ready beyond those that are needed, 0 or 1.
    pub spare: u8,
    /// How many requests wait for an instance, and for how long.
    pub queue: QueueLimits,
    /// Another instance is started when a request has waited for so long.
    pub scale_up_after: Duration,
    /// An instance is stopped when fewer have been enough for so long.
    pub scale_down_after: Duration,
    /// An instance is replaced after so many requests.
    pub max_requests: Option<u64>,
    /// An instance is replaced at this age.
    pub max_age: Option<Duration>,
    /// An instance is replaced when its processes have so many bytes.
    pub max_memory: Option<u64>,
    /// An instance is ended when a request got no answer for so long.
    pub max_request_time: Option<Duration>,
    /// Starts that may fail in a row before requests are refused at once.
    pub max_failures: u32,
    /// Where `max_request_time` stands in the file.
    pub(super) max_request_time_at: Option<Span>,
}

/// Where the parts of a [`Managed`] stand in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagedSpans {
    pub(super) program: Span,
    /// One for each of `args`.
    pub(super) args: Vec<Span>,
    pub(super) dir: Span,
    pub(super) isolation: IsolationSpans,
}

/// What the file says about isolation, with the places of what only the machine can check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IsolationSpans {
    pub(super) account: Option<Span>,
    pub(super) env_files: Vec<Span>,
    pub(super) secrets: Vec<Span>,
    pub(super) read: Vec<Span>,
    pub(super) write: Vec<Span>,
}

/// How requests reach a service that Pilotlight starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Pipe/1, `docs/spec/pipe.md`.
    Pipe,
    /// HTTP/1.1 over a socket.
    Http(HttpSocket),
}

/// The socket of an HTTP service that Pilotlight starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpSocket {
    /// A Unix socket, bound before the start and inherited as descriptor 3.
    Unix,
    /// A TCP socket on the loopback address, bound before the start and inherited as descriptor 3.
    Tcp,
    /// A free TCP port, told in the environment variable `PORT`: for programs that can only bind for themselves.
    Port,
}

/// The address of a service that somebody else starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// A host (a name, or an IP address without brackets) and a port.
    Tcp {
        /// The host.
        host: String,
        /// The port, not 0.
        port: u16,
    },
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

/// A route. The precedence is: exact host, then the longest wildcard host, then no host; within these the exact path,
/// then the longest prefix. The order of the file has no meaning, and no two routes are equal in all of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The hosts that it is for; none: all.
    pub host: Option<HostPattern>,
    /// The path: starts with `/`; without a final `/` unless it is `/` or exact.
    pub path: String,
    /// Whether the path's children belong to it.
    pub path_match: PathMatch,
    /// The index of its service in [`Config::services`].
    pub service: usize,
    /// Whether `path` is taken off before the service sees the request.
    pub strip_prefix: bool,
    /// The protocols that a client and the service may switch to.
    pub upgrades: Upgrades,
    /// What may be cached.
    pub cache: RouteCache,
    /// The whole exchange's deadline, told to the service; none: no deadline.
    pub timeout: Option<Duration>,
    /// As [`Limits::response_timeout`], for this route.
    pub response_timeout: Duration,
    /// As [`Limits::response_body_timeout`], for this route.
    pub response_body_timeout: BodyTimeout,
    /// As [`Limits::body_size`], for this route.
    pub body_size: Option<u64>,
}

/// A host, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host alone. An IPv6 address has no brackets.
    Exact(String),
    /// Every host below this one, at any depth, but not itself: `*.example.org` is kept as `example.org`.
    Below(String),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => formatter.write_str(host),
            HostPattern::Below(host) => write!(formatter, "*.{host}"),
        }
    }
}

/// Whether a path's children belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The path alone.
    Exact,
    /// The path and everything below it, on segment boundaries.
    Prefix,
}

/// What may be cached on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteCache {
    /// Nothing.
    Off,
    /// Answers that say themselves for how long they are fresh.
    Explicit,
    /// These, and those that say nothing, for this long.
    Lifetime(Duration),
    /// By rules of the route's own.
    Rules(Box<CacheRules>),
}

/// The rules of `[routes.cache]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheRules {
    /// How long, and how much.
    pub rules: RouteRules,
    /// What belongs to the key, what goes past the cache, what may be stored.
    pub control: RouteControl,
}

/// `path` as seen from `folder`.
pub(super) fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut out = folder.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
