//! The servers of services, changed and asked for while the gateway runs by a program that has it in its own process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::gateway::Gateway;
use crate::options::{External, ServerSpec, ServiceTarget};
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

/// What is shared about changes of servers.
#[derive(Default)]
pub(crate) struct ServerChanges {
    /// Held while a list is given, and while a reload replaces services, so that the one does not undo the other.
    changing: Mutex<()>,
    /// Told when a list has changed.
    pub(crate) changed: Arc<Notify>,
    /// Services that need a server, until somebody takes their names. Each is there once.
    needed: Mutex<VecDeque<Arc<str>>>,
    needed_now: Notify,
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
    pub fn set(&self, service: &str, servers: Vec<ServerSpec>) -> Result<(), SetError> {
        let changes = &self.common.server_changes;
        let _changing = changes.hold();
        let table = self.common.table.load();
        let listed = || SetError::Listed(service.to_owned());
        match table.services().iter().find(|target| target.name() == service) {
            None => return Err(SetError::NoService(service.to_owned())),
            Some(ServiceTarget::Managed(..)) => return Err(listed()),
            Some(ServiceTarget::External(external)) => external.give(servers).map_err(|_| listed())?,
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

impl ServerChanges {
    /// Nobody gives servers while this is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request waits for a service that has no server.
    pub(crate) fn need(&self, external: &External) {
        if !external.live().is_some_and(|live| live.is_needed_anew()) {
            return;
        }
        tracing::debug!(service = external.name(), "a request waits for its first server");
        let mut needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        if !needed.iter().any(|name| **name == *external.name()) {
            needed.push_back(Arc::from(external.name()));
            self.needed_now.notify_one();
        }
    }

    fn take_needed(&self) -> Option<Arc<str>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use pilotlight_balance::Ask;
    use pilotlight_supervisor::QueueLimits;
    use tokio::task::yield_now;

    use super::*;
    use crate::options::{ExternalAddr, ExternalSpec, ServerProtocol};

    const SECOND: Duration = Duration::from_secs(1);

    fn server(host: &str) -> ServerSpec {
        ServerSpec::new(ExternalAddr::Tcp(host.to_owned(), 80))
    }

    /// A service without servers, of which requests wait this long.
    fn service(timeout: Duration) -> External {
        let one = ExternalSpec::one("app", ExternalAddr::Unix("/x".into()), ServerProtocol::Http1);
        External::new(ExternalSpec { servers: Vec::new(), queue: QueueLimits { max: 8, timeout }, ..one })
    }

    /// What a request does that finds no server: it gets the address of one.
    async fn request(service: &External, changes: &ServerChanges) -> Option<String> {
        let live = service.live()?;
        let place = live.line().join()?;
        let look = || {
            let now = live.now();
            let found = now.group().choose(Ask::default());
            if found.is_none() {
                changes.need(service);
            }
            now.one(found?).map(|one| one.address().to_owned())
        };
        place.wait(look).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_in_order_when_a_server_comes() {
        let (service, changes, order) = (service(30 * SECOND), ServerChanges::default(), RefCell::default());
        let one = |number: u64| {
            let (service, changes, order) = (&service, &changes, &order);
            async move {
                tokio::time::sleep(SECOND * number as u32).await;
                assert_eq!(request(service, changes).await.as_deref(), Some("a:80"));
                RefCell::<Vec<u64>>::borrow_mut(order).push(number);
            }
        };
        let giving = async {
            tokio::time::sleep(10 * SECOND).await;
            assert_eq!(service.live().unwrap().waiting(), 4);
            service.give(vec![server("a")]).unwrap();
        };
        tokio::join!(one(3), one(1), one(2), one(4), giving);
        assert_eq!(*order.borrow(), [1, 2, 3, 4]);
        assert_eq!(changes.take_needed().as_deref(), Some("app"), "told once");
        assert_eq!(changes.take_needed(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_need_is_told_once_until_it_is_over() {
        let (service, changes) = (service(5 * SECOND), ServerChanges::default());
        let ask = || request(&service, &changes);
        assert_eq!(tokio::join!(ask(), ask()), (None, None), "nobody came");
        assert_eq!((changes.take_needed().as_deref(), changes.take_needed()), (Some("app"), None));
        let waits = Cell::new(true);
        let again = async {
            assert_eq!(ask().await.as_deref(), Some("b:80"));
            waits.set(false);
        };
        let giving = async {
            tokio::time::sleep(SECOND).await;
            assert_eq!(changes.take_needed().as_deref(), Some("app"), "another need");
            service.give(Vec::new()).unwrap();
            tokio::time::sleep(SECOND).await;
            assert_eq!(changes.take_needed(), None, "the same");
            service.give(vec![server("b")]).unwrap();
            while waits.get() {
                yield_now().await;
            }
        };
        tokio::join!(again, giving);
        service.give(Vec::new()).unwrap();
        assert_eq!(ask().await, None);
        assert_eq!(changes.take_needed().as_deref(), Some("app"), "it was gone again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_is_not_waited_for() {
        let (service, changes) = (service(30 * SECOND), ServerChanges::default());
        let leaves = tokio::time::timeout(SECOND, request(&service, &changes));
        let (left, stays) = tokio::join!(leaves, async {
            let giving = async {
                tokio::time::sleep(2 * SECOND).await;
                assert_eq!(service.live().unwrap().waiting(), 1);
                service.give(vec![server("c")]).unwrap();
            };
            tokio::join!(request(&service, &changes), giving).0
        });
        assert!(left.is_err());
        assert_eq!(stays.as_deref(), Some("c:80"));
    }
}
