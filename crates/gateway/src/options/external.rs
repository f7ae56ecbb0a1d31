//! Services that Pilotlight does not start.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use pilotlight_balance::{MAX_WEIGHT, Settings};
use pilotlight_cgi::Protocol;
use pilotlight_proxy_protocol::Version;
use pilotlight_supervisor::{HealthCheck, QueueLimits};
use pilotlight_tls::{ServerTls, ServerTlsSettings};

use super::dns::{DnsOptions, ServerName};
use crate::servers::{Listed, Live, OneServer};

/// A service that Pilotlight does not start: one server, or several that share the requests.
#[derive(Debug)]
pub struct External {
    /// Without its servers, which may change.
    spec: ExternalSpec,
    list: List,
    /// Where TLS is spoken: what handshakes begin from, or why there can be none.
    tls: Option<Result<ServerTls, String>>,
    /// The secret of what clients are told of a server that are to come back to it.
    sticky: Option<Vec<u8>>,
}

/// Where its requests go.
#[derive(Debug)]
enum List {
    /// One server, of which there is nothing to know.
    One(Box<OneServer>),
    /// Several, or one that there is something to know of, or none; they may change.
    Live(Box<Live>),
}

/// Its settings.
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

impl External {
    /// The service of these settings.
    #[must_use]
    pub fn new(mut spec: ExternalSpec) -> Self {
        let has_tls = matches!(spec.protocol, ServerProtocol::Https(_));
        let tls = has_tls.then(|| ServerTls::load(&spec.tls).map_err(|e| e.to_string()));
        if let Some(Err(why)) = &tls {
            tracing::error!(service = spec.name, "its servers cannot be connected to: {why}");
        }
        let sticky = matches!(spec.balance.by, BalanceBy::Sticky(_)).then(|| sticky_secret(&spec));
        let listed = std::mem::take(&mut spec.servers);
        let is_watched = !spec.names.is_empty() || spec.health.is_some() || spec.balance.settings.max_open.is_some();
        let list = match <[ServerSpec; 1]>::try_from(listed) {
            Ok([one]) if !is_watched => List::One(Box::new(OneServer::new(one, 0, None))),
            Ok([one]) => List::Live(Box::new(Live::new(vec![one], &spec, sticky.as_deref()))),
            Err(listed) => List::Live(Box::new(Live::new(listed, &spec, sticky.as_deref()))),
        };
        Self { spec, list, tls, sticky }
    }

    /// Whether it is of the same settings and files, whichever servers the settings list.
    fn is_like(&self, other: &Self) -> bool {
        self.spec == other.spec && self.tls == other.tls && self.sticky == other.sticky
    }

    /// Has the servers of `new` from now on, if nothing else is different. Those that stay keep their connections and
    /// whatever is known of them. `false`: something else is different, and nothing has changed.
    #[must_use]
    pub fn follow(&self, new: &Self) -> bool {
        if !self.is_like(new) {
            return false;
        }
        let listed = new.listed();
        if self.listed() == listed {
            return true;
        }
        let List::Live(live) = &self.list else { return false };
        let servers = live.list(listed, &self.spec, self.sticky.as_deref());
        live.tell_predecessors(&servers);
        true
    }

    /// It stands for another service of that name from now on, whose other settings have changed: what is known of
    /// servers that are in both lists goes on to count, and servers that were given stay.
    pub(crate) fn take_over(&self, old: &Arc<Self>) {
        match (&self.list, &old.list) {
            (List::Live(new), List::Live(live)) => new.take_over(live, old, &self.spec, self.sticky.as_deref()),
            (List::One(one), List::Live(_)) => old.follow_successor(std::slice::from_ref(one.spec())),
            (_, List::One(_)) => {}
        }
    }

    /// What the DNS says of a name, and when it is asked again. Returns whether that changes its servers.
    pub(crate) fn resolved(&self, name: &ServerName, found: Result<Vec<ServerSpec>, String>, next: Duration) -> bool {
        let List::Live(live) = &self.list else { return false };
        let Some(servers) = live.resolved(name, found, next, &self.spec, self.sticky.as_deref()) else { return false };
        live.tell_predecessors(&servers);
        true
    }

