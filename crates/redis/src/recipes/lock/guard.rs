//! Who holds a lock.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::keeper::{self, Orders};
use super::server::ServerLock;
use super::state::{Held, Lost};

/// A lock that is held. A task renews it until it is [released](Self::release), lost or dropped. Dropping it has that
/// task release the lock, if its runtime still runs; otherwise the lock ends by itself.
///
/// ```no_run
/// use std::time::Duration;
///
/// use pilotlight_redis::recipes::{Lock, LockError};
///
/// # async fn write(token: u64) {}
/// # async fn example(lock: &Lock) -> Result<(), LockError> {
/// let guard = lock.acquire(Duration::from_secs(5)).await?;
/// tokio::select! {
///     () = write(guard.token()) => assert!(guard.release().await),
///     why = guard.lost() => eprintln!("given up: {why:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LockGuard {
    token: u64,
    state: watch::Receiver<Held>,
    orders: watch::Sender<Orders>,
}

impl LockGuard {
    pub(super) fn new(lock: Arc<ServerLock>, holder: Arc<[u8]>, token: u64, since: Instant) -> Self {
        let state = watch::Sender::new(Held::Until(lock.valid_until(since)));
        let (orders, ordered) = watch::channel(Orders::Keep);
        let receiver = state.subscribe();
        // Its owner is this guard: it ends when the guard does, after one more command.
        tokio::spawn(keeper::keep(lock, holder, state, ordered));
        Self { token, state: receiver, orders }
    }

    /// The fencing token: above zero, and larger than that of any holder before. It goes with everything that is done
    /// under the lock, to a resource that refuses smaller ones than it has seen.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether the lock is held as far as can be known here. True is no proof: see [`Lock`](crate::recipes::Lock).
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(*self.state.borrow(), Held::Until(until) if Instant::now() < until)
    }

    /// Waits until the lock is lost: at the latest when it would have expired without a renewal.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> Lost {
        let mut state = self.state.clone();
        loop {
            let until = match *state.borrow_and_update() {
                Held::Until(until) => until,
                Held::Lost(lost) => return lost,
                Held::Released => return Lost::Taken,
            };
            match tokio::time::timeout_at(until.into(), state.changed()).await {
                Ok(Ok(())) => {}
                // The keeper does not run any more, as its runtime was shut down.
                Ok(Err(_)) => {
                    tokio::time::sleep_until(until.into()).await;
                    return Lost::Expired;
                }
                Err(_) => return Lost::Expired,
            }
        }
    }

    /// Gives the lock back: deletes it if it is this holder's. `false`: it was lost before, or the server does not
    /// answer, and it ends by its time to live; also if the reply to the deletion was lost, and a second one found
    /// nothing.
    ///
    /// # Cancel safety
    /// It is given back nevertheless, if the runtime goes on.
    pub async fn release(self) -> bool {
        let _ = self.orders.send(Orders::Release);
        let mut state = self.state.clone();
        loop {
            match *state.borrow_and_update() {
                Held::Released => return true,
                Held::Lost(_) => return false,
                Held::Until(_) => {}
            }
            if state.changed().await.is_err() {
                return false;
            }
        }
    }
}
