//! Whether it is known what the others do.
//!
//! Invariant: whoever has lost a connection holds a [`Gap`] until it is back. When a gap begins and when it ends, all
//! that is stored is made to be validated before its next use; in between again and again, so that what was validated
//! meanwhile is not trusted for long either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pilotlight_cache::Cache;

/// See the module.
#[derive(Debug)]
pub(super) struct Coverage {
    cache: Cache,
    gaps: AtomicUsize,
    losses: AtomicU64,
}

/// Something is not known. Dropping it means that it is again.
#[derive(Debug)]
pub(super) struct Gap {
    coverage: Arc<Coverage>,
}

impl Coverage {
    pub(super) fn new(cache: Cache) -> Arc<Self> {
        Arc::new(Self { cache, gaps: AtomicUsize::new(0), losses: AtomicU64::new(0) })
    }

    pub(super) fn gap(self: &Arc<Self>) -> Gap {
        self.losses.fetch_add(1, Ordering::Relaxed);
        self.first()
    }

    /// What is not known yet, at the start or as a part of another gap: nothing was lost.
    pub(super) fn first(self: &Arc<Self>) -> Gap {
        self.gaps.fetch_add(1, Ordering::AcqRel);
        self.cache.purges().uncover();
        Gap { coverage: Arc::clone(self) }
    }

    /// Something may have been missed, and nothing is any more.
    pub(super) fn missed(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
        self.cache.purges().uncover();
    }

    pub(super) fn is_whole(&self) -> bool {
        self.gaps.load(Ordering::Acquire) == 0
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Bounds the trust in what was validated while there is a gap.
    pub(super) async fn keep(&self, step: Duration) {
        loop {
            tokio::time::sleep(step).await;
            if !self.is_whole() {
                self.cache.purges().uncover();
            }
        }
    }
}

impl Drop for Gap {
    fn drop(&mut self) {
        // First: a lookup that sees no gap finds everything unchecked.
        self.coverage.cache.purges().uncover();
        self.coverage.gaps.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_begins_and_ends_with_distrust() {
        let cache = Cache::new(pilotlight_cache::CacheOptions::default()).unwrap();
        let coverage = Coverage::new(cache.clone());
        assert!(coverage.is_whole());
        let positions = || cache.purges().position();
        let before = positions();
        let (first, second) = (coverage.gap(), coverage.gap());
        assert!(!coverage.is_whole() && positions() != before);
        drop(first);
        assert!(!coverage.is_whole());
        let during = positions();
        drop(second);
        assert!(coverage.is_whole() && positions() != during);
        assert_eq!(coverage.losses(), 2);
        drop(coverage.first());
        assert_eq!(coverage.losses(), 2, "nothing was known that could be lost");
    }
}
