//! The node that each port of the tunnel leads to.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilotlight_redis::ConnectError;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::raw::NodeKind;
use tokio::sync::{Notify, watch};

/// How long a reply that names an unknown node waits for its port.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);

/// The node that a port leads to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) node: NodeAddress,
    pub(super) kind: NodeKind,
    pub(super) ports: Arc<Ports>,
}

/// Which port leads to which node.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// By host and port, as the nodes are announced; a node may have an address and a name.
    pub(super) known: Mutex<HashMap<(String, u16), SocketAddr>>,
    pub(super) wanted: Notify,
    /// Counts the answers.
    pub(super) answers: watch::Sender<u64>,
    /// Nodes that could not be connected to when it was tried last.
    unreachable: Mutex<BTreeSet<NodeAddress>>,
}

impl Ports {
    /// The port for a node.
    pub(super) fn local(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(host.to_owned(), port)).copied()
    }

    /// The port for the only node that has this port, on whichever host.
    pub(super) fn only(&self, port: u16) -> Option<SocketAddr> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = known.iter().filter(|((_, known), _)| *known == port).map(|(_, local)| *local);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// Tells, once, that a node cannot be connected to, and that it can again.
    pub(super) fn note_attempt(&self, node: &NodeAddress, error: Option<&ConnectError>) {
        let mut unreachable = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) => {
                if unreachable.insert(node.clone()) {
                    eprintln!("tunnel: cannot connect: {error}");
                }
            }
            None => {
                if unreachable.remove(node) {
                    eprintln!("tunnel: {node} is reached again");
                }
            }
        }
    }

    /// Asks for the nodes anew and waits for the answer. False: there is none in time.
    pub(super) async fn refreshed(&self) -> bool {
        let mut answers = self.answers.subscribe();
        answers.mark_unchanged();
        self.wanted.notify_one();
        matches!(tokio::time::timeout(REFRESH_TIMEOUT, answers.changed()).await, Ok(Ok(())))
    }
}
