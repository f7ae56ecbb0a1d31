//! Users whom Redis may have in an old state: their write could not be claimed there, or not be released. This process
//! does not read them there until they were removed after the write, or are too old to be there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

use super::{LEASE, TTL};

/// Users that are remembered after their write. Beyond, nothing at all is read from Redis until it can have no old user
/// any more.
const MAX_USERS: usize = 65_536;
/// What was put before the end of a write, or with a lease from before it, is gone after this.
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
    users: HashMap<i64, User, FxBuildHasher>,
    /// More than can be remembered: nothing is read before.
    all_until: Option<Instant>,
}

#[derive(Debug)]
struct User {
    /// Writes under way that have no claim.
    unclaimed: usize,
    /// When the last write ended.
    since: Instant,
}

/// A write under way that has no claim; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Unclaimed {
    pending: Arc<Pending>,
    id: i64,
}

impl Pending {
    /// To be called before the commit: who has read the new state must not find the old one in Redis afterwards.
    pub(super) fn begin(self: &Arc<Self>, id: i64, now: Instant) -> Unclaimed {
        let mut state = self.lock();
        state.users.entry(id).or_insert(User { unclaimed: 0, since: now }).unclaimed += 1;
        self.any.store(true, Ordering::Release);
        Unclaimed { pending: Arc::clone(self), id }
    }

    /// A write has ended, and its user is to be removed.
    pub(super) fn add(&self, id: i64, now: Instant) {
        self.end(id, 0, now);
    }

    /// As [`add`](Self::add); `unclaimed` of the user's writes under way were this one.
    fn end(&self, id: i64, unclaimed: usize, now: Instant) {
        let mut state = self.lock();
        let user = state.users.entry(id).or_insert(User { unclaimed, since: now });
        user.unclaimed -= unclaimed;
        user.since = now;
        if user.unclaimed == 0 && state.users.len() > MAX_USERS {
            state.users.remove(&id);
            state.all_until = Some(now + GONE_AFTER);
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

    /// A removal that began at `begin` has succeeded. It counts if no write was under way then, or has come since.
    pub(super) fn removed(&self, id: i64, begin: Instant) {
        let mut state = self.lock();
        if state.users.get(&id).is_some_and(|user| user.unclaimed == 0 && user.since <= begin) {
            state.users.remove(&id);
        }
        self.any.store(!state.is_empty(), Ordering::Release);
    }

    /// Some users to be removed; those that can be there no more are forgotten.
    pub(super) fn some(&self, count: usize, now: Instant) -> Vec<i64> {
        let mut state = self.lock();
        let is_young = |user: &User| now.saturating_duration_since(user.since) < GONE_AFTER;
        state.users.retain(|_, user| user.unclaimed > 0 || is_young(user));
        state.all_until = state.all_until.filter(|until| now < *until);
        self.any.store(!state.is_empty(), Ordering::Release);
        let ended = state.users.iter().filter(|(_, user)| user.unclaimed == 0);
        ended.map(|(id, _)| *id).take(count).collect()
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

impl Drop for Unclaimed {
    fn drop(&mut self) {
        self.pending.end(self.id, 1, Instant::now());
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
    fn while_a_write_without_a_claim_is_under_way_no_removal_counts_and_no_time() {
        let (pending, start) = (Arc::new(Pending::default()), Instant::now());
        let write = pending.begin(1, start);
        assert!(pending.has(1));
        let later = Instant::now() + GONE_AFTER;
        pending.removed(1, later);
        assert_eq!(pending.some(9, later), [0_i64; 0], "it would be in vain");
        let other = pending.begin(1, start);
        drop(write);
        pending.removed(1, later);
        assert!(pending.has(1), "the other one");
        drop(other);
        assert_eq!(pending.some(9, Instant::now()), [1]);
        pending.removed(1, start);
        assert!(pending.has(1), "that removal began before the end");
        pending.removed(1, Instant::now());
        assert!(pending.is_empty());
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
