//! Settings of services that Pilotlight does not start.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use pilotlight_balance::{MAX_WEIGHT, Settings};
use pilotlight_cgi::Protocol;
use pilotlight_proxy_protocol::Version;
use pilotlight_supervisor::{HealthCheck, QueueLimits};
use pilotlight_tls::ServerTlsSettings;

use super::dns::{DnsOptions, ServerName};

/// The settings of a service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSpec {
    /// Its configured name.
    pub name: String,
    /// Its servers, up to [`MAX_SERVERS`](pilotlight_balance::MAX_SERVERS). None, and no `names`: they are given while
    /// it runs ([`ServerControl`](crate::ServerControl)).
    pub servers: Vec<ServerSpec>,
    /// Names that stand for further servers, and are followed as [`dns`](Self::dns) says.
    pub names: Vec<ServerName>,
    /// How.
    pub dns: Option<DnsOptions>,
    /// What they speak.
    pub protocol: ServerProtocol,
    /// How several share the requests.
    pub balance: BalanceOptions,
    /// What each of them is asked, whether there are requests or not.
    pub health: Option<HealthOptions>,
    /// Requests that wait while it has no server, or each has [`max_open`](Settings::max_open).
    pub queue: QueueLimits,
    /// Whether connections begin with a header that says whose they are. Each then carries one request.
    pub proxy_protocol: Option<Version>,
    /// How servers are trusted, where [`ServerProtocol::Https`] is spoken.
    pub tls: ServerTlsSettings,
}

/// Requests by which it is found out whether a server is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthOptions {
    /// What is asked, and what a good answer is. An empty `host` is the server's own address.
    pub check: HealthCheck,
    /// From the answer to the next request, a tenth more or less. Default 5 s.
    pub interval: Duration,
}

impl HealthOptions {
    /// Values of `interval`.
    pub const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
    /// Values of `healthy` and `unhealthy`.
    pub const IN_A_ROW: RangeInclusive<u32> = 1..=100;
}

impl Default for HealthOptions {
    fn default() -> Self {
        let check = HealthCheck { host: String::new(), ..HealthCheck::default() };
        Self { check, interval: Duration::from_secs(5) }
    }
}

/// How several servers share the requests of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceOptions {
    /// Which requests go to the same server.
    pub by: BalanceBy,
    /// When a server is left out.
    pub settings: Settings,
    /// How long a connection may take. Default 2 s.
    pub connect_timeout: Duration,
    /// A file with the secret that the values of [`BalanceBy::Sticky`] are made with. Default `None`: they are made of
    /// the servers' addresses alone.
    pub sticky_key: Option<PathBuf>,
}

/// Which requests go to the same server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BalanceBy {
    /// None in particular: of two servers the one with fewer open requests takes it.
    #[default]
    Requests,
    /// Those of one client's address; of IPv6 the first 64 bits.
    Client,
    /// Those with one value of a field. Without it, or with more than one: by the client.
    Header(HeaderName),
    /// Those with one value of a cookie, likewise.
    Cookie(String),
    /// Those of one client, who is given a cookie of this name that says which server it was.
    Sticky(String),
}

/// What servers speak that Pilotlight does not start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge (RFC 9113 §3.3).
    H2c,
    /// FastCGI, SCGI or uwsgi.
    Cgi(Protocol),
    /// HTTP with TLS, in these versions.
    Https(Versions),
}

/// Versions of HTTP that servers with TLS are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 and HTTP/1.1; the server chooses.
    #[default]
    Both,
    /// HTTP/1.1.
    Http1,
}

/// One of the servers of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Where it listens.
    pub addr: ExternalAddr,
    /// Its share of the requests, in [`BalanceOptions::WEIGHT`]. 1 by default.
    pub weight: u32,
    /// Servers with a larger number get what those with a smaller one cannot take: they were tried, are left out or
    /// have as many requests as they may. 0 by default.
    pub priority: u16,
    /// The host that it is, where that is not the one of its address: its certificate is for it, and health requests
    /// name it. `None` by default.
    pub host: Option<String>,
}

impl ServerSpec {
    /// A server with the ordinary share, of the first priority.
    #[must_use]
    pub fn new(addr: ExternalAddr) -> Self {
        Self { addr, weight: 1, priority: 0, host: None }
    }
}

/// Where such a server listens.
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

impl BalanceOptions {
    /// A server's weight.
    pub const WEIGHT: RangeInclusive<u32> = 1..=MAX_WEIGHT;
    /// Values of `max_failures`.
    pub const MAX_FAILURES: RangeInclusive<u32> = 1..=1000;
    /// Values of `eject_time`.
    pub const EJECT_TIME: RangeInclusive<Duration> = Duration::from_millis(10)..=Settings::MAX_EJECTION;
    /// Values of `slow_start`.
    pub const SLOW_START: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
    /// Values of `max_connections`.
    pub const MAX_CONNECTIONS: RangeInclusive<u32> = 1..=1_000_000;
    /// Values of `retry_percent`.
    pub const RETRY_PERCENT: RangeInclusive<u32> = 0..=100;
    /// Values of `retry_per_second`.
    pub const RETRY_PER_SECOND: RangeInclusive<u32> = 0..=10_000;
    /// Values of `connect_timeout`.
    pub const CONNECT_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);
}

impl Default for BalanceOptions {
    fn default() -> Self {
        let connect_timeout = Duration::from_secs(2);
        Self { by: BalanceBy::Requests, settings: Settings::default(), connect_timeout, sticky_key: None }
    }
}

impl ExternalSpec {
    /// One server.
    #[must_use]
    pub fn one(name: &str, addr: ExternalAddr, protocol: ServerProtocol) -> Self {
        let (servers, balance) = (vec![ServerSpec::new(addr)], BalanceOptions::default());
        Self {
            name: name.to_owned(),
            servers,
            names: Vec::new(),
            dns: None,
            protocol,
            balance,
            health: None,
            queue: QueueLimits::default(),
            proxy_protocol: None,
            tls: ServerTlsSettings::default(),
        }
    }
}
