//! The settings of a client, and their defaults.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_resp::Limits;

use super::connector::Connector;
use super::nodes::{AddressMap, ClusterConfig, ReadFrom, Topology};
use super::tls::TlsConfig;
use crate::address::{DEFAULT_PORT, NodeAddress};
use crate::credentials::CredentialProvider;
use crate::observer::Observer;
use crate::proto::backoff::Backoff;

/// Everything a client is told. All fields have a default: start from a URL or [`Config::default`] and change what
/// matters.
///
/// ```
/// use std::time::Duration;
///
/// use pilotlight_redis::Config;
/// use pilotlight_redis::config::{Credentials, NodeAddress, ReadFrom};
///
/// let mut config = Config::cluster([NodeAddress::tcp("one.example.org", 7000), NodeAddress::tcp("two.example.org", 7000)])
///     .with_credentials(Credentials::new("ada", "secret"));
/// config.read_from = ReadFrom::PreferReplica;
/// config.command_timeout = Some(Duration::from_secs(1));
///
/// // The same, but for the password, from a URL.
/// let same = Config::from_url(
///     "redis+cluster://ada:secret@one.example.org:7000,two.example.org:7000?read_from=replica&command_timeout=1s",
/// )?;
/// assert_eq!(same.servers, config.servers);
/// # Ok::<(), pilotlight_redis::config::UrlError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers to begin with. Default: `localhost:6379`.
    pub servers: Vec<NodeAddress>,
    /// What the servers are. Default: standalone.
    pub topology: Topology,
    /// From the addresses that a cluster or Sentinel announces to those to dial. Default: the same.
    pub address_map: AddressMap,
    /// User and password, or whatever provides them. Default: none.
    pub credentials: Option<Arc<dyn CredentialProvider>>,
    /// Number of the database to select. Default: 0.
    pub database: u16,
    /// Name of the connections in `CLIENT LIST`: printable ASCII without blanks. Default: none.
    pub client_name: Option<Arc<str>>,
    /// Version of the protocol. Default: RESP3, or RESP2 where the server has no RESP3.
    pub protocol: ProtocolChoice,
    /// TLS, if it is wanted. Default: none. Needs the crate's feature `tls`.
    pub tls: Option<TlsConfig>,
    /// Makes the connections in the client's stead. Default: none.
    pub connector: Option<Arc<dyn Connector>>,
    /// Shared connections per node, at least 1. Commands of one key or slot use the same one. Default: 1.
    pub lanes: usize,
    /// Time for one connection attempt: name resolution, dialling, TLS and handshake together. Default: 5 s.
    pub connect_timeout: Duration,
    /// Time for one command, from its start to its reply. Default: 5 s; `None`: no deadline.
    pub command_timeout: Option<Duration>,
    /// Pauses between connection attempts. Default: 20 ms, doubled up to 5 s, with full jitter. To a primary that
    /// Sentinels name, none is longer than 1 s.
    pub reconnect: Backoff,
    /// TCP keep-alive. Default: after 15 s, every 5 s, 3 times; `None`: off.
    pub keepalive: Option<Keepalive>,
    /// The kernel drops a connection whose written bytes stay unacknowledged for so long (`TCP_USER_TIMEOUT`, on
    /// Linux). Default: 30 s; `None`: the kernel's own patience, about 15 minutes.
    pub tcp_user_timeout: Option<Duration>,
    /// Sends small segments at once (`TCP_NODELAY`). Default: true.
    pub no_delay: bool,
    /// How a dead connection is noticed.
    pub probe: Probe,
    /// Bytes of commands of one lane from their enqueueing to their replies. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// Calls that wait for room in `max_queued_bytes`, of one lane: each takes about 3 kB of memory while it waits. A
    /// call beyond them fails at once ([`ErrorKind::Crowded`](crate::ErrorKind::Crowded)). Default: 100,000.
    pub max_waiting_commands: usize,
    /// Commands of so many bytes and more, and reads whose last reply had so many, go to each node on a connection of
    /// their own, which all of them share: they delay no smaller ones. Of the commands of one key then only those keep
    /// their order that are awaited one after the other; pipelines are kept together, and go by the bytes that they
    /// send to a node. Default: none, all share the same connections.
    pub large_bytes: Option<usize>,
    /// While replies are awaited, or several commands wait to be written, the next write is put off for so long that
    /// more may join it: fewer and larger writes, for so much latency, at most 10 ms. A lone command is not put off.
    /// Times below a millisecond are spent in turns of the scheduler, not asleep. Default: none, one turn of the
    /// scheduler while callers come in crowds.
    pub flush_delay: Option<Duration>,
    /// Connections per node that are not shared: of blocking commands, and those that the caller has for itself.
    /// Default: 64.
    pub max_blocking_connections: usize,
    /// What a command does when `max_queued_bytes` is reached. Default: it waits.
    pub overload: Overload,
    /// What a command does while its node cannot be reached. Default: it is queued.
    pub when_down: WhenDown,
    /// Sends a random token (`ECHO`) behind each command, or all commands of a pipeline that go to one node, and gives
    /// out no reply before the token came back in its place: a server or proxy that drops or doubles a reply cannot
    /// shift those of other callers. It costs a second small command each time. What runs on a connection of its own,
    /// and caches, do without. Default: false.
    pub verify_replies: bool,
    /// The server is not to close these connections when it is short of memory for clients (`CLIENT NO-EVICT`, since
    /// 7.0, with `maxmemory-clients`). A server that refuses it refuses the connection; its user needs the right to it.
    /// Default: false.
    pub no_evict: bool,
    /// Commands of these connections do not count as uses of their keys, for evictions by LRU and LFU (`CLIENT
    /// NO-TOUCH`, since 7.2): for what looks at everything, such as backups and scans. A server that refuses it refuses
    /// the connection. Default: false.
    pub no_touch: bool,
    /// Limits of replies.
    pub reply_limits: Limits,
    /// How much may wait for a slow subscriber.
    pub subscription_limits: SubscriptionLimits,
    /// Who answers commands that only read; scans, whose cursors are a server's own, always go to the primary. Default:
    /// the primary.
    pub read_from: ReadFrom,
    /// Availability zones of servers that do not tell theirs, for [`ReadFrom::AzAffinity`]. Default: none.
    pub zones: Arc<HashMap<NodeAddress, Arc<str>>>,
    /// Redirects and refreshes in a cluster.
    pub cluster: ClusterConfig,
    /// Is told of each operation when it begins and ends: for metrics, traces and tests. Default: none.
    pub observer: Option<Arc<dyn Observer>>,
}

