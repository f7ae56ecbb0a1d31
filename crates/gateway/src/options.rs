//! What a gateway is told when it starts: plain data, already checked by whoever read it.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_cache::{CacheOptions, PolicyOptions};
use pilotlight_cache_redis::{Config as RedisConfig, Options as RedisOptions};
use pilotlight_logs::{Destination, Facility, SyslogFormat};
use pilotlight_supervisor::{Service, Transport};
use pilotlight_tls::TlsContext;

use crate::error_pages::ErrorPages;
use crate::forwarded::TrustForwarded;
use crate::networks::Networks;
use crate::protocols::ServiceProtocol;
use crate::schedules::ScheduleSpec;
use crate::traces::TraceOptions;

mod cgi;
pub(crate) mod dns;
pub(crate) mod external;
mod issuers;
mod lambda;
mod route;
mod spill;

pub use crate::external::{External, read_sticky_key};
pub use crate::listen_addr::ListenAddr;
pub use cgi::{CgiOptions, SendFolder};
pub use dns::{DnsOptions, Family, NameKind, ServerName};
pub use external::{
    BalanceBy, BalanceOptions, ExternalAddr, ExternalSpec, HealthOptions, ServerProtocol, ServerSpec, Versions,
};
pub use issuers::IssuerOptions;
pub use lambda::LambdaOptions;
pub use route::{AmbiguousPaths, PlainHttp, RouteCache, RouteLimit, RouteSpec, RouteTo};
pub use spill::SpillSpec;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Everything a gateway needs to run.
pub struct GatewayOptions {
    /// Where to listen; a port of 0 takes a free one.
    pub listen: Vec<ListenAddr>,
    /// Worker threads; each has its own listener, connections and runtime.
    pub workers: usize,
    /// How small messages of one turn go to the kernel.
    pub io_uring: IoUring,
    /// What requests are answered by, which may change while the gateway runs.
    pub serving: Serving,
    /// Listening sockets that somebody else has bound; those that are not in `listen` are closed.
    pub inherited: Vec<Inherited>,
    /// `None` for no caching at all.
    pub cache: Option<CacheSettings>,
    /// The tier in Redis behind the memory, if there is one.
    pub redis: Option<RedisTier>,
    /// TLS of the listeners that have it. Whoever gives it has its files read again, and changes it when the settings
    /// change.
    pub tls: Arc<TlsContext>,
    /// Who gives certificates to hosts that have none in a file.
    pub issuers: IssuerOptions,
    /// A line for each request, if wanted.
    pub access_log: Option<AccessLogOptions>,
    /// Called by a worker, not often, when connections have become quiet or have ended: an allocator may keep what they
    /// had. It must not block.
    pub freed: Option<fn()>,
    /// The file that has the times up to which schedules were dealt with; none: what a process missed before it began
    /// is not known.
    pub schedules_file: Option<PathBuf>,
}

impl GatewayOptions {
    /// Values of `workers`.
    pub const WORKERS: RangeInclusive<usize> = 1..=256;
    /// Most addresses in `listen`.
    pub const MAX_LISTENERS: usize = 16;
}

/// The cache of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSettings {
    /// The memory tier.
    pub memory: CacheOptions,
    /// What the RFCs leave to whoever runs a cache.
    pub policy: PolicyOptions,
    /// What becomes of a request to a service whose response may be stored and whose client has gone.
    pub abandoned: Abandoned,
}

/// A tier in Redis, which several gateways share.
pub struct RedisTier {
    /// Servers, credentials, TLS.
    pub servers: RedisConfig,
    /// Limits and names.
    pub options: RedisOptions,
}

/// Whether small messages go out by io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoUring {
    /// Where the system allows it.
    IfAllowed,
    /// Each goes out by a system call of its own.
    Never,
}

/// What becomes of a request to a service whose response may be stored, once its client has gone and nobody else waits
/// for the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Abandoned {
    /// It goes on, for the cache.
    #[default]
    Finish,
    /// It is given up.
    Drop,
}

