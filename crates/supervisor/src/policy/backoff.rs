//! When a service that ended may be started again.

use std::time::{Duration, Instant};

/// Pause after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// An instance that was ready for so long was healthy, however it ended.
pub(crate) const HEALTHY_TIME: Duration = Duration::from_secs(5);

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceEnd {
    /// It was asked to.
    Stopped,
    /// It ended by itself after it had been ready for this long.
    Crashed {
        /// Time from ready to the end.
        ready_for: Duration,
    },
    /// It was never ready.
    NeverReady,
}

/// Failures in a row and the pause that they earn.
///
/// A start that fails earns a pause at once. An instance that was ready, but not for long, earns none the first time,
/// so that one crash costs no request more than those it carried; the second in a row does.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Notes the end of an instance. `random` is uniform over `u32`: the pause is 75 % to 125 % of its nominal length,
    /// so that services that fail together do not start together for ever.
    pub(crate) fn ended(&mut self, end: InstanceEnd, now: Instant, random: u32) {
        let doublings = match end {
            InstanceEnd::Stopped => return self.reset(),
            InstanceEnd::Crashed { ready_for } if ready_for >= HEALTHY_TIME => return self.reset(),
            InstanceEnd::Crashed { .. } => self.failures.checked_sub(1),
            InstanceEnd::NeverReady => Some(self.failures),
        };
        self.failures = self.failures.saturating_add(1);
        self.not_before = doublings.map(|doublings| now + jittered(nominal(doublings), random));
    }

    /// The last run, or a request it answered, proved the service healthy.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// How long to wait before the next start, if at all.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.not_before.and_then(|at| at.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// When the pause is over, if there is one.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

fn nominal(doublings: u32) -> Duration {
    FIRST.saturating_mul(1 << doublings.min(16)).min(LONGEST)
}

fn jittered(pause: Duration, random: u32) -> Duration {
    let factor = 0.75 + 0.5 * f64::from(random) / f64::from(u32::MAX);
    pause.mul_f64(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIDDLE: u32 = u32::MAX / 2;

    #[track_caller]
    fn check(ends: &[InstanceEnd], expected_ms: Option<u64>) {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        for end in ends {
            backoff.ended(*end, now, MIDDLE);
        }
        let wait = backoff.wait(now).map(|wait| (wait.as_secs_f64() * 1000.0).round() as u64);
        assert_eq!(wait, expected_ms);
    }

    #[test]
    fn pauses() {
        let short = InstanceEnd::Crashed { ready_for: Duration::from_secs(1) };
        let long = InstanceEnd::Crashed { ready_for: HEALTHY_TIME };
        check(&[], None);
        check(&[InstanceEnd::NeverReady], Some(100));
        check(&[InstanceEnd::NeverReady; 2], Some(200));
        check(&[InstanceEnd::NeverReady; 40], Some(30_000));
        check(&[short], None);
        check(&[short; 2], Some(100));
        check(&[short; 3], Some(200));
        check(&[InstanceEnd::NeverReady, InstanceEnd::NeverReady, long], None);
        check(&[InstanceEnd::NeverReady, InstanceEnd::Stopped], None);
        check(&[InstanceEnd::NeverReady, short], Some(100));
    }

    proptest! {
        #[test]
        fn pause_is_bounded_and_ends(failures in 1usize..60, random in any::<u32>()) {
            let (mut backoff, now) = (Backoff::default(), Instant::now());
            for _ in 0..failures {
                backoff.ended(InstanceEnd::NeverReady, now, random);
            }
            let wait = backoff.wait(now).unwrap();
            prop_assert!(wait >= FIRST.mul_f64(0.74) && wait <= LONGEST);
            prop_assert_eq!(backoff.wait(now + wait), None);
        }
    }
}
