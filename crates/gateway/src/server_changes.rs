//! What workers and those who give servers tell each other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::options::External;

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

    /// The name of one of them.
    pub(crate) fn take_needed(&self) -> Option<Arc<str>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
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
    use crate::timing::{Moment, millis};
    use crate::options::{ExternalAddr, ExternalSpec, ServerProtocol, ServerSpec};

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
            assert_eq!(changes.take_needed().as_deref(), Some("app"), "it is told as if there were none");
            service.give(&[server("gone"), server("next")]).unwrap();
        };
        let (found, ()) = tokio::join!(request(&service, &changes), giving);
        assert_eq!(found.as_deref(), Some("next:80"));
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
