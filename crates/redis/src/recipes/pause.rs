//! Pauses between attempts.

use std::time::Duration;

/// The first pause's bound; it doubles with each attempt, with full jitter.
const MIN: Duration = Duration::from_millis(10);

/// Pauses that grow from 10 ms to a bound, each of a random part of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    next: Duration,
    max: Duration,
}

impl Pauses {
    pub(super) fn up_to(max: Duration) -> Self {
        Self { next: MIN.min(max), max }
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Duration {
        let bound = self.next;
        self.next = bound.saturating_mul(2).min(self.max);
        // At least a tenth: nobody is asked in a tight loop.
        bound.mul_f64(0.1 + 0.9 * fastrand::f64())
    }

    /// From the beginning.
    pub(super) fn reset(&mut self) {
        self.next = MIN.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_grow_up_to_their_bound() {
        let mut pauses = Pauses::up_to(Duration::from_millis(25));
        for bound in [10, 20, 25, 25] {
            let pause = pauses.take();
            assert!(pause <= Duration::from_millis(bound) && pause >= Duration::from_millis(bound) / 10, "{pause:?}");
        }
        pauses.reset();
        assert!(pauses.take() <= MIN);
    }
}
