//! Who holds a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::Inner;
use super::keeper::{self, Orders};

/// A lock that is held. A task renews it until it is [released](Self::release), lost or dropped. Dropping it has that
/// task release the lock, if its runtime still runs; otherwise the lock ends by itself.
#[derive(Debug)]
pub struct LockGuard {
    token: u64,
    state: watch::Receiver<Held>,
    orders: watch::Sender<Orders>,
}

/// Whether it is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Until(Instant),
    Lost(Lost),
    /// By its guard.
    Released,
}

/// Why a lock is not held any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The server says so: it expired, was deleted, or a failover forgot it; somebody else may have it.
    Taken,
    /// No renewal came through in its time to live.
    Expired,
}

impl LockGuard {
    pub(super) fn new(lock: Arc<Inner>, holder: Arc<[u8]>, token: u64, since: Instant) -> Self {
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

    /// Whether the lock is held as far as can be known here. True is no proof: see [`Lock`](super::Lock).
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

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "the lock is not this holder's any more",
            Self::Expired => "the lock could not be renewed in time",
        })
    }
}
