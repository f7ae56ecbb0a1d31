//! The memory of answers that are being recorded. It belongs to the same budget as what is stored: the store lends it,
//! and keeps so much less meanwhile.
//!
//! ```text
//!  │◀──────────────── budget ────────────────▶│
//!  │ the store may take this    │    lent     │
//!  │                            │ used │ free │
//! ```
//! The store is told in steps, because to change what it may take locks each of its shards. One step is always lent, so
//! small answers are recorded without telling it.
//!
//! Invariant: when [`Lending::take`] has returned, no more is used than is lent; what the store may take and what is
//! lent are the budget.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// A step is this part of the budget.
const STEPS: u64 = 64;

/// What recordings have, and may have, of a budget of bytes.
#[derive(Debug)]
pub(crate) struct Lending {
    budget: u64,
    step: u64,
    max: u64,
    used: AtomicU64,
    lent: AtomicU64,
    /// Held by whoever tells the store.
    turn: Mutex<()>,
}

impl Lending {
    /// Lends up to `max` bytes of `budget`, which must be less than that.
    pub(crate) fn new(budget: u64, max: u64) -> Self {
        let step = (budget / STEPS).max(1);
        Self { budget, step, max, used: AtomicU64::new(0), lent: AtomicU64::new(step), turn: Mutex::new(()) }
    }

    /// What the store may take.
    pub(crate) fn left(&self) -> u64 {
        self.budget - self.lent.load(SeqCst).min(self.budget)
    }

    /// Takes bytes if they are left. `tell` tells the store what it may take, if that changes.
    pub(crate) fn take(&self, bytes: u64, tell: impl Fn(u64)) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        let taken = self.used.fetch_update(SeqCst, SeqCst, add).is_ok();
        if taken {
            self.settle(tell);
        }
        taken
    }

    /// Whether what is used and what is stored are within the budget.
    pub(crate) fn fits_beside(&self, stored: u64) -> bool {
        self.used.load(SeqCst).saturating_add(stored) <= self.budget
    }

    /// Tells the store what it may take, as it could not follow before.
    pub(crate) fn tell_again(&self, tell: impl Fn(u64)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        tell(self.left());
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self, bytes: u64, tell: impl Fn(u64)) {
        self.used.fetch_sub(bytes, SeqCst);
        self.settle(tell);
    }

    /// Either whoever lends less sees what was just taken, or whoever took it sees that less is lent (Dekker's
    /// argument).
    fn settle(&self, tell: impl Fn(u64)) {
        while self.wanted().is_some() {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(lent) = self.wanted() else { continue };
            // The store gives before others see that they may use it.
            if lent > self.lent.load(SeqCst) {
                tell(self.budget - lent.min(self.budget));
                self.lent.store(lent, SeqCst);
            } else {
                self.lent.store(lent, SeqCst);
                tell(self.left());
            }
        }
    }

    /// What should be lent, if it is not. One step too much is left as it is: most recordings are soon followed by
    /// another.
    fn wanted(&self) -> Option<u64> {
        let (used, lent) = (self.used.load(SeqCst), self.lent.load(SeqCst));
        let wanted = used.max(1).next_multiple_of(self.step);
        (wanted > lent || wanted + self.step < lent).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const BUDGET: u64 = 6400;
    const MAX: u64 = 1600;

    #[test]
    fn small_recordings_do_not_bother_the_store() {
        let lending = Lending::new(BUDGET, MAX);
        assert_eq!(lending.left(), BUDGET - 100);
        for _ in 0..3 {
            assert!(lending.take(100, |_| panic!("a step is always lent")));
            lending.give_back(100, |_| panic!("it was lent before"));
        }
    }

    #[test]
    fn no_more_than_the_most() {
        let lending = Lending::new(BUDGET, MAX);
        assert!(lending.take(MAX, |_| {}));
        assert!(!lending.take(1, |_| {}));
        assert_eq!(lending.left(), BUDGET - MAX);
        lending.give_back(MAX, |_| {});
        assert_eq!(lending.left(), BUDGET - 100, "all but a step is the store's again");
    }

    proptest! {
        #[test]
        fn what_is_stored_and_what_is_recorded_are_within_the_budget(sizes in proptest::collection::vec(0u64..700, 1..40)) {
            let (lending, store) = (Lending::new(BUDGET, MAX), Cell::new(BUDGET - 100));
            let mut taken = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                if index % 3 == 2 {
                    lending.give_back(taken.pop().unwrap_or(0), |left| store.set(left));
                } else if lending.take(size, |left| store.set(left)) {
                    taken.push(size);
                }
                let used: u64 = taken.iter().sum();
                prop_assert!(used <= MAX && used + store.get() <= BUDGET, "{used} and {}", store.get());
                prop_assert!(used + store.get() + 3 * 100 > BUDGET, "the store has what is not used: {used}, {}", store.get());
            }
        }
    }

    #[test]
    fn threads_agree() {
        let (lending, store) = (Lending::new(BUDGET, MAX), AtomicU64::new(BUDGET - 100));
        let tell = |left| store.store(left, SeqCst);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let lending = &lending;
                scope.spawn(move || {
                    for round in 0..5_000 {
                        let bytes = (round * 37 + thread * 151) % 800;
                        if lending.take(bytes, tell) {
                            lending.give_back(bytes, tell);
                        }
                    }
                });
            }
        });
        assert_eq!((lending.used.load(SeqCst), lending.left()), (0, store.load(SeqCst)));
        assert!(lending.left() >= BUDGET - 200);
    }
}
