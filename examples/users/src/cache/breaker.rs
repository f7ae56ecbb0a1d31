//! When not to ask: after some failures in a row, for a while; then one asks for all.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Failures in a row that open it.
const MAX_FAILURES: u32 = 3;
/// How long nobody asks.
const PAUSE: Duration = Duration::from_millis(500);

/// A breaker of one thread.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: Cell<u32>,
    /// Nobody asks before; `None`: it is closed.
    until: Cell<Option<Instant>>,
}

impl Breaker {
    /// Whether to ask. `now` is called only if that matters. After a pause one is let through, whose result decides.
    pub(super) fn allows(&self, now: impl FnOnce() -> Instant) -> bool {
        let Some(until) = self.until.get() else { return true };
        let now = now();
        let passes = now >= until;
        if passes {
            self.until.set(Some(now + PAUSE));
        }
        passes
    }

    pub(super) fn succeeded(&self) {
        if self.failures.get() > 0 {
            self.failures.set(0);
            self.until.set(None);
        }
    }

    /// Whether this has opened it.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        if failures >= MAX_FAILURES {
            self.until.set(Some(now + PAUSE));
        }
        failures == MAX_FAILURES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_lets_one_through_and_closes() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for _ in 1..MAX_FAILURES {
            assert!(!breaker.failed(start) && breaker.allows(|| start));
        }
        assert!(breaker.failed(start));
        assert!(!breaker.allows(|| start + PAUSE / 2));
        assert!(breaker.allows(|| start + PAUSE));
        assert!(!breaker.allows(|| start + PAUSE), "one is enough");
        assert!(!breaker.failed(start + PAUSE), "it was open");
        assert!(breaker.allows(|| start + PAUSE * 2));
        breaker.succeeded();
        assert!(breaker.allows(|| start) && breaker.allows(|| start));
    }
}
