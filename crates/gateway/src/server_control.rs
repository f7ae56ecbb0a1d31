//! The servers of services, changed and asked for while the gateway runs by a program that has it in its own process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gateway::Gateway;
use crate::options::{ServerSpec, ServiceTarget};
use crate::timing::Moment;
use crate::worker::Common;

/// Gives services their servers, and says which of them need one. Any thread may have one.
///
/// It has to do with services whose settings name no server (`url = []`): those of others are what the settings list.
#[derive(Clone)]
pub struct ServerControl {
    common: Arc<Common>,
}

/// Services that requests wait for though they have no server.
#[derive(Clone)]
pub struct Wanted {
    common: Arc<Common>,
}

/// What a service has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Its name.
    pub service: Arc<str>,
    /// Requests that are open at the servers that it has now.
    pub open: u32,
    /// Requests that wait for a server.
    pub waiting: usize,
    /// When a request began or ended last, if there was one.
    pub last_used: Option<Instant>,
}

/// Why a service was not given servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Perhaps a reload has taken it away.
    #[error("there is no service {0:?}")]
    NoService(String),
    /// Or Pilotlight starts it.
    #[error("the servers of the service {0:?} are those of its settings: with `url = []` they are given")]
    Listed(String),
}

impl Gateway {
    /// The servers of its services.
    #[must_use]
    pub fn servers(&self) -> ServerControl {
        ServerControl { common: Arc::clone(self.common()) }
    }
}

impl ServerControl {
    /// Replaces the servers of a service. Those that stay keep their connections and whatever is known of them; those
    /// that go get no further request and end those that they have. Requests that wait go on at once.
    ///
    /// A server whose address comes twice is there once; beyond [`MAX_SERVERS`](crate::MAX_SERVERS) they get no
    /// requests, and the log says so.
    ///
    /// # Errors
    /// There is no such service, or its settings list its servers. Nothing has changed then.
    pub fn set(&self, service: &str, servers: &[ServerSpec]) -> Result<(), SetError> {
        self.set_with(service, servers, 0)
    }

    /// The same; `without` of each thousand requests are answered with 500: the share of servers that do not exist.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_with(&self, service: &str, servers: &[ServerSpec], without: u16) -> Result<(), SetError> {
        let changes = &self.common.server_changes;
        let _changing = changes.hold();
        let table = self.common.table.load();
        let listed = || SetError::Listed(service.to_owned());
        match table.services().iter().find(|target| target.name() == service) {
            None => return Err(SetError::NoService(service.to_owned())),
            Some(ServiceTarget::Managed(..)) => return Err(listed()),
            Some(ServiceTarget::External(external)) => {
                external.give(servers).map_err(|_| listed())?;
                external.live().into_iter().for_each(|live| live.set_share_without_servers(without));
            }
        }
        changes.changed.notify_one();
        Ok(())
    }

    /// Services that need a server from now on, and those that do already.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted { common: Arc::clone(&self.common) }
    }

    /// What services have to do whose servers may change.
    #[must_use]
    pub fn activity(&self) -> Vec<Activity> {
        let (now, until) = (Instant::now(), Moment::now());
        let of = |target: &ServiceTarget| match target {
            ServiceTarget::External(external) => {
                let live = external.live()?;
                let ago = |moment| Duration::from_nanos(until.since(moment));
                Some(Activity {
                    service: Arc::from(external.name()),
                    open: live.now().open(),
                    waiting: live.waiting(),
                    last_used: live.last_used().and_then(|moment| now.checked_sub(ago(moment))),
                })
            }
            ServiceTarget::Managed(..) => None,
        };
        self.common.table.load().services().iter().filter_map(of).collect()
    }
}

impl Wanted {
    /// The name of a service that a request waits for though it has no server. It comes once for each need, which ends
    /// when the service has a server or nobody waits any more: this may have happened meanwhile. Where that has to be
    /// known, [`ServerControl::activity`] has what is true now.
    ///
    /// # Cancel safety
    /// Dropping it takes no name.
    pub async fn next(&self) -> Arc<str> {
        let changes = &self.common.server_changes;
        loop {
            let come = changes.needed_now.notified();
            if let Some(name) = changes.take_needed() {
                return name;
            }
            come.await;
        }
    }
}
