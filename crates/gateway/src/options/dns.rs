//! Servers that are followed by name.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use pilotlight_balance::MAX_SERVERS;

/// A name that stands for servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerName {
    /// Looked up in the DNS; with a dot at its end as it is, otherwise in the domains that are searched, too.
    pub name: String,
    /// What it is looked up for.
    pub kind: NameKind,
    /// The weight of each server; those of SRV records have their own.
    pub weight: u32,
}

/// What a name is looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// Addresses (A, AAAA) of servers that listen on this port.
    Addresses(u16),
    /// Servers (SRV, RFC 2782), with their ports, priorities and weights.
    Services,
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            NameKind::Addresses(port) => write!(f, "{}:{port}", self.name),
            NameKind::Services => write!(f, "srv:{}", self.name),
        }
    }
}

/// How names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsOptions {
    /// Servers of the DNS. Default none: those of the system (`/etc/resolv.conf`).
    pub servers: Vec<SocketAddr>,
    /// An answer counts for its TTL, but not for less than this. Default 1 s.
    pub min_ttl: Duration,
    /// Nor for more than this. Default 5 min.
    pub max_ttl: Duration,
    /// How long a question may take, all tries together. Default 5 s.
    pub timeout: Duration,
    /// Servers that one name may stand for; others get no requests. Default 64.
    pub max_addresses: usize,
    /// Which addresses are used. Default both.
    pub family: Family,
}

/// Addresses of which version of IP are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// All.
    #[default]
    Both,
    /// IPv4 (A).
    Ipv4,
    /// IPv6 (AAAA).
    Ipv6,
}

impl DnsOptions {
    /// Values of `min_ttl` and `max_ttl`.
    pub const TTL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
    /// Values of `max_addresses`.
    pub const MAX_ADDRESSES: RangeInclusive<usize> = 1..=MAX_SERVERS;
    /// Most servers of the DNS.
    pub const MAX_SERVERS: usize = 8;
}

impl Default for DnsOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(300),
            timeout: Duration::from_secs(5),
            max_addresses: 64,
            family: Family::Both,
        }
    }
}
