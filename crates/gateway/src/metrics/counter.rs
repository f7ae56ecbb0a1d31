//! Numbers that are counted without a lock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A number with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only for its one writer.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Counts one, after everything that its one writer has written before.
    pub(super) fn add_last(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Acquire)
    }
}
