//! What a gateway is told when it starts: plain data, already checked by whoever read it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_cache::CacheOptions;
use pilotlight_supervisor::{Service, Transport};

/// Everything a gateway needs to run.
pub struct GatewayOptions {
    /// Where to listen; a port of 0 takes a free one.
    pub listen: Vec<ListenAddr>,
    /// Worker threads; each has its own listener, connections and runtime.
    pub workers: usize,
    /// Sizes and times.
    pub limits: Limits,
    /// The memory tier, or `None` for no caching at all.
    pub cache: Option<CacheOptions>,
    /// Services by index; [`RouteSpec::service`] points into it.
    pub services: Vec<ServiceTarget>,
    /// Routes in any order; precedence does not depend on it.
    pub routes: Vec<RouteSpec>,
    /// Whether clients are shown a failing service's last output.
    pub dev: bool,
    /// Whether `Forwarded` and `X-Forwarded-*` of clients are kept and extended instead of replaced.
    pub trust_forwarded: bool,
}

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path.
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "http://{addr}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Sizes and times, each with the name of the setting that changes it.
#[derive(Debug, Clone)]
pub struct Limits {
    /// `limits.header_size`: bytes of a request's line and header fields (431 beyond it).
    pub header_size: usize,
    /// `limits.header_count`: header fields of a request (431 beyond it).
    pub header_count: usize,
    /// `limits.body_size`: bytes of a request's body, `None` for no limit (413 beyond it).
    pub body_size: Option<u64>,
    /// `limits.header_timeout`: from the first byte of a request to the end of its header fields.
    pub header_timeout: Duration,
    /// `limits.body_timeout`: the longest wait for more of a request's body, and for a client to take more of an answer.
    pub body_timeout: Duration,
    /// `limits.keepalive_timeout`: how long a client's connection may stay without a request.
    pub keepalive_timeout: Duration,
    /// `limits.response_timeout`: from the request to the first byte of the service's answer, `None` for no limit.
    pub response_timeout: Option<Duration>,
    /// `limits.connections`: open client connections of all workers; more wait to be accepted.
    pub connections: usize,
    /// `limits.queue`: requests of one worker waiting for one service; 503 beyond it.
    pub queue: usize,
    /// `limits.shutdown_timeout`: how long requests in progress may take when the gateway stops.
    pub shutdown_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_size: 32 * 1024,
            header_count: 100,
            body_size: Some(1024 * 1024 * 1024),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(75),
            response_timeout: Some(Duration::from_secs(60)),
            connections: 10_000,
            queue: 1024,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

/// Where a service's requests go.
#[derive(Clone)]
pub enum ServiceTarget {
    /// Started and stopped by the supervisor.
    Managed(Arc<Service>, Transport),
    /// An HTTP server that somebody else runs.
    External(External),
}

/// An HTTP server that Pilotlight does not start.
#[derive(Debug, Clone)]
pub struct External {
    /// Its configured name.
    pub name: String,
    /// Where it listens.
    pub addr: ExternalAddr,
}

/// Where a server of somebody else's listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalAddr {
    /// A host name or IP address and a port; a name is looked up anew for each connection.
    Tcp(String, u16),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl std::fmt::Display for ExternalAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One route.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// `example.org`, `*.example.org`, or `None` for every host.
    pub host: Option<String>,
    /// Starts with `/`; matches itself and everything below it, on segment boundaries.
    pub path: String,
    /// Matches `path` only.
    pub exact: bool,
    /// Index into [`GatewayOptions::services`].
    pub service: usize,
    /// Whether `path` is cut off the target before the service sees it.
    pub strip_prefix: bool,
    /// Whether and how answers are stored.
    pub cache: RouteCache,
    /// How long a whole exchange may take; told to pipe services as a deadline.
    pub timeout: Option<Duration>,
    /// Replaces [`Limits::response_timeout`].
    pub response_timeout: Option<Duration>,
    /// Replaces [`Limits::body_size`].
    pub body_size: Option<u64>,
}

/// Whether answers of a route are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteCache {
    /// Never looked up, never stored.
    Off,
    /// By RFC 9111, with a lifetime for answers that give none themselves.
    On {
        /// The lifetime for answers without explicit freshness; `None` stores only answers that have it.
        default_ttl: Option<Duration>,
    },
}