    /// Requests wait here yet, and the service that has taken over has these servers now.
    pub(crate) fn follow_successor(&self, servers: &[ServerSpec]) {
        if let List::Live(live) = &self.list {
            live.follow_successor(servers.to_vec(), &self.spec, self.sticky.as_deref());
            live.tell_predecessors(servers);
        }
    }

    /// What the settings list.
    fn listed(&self) -> Vec<ServerSpec> {
        match &self.list {
            List::One(one) => vec![one.spec().clone()],
            List::Live(live) => live.now().listed().to_vec(),
        }
    }

    /// Its settings but for its servers.
    #[must_use]
    pub fn spec(&self) -> &ExternalSpec {
        &self.spec
    }

    /// Its configured name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its servers, unless it is one of which there is nothing to know.
    pub(crate) fn live(&self) -> Option<&Live> {
        match &self.list {
            List::Live(live) => Some(live),
            List::One(_) => None,
        }
    }

    /// Its only server, of which there is nothing to know.
    pub(crate) fn only(&self) -> Option<&OneServer> {
        match &self.list {
            List::One(one) => Some(one),
            List::Live(_) => None,
        }
    }

    /// Whether the server of this number is one of its servers now.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.live().is_none_or(|live| live.now().of_number(number).is_some())
    }

    /// Has these servers from now on.
    ///
    /// # Errors
    /// The settings list its servers.
    pub(crate) fn give(&self, servers: &[ServerSpec]) -> Result<(), Listed> {
        match &self.list {
            List::One(_) => Err(Listed),
            List::Live(live) => {
                live.give(servers.to_vec(), &self.spec, self.sticky.as_deref())?;
                live.tell_predecessors(servers);
                Ok(())
            }
        }
    }

    /// TLS to its servers, if that is spoken.
    pub(crate) fn tls(&self) -> Option<Result<&ServerTls, &str>> {
        self.tls.as_ref().map(|tls| tls.as_ref().map_err(String::as_str))
    }

    pub(crate) fn offers_http2(&self) -> bool {
        self.spec.protocol == ServerProtocol::Https(Versions::Both)
    }

    /// Its servers, for people.
    pub(crate) fn address(&self) -> String {
        match &self.list {
            List::One(one) => one.address().to_owned(),
            List::Live(live) => {
                let now = live.now();
                let servers: Vec<&str> = now.all().iter().map(|one| one.address()).collect();
                servers.join(", ")
            }
        }
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

/// A random one if it cannot be read.
fn sticky_secret(spec: &ExternalSpec) -> Vec<u8> {
    let secret = spec.balance.sticky_key.as_deref().map(read_sticky_key).transpose().unwrap_or_else(|e| {
        tracing::error!(
            service = spec.name,
            "sticky_key cannot be used, clients may not come back to their servers: {e}"
        );
        Some((0..size_of::<u64>()).map(|_| fastrand::u8(..)).collect())
    });
    secret.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(hosts: &[&str]) -> Vec<ServerSpec> {
        hosts.iter().map(|host| ServerSpec::new(ExternalAddr::Tcp((*host).to_owned(), 80))).collect()
    }

    fn external(hosts: &[&str], balance: BalanceOptions) -> External {
        let one = ExternalSpec::one("app", ExternalAddr::Unix("/x".into()), ServerProtocol::Http1);
        External::new(ExternalSpec { servers: specs(hosts), balance, ..one })
    }

    fn sticky(hosts: &[&str], sticky_key: Option<PathBuf>) -> External {
        let by = BalanceBy::Sticky("at".to_owned());
        external(hosts, BalanceOptions { by, sticky_key, ..BalanceOptions::default() })
    }

    /// What clients are told of a server.
    fn id(external: &External, index: usize) -> String {
        external.live().unwrap().now().one(index).unwrap().id().unwrap().to_owned()
    }

    fn server_of(external: &External, id: &str) -> Option<usize> {
        external.live().unwrap().now().of_id(id.as_bytes())
    }

    #[test]
    fn a_server_is_known_by_its_id_in_any_order_and_only_with_the_secret() {
        let (one, other) = (sticky(&["a", "b"], None), sticky(&["b", "c", "a"], None));
        let id = id(&one, 0);
        assert_eq!((id.len(), server_of(&other, &id), server_of(&one, &id)), (16, Some(2), Some(0)));
        assert_eq!(server_of(&one, "a:80"), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        let keyed = || sticky(&["a", "b"], Some(file.path().to_owned()));
        assert_eq!(server_of(&keyed(), &id), None);
        assert!(keyed().follow(&keyed()));
        let before = keyed();
        std::fs::write(file.path(), "another").unwrap();
        assert!(!keyed().follow(&before));
    }

    fn addresses(external: &External) -> String {
        external.address()
    }

    #[test]
    fn one_server_has_no_list_and_cannot_be_given_another() {
        let one = external(&["a"], BalanceOptions::default());
        assert!(one.live().is_none() && one.give(&specs(&["b"])).is_err());
        assert!(one.follow(&external(&["a"], BalanceOptions::default())));
        assert!(!one.follow(&external(&["b"], BalanceOptions::default())));
        assert!(!one.follow(&external(&["a", "b"], BalanceOptions::default())));
    }

    #[test]
    fn a_reload_changes_what_is_listed_and_leaves_what_was_given() {
        let (balance, none) = (BalanceOptions::default(), &[] as &[&str]);
        let service = external(none, balance.clone());
        service.give(&specs(&["a", "b", "a"])).unwrap();
        assert_eq!(addresses(&service), "a:80, b:80", "each once");
        assert!(service.follow(&external(none, balance.clone())));
        assert_eq!(addresses(&service), "a:80, b:80");
        assert!(service.follow(&external(&["b", "c"], balance.clone())));
        assert_eq!(addresses(&service), "b:80, c:80");
        assert!(service.give(&specs(&["d"])).is_err(), "the file has them now");
        assert!(service.follow(&external(&["c"], balance.clone())), "it keeps its list");
        assert!(service.follow(&external(none, balance)));
        assert_eq!(addresses(&service), "");
        assert!(service.give(&specs(&["d"])).is_ok());
    }

    #[test]
    fn other_settings_make_another_service_that_takes_over_what_is_known() {
        use pilotlight_balance::{Ask, Ms};
        let now = crate::timing::millis(crate::timing::Moment::now());
        let other = || BalanceOptions { connect_timeout: Duration::from_secs(9), ..BalanceOptions::default() };
        let old = Arc::new(external(&[], BalanceOptions::default()));
        old.give(&specs(&["a", "b"])).unwrap();
        let before = old.live().unwrap().now();
        while !before.group().failed(0, now) {}
        assert_eq!(before.group().choose(Ask { now, ..Ask::default() }), Some(1));
        let new = Arc::new(external(&[], other()));
        assert!(!old.follow(&new));
        new.take_over(&old);
        let after = new.live().unwrap().now();
        assert_eq!((addresses(&new), after.group().open(1)), ("a:80, b:80".to_owned(), 1));
        assert!(after.group().is_ejected(0, Ms(now.0 + 1)));
        new.give(&specs(&["a", "b", "d"])).unwrap();
        assert_eq!(addresses(&old), "a:80, b:80, d:80", "requests may wait there yet");
        let listed = external(&["b", "c"], BalanceOptions::default());
        listed.take_over(&new);
        assert_eq!((addresses(&listed), listed.live().unwrap().now().group().open(0)), ("b:80, c:80".to_owned(), 1));
        assert_eq!((addresses(&old), addresses(&new)), (addresses(&listed), addresses(&listed)));
        external(&["e"], BalanceOptions::default()).take_over(&new);
        assert_eq!(addresses(&new), "e:80", "one server has no list");
    }
}