/// The version of the protocol to speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProtocolChoice {
    /// RESP3, or RESP2 where `HELLO 3` is refused.
    #[default]
    Auto,
    /// RESP2, without `HELLO`.
    Resp2,
    /// RESP3; a server that refuses it is an error.
    Resp3,
}

/// TCP keep-alive: the kernel asks an idle peer whether it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe. Default: 15 s.
    pub idle: Duration,
    /// Time between probes. Default: 5 s.
    pub interval: Duration,
    /// Unanswered probes after which the connection is dead. Default: 3.
    pub probes: u32,
}

/// How the client notices that a connection is dead which the kernel believes alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// A connection idle for so long is sent a `PING`. Default: 5 s; `None`: never.
    pub idle_ping: Option<Duration>,
    /// A connection from which a reply is due and nothing was read for so long is suspected: the topology of a cluster
    /// is looked at, and reads avoid the node if [`read_from`](Config::read_from) lets them. It is given up when the
    /// deadline of its oldest command has passed as well and the node answers elsewhere, when nobody waits on it, or
    /// when the topology says that the node is gone; never because a command is slow. Default: 2 s; `None`: never.
    pub stall: Option<Duration>,
}

/// What may wait in one [`Subscription`](crate::Subscription). When a limit is reached, the oldest messages are
/// dropped, and the subscriber is told how many ([`Event::Dropped`](crate::Event::Dropped)); other subscriptions are
/// not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionLimits {
    /// Messages. Default: 10,000.
    pub max_messages: usize,
    /// Bytes of messages with their channels, and about 100 for each message. One message is kept, however large.
    /// Default: 16 MiB.
    pub max_bytes: usize,
}

