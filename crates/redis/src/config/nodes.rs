//! Which nodes there are and which of them is asked: topology, address map, replica reads.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::tls::TlsConfig;
use crate::address::NodeAddress;
use crate::credentials::CredentialProvider;

/// What the configured servers are.
#[derive(Debug, Clone, Default)]
pub enum Topology {
    /// One server. Of several, that which says it is the primary; the others are its replicas, for [`ReadFrom`].
    #[default]
    Standalone,
    /// Some nodes of a cluster: the others are learnt from them.
    Cluster,
    /// Sentinels, which know the primary.
    Sentinel(SentinelConfig),
}

/// How the primary is found through Sentinels.
///
/// ```
/// use pilotlight_redis::Config;
/// use pilotlight_redis::config::{NodeAddress, SentinelConfig, Topology};
///
/// let config = Config {
///     servers: vec![NodeAddress::tcp("one.example.org", 26379), NodeAddress::tcp("two.example.org", 26379)],
///     topology: Topology::Sentinel(SentinelConfig::new("mymaster")),
///     ..Config::default()
/// };
/// ```
#[derive(Debug, Clone)]
pub struct SentinelConfig {
    /// Name of the primary in the Sentinels' configuration.
    pub master_name: Arc<str>,
    /// Credentials for the Sentinels; those of the data servers are [`crate::Config::credentials`]. Default: none.
    pub credentials: Option<Arc<dyn CredentialProvider>>,
    /// TLS of the connections to the Sentinels. Default: none.
    pub tls: Option<TlsConfig>,
}

/// Who answers commands that only read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The primary: what was written before is read.
    #[default]
    Primary,
    /// A replica, chosen at random of those that are connected; the primary while none is. Reads may be stale.
    PreferReplica,
    /// A replica, chosen at random of those that are connected, never the primary: while no replica is, reads wait, and
    /// fail at their deadlines. Reads may be stale. For what must not be a burden to primaries.
    OnlyReplicas,
    /// The primary or the replica that answers soonest: of those whose latency is at most a quarter or 0.2 ms above the
    /// lowest, one at random. It is measured by a `PING` on each connection every second. Reads may be stale.
    LowestLatency,
    /// The primary and its replicas alike, chosen at random. Reads may be stale.
    RoundRobin,
    /// A replica in the same availability zone, else the primary if that is in the zone, else another replica, else the
    /// primary. Reads may be stale. Servers tell their zones (Valkey 8; `availability-zone`); for others, see
    /// [`zones`](crate::Config::zones).
    AzAffinity {
        /// The client's zone, as the servers' `availability-zone` setting spells it.
        zone: Arc<str>,
    },
}

/// From the address that a cluster or Sentinel announces to the one to dial: for NAT, port forwarding, containers. The
/// node keeps its announced address as identity.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
///
/// use pilotlight_redis::config::{AddressMap, NodeAddress};
///
/// let announced = NodeAddress::tcp("10.0.0.7", 7000);
/// let map = AddressMap::Table(Arc::new(HashMap::from([(announced.clone(), NodeAddress::tcp("localhost", 17000))])));
/// assert_eq!(map.apply(&announced).port(), Some(17000));
/// ```
#[derive(Clone, Default)]
pub enum AddressMap {
    /// Announced addresses are dialled.
    #[default]
    Identity,
    /// By table; others are dialled as announced.
    Table(Arc<HashMap<NodeAddress, NodeAddress>>),
    /// What the function answers; on `None`, the announced address.
    Function(Arc<AddressFunction>),
}

/// From an announced address to the one to dial.
pub type AddressFunction = dyn Fn(&NodeAddress) -> Option<NodeAddress> + Send + Sync;

/// How redirects are followed and the topology is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Redirects of one command. After the first two, each is preceded by a pause of up to 200 ms, in which the
    /// topology is asked for. Default: 64, which take about ten seconds: mostly the command's deadline comes first.
    pub max_redirects: u32,
    /// Least time between two refreshes of the topology. Default: 1 s.
    pub refresh_min_interval: Duration,
    /// Time between refreshes that nothing asked for. Default: 60 s; `None`: only when something is amiss.
    pub refresh_interval: Option<Duration>,
}

impl SentinelConfig {
    /// The primary called `master_name`, from Sentinels without credentials and TLS.
    #[must_use]
    pub fn new(master_name: impl Into<Arc<str>>) -> Self {
        Self { master_name: master_name.into(), credentials: None, tls: None }
    }
}

impl AddressMap {
    /// The address to dial for the node announced as `announced`.
    #[must_use]
    pub fn apply(&self, announced: &NodeAddress) -> NodeAddress {
        let mapped = match self {
            Self::Identity => None,
            Self::Table(table) => table.get(announced).cloned(),
            Self::Function(map) => map(announced),
        };
        mapped.unwrap_or_else(|| announced.clone())
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("Identity"),
            Self::Table(table) => f.debug_tuple("Table").field(table).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            max_redirects: 64,
            refresh_min_interval: Duration::from_secs(1),
            refresh_interval: Some(Duration::from_secs(60)),
        }
    }
}