/// What requests are answered by.
pub struct Serving {
    /// Services by index; [`RouteTo::Service`] points into it. Those that are the same objects as before keep their
    /// connections.
    pub services: Vec<ServiceTarget>,
    /// Settings of services that are spoken to in variables, by their names.
    pub cgi: HashMap<String, Arc<CgiOptions>>,
    /// Settings of services that are functions of AWS Lambda, by their names.
    pub lambda: HashMap<String, Arc<LambdaOptions>>,
    /// Where requests go that services have no room for, by the services' names.
    pub spill: HashMap<String, SpillSpec>,
    /// Routes in any order; precedence does not depend on it.
    pub routes: Vec<RouteSpec>,
    /// Pages for errors, of all routes and of requests that have none.
    pub errors: ErrorPages,
    /// What counts for a client's connection from its beginning to its end.
    pub settings: Settings,
    /// Hosts that the local authority signs for besides those of routes: names of addresses that are listened on.
    pub local_hosts: BTreeSet<String>,
    /// Requests that services get at certain times; no two have the same name.
    pub schedules: Vec<Arc<ScheduleSpec>>,
}

/// What counts for a client's connection from its beginning to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Sizes and times.
    pub limits: Limits,
    /// Whether clients are shown a failing service's last output.
    pub dev: bool,
    /// Whether somebody follows the program's files and answers pages at [`EVENTS_PATH`](crate::EVENTS_PATH): then
    /// pages for errors load themselves again when it has changed. Default no.
    pub reloading: Reloading,
    /// Networks whose connections begin with a header of the PROXY protocol, which says whose they are.
    pub proxy_protocol: Networks,
    /// Whose `Forwarded` and `X-Forwarded-*` are kept and extended instead of replaced.
    pub trust_forwarded: TrustForwarded,
    /// Who is told where the time of a request went.
    pub server_timing: ServerTiming,
    /// Traces, if they are wanted.
    pub traces: Option<Arc<TraceOptions>>,
}

/// Where pages for errors ask whether the program has changed, with [`Reloading::OnChange`]: `?since=`, in milliseconds
/// since 1970, is answered by events (HTML §9.2) when it has.
pub const EVENTS_PATH: &str = "/.well-known/pilotlight/dev";

/// Whether pages for errors load themselves again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reloading {
    /// No.
    #[default]
    Never,
    /// When the program has changed, if they are shown with `dev`.
    OnChange,
}

/// A listening socket that somebody else has bound.
#[derive(Debug)]
pub struct Inherited {
    /// How the address was configured, if that is known: a port of 0 is a real one on the socket.
    pub configured: Option<ListenAddr>,
    /// One socket, or several on the same address (`SO_REUSEPORT`).
    pub sockets: Vec<OwnedFd>,
}

/// Sizes and times, each with the name of the setting that changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `limits.header_size`: bytes of a request's line and header fields (431 beyond it).
    pub header_size: usize,
    /// `limits.header_count`: header fields of a request (431 beyond it).
    pub header_count: usize,
    /// `limits.body_size`: bytes of a request's body, `None` for no limit (413 beyond it).
    pub body_size: Option<u64>,
    /// `limits.json_look_ahead`: bytes of a request's body that are read to find its route, where routes ask for fields
    /// of it.
    pub json_look_ahead: usize,
    /// `limits.header_timeout`: from the first byte of a request to the end of its header fields.
    pub header_timeout: Duration,
    /// `limits.body_timeout`: the longest wait for more of a request's body, and for a client to take more of an
    /// answer.
    pub body_timeout: Duration,
    /// `limits.keepalive_timeout`: how long a client's connection may stay without a request.
    pub keepalive_timeout: Duration,
    /// `limits.response_timeout`: from the request to the first byte of the service's response, `None` for no limit.
    pub response_timeout: Option<Duration>,
    /// `limits.response_body_timeout`: the longest wait for more of a service's response, `None` for no limit. Event
    /// streams have none.
    pub response_body_timeout: Option<Duration>,
    /// `limits.handshake_timeout`: how long a client may take for the handshake of TLS.
    pub handshake_timeout: Duration,
    /// `limits.handshakes`: handshakes of TLS that are under way, of all workers; more connections wait to be accepted.
    pub handshakes: usize,
    /// `limits.connections`: open client connections of all workers; more wait to be accepted.
    pub connections: usize,
    /// `limits.streams`: open streams of a client's connection of HTTP/2; more are refused.
    pub streams: u32,
    /// `limits.shutdown_timeout`: how long requests in progress may take when the gateway stops.
    pub shutdown_timeout: Duration,
}

