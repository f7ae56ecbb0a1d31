//! What a valid file means: plain values, defaults filled in, paths joined to the file's folder.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_gateway::{External, PolicyOptions, RouteControl, RouteLimit, RouteRules, Upgrades};
use pilotlight_supervisor::ServiceSpec;

use super::cache_redis::CacheRedis;
use super::diagnostic::Span;
use super::isolation;
use super::operate::Operate;

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

impl fmt::Display for ListenerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenerAddress::Tcp(address) => write!(formatter, "{address}"),
            ListenerAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
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

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Who starts it.
    pub kind: ServiceKind,
    pub(super) at: ServiceSpans,
}

impl Service {
    /// Its name, unique in the file: 1–64 of `a-z`, `0-9`, `-`, `_`.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.kind {
            ServiceKind::Managed(spec) => &spec.name,
            ServiceKind::External(external) => &external.name,
        }
    }

    /// How Pilotlight runs it, unless somebody else does.
    #[must_use]
    pub fn spec(&self) -> Option<&ServiceSpec> {
        match &self.kind {
            ServiceKind::Managed(spec) => Some(spec),
            ServiceKind::External(_) => None,
        }
    }
}

/// Who starts a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Pilotlight starts and stops it, in this way. Its program is a path joined to its folder, or a bare name to be
    /// looked up in `PATH`.
    Managed(Box<ServiceSpec>),
    /// Somebody else does; it speaks HTTP.
    External(External),
}

/// Where a service and its parts stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceSpans {
    pub(super) name: Span,
    pub(super) program: Span,
    /// One for each word behind the program.
    pub(super) args: Vec<Span>,
    pub(super) dir: Span,
    pub(super) max_request_time: Option<Span>,
    pub(super) isolation: isolation::Spans,
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
    pub response_body_timeout: RouteLimit<Duration>,
    /// As [`Limits::body_size`], for this route.
    pub body_size: RouteLimit<u64>,
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
