//! How many requests an instance has at once, where a service limits that (`concurrency`).
//!
//! The count is shared by all workers: it is the one such counter, and services without the setting have none.

use crate::padded::Padded;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

/// The places of one instance.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    count: Padded<Count>,
    max: u32,
}

#[derive(Debug, Default)]
struct Count {
    now: AtomicU32,
    /// The highest since it was last looked at.
    peak: AtomicU32,
}

impl ConcurrencyLimiter {
    pub(crate) fn new(max: u32) -> Self {
        Self { count: Padded::default(), max }
    }

    /// Requests in progress.
    pub(crate) fn in_use(&self) -> u32 {
        self.count.0.now.load(SeqCst)
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    pub(crate) fn free(&self) -> u32 {
        self.max.saturating_sub(self.in_use())
    }

    /// The most at once since the last call.
    pub(crate) fn take_peak(&self) -> u32 {
        self.count.0.peak.swap(self.in_use(), Relaxed)
    }

    /// Takes a place, if one is free.
    pub(crate) fn enter(&self) -> bool {
        let taken = self.count.0.now.fetch_update(SeqCst, SeqCst, |now| (now < self.max).then_some(now + 1));
        if let Ok(before) = taken
            && before >= self.count.0.peak.load(Relaxed)
        {
            self.count.0.peak.fetch_max(before + 1, Relaxed);
        }
        taken.is_ok()
    }

    /// Gives back a place.
    pub(crate) fn leave(&self) {
        self.count.0.now.fetch_sub(1, SeqCst);
    }
}
