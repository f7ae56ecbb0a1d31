//! What the tier has done, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of one worker. Only that worker writes them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// The counters of all workers.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            pub(crate) fn add(&mut self, of: &Counters) {
                $(self.$name += of.$name.0.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Reads that found a response which could be used.
    hits,
    /// Reads that found nothing, or nothing for this request.
    misses,
    /// Reads that found a response to be validated.
    stale,
    /// Reads that took longer than the budget.
    timeouts,
    /// Reads that failed.
    errors,
    /// Requests that did not ask because the breaker was open.
    skipped,
    /// Records that could not be read, or were not to be trusted.
    refused,
    /// Requests that waited for another gateway.
    waits,
    /// Responses written.
    writes,
    /// Responses not written, as the target was invalidated or written since the fetch began, or the fetch took too
    /// long.
    outdated_writes,
    /// Responses not written for lack of room in the queue.
    dropped_writes,
    /// Responses not written as Redis failed.
    failed_writes,
    /// Invalidations sent.
    invalidations,
    /// Requests that Redis has counted and admitted by a shared rate.
    admitted_rates,
    /// Requests that Redis has refused by a shared rate.
    refused_rates,
    /// Requests of a shared rate for which Redis took longer than the budget.
    late_rates,
    /// Requests of a shared rate for which Redis failed.
    failed_rates,
    /// Requests of a shared rate for which Redis was not asked, as the breaker was open.
    skipped_rates,
}

/// Counters that add up to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Reads, by what they found.
    Reads,
    /// Responses to be written, by what became of them.
    Writes,
    /// Requests of shared rates, by what Redis said of them.
    Rates,
}

impl Totals {
    /// All of them, by the names of their results.
    pub fn counted(&self) -> impl Iterator<Item = (Family, &'static str, u64)> {
        [
            (Family::Reads, "hit", self.hits),
            (Family::Reads, "stale", self.stale),
            (Family::Reads, "miss", self.misses),
            (Family::Reads, "timeout", self.timeouts),
            (Family::Reads, "error", self.errors),
            (Family::Reads, "skipped", self.skipped),
            (Family::Writes, "written", self.writes),
            (Family::Writes, "outdated", self.outdated_writes),
            (Family::Writes, "dropped", self.dropped_writes),
            (Family::Writes, "failed", self.failed_writes),
            (Family::Rates, "admitted", self.admitted_rates),
            (Family::Rates, "refused", self.refused_rates),
            (Family::Rates, "timeout", self.late_rates),
            (Family::Rates, "error", self.failed_rates),
            (Family::Rates, "skipped", self.skipped_rates),
        ]
        .into_iter()
    }
}

/// One number.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// One more. It has one writer, so this need not be one step.
    pub(crate) fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
