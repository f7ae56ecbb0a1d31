//! Services that Pilotlight does not start.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use pilotlight_balance::{Group, MAX_WEIGHT, Server, Settings};
use pilotlight_cgi::Protocol;

/// A service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug)]
pub struct External {
    spec: ExternalSpec,
    /// Of several.
    group: Option<Group>,
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
        Self { name: name.to_owned(), servers: vec![addr], protocol, balance: BalanceOptions::default() }
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
        let group = (servers.len() > 1).then(|| Group::new(&servers, spec.balance.settings));
        Self { spec, group }
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

    /// What is known of its servers, if there are several.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Its servers, for people.
    pub(crate) fn address(&self) -> String {
        let servers: Vec<String> = self.spec.servers.iter().map(ExternalAddr::to_string).collect();
        servers.join(", ")
    }
}
