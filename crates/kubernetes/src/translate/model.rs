//! What all parts of a translation name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::snapshot::{Key, WorkloadKey};

/// How long a request waits for an endpoint of a Service that has none and that nothing wakes.
pub(super) const GAP: Duration = Duration::from_secs(1);

/// What the cluster does not say.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this class, of Gateways and of Ingresses.
    pub class_name: Option<String>,
    /// Added to ports below 1024.
    pub port_offset: u16,
    /// Where listeners are bound.
    pub bind: IpAddr,
    /// What statuses say of where the gateway is.
    pub addresses: Vec<String>,
    /// The folder of certificates.
    pub certificates: PathBuf,
    /// Ports that cannot be listened on, and why.
    pub unavailable: BTreeMap<u16, String>,
}

impl Options {
    /// Where a port of a Gateway is listened on.
    #[must_use]
    pub fn listened(&self, port: u16) -> u16 {
        if port < 1024 { port.saturating_add(self.port_offset) } else { port }
    }
}

/// Where requests of one service of the gateway go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    /// Services with their shares.
    pub parts: Vec<BackendPart>,
    /// What is woken for it.
    pub workloads: BTreeSet<WorkloadKey>,
    /// How many of each thousand requests are for backends that do not exist.
    pub without: u16,
}

/// A Service with its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendPart {
    /// The Service.
    pub service: Key,
    /// The name of its port.
    pub port: String,
    /// Its share.
    pub weight: u32,
}
