//! Users whose removal from Redis failed: this process does not read them there until it has succeeded, or they are too old to be
//! there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

use super::{LEASE, TTL};

/// Users that are remembered. Beyond, nothing at all is read from Redis until it can have no old user any more.
const MAX_USERS: usize = 65_536;
/// What was put before a write, or with a lease from before it, is gone after this.
const GONE_AFTER: Duration = Duration::from_millis((TTL.as_millis() + LEASE.as_millis()) as u64);

/// Shared by the threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Looked at by every read; `false` nearly always.
    any: AtomicBool,
    state: Mutex<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// With the time of the last write.
    users: HashMap<i64, Instant, FxBuildHasher>,
    /// More than can be remembered: nothing is read before.
    all_until: Option<Instant>,
}

impl Pending {
    pub(super) fn add(&self, id: i64, now: Instant) {
        let mut state = self.lock();
        if state.users.len() >= MAX_USERS && !state.users.contains_key(&id) {
            state.all_until = Some(now + GONE_AFTER);
        } else {
            state.users.insert(id, now);
        }
        self.any.store(true, Ordering::Release);
        drop(state);
        self.added.notify_one();
    }

    /// Whether Redis may have an old state of this user.
    pub(super) fn has(&self, id: i64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let state = self.lock();
        state.all_until.is_some() || state.users.contains_key(&id)
    }

    /// Its removal succeeded, if it was not written again after `since`.
    pub(super) fn removed(&self, id: i64, since: Instant) {
        let mut state = self.lock();
        if state.users.get(&id).is_some_and(|last| *last <= since) {
            state.users.remove(&id);
        }
        self.any.store(!state.is_empty(), Ordering::Release);
    }

    /// Some users to be removed; those that can be there no more are forgotten.
    pub(super) fn some(&self, count: usize, now: Instant) -> Vec<i64> {
        let mut state = self.lock();
        state.users.retain(|_, since| now.saturating_duration_since(*since) < GONE_AFTER);
        state.all_until = state.all_until.filter(|until| now < *until);
        self.any.store(!state.is_empty(), Ordering::Release);
        state.users.keys().take(count).copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Waits for one more.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.all_until.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_pending_until_removed_or_gone() {
        let (pending, start) = (Pending::default(), Instant::now());
        let second = Duration::from_secs(1);
        pending.add(1, start);
        pending.add(2, start);
        assert!(pending.has(1) && pending.has(2) && !pending.has(3));
        pending.add(1, start + second);
        pending.removed(1, start);
        assert!(pending.has(1), "it was written again");
        pending.removed(1, start + second);
        assert!(!pending.has(1));
        assert_eq!(pending.some(9, start + second), [2]);
        assert_eq!(pending.some(9, start + GONE_AFTER), [0_i64; 0]);
        assert!(pending.is_empty() && !pending.has(2));
    }

    #[test]
    fn more_than_can_be_remembered_is_everything() {
        let (pending, start) = (Pending::default(), Instant::now());
        for id in 0..=MAX_USERS as i64 {
            pending.add(id, start);
        }
        assert!(pending.has(-1));
        pending.some(1, start + GONE_AFTER);
        assert!(!pending.has(-1));
    }
}
