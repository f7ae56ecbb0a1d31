//! What is counted for each key of each limit, in bounded memory that all workers share.
//!
//! ```text
//!  key ─ keyed hash ─▶ bucket (a lock of its own) ─▶ one of 8 places: hash, paid until
//! ```
//!
//! A key that is new takes the place of the one that is paid for the least of those in its bucket: mostly one whose
//! time is over, so nothing is lost with it. A client that floods the table with keys displaces other idle keys, and
//! never one that is at its limit while there is any other in its bucket.
//!
//! Invariant: a lock is held for at most one look at eight places, and by nobody who waits.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use super::rate::{Pace, Paid};
use crate::timing::Moment;

/// Keys that are known at a time, of all limits of a gateway.
const MAX_KEYS: usize = 128 * 1024;
const PLACES: usize = 8;
const BUCKETS: usize = MAX_KEYS / PLACES;
/// Locks of the counts of open requests.
const SHARDS: usize = 64;

/// The hash of a key with the limit that it is a key of; nobody who does not know the seed can make two of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(u64);

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// 0: nobody's.
    key: u64,
    paid_until_ns: u64,
}

type Bucket = Mutex<[Place; PLACES]>;
/// How many requests of each key are open.
type Open = Mutex<FxHashMap<KeyHash, u32>>;

/// Until when somebody who counts for others as well says that a key is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaidUntil {
    /// And what was let in here may not be counted there yet.
    AtLeast(Moment),
    Exactly(Moment),
}

/// All counts of a gateway. It outlives changes of the routes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    seed: RandomState,
    /// Made for the first limit: a gateway without any has no table.
    rates: OnceLock<Box<[Bucket]>>,
    open: OnceLock<Box<[Open]>>,
}

impl Counts {
    pub(crate) fn hash(&self, key: impl Hash) -> KeyHash {
        KeyHash(self.seed.hash_one(key).max(1))
    }

    /// Counts one more of a key, unless that is too early.
    #[inline]
    pub(crate) fn pay(&self, key: KeyHash, pace: Pace, now: Moment) -> Paid {
        let buckets = self.rates.get_or_init(|| (0..BUCKETS).map(|_| Bucket::default()).collect());
        let KeyHash(key) = key;
        let mut bucket = lock(&buckets[key as usize % BUCKETS]);
        let (at, paid_until) = find(&bucket, key);
        let paid = pace.pay(paid_until, now.as_ns());
        if let Paid::Until(paid_until_ns) = paid {
            bucket[at] = Place { key, paid_until_ns };
        }
        paid
    }

    /// What [`pay`](Self::pay) would say; nothing is counted.
    pub(crate) fn peek(&self, key: KeyHash, pace: Pace, now: Moment) -> Paid {
        let KeyHash(key) = key;
        let bucket = self.rates.get().map(|buckets| lock(&buckets[key as usize % BUCKETS]));
        let paid_until = bucket.map_or(0, |bucket| find(&bucket, key).1);
        pace.pay(paid_until, now.as_ns())
    }

    /// One of a key that was paid for is not counted after all.
    pub(crate) fn take_back(&self, key: KeyHash, pace: Pace) {
        let Some(buckets) = self.rates.get() else { return };
        let KeyHash(key) = key;
        let mut bucket = lock(&buckets[key as usize % BUCKETS]);
        if let Some(place) = bucket.iter_mut().find(|place| place.key == key) {
            place.paid_until_ns = place.paid_until_ns.saturating_sub(pace.interval_ns);
        }
    }

    /// Takes over what is known elsewhere of a key that was paid for here.
    pub(crate) fn learn(&self, key: KeyHash, paid_until: PaidUntil) {
        let Some(buckets) = self.rates.get() else { return };
        let KeyHash(key) = key;
        let mut bucket = lock(&buckets[key as usize % BUCKETS]);
        let (at, here_ns) = find(&bucket, key);
        let paid_until_ns = match paid_until {
            PaidUntil::AtLeast(moment) => moment.as_ns().max(here_ns),
            PaidUntil::Exactly(moment) => moment.as_ns(),
        };
        bucket[at] = Place { key, paid_until_ns };
    }

    /// Counts an open request of a key, if there are less than `max`.
    pub(crate) fn enter(&self, key: KeyHash, max: u32) -> bool {
        let mut open = lock(self.open_of(key));
        let count = open.entry(key).or_default();
        let enters = *count < max;
        *count += u32::from(enters);
        enters
    }

    /// One of them is over.
    pub(crate) fn leave(&self, key: KeyHash) {
        let mut open = lock(self.open_of(key));
        let left = open.get_mut(&key).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            open.remove(&key);
        }
    }

    /// As many keys as there are open requests at most, which `limits.connections` bounds.
    fn open_of(&self, key: KeyHash) -> &Open {
        let shards = self.open.get_or_init(|| (0..SHARDS).map(|_| Mutex::default()).collect());
        &shards[key.0 as usize % SHARDS]
    }
}

