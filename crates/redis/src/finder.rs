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
use crate::net::connect::{Connection, Purpose, connect_with};
use crate::net::lane::DialError;
use crate::proto::handshake::Role;
use crate::proto::sentinel::Order;

/// So long what was heard of a new primary is worth an attempt of its own, beside what Sentinels answer.
const HEARSAY: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug)]
pub(crate) struct Finder {
    config: Arc<Config>,
    /// The name of the primary, and the Sentinels to ask for it.
    sentinels: Option<Sentinels>,
    heard: watch::Sender<Option<Heard>>,
    /// Where the primary was connected to last.
    last: Mutex<Option<NodeAddress>>,
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
    config: Arc<Config>,
    purpose: Purpose,
    setup: Setup,
}

/// Somebody told of a new primary.
#[derive(Debug, Clone)]
struct Heard {
    address: NodeAddress,
    at: Instant,
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

    /// A connection to the primary, whose handshake ends with `setup`.
    ///
    /// # Errors
    /// Nobody who can be asked knows a server that is the primary, or it cannot be connected to.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub(crate) async fn connect(&self, purpose: Purpose, setup: &Setup) -> Result<Connection, DialError> {
        let mut heard = self.heard.subscribe();
        let connection = loop {
            heard.mark_unchanged();
            tokio::select! {
                biased;
                result = self.attempt(purpose, setup) => break result?,
                // An attempt at the old primary may hang: somebody knows better now.
                Ok(()) = heard.changed() => {}
            }
        };
        *self.last.lock() = Some(connection.address.clone());
        Ok(connection)
    }

    async fn attempt(&self, purpose: Purpose, setup: &Setup) -> Result<Connection, DialError> {
        let aim = Aim { config: Arc::clone(&self.config), purpose, setup: Arc::clone(setup) };
        let heard = self.heard.borrow().clone();
        if let Some(sentinels) = &self.sentinels {
            let hearsay = heard.filter(|heard| heard.at.elapsed() < HEARSAY).map(|heard| heard.address);
            return race::sentinels(sentinels, &aim, hearsay).await;
        }
        if let Some(Heard { address, .. }) = heard {
            // To where the server itself redirected. When that is gone, whoever is configured tells anew.
            match aim.connect(&address).await {
                Ok(connection) => return Ok(connection),
                Err(_) => self.forget(&address),
            }
        }
        match self.config.servers.as_slice() {
            [] => Err(DialError { text: "no server is configured".into(), is_final: true }),
            // The only one is what it is.
            [only] => aim.connect(only).await,
            servers => race::servers(self, servers, &aim).await,
        }
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
        Self { text: error.to_string().into(), is_final: error.is_permanent() }
    }
}
