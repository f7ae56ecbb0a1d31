//! Services that Pilotlight does not start.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use pilotlight_balance::{Group, MAX_WEIGHT, Server, Settings};
use pilotlight_cgi::Protocol;
use pilotlight_supervisor::{HealthCheck, QueueLimits};

use crate::server_line::Line;

/// A service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug)]
pub struct External {
    spec: ExternalSpec,
    /// Of several, or of one that there is something to know of.
    group: Option<Group>,
    /// Those that wait for one of them, where only so many requests may be open.
    line: Option<Line>,
}

/// Its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSpec {
    /// Its configured name.
    pub name: String,
    /// Where its servers listen: one, or up to [`MAX_SERVERS`](pilotlight_balance::MAX_SERVERS).
    pub servers: Vec<ExternalAddr>,
    /// What they speak.
    pub protocol: ServerProtocol,
    /// How several share the requests.
    pub balance: BalanceOptions,
    /// What each of them is asked, whether there are requests or not.
    pub health: Option<HealthOptions>,
    /// Requests that wait while each server has [`max_open`](Settings::max_open).
    pub queue: QueueLimits,
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
    /// The servers' shares, in their order; 1 for those without one.
    pub weights: Vec<u32>,
    /// When a server is left out.
    pub settings: Settings,
    /// How long a connection may take. Default 2 s.
    pub connect_timeout: Duration,
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
        Self { by: BalanceBy::Requests, weights: Vec::new(), settings: Settings::default(), connect_timeout }
    }
}

impl ExternalSpec {
    /// One server.
    #[must_use]
    pub fn one(name: &str, addr: ExternalAddr, protocol: ServerProtocol) -> Self {
        let (servers, balance) = (vec![addr], BalanceOptions::default());
        Self { name: name.to_owned(), servers, protocol, balance, health: None, queue: QueueLimits::default() }
    }
}

impl External {
    /// The service of these settings.
    #[must_use]
    pub fn new(spec: ExternalSpec) -> Self {
        let names: Vec<String> = spec.servers.iter().map(ExternalAddr::to_string).collect();
        let weight = |index: usize| spec.balance.weights.get(index).copied().unwrap_or(1);
        let servers: Vec<Server<'_>> =
            names.iter().enumerate().map(|(index, name)| Server::new(name, weight(index))).collect();
        let settings = spec.balance.settings;
        let is_watched = servers.len() > 1 || spec.health.is_some() || settings.max_open.is_some();
        let group = is_watched.then(|| Group::new(&servers, settings));
        let line = settings.max_open.map(|_| Line::new(spec.queue.clone()));
        Self { spec, group, line }
    }

    /// Its settings.
    #[must_use]
    pub fn spec(&self) -> &ExternalSpec {
        &self.spec
    }

    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What is known of its servers, if there is something to know.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Those that wait for one of its servers, if only so many requests may be open at each.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    /// Its servers, for people.
    pub(crate) fn address(&self) -> String {
        let servers: Vec<String> = self.spec.servers.iter().map(ExternalAddr::to_string).collect();
        servers.join(", ")
    }
}
