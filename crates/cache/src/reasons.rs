//! Why the last response for a key was not stored, for people who ask. Bounded, and forgetful: a newer key takes the
//! place of an older one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::KeyHash;
use crate::policy::{Timestamp, Unstored};

/// Keys whose reasons are known at most; 32 KiB.
const SLOTS: usize = 4096;
/// An entry is a time in seconds (until the year 2106), a reason, and a tag from the hash, from the low bits up.
const REASON_AT: u32 = 32;
const TAG_AT: u32 = 38;

/// The last reasons of a cache.
#[derive(Debug)]
pub(crate) struct Reasons {
    slots: Box<[AtomicU64]>,
}

impl Reasons {
    pub(crate) fn new() -> Self {
        const { assert!(Unstored::ALL.len() < 1 << (TAG_AT - REASON_AT), "every reason fits") };
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Takes note of a response that is not stored.
    pub(crate) fn note(&self, hash: KeyHash, why: Unstored, now: Timestamp) {
        let place = Unstored::ALL.iter().position(|one| *one == why).unwrap_or_default() as u64;
        // 0 is for nothing.
        let entry = tag(hash) << TAG_AT | (place + 1) << REASON_AT | (now.0 / 1000) & u64::from(u32::MAX);
        self.slot(hash).store(entry, Ordering::Relaxed);
    }

    /// The last reason of a key, if it is still known, and how many seconds ago that was.
    pub(crate) fn of(&self, hash: KeyHash, now: Timestamp) -> Option<(Unstored, u64)> {
        let entry = self.slot(hash).load(Ordering::Relaxed);
        let place = (entry >> REASON_AT & ((1 << (TAG_AT - REASON_AT)) - 1)).checked_sub(1)?;
        let why = Unstored::ALL.get(usize::try_from(place).ok()?)?;
        let seconds = (now.0 / 1000).saturating_sub(entry & u64::from(u32::MAX));
        (entry >> TAG_AT == tag(hash)).then_some((*why, seconds))
    }

    fn slot(&self, hash: KeyHash) -> &AtomicU64 {
        // The remainder is below the number of slots.
        &self.slots[(hash.0 % SLOTS as u64) as usize]
    }
}

fn tag(hash: KeyHash) -> u64 {
    hash.0 >> TAG_AT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_known_until_another_key_takes_its_place() {
        let reasons = Reasons::new();
        let (one, other) = (KeyHash(7), KeyHash(7 | 1 << 60));
        let now = Timestamp(1_700_000_000_000);
        assert_eq!(reasons.of(one, now), None);
        for why in Unstored::ALL {
            reasons.note(one, why, now);
            assert_eq!(reasons.of(one, Timestamp(now.0 + 2_500)), Some((why, 2)));
        }
        assert_eq!(reasons.of(other, now), None);
        reasons.note(other, Unstored::Private, now);
        assert_eq!((reasons.of(one, now), reasons.of(other, now)), (None, Some((Unstored::Private, 0))));
    }
}
