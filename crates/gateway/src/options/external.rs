//! Services that Pilotlight does not start.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::HeaderName;
use pilotlight_balance::{Group, MAX_WEIGHT, Server, Settings};
use pilotlight_cgi::Protocol;
use pilotlight_proxy_protocol::Version;
use pilotlight_supervisor::{HealthCheck, QueueLimits};
use pilotlight_tls::{ServerTls, ServerTlsSettings};
use ring::hmac;

use crate::protocols::Spoken;
use crate::server_line::Line;

/// A service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug)]
pub struct External {
    spec: ExternalSpec,
    /// Of several, or of one that there is something to know of.
    group: Option<Group>,
    /// Those that wait for one of them, where only so many requests may be open.
    line: Option<Line>,
    /// Where TLS is spoken: what handshakes begin from, or why there can be none.
    tls: Option<Result<ServerTls, String>>,
    /// What each server speaks behind TLS, as far as that is known.
    spoken: Box<[AtomicU8]>,
    /// What clients are told of each server that are to come back to it.
    ids: Box<[String]>,
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
    /// The servers' shares, in their order; 1 for those without one.
    pub weights: Vec<u32>,
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
        let (by, weights, settings) = (BalanceBy::Requests, Vec::new(), Settings::default());
        Self { by, weights, settings, connect_timeout, sticky_key: None }
    }
}

impl ExternalSpec {
    /// One server.
    #[must_use]
    pub fn one(name: &str, addr: ExternalAddr, protocol: ServerProtocol) -> Self {
        let (servers, balance) = (vec![addr], BalanceOptions::default());
        Self {
            name: name.to_owned(),
            servers,
            protocol,
            balance,
            health: None,
            queue: QueueLimits::default(),
            proxy_protocol: None,
            tls: ServerTlsSettings::default(),
        }
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
        let line = settings.max_open.map(|_| Line::new(spec.queue));
        let has_tls = matches!(spec.protocol, ServerProtocol::Https(_));
        let tls = has_tls.then(|| ServerTls::load(&spec.tls).map_err(|e| e.to_string()));
        if let Some(Err(why)) = &tls {
            tracing::error!(service = spec.name, "its servers cannot be connected to: {why}");
        }
        let spoken = spec.servers.iter().filter(|_| has_tls).map(|_| AtomicU8::new(0)).collect();
        let ids = if matches!(spec.balance.by, BalanceBy::Sticky(_)) { ids(&spec, &names) } else { Box::default() };
        Self { spec, group, line, tls, spoken, ids }
    }

    /// Whether it is of the same settings and files.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        self.spec == other.spec && self.tls == other.tls && self.ids == other.ids
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

    /// TLS to its servers, if that is spoken.
    pub(crate) fn tls(&self) -> Option<Result<&ServerTls, &str>> {
        self.tls.as_ref().map(|tls| tls.as_ref().map_err(String::as_str))
    }

    pub(crate) fn offers_http2(&self) -> bool {
        self.spec.protocol == ServerProtocol::Https(Versions::Both)
    }

    /// What a server speaks behind TLS.
    pub(crate) fn spoken(&self, index: usize) -> Spoken {
        match self.spoken.get(index).map(|spoken| spoken.load(Relaxed)) {
            Some(1) => Spoken::Http1,
            Some(2) => Spoken::Http2,
            _ => Spoken::Unknown,
        }
    }

    pub(crate) fn speaks(&self, index: usize, what: Spoken) {
        if let Some(spoken) = self.spoken.get(index) {
            spoken.store(what as u8, Relaxed);
        }
    }

    /// What clients are told of a server.
    pub(crate) fn id_of(&self, index: usize) -> Option<&str> {
        self.ids.get(index).map(String::as_str)
    }

    /// The server that a client was told of by this.
    pub(crate) fn server_of(&self, id: &[u8]) -> Option<usize> {
        self.ids.iter().position(|one| one.as_bytes() == id)
    }

    /// Its servers, for people.
    pub(crate) fn address(&self) -> String {
        let servers: Vec<String> = self.spec.servers.iter().map(ExternalAddr::to_string).collect();
        servers.join(", ")
    }
}

/// Reads the secret of a service's cookies.
///
/// # Errors
/// The file cannot be read, or is empty or larger than 4 KiB.
pub fn read_sticky_key(path: &Path) -> io::Result<Vec<u8>> {
    let mut secret = Vec::new();
    File::open(path)?.take(MAX_STICKY_KEY + 1).read_to_end(&mut secret)?;
    let is_good = !secret.is_empty() && secret.len() as u64 <= MAX_STICKY_KEY;
    let what = format!("it is to have 1 to {MAX_STICKY_KEY} bytes");
    if is_good { Ok(secret) } else { Err(io::Error::new(io::ErrorKind::InvalidData, what)) }
}

/// Most bytes of the file of [`BalanceOptions::sticky_key`].
const MAX_STICKY_KEY: u64 = 4096;

/// Of each server: the same in every gateway with the same secret, whatever the order of the servers.
fn ids(spec: &ExternalSpec, names: &[String]) -> Box<[String]> {
    const LENGTH: usize = 8; // bytes: of 64 servers, two are alike once in 10¹⁶ times
    let secret = spec.balance.sticky_key.as_deref().map(read_sticky_key).transpose().unwrap_or_else(|e| {
        tracing::error!(
            service = spec.name,
            "sticky_key cannot be used, clients may not come back to their servers: {e}"
        );
        Some((0..LENGTH).map(|_| fastrand::u8(..)).collect())
    });
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.unwrap_or_default());
    let id = |name: &String| {
        let tag = hmac::sign(&key, format!("{}\n{name}", spec.name).as_bytes());
        tag.as_ref().iter().take(LENGTH).map(|byte| format!("{byte:02x}")).collect()
    };
    names.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sticky(servers: &[&str], sticky_key: Option<PathBuf>) -> External {
        let servers = servers.iter().map(|host| ExternalAddr::Tcp((*host).to_owned(), 80)).collect();
        let by = BalanceBy::Sticky("at".to_owned());
        let balance = BalanceOptions { by, sticky_key, ..BalanceOptions::default() };
        let one = ExternalSpec::one("app", ExternalAddr::Unix("/x".into()), ServerProtocol::Http1);
        External::new(ExternalSpec { servers, balance, ..one })
    }

    #[test]
    fn a_server_is_known_by_its_id_in_any_order_and_only_with_the_secret() {
        let (one, other) = (sticky(&["a", "b"], None), sticky(&["b", "c", "a"], None));
        let id = one.id_of(0).unwrap();
        assert_eq!((id.len(), other.server_of(id.as_bytes()), one.server_of(id.as_bytes())), (16, Some(2), Some(0)));
        assert_eq!(one.server_of(b"a:80"), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        let keyed = || sticky(&["a", "b"], Some(file.path().to_owned()));
        assert_eq!(keyed().server_of(id.as_bytes()), None);
        assert!(keyed().is_as(&keyed()));
        let before = keyed();
        std::fs::write(file.path(), "another").unwrap();
        assert!(!keyed().is_as(&before));
    }
}