impl Limits {
    /// Values of `header_size`. With what the gateway adds, the largest still fits one frame of Pipe/1 (64 KiB).
    pub const HEADER_SIZE: RangeInclusive<usize> = 1 << 10..=56 << 10;
    /// Values of `header_count`.
    pub const HEADER_COUNT: RangeInclusive<usize> = 8..=1000;
    /// Values of `body_size`, a route's as well.
    pub const BODY_SIZE: RangeInclusive<u64> = 1..=1 << 50;
    /// Values of `header_timeout`.
    pub const HEADER_TIMEOUT: RangeInclusive<Duration> = SECOND..=Duration::from_secs(600);
    /// Values of `json_look_ahead`.
    pub const JSON_LOOK_AHEAD: RangeInclusive<usize> = 1 << 10..=4 << 20;
    /// Values of `body_timeout`.
    pub const BODY_TIMEOUT: RangeInclusive<Duration> = SECOND..=HOUR;
    /// Values of `keepalive_timeout`.
    pub const KEEPALIVE_TIMEOUT: RangeInclusive<Duration> = SECOND..=HOUR;
    /// Values of `response_timeout` and `response_body_timeout`, a route's as well.
    pub const RESPONSE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;
    /// Values of `handshake_timeout`.
    pub const HANDSHAKE_TIMEOUT: RangeInclusive<Duration> = SECOND..=Duration::from_secs(600);
    /// Values of `handshakes`.
    pub const HANDSHAKES: RangeInclusive<usize> = 1..=1_000_000;
    /// Values of `shutdown_timeout`.
    pub const SHUTDOWN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=HOUR;
    /// Values of `connections`.
    pub const CONNECTIONS: RangeInclusive<usize> = 1..=1_000_000;
    /// Values of `streams`.
    pub const STREAMS: RangeInclusive<u32> = 1..=10_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_size: 32 * 1024,
            json_look_ahead: 64 * 1024,
            header_count: 100,
            body_size: Some(1024 * 1024 * 1024),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(75),
            response_timeout: Some(Duration::from_secs(60)),
            response_body_timeout: Some(Duration::from_secs(60)),
            handshake_timeout: Duration::from_secs(10),
            handshakes: 1024,
            connections: 10_000,
            streams: 100,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

/// Where a service's requests go.
#[derive(Clone)]
pub enum ServiceTarget {
    /// Started and stopped by the supervisor.
    Managed(Arc<Service>, Transport),
    /// Run by somebody else.
    External(Arc<External>),
}

impl ServiceTarget {
    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Managed(service, _) => service.name(),
            Self::External(external) => external.name(),
        }
    }

    /// How it is reached.
    pub(crate) fn protocol(&self) -> ServiceProtocol {
        match self {
            Self::Managed(_, Transport::Pipe) => ServiceProtocol::Pipe,
            Self::Managed(_, Transport::Http(_)) => ServiceProtocol::Http,
            Self::Managed(_, Transport::H2c(_)) => ServiceProtocol::H2c,
            Self::Managed(_, Transport::FastCgi(_)) => ServiceProtocol::FastCgi,
            Self::Managed(_, Transport::Scgi(_)) => ServiceProtocol::Scgi,
            Self::Managed(_, Transport::Uwsgi(_)) => ServiceProtocol::Uwsgi,
            Self::Managed(_, Transport::Lambda) => ServiceProtocol::Lambda,
            Self::Managed(_, Transport::Stdio) => ServiceProtocol::Stdio,
            Self::External(external) => match external.spec().protocol {
                ServerProtocol::Http1 | ServerProtocol::Https(_) => ServiceProtocol::Http,
                ServerProtocol::H2c => ServiceProtocol::H2c,
                ServerProtocol::Cgi(protocol) => ServiceProtocol::of_cgi(protocol),
            },
        }
    }

    /// The same for the same object, for as long as somebody holds it.
    pub(crate) fn key(&self) -> usize {
        match self {
            Self::Managed(service, _) => Arc::as_ptr(service).addr(),
            Self::External(external) => Arc::as_ptr(external).addr(),
        }
    }
}