/// The place of a key, or the one that it would take; until when it is paid for.
#[inline]
fn find(bucket: &[Place; PLACES], key: u64) -> (usize, u64) {
    match bucket.iter().position(|place| place.key == key) {
        Some(at) => (at, bucket[at].paid_until_ns),
        None => ((0..PLACES).min_by_key(|at| bucket[*at].paid_until_ns).unwrap_or_default(), 0),
    }
}

/// What it holds is whole between any two statements, so a panic elsewhere leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::admission::rate::{Period, Rate};

    fn pace(count: u32, burst: u32) -> Pace {
        let number = |count| NonZeroU32::new(count).unwrap();
        Pace::new(Rate { count: number(count), per: Period::Hour }, number(burst))
    }

    fn is_paid(paid: Paid) -> bool {
        matches!(paid, Paid::Until(_))
    }

    #[test]
    fn workers_share_what_they_count() {
        let (counts, admitted) = (Counts::default(), AtomicU32::new(0));
        let (pace, now) = (pace(1, 1000), Moment::now());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let paid = counts.pay(counts.hash("key"), pace, now);
                        admitted.fetch_add(u32::from(is_paid(paid)), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1000);
    }

    #[test]
    fn a_flood_of_keys_displaces_none_that_is_at_its_limit() {
        let (counts, now) = (Counts::default(), Moment::now());
        let key = counts.hash("greedy");
        let limit = pace(1, 3);
        assert_eq!((0..5).filter(|_| is_paid(counts.pay(key, limit, now))).count(), 3);
        for other in 0..4 * MAX_KEYS {
            counts.pay(counts.hash(other), limit, now);
        }
        assert!(!is_paid(counts.pay(key, limit, now)));
        // A key of which nothing is owed any more is displaced first.
        let later = now + Duration::from_secs(100 * 3600);
        assert!(is_paid(counts.pay(key, limit, later)));
    }

    #[test]
    fn what_is_looked_at_or_taken_back_is_not_counted() {
        let (counts, now, limit) = (Counts::default(), Moment::now(), pace(1, 2));
        let key = counts.hash("key");
        counts.take_back(key, limit);
        assert!((0..5).all(|_| is_paid(counts.peek(key, limit, now))));
        assert!(is_paid(counts.pay(key, limit, now)) && is_paid(counts.pay(key, limit, now)));
        assert!(!is_paid(counts.peek(key, limit, now)));
        counts.take_back(key, limit);
        assert!(is_paid(counts.peek(key, limit, now)) && is_paid(counts.pay(key, limit, now)));
        assert!(!is_paid(counts.pay(key, limit, now)));
        counts.take_back(counts.hash("other"), limit);
        assert!(!is_paid(counts.peek(key, limit, now)));
    }

    #[test]
    fn what_others_know_of_a_key() {
        let (counts, now) = (Counts::default(), Moment::now());
        let (limit, hour) = (pace(1, 4), Duration::from_secs(3600));
        let left = |key| (0..9).filter(|_| is_paid(counts.pay(key, limit, now))).count();
        let keys = ["paid here", "less elsewhere", "more elsewhere", "turned away", "let in"];
        let keys = keys.map(|key| counts.hash(key));
        for key in keys {
            assert!(is_paid(counts.pay(key, limit, now)));
        }
        counts.learn(keys[1], PaidUntil::AtLeast(now));
        counts.learn(keys[2], PaidUntil::AtLeast(now + hour * 3));
        counts.learn(keys[3], PaidUntil::Exactly(now + hour * 4));
        counts.learn(keys[4], PaidUntil::Exactly(now));
        assert_eq!(keys.map(left), [3, 3, 1, 0, 4]);
    }

    #[test]
    fn open_requests() {
        let counts = Counts::default();
        let (a, b) = (counts.hash("a"), counts.hash("b"));
        assert_eq!([a, a, a, b].map(|key| counts.enter(key, 2)), [true, true, false, true]);
        counts.leave(a);
        assert!(counts.enter(a, 2));
        for key in [a, a, b] {
            counts.leave(key);
        }
        assert!(counts.open.get().unwrap().iter().all(|shard| lock(shard).is_empty()), "nothing is left of a key");
    }

    /// `cargo test --release -p pilotlight-gateway --lib what_one_costs -- --ignored --nocapture`
    #[test]
    #[ignore = "it measures, and judges nothing"]
    fn what_one_costs() {
        const TIMES: u32 = 2_000_000;
        let (counts, pace) = (Counts::default(), pace(1_000_000, 1_000_000));
        for keys in [1, 1000, 100_000] {
            let begun = Instant::now();
            for at in 0..TIMES {
                let now = Moment::now();
                std::hint::black_box(counts.pay(counts.hash((7_u64, at % keys)), pace, now));
            }
            println!("{keys} keys: {:?} for each", begun.elapsed() / TIMES);
        }
    }
}
