//! Invalidations of this gateway, on their way to Redis and for a while after.
//!
//! Each begins a new generation of its target. Until a read finds that generation in Redis, what it finds is from
//! before and is not used: so an invalidation counts on this gateway at once, also while Redis is away, and also if a
//! failover loses it. It is sent again until Redis has it, and is remembered for [`TOMBSTONE`] after that.
//!
//! Bounded by [`MAX_INVALIDATIONS`]; when there are more, nothing in Redis that was received before that moment is used
//! any more here.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use pilotlight_cache::{Invalidations, Key, Timestamp};
use tokio::sync::Notify;

use crate::keys::{Hash, Keys, Name};
use crate::options::{MAX_CLOCK_SKEW, MAX_INVALIDATIONS, TOMBSTONE};
use crate::record::Generation;

/// See the module. Shared by all workers.
#[derive(Debug)]
pub(crate) struct Invalid {
    keys: Keys,
    table: Mutex<Table>,
    /// As many as the table has, so that a gateway without any takes no lock.
    count: AtomicUsize,
    /// Milliseconds since 1970; what was received before is not used.
    floor: AtomicU64,
    /// Something is to be sent.
    pub(crate) wanted: Notify,
}

#[derive(Debug, Default)]
struct Table {
    targets: HashMap<Hash, Target>,
    unsent: VecDeque<Name>,
    /// Those that Redis has, by the time from which on they may be forgotten.
    sent: VecDeque<(Instant, Hash)>,
}

#[derive(Debug)]
struct Target {
    generation: Generation,
    forget_at: Option<Instant>,
}

impl Invalid {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            table: Mutex::default(),
            count: AtomicUsize::new(0),
            floor: AtomicU64::new(0),
            wanted: Notify::new(),
        }
    }

    /// The generation that this gateway waits to see of a target.
    pub(crate) fn expected(&self, name: &Name) -> Option<Generation> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().targets.get(&name.hash).map(|target| target.generation)
    }

    /// Whether a response of that age may be used.
    pub(crate) fn trusts(&self, received: Timestamp) -> bool {
        received.0 > self.floor.load(Ordering::Acquire)
    }

    /// How many are remembered, and how many of those Redis has not got yet.
    pub(crate) fn len(&self) -> (usize, usize) {
        let table = self.lock();
        (table.targets.len(), table.targets.values().filter(|target| target.forget_at.is_none()).count())
    }

    /// The next to be sent.
    pub(crate) fn next(&self) -> Option<(Name, Generation)> {
        let mut table = self.lock();
        while let Some(name) = table.unsent.pop_front() {
            if let Some(target) = table.targets.get(&name.hash) {
                return Some((name, target.generation));
            }
        }
        None
    }

    /// It could not be sent.
    pub(crate) fn put_back(&self, name: Name) {
        self.lock().unsent.push_back(name);
    }

    /// Redis has it.
    pub(crate) fn sent(&self, name: &Name, generation: Generation, now: Instant) {
        let mut table = self.lock();
        let Some(target) = table.targets.get_mut(&name.hash) else { return };
        if target.generation == generation {
            target.forget_at = Some(now + TOMBSTONE);
            table.sent.push_back((now + TOMBSTONE, name.hash));
        }
        // Another one has come meanwhile, which is among the unsent.
        self.forget(table, now);
    }

    fn add(&self, name: Name, generation: Generation, now: Instant) {
        let mut table = self.lock();
        if table.targets.len() >= MAX_INVALIDATIONS && !table.targets.contains_key(&name.hash) {
            let horizon = Timestamp::from_system(SystemTime::now() + MAX_CLOCK_SKEW);
            tracing::warn!(
                "more than {MAX_INVALIDATIONS} invalidations wait for Redis: what it has from before now is not used any more"
            );
            self.floor.store(horizon.0, Ordering::Release);
            *table = Table::default();
        }
        table.targets.insert(name.hash, Target { generation, forget_at: None });
        table.unsent.push_back(name);
        self.forget(table, now);
        self.wanted.notify_one();
    }

    fn forget(&self, mut table: MutexGuard<'_, Table>, now: Instant) {
        while let Some((_, hash)) = table.sent.front().copied().filter(|(at, _)| *at <= now) {
            table.sent.pop_front();
            // Not if it was invalidated again since.
            if table.targets.get(&hash).and_then(|target| target.forget_at).is_some_and(|at| at <= now) {
                table.targets.remove(&hash);
            }
        }
        self.count.store(table.targets.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Consistent between any two statements.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Invalidations for Invalid {
    fn invalidated(&self, key: &Key<'_>) {
        self.add(self.keys.name(key), Generation::random(), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const KEY: Key<'_> = Key { scheme: "http", authority: "a", target: "/", extra: "" };

    #[test]
    fn an_invalidation_is_expected_until_some_time_after_it_was_sent() {
        let keys = Keys::new("p");
        let invalid = Invalid::new(keys.clone());
        let (name, now) = (keys.name(&KEY), Instant::now());
        assert_eq!(invalid.expected(&name), None);
        invalid.invalidated(&KEY);
        let (sent, generation) = invalid.next().unwrap();
        assert_eq!((sent, invalid.expected(&name)), (name.clone(), Some(generation)));
        invalid.put_back(name.clone());
        assert_eq!(invalid.next(), Some((name.clone(), generation)));
        assert_eq!(invalid.next(), None);
        invalid.sent(&name, generation, now);
        assert_eq!((invalid.expected(&name), invalid.len()), (Some(generation), (1, 0)));
        invalid.forget(invalid.lock(), now + TOMBSTONE - Duration::from_millis(1));
        assert_eq!(invalid.expected(&name), Some(generation));
        invalid.forget(invalid.lock(), now + TOMBSTONE);
        assert_eq!((invalid.expected(&name), invalid.len()), (None, (0, 0)));
    }

    #[test]
    fn one_that_comes_while_another_is_sent_is_sent_as_well() {
        let keys = Keys::new("p");
        let invalid = Invalid::new(keys.clone());
        let name = keys.name(&KEY);
        invalid.invalidated(&KEY);
        let (_, first) = invalid.next().unwrap();
        invalid.invalidated(&KEY);
        invalid.sent(&name, first, Instant::now());
        let (_, second) = invalid.next().unwrap();
        assert_ne!(first, second);
        assert_eq!((invalid.expected(&name), invalid.len()), (Some(second), (1, 1)));
    }

    #[test]
    fn too_many_are_one_distrust_of_everything() {
        let keys = Keys::new("p");
        let invalid = Invalid::new(keys);
        let before = Timestamp::from_system(SystemTime::now());
        assert!(invalid.trusts(before));
        for number in 0..=MAX_INVALIDATIONS {
            invalid.invalidated(&Key { target: &number.to_string(), ..KEY });
        }
        assert!(!invalid.trusts(before));
        assert_eq!(invalid.len().0, 1);
        let later = Timestamp::from_system(SystemTime::now() + MAX_CLOCK_SKEW + Duration::from_secs(1));
        assert!(invalid.trusts(later));
    }
}
