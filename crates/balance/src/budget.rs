//! How many requests may be sent again: a share of those that begin, and some in each second besides, so that servers
//! that fail are not asked three times as often.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::time::Ms;

/// Seconds that are looked back.
const WINDOW: usize = 10;

/// What a group may send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Of the requests of the last ten seconds, this many in a hundred. Default 20.
    pub percent: u32,
    /// In each second, besides. Default 10.
    pub per_second: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Self { percent: 20, per_second: 10 }
    }
}

/// What was done of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCounts {
    /// Requests that were sent again.
    pub sent: u64,
    /// That would have been.
    pub refused: u64,
}

/// What workers have counted of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    requests: Window,
    retries: Window,
    sent: AtomicU64,
    refused: AtomicU64,
}

impl Budget {
    pub(crate) fn began(&self, now: Ms) {
        self.requests.add(now);
    }

    pub(crate) fn retried(&self, now: Ms) {
        self.retries.add(now);
        self.sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Whether one more may be sent again.
    pub(crate) fn has_room(&self, allowed: Retries, now: Ms) -> bool {
        let share = self.requests.sum(now) * u64::from(allowed.percent) / 100;
        self.retries.sum(now) < share + u64::from(allowed.per_second) * WINDOW as u64
    }

    pub(crate) fn counts(&self) -> RetryCounts {
        RetryCounts { sent: self.sent.load(Relaxed), refused: self.refused.load(Relaxed) }
    }
}

/// Counts for each of the last seconds: the second in the upper half, the count in the lower.
#[derive(Debug, Default)]
struct Window([AtomicU64; WINDOW]);

impl Window {
    fn add(&self, now: Ms) {
        let second = now.0 / 1000;
        let slot = &self.0[(second % WINDOW as u64) as usize];
        let fresh = second << 32;
        let count = |old: u64| Some(if old >> 32 == second & 0xffff_ffff { old + 1 } else { fresh + 1 });
        let _ = slot.fetch_update(Relaxed, Relaxed, count);
    }

    fn sum(&self, now: Ms) -> u64 {
        let second = now.0 / 1000;
        let is_recent = |slot: u64| (second & 0xffff_ffff).wrapping_sub(slot >> 32) < WINDOW as u64;
        self.0
            .iter()
            .map(|slot| slot.load(Relaxed))
            .filter(|slot| is_recent(*slot))
            .map(|slot| slot & 0xffff_ffff)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retries(budget: &Budget, allowed: Retries, now: Ms) -> u64 {
        let mut count = 0;
        while budget.has_room(allowed, now) {
            budget.retried(now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_share_of_the_last_ten_seconds_and_some_besides() {
        let (budget, allowed) = (Budget::default(), Retries::default());
        assert_eq!(retries(&budget, allowed, Ms(0)), 100, "ten in each second, without a request");
        (0..1000).for_each(|_| budget.began(Ms(500)));
        assert_eq!(retries(&budget, allowed, Ms(9_999)), 200);
        assert_eq!(
            retries(&budget, allowed, Ms(10_000)),
            0,
            "the requests are older, those that were sent again are not"
        );
        assert_eq!(retries(&budget, allowed, Ms(19_000)), 100);
        budget.refused();
        assert_eq!(budget.counts(), RetryCounts { sent: 400, refused: 1 });
    }

    #[test]
    fn none_at_all() {
        let (budget, allowed) = (Budget::default(), Retries { percent: 0, per_second: 0 });
        (0..1000).for_each(|_| budget.began(Ms(0)));
        assert!(!budget.has_room(allowed, Ms(0)));
    }

    #[test]
    fn a_slot_is_used_again_after_a_long_time() {
        let window = Window::default();
        for second in [0, 3, 3, 13, 1_000_003] {
            window.add(Ms(second * 1000));
        }
        assert_eq!(window.sum(Ms(1_000_003_500)), 1);
        assert_eq!(window.sum(Ms(1_000_013_000)), 0);
    }
}
