//! Finds the primary outside of a cluster: the only server, the one of several that says it is the primary, or the one
//! that Sentinels name.
//!
//! ```text
//!  only server ───────────────────────────────────┐
//!  several     ── one after the other, staggered ─┼─▶ connect ─▶ says it is a replica? next one
//!  Sentinels   ── asked together, staggered ──────┘
//! ```
//!
//! Whoever hears of a new primary meanwhile (`+switch-master`, `REDIRECT`) has all attempts begin anew.

mod race;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::command::Command;
use crate::config::{Config, NodeAddress, Topology};
use crate::engine::lane::DialError;
use crate::error::Reason;
use crate::net::connect::{Purpose, connect_with};
use crate::net::connection::Connection;
use crate::proto::handshake::Role;
use crate::proto::sentinel::Order;

/// So long what was heard of a new primary is worth an attempt of its own, beside what Sentinels answer.
const HEARSAY: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug)]
pub(crate) struct Finder {
    pub(super) config: Arc<Config>,
    /// The name of the primary, and the Sentinels to ask for it.
    pub(super) sentinels: Option<Sentinels>,
    pub(super) heard: watch::Sender<Option<Heard>>,
    /// Where the primary was connected to last.
    pub(super) last: Mutex<Option<NodeAddress>>,
}

#[derive(Debug)]
pub(crate) struct Sentinels {
    pub(crate) master_name: Arc<str>,
    pub(crate) order: Mutex<Order>,
}

/// Commands at the end of a handshake.
pub(crate) type Setup = Arc<[Command<'static>]>;

/// What kind of connection is wanted.
#[derive(Clone)]
struct Aim {
    pub(super) config: Arc<Config>,
    pub(super) purpose: Purpose,
    pub(super) setup: Setup,
}

/// Somebody told of a new primary.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) address: NodeAddress,
    pub(super) at: Instant,
}

impl Finder {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        let sentinels = match &config.topology {
            Topology::Sentinel(sentinel) => Some(Sentinels {
                master_name: Arc::clone(&sentinel.master_name),
                order: Mutex::new(Order::new(&config.servers)),
            }),
            Topology::Standalone | Topology::Cluster => None,
        };
        Self { config: Arc::clone(config), sentinels, heard: watch::Sender::new(None), last: Mutex::new(None) }
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The Sentinels, if there are any.
    pub(crate) fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// Where the primary was connected to last.
    pub(crate) fn last(&self) -> Option<NodeAddress> {
        self.last.lock().clone()
    }

    /// Somebody who should know says that the primary is at `address` now.
    pub(crate) fn hear(&self, address: &NodeAddress) {
        self.heard.send_if_modified(|heard| {
            let is_news = heard.as_ref().is_none_or(|heard| heard.address != *address || heard.at.elapsed() > HEARSAY);
            if is_news {
                *heard = Some(Heard { address: address.clone(), at: Instant::now() });
            }
            is_news
        });
    }

    fn forget(&self, address: &NodeAddress) {
        self.heard.send_if_modified(|heard| {
            if heard.as_ref().is_some_and(|heard| heard.address == *address) {
                *heard = None;
            }
            // Nobody has to begin anew because of this.
            false
        });
    }
}

impl Aim {
    async fn connect(&self, address: &NodeAddress) -> Result<Connection, DialError> {
        Ok(connect_with(&self.config, address, self.purpose, &self.setup).await?)
    }

    /// A connection to a server that does not say that it is a replica.
    async fn connect_primary(&self, address: &NodeAddress) -> Result<Connection, DialError> {
        let connection = self.connect(address).await?;
        match connection.server.role {
            Some(Role::Replica) => Err(DialError { text: format!("{address}: is a replica").into(), is_final: false }),
            Some(Role::Primary) | None => Ok(connection),
        }
    }
}

impl From<crate::net::ConnectError> for DialError {
    fn from(error: crate::net::ConnectError) -> Self {
        let is_final = error.is_permanent();
        Self { text: Reason::of(error), is_final }
    }
}