/// Who gets `Server-Timing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerTiming {
    /// Nobody.
    Never,
    /// Requests with the field `X-Pilotlight-Timing`.
    #[default]
    OnRequest,
    /// Everybody. Hits then take the way through the HTTP stack.
    Always,
}

/// The access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogOptions {
    /// Where it is written.
    pub destination: Destination,
    /// Of messages to the journal and to syslog.
    pub facility: Facility,
    /// The head of messages to syslog; `None`: what the server usually reads.
    pub syslog_format: Option<SyslogFormat>,
    /// How a line looks.
    pub format: AccessFormat,
    /// What a line has, in this order.
    pub fields: Vec<AccessField>,
    /// Bytes after which a file is moved to the same name with `.1` and begun anew; `None` never.
    pub max_size: Option<u64>,
}

impl AccessLogOptions {
    /// Values of `max_size`.
    pub const MAX_SIZE: RangeInclusive<u64> = 64 << 10..=1 << 40;
}

/// How a line of the access log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFormat {
    /// An object on one line.
    Json,
    /// Values between spaces, those that a client chose in quotes.
    Text,
}

macro_rules! access_fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A value in a line of the access log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AccessField {
            $($(#[$doc])* $variant,)*
        }

        impl AccessField {
            /// Every field.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name in the configuration and in JSON.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

access_fields! {
    /// When the request began, RFC 3339 in UTC.
    Time = "time",
    /// Address and port of the client; nothing on a Unix socket.
    Client = "client",
    /// `http` or `https`: the connection's.
    Scheme = "scheme",
    /// The request's method.
    Method = "method",
    /// `Host`.
    Host = "host",
    /// Path and query.
    Target = "target",
    /// The path without the query.
    Path = "path",
    /// `HTTP/2.0`, `HTTP/1.1` or `HTTP/1.0`.
    Protocol = "protocol",
    /// The response's status; 0: the client went before there was one.
    Status = "status",
    /// Bytes of the response's body.
    BytesSent = "bytes_sent",
    /// Bytes of the request's body.
    BytesReceived = "bytes_received",
    /// From the request's first byte to the response's last one written, milliseconds.
    DurationMs = "duration_ms",
    /// `hit`, `stale`, `miss`, `revalidated`, `collapsed`, `bypass` or `off`.
    Cache = "cache",
    /// The route's host and path.
    Route = "route",
    /// The service's name.
    Service = "service",
    /// The request's id; nothing for hits, which have none.
    RequestId = "request_id",
    /// `User-Agent`.
    UserAgent = "user_agent",
    /// `Referer`.
    Referer = "referer",
    /// Milliseconds by layer.
    Timing = "timing",
    /// The trace, if there is `[traces]`; nothing for hits, which have none unless they are sampled.
    TraceId = "trace_id",
}

impl AccessField {
    /// What a line has unless the configuration says otherwise.
    pub const DEFAULT: [Self; 11] = [
        Self::Time,
        Self::Client,
        Self::Method,
        Self::Host,
        Self::Target,
        Self::Status,
        Self::BytesSent,
        Self::DurationMs,
        Self::Cache,
        Self::Service,
        Self::RequestId,
    ];
}