/// What happens to a command when a limit is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overload {
    /// It waits for its turn, until its deadline.
    #[default]
    Wait,
    /// It fails at once.
    Reject,
    /// It is taken, and the commands that have waited longest without being sent fail in its stead, so many that a
    /// sixteenth of the limit is free; if none waits to be sent, it fails at once. For callers to whom a late answer is
    /// worth nothing.
    Shed,
}

/// What happens to a command while there is no connection to its node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// It waits for the connection, until its deadline.
    #[default]
    Queue,
    /// It fails at once, once an attempt to connect has failed.
    FailFast,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: vec![NodeAddress::tcp("localhost", DEFAULT_PORT)],
            topology: Topology::default(),
            address_map: AddressMap::default(),
            credentials: None,
            database: 0,
            client_name: None,
            protocol: ProtocolChoice::default(),
            tls: None,
            connector: None,
            lanes: 1,
            connect_timeout: Duration::from_secs(5),
            command_timeout: Some(Duration::from_secs(5)),
            reconnect: Backoff::default(),
            keepalive: Some(Keepalive::default()),
            tcp_user_timeout: Some(Duration::from_secs(30)),
            no_delay: true,
            probe: Probe::default(),
            max_queued_bytes: 64 << 20,
            max_waiting_commands: 100_000,
            large_bytes: None,
            flush_delay: None,
            max_blocking_connections: 64,
            overload: Overload::default(),
            when_down: WhenDown::default(),
            verify_replies: false,
            no_evict: false,
            no_touch: false,
            reply_limits: Limits::default(),
            subscription_limits: SubscriptionLimits::default(),
            read_from: ReadFrom::default(),
            zones: Arc::default(),
            cluster: ClusterConfig::default(),
            observer: None,
        }
    }
}

impl Config {
    /// A standalone server, with defaults.
    #[must_use]
    pub fn standalone(server: NodeAddress) -> Self {
        Self { servers: vec![server], ..Self::default() }
    }

    /// A cluster of which `seeds` are known, with defaults.
    #[must_use]
    pub fn cluster(seeds: impl IntoIterator<Item = NodeAddress>) -> Self {
        Self { servers: seeds.into_iter().collect(), topology: Topology::Cluster, ..Self::default() }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster)
    }

    /// The same, with fixed credentials or a provider of them.
    #[must_use]
    pub fn with_credentials(mut self, provider: impl CredentialProvider + 'static) -> Self {
        self.credentials = Some(Arc::new(provider));
        self
    }

    /// The same, with TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// Topology and servers, as the beginning of a URL; no credentials.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "rediss" } else { "redis" })?;
        f.write_str(match (&self.topology, self.servers.first()) {
            (Topology::Cluster, _) => "+cluster://",
            (Topology::Sentinel(_), _) => "+sentinel://",
            (Topology::Standalone, Some(NodeAddress::Unix(_))) => "+unix://",
            (Topology::Standalone, _) => "://",
        })?;
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{server}")?;
        }
        match &self.topology {
            Topology::Sentinel(sentinel) => write!(f, "/{}/{}", sentinel.master_name, self.database),
            _ if self.database > 0 => write!(f, "?db={}", self.database),
            _ => Ok(()),
        }
    }
}

impl Default for SubscriptionLimits {
    fn default() -> Self {
        Self { max_messages: 10_000, max_bytes: 16 << 20 }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(15), interval: Duration::from_secs(5), probes: 3 }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self { idle_ping: Some(Duration::from_secs(5)), stall: Some(Duration::from_secs(2)) }
    }
}
