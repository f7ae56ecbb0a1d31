//! What workers and those who give servers tell each other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::options::{External, ServiceTarget};

/// What is shared about changes of servers.
#[derive(Default)]
pub(crate) struct ServerChanges {
    /// Held while a list is given, and while a reload replaces services, so that the one does not undo the other.
    changing: Mutex<()>,
    /// Told when a list has changed.
    pub(crate) changed: Arc<Notify>,
    /// Services that need a server, until somebody takes their names. Each is there once.
    needed: Mutex<VecDeque<Arc<str>>>,
    pub(crate) needed_now: Notify,
    /// Services that a reload has taken away while requests waited there, as long as they do.
    left: Mutex<Vec<Weak<External>>>,
}

impl ServerChanges {
    /// Nobody gives servers while this is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Services replace others. New objects go on from what is known of the servers of those of their names, and serve
    /// the requests that wait there; also of one that was taken away for a while.
    pub(crate) fn replace(&self, new: &[ServiceTarget], old: &[ServiceTarget]) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let away = left.iter().filter_map(Weak::upgrade).chain(old.iter().filter_map(external).cloned());
        // Of two of one name the one that is there counts.
        let mut known: HashMap<String, Arc<External>> = away.map(|one| (one.name().to_owned(), one)).collect();
        for one in new.iter().filter_map(external) {
            if let Some(old) = known.remove(one.name()).filter(|old| !Arc::ptr_eq(old, one)) {
                one.take_over(&old);
            }
        }
        let is_waited_for = |one: &Arc<External>| one.live().is_some_and(|live| live.waiting() > 0);
        *left = known.values().filter(|one| is_waited_for(one)).map(Arc::downgrade).collect();
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

    /// The name of one of them.
    pub(crate) fn take_needed(&self) -> Option<Arc<str>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

fn external(target: &ServiceTarget) -> Option<&Arc<External>> {
    match target {
        ServiceTarget::External(external) => Some(external),
        ServiceTarget::Managed(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use pilotlight_balance::Ask;
    use pilotlight_supervisor::QueueLimits;
    use tokio::task::yield_now;

    use super::*;
    use crate::options::{ExternalAddr, ExternalSpec, ServerProtocol, ServerSpec};
    use crate::timing::{Moment, millis};

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
        place.wait(Duration::ZERO, look).await
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
            service.give(&[server("a")]).unwrap();
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
            service.give(&[]).unwrap();
            tokio::time::sleep(SECOND).await;
            assert_eq!(changes.take_needed(), None, "the same");
            service.give(&[server("b")]).unwrap();
            while waits.get() {
                yield_now().await;
            }
        };
        tokio::join!(again, giving);
        service.give(&[]).unwrap();
        assert_eq!(ask().await, None);
        assert_eq!(changes.take_needed().as_deref(), Some("app"), "it was gone again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_no_connection_is_like_none() {
        let (service, changes) = (service(30 * SECOND), ServerChanges::default());
        service.give(&[server("gone")]).unwrap();
        assert_eq!(request(&service, &changes).await.as_deref(), Some("gone:80"));
        service.live().unwrap().now().group().refused(0, millis(Moment::now()));
        let giving = async {
            tokio::time::sleep(SECOND).await;
            assert_eq!(changes.take_needed().as_deref(), Some("app"), "the service is reported as one without servers");
            service.give(&[server("gone"), server("next")]).unwrap();
        };
        let (found, ()) = tokio::join!(request(&service, &changes), giving);
        assert_eq!(found.as_deref(), Some("next:80"));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_service_that_goes_and_comes_back_is_served() {
        let (changes, target) =
            (ServerChanges::default(), |one: &Arc<External>| ServiceTarget::External(Arc::clone(one)));
        let (old, new) = (Arc::new(service(30 * SECOND)), Arc::new(service(20 * SECOND)));
        let reloads = async {
            tokio::time::sleep(SECOND).await;
            changes.replace(&[], &[target(&old)]);
            changes.replace(&[], &[]);
            tokio::time::sleep(SECOND).await;
            changes.replace(&[target(&new)], &[]);
            assert_eq!(new.live().unwrap().waiting(), 1);
            new.give(&[server("back")]).unwrap();
        };
        let (found, ()) = tokio::join!(request(&old, &changes), reloads);
        assert_eq!(found.as_deref(), Some("back:80"));
        changes.replace(&[], &[target(&new)]);
        assert!(changes.left.lock().unwrap().is_empty(), "nobody waits");
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_is_not_waited_for() {
        let (service, changes) = (service(30 * SECOND), ServerChanges::default());
        let leaves = tokio::time::timeout(SECOND, request(&service, &changes));
        let (left, stays) = tokio::join!(leaves, async {
            let giving = async {
                tokio::time::sleep(2 * SECOND).await;
                assert_eq!(service.live().unwrap().waiting(), 1);
                service.give(&[server("c")]).unwrap();
            };
            tokio::join!(request(&service, &changes), giving).0
        });
        assert!(left.is_err());
        assert_eq!(stays.as_deref(), Some("c:80"));
    }
}
