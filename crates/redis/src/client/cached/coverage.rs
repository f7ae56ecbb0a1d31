//! What makes a kept reply unusable: invalidations, flushes, lost connections. Counters only, no lists.
//!
//! Each key has a version, shared with the few other keys of its stripe. A [`Mark`] is taken *before* a reply is asked
//! for; an invalidation that comes at any time after makes the mark old, be the reply still on its way or kept for
//! long. There is no moment at which an invalidation could be missed (lettuce#3481), and one addition ends all replies
//! of a key.
//!
//! Invariant: a reply is used only while its mark is current. Sharing a stripe costs a miss, never a stale hit.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::engine::lane::Watch;
use crate::reply::Value;

/// A stripe for so many bytes of the cache: about one for each reply kept.
const BYTES_PER_STRIPE: u64 = 256;
const MIN_STRIPES: u64 = 1 << 10;
/// 4 MiB of versions.
const MAX_STRIPES: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Coverage {
    versions: Box<[AtomicU32]>,
    hasher: RandomState,
    flushes: AtomicU64,
    losses: AtomicU64,
    invalidations: AtomicU64,
}

/// The state of a key at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    stripe: u32,
    version: u32,
    flushes: u64,
}

/// The state of a key, and of all connections, at the moment before it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) mark: Mark,
    losses: u64,
}

impl Coverage {
    pub(super) fn new(max_bytes: u64) -> Self {
        let stripes = (max_bytes / BYTES_PER_STRIPE).clamp(MIN_STRIPES, MAX_STRIPES).next_power_of_two();
        Self {
            versions: (0..stripes).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::new(),
            flushes: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
        }
    }

    /// To be called before a lane is chosen and the key is asked for.
    pub(super) fn start(&self, key: &[u8]) -> Start {
        let losses = self.losses.load(Ordering::Acquire);
        let stripe = self.stripe(key);
        let flushes = self.flushes.load(Ordering::Acquire);
        let version = self.versions[stripe as usize].load(Ordering::Acquire);
        Start { mark: Mark { stripe, version, flushes }, losses }
    }

    /// Whether nothing has happened since to the key, nor to any connection: the reply came on the connection that is
    /// there now.
    pub(super) fn is_unbroken(&self, start: &Start) -> bool {
        self.is_current(&start.mark) && self.losses.load(Ordering::Acquire) == start.losses
    }

    /// Whether nothing has happened since to the key.
    #[inline]
    pub(super) fn is_current(&self, mark: &Mark) -> bool {
        self.versions[mark.stripe as usize].load(Ordering::Acquire) == mark.version
            && self.flushes.load(Ordering::Acquire) == mark.flushes
    }

    /// The key has changed.
    pub(super) fn invalidate(&self, key: &[u8]) {
        self.versions[self.stripe(key) as usize].fetch_add(1, Ordering::AcqRel);
    }

    /// All keys may have changed.
    pub(super) fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::AcqRel);
    }

    /// Keys of which servers told that they changed.
    pub(super) fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::Relaxed)
    }

    /// How often all was forgotten.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Connections lost, with all that they covered.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn stripe(&self, key: &[u8]) -> u32 {
        // The number of stripes is a power of two of at most 20 bits.
        (self.hasher.hash_one(key) & (self.versions.len() as u64 - 1)) as u32
    }
}

impl Watch for Coverage {
    fn pushed(&self, push: Vec<Value>) {
        let [Value::Bulk(kind) | Value::Simple(kind), what] = &push[..] else { return };
        if &kind[..] != b"invalidate" {
            return;
        }
        match what {
            Value::Array(keys) => {
                for key in keys {
                    match key {
                        Value::Bulk(key) | Value::Simple(key) => self.invalidate(key),
                        // What it means is not known: anything.
                        _ => self.flush(),
                    }
                }
                self.invalidations.fetch_add(keys.len() as u64, Ordering::Relaxed);
            }
            // FLUSHALL, FLUSHDB; and what is not known.
            _ => self.flush(),
        }
    }

    fn disconnected(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn push(words: Value) -> Vec<Value> {
        vec![Value::Bulk(Bytes::from_static(b"invalidate")), words]
    }

    fn keys(keys: &[&'static str]) -> Value {
        Value::Array(keys.iter().map(|key| Value::Bulk(Bytes::from_static(key.as_bytes()))).collect())
    }

    #[track_caller]
    fn check(told: Vec<Value>, hit_a: bool, hit_b: bool) {
        let coverage = Coverage::new(1 << 20);
        // Two keys of different stripes.
        let (a, b) = (
            coverage.start(b"a"),
            (0..)
                .map(|n| coverage.start(format!("b{n}").as_bytes()))
                .find(|b| b.mark.stripe != coverage.start(b"a").mark.stripe)
                .unwrap(),
        );
        coverage.pushed(told);
        assert_eq!((!coverage.is_unbroken(&a), !coverage.is_unbroken(&b)), (hit_a, hit_b));
    }

    #[test]
    fn an_invalidation_ends_its_keys() {
        check(push(keys(&["a"])), true, false);
        check(push(keys(&[])), false, false);
        check(push(Value::Null), true, true);
    }

    #[test]
    fn what_is_not_understood_ends_all_and_what_is_meant_for_others_nothing() {
        check(push(Value::Integer(1)), true, true);
        check(push(Value::Array(vec![Value::Null])), true, true);
        check(vec![Value::Bulk(Bytes::from_static(b"message")), keys(&["a"])], false, false);
        check(Vec::new(), false, false);
    }

    #[test]
    fn a_loss_ends_what_was_under_way_and_not_what_other_connections_cover() {
        let coverage = Coverage::new(1 << 20);
        let before = coverage.start(b"k");
        coverage.disconnected();
        assert!(!coverage.is_unbroken(&before));
        assert!(coverage.is_current(&before.mark));
        assert!(coverage.is_unbroken(&coverage.start(b"k")));
    }
}
