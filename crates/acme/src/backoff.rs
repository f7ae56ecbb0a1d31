//! How long to wait after failures of a name or of an authority. Pure: times and chance are arguments.

use std::time::{Duration, SystemTime};

/// First wait for a name at an authority that refused it.
const NAME_FIRST: Duration = Duration::from_secs(60);
/// Let's Encrypt takes five failed validations of a name in an hour: tripled from a minute on, the sixth comes later.
const NAME_FACTOR: u32 = 3;
/// Longest wait of a name.
const NAME_MAX: Duration = Duration::from_secs(12 * 3600);
/// First wait for an authority that did not answer.
const AUTHORITY_FIRST: Duration = Duration::from_secs(5);
/// Doubled with each failure.
const AUTHORITY_FACTOR: u32 = 2;
/// Longest wait of an authority: when it is back, certificates that are about to expire must not wait long.
const AUTHORITY_MAX: Duration = Duration::from_secs(1800);
/// How long an authority is left alone that limits one name: the next name may well be limited, too.
const LIMITED_PAUSE: Duration = Duration::from_secs(60);
/// Longest `Retry-After` that is believed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
/// Wait after an error that a second try does not meet again, such as a nonce that was refused.
const TRANSIENT: Duration = Duration::from_secs(1);
/// After this many in a row a failure no longer counts as transient.
const MAX_TRANSIENT: u32 = 10;
/// Largest part of a wait that is added by chance, so that gateways do not come together.
const JITTER: f64 = 0.25;

/// Why an order failed, by what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The authority did not answer, or with an error of its own (5xx).
    Unreachable {
        /// When it said to come again.
        retry_after: Option<SystemTime>,
    },
    /// The authority takes no more orders now, for this name or at all.
    Limited {
        /// When it said to come again.
        retry_after: Option<SystemTime>,
    },
    /// The authority gives no certificate: validation failed, or the name is refused.
    Refused,
    /// A nonce was refused more often than the client tries again.
    Transient,
    /// Something of this machine: the storage, a key.
    Own,
}

/// Failures in a row, and when the next try may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    failures: u32,
    until: Option<SystemTime>,
    /// How long it was when it began.
    wait: Duration,
}

impl Pause {
    /// When the next try may be; `None` at once.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        self.until
    }

    pub(crate) fn is_over(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// A clock that was set back makes no wait longer than it was.
    pub(crate) fn shorten(&mut self, now: SystemTime) {
        self.until = self.until.map(|until| until.min(now + self.wait));
    }

    fn wait(&mut self, wait: Duration, now: SystemTime) {
        (self.until, self.wait) = (Some(now + wait), wait);
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A name failed at an authority.
    pub(crate) fn name_failed(&mut self, failure: Failure, now: SystemTime, chance: f64) {
        let count = self.failures;
        self.failures = count.saturating_add(1);
        let grown = grown(NAME_FIRST, NAME_FACTOR, count, NAME_MAX);
        let wait = match failure {
            // The authority waits, not the name.
            Failure::Unreachable { .. } => {
                self.failures = count;
                return;
            }
            Failure::Limited { retry_after } => told(retry_after, now).map_or(grown, |told| told.max(NAME_FIRST)),
            Failure::Transient if count < MAX_TRANSIENT => TRANSIENT,
            Failure::Refused | Failure::Transient | Failure::Own => grown,
        };
        self.wait(jittered(wait, chance), now);
    }

    /// An authority failed for whatever name.
    pub(crate) fn authority_failed(&mut self, failure: Failure, now: SystemTime, chance: f64) {
        let wait = match failure {
            Failure::Unreachable { retry_after } => {
                let count = self.failures;
                self.failures = count.saturating_add(1);
                let grown = grown(AUTHORITY_FIRST, AUTHORITY_FACTOR, count, AUTHORITY_MAX);
                told(retry_after, now).map_or(grown, |told| told.max(AUTHORITY_FIRST))
            }
            Failure::Limited { .. } => LIMITED_PAUSE,
            // It has answered.
            Failure::Refused | Failure::Transient | Failure::Own => return,
        };
        self.wait(jittered(wait, chance), now);
    }
}

fn told(retry_after: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    Some(retry_after?.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
}

fn grown(first: Duration, factor: u32, failures: u32, max: Duration) -> Duration {
    let factor = factor.saturating_pow(failures.min(20));
    first.checked_mul(factor).unwrap_or(max).min(max)
}

/// Longer by up to a quarter; `chance` is between 0 and 1.
fn jittered(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;

    fn after(seconds: u64) -> SystemTime {
        NOW + Duration::from_secs(seconds)
    }

    /// Seconds of the waits after failures in a row.
    #[track_caller]
    fn check(failure: Failure, mut fail: impl FnMut(&mut Pause, Failure), expected: &[u64]) {
        let mut pause = Pause::default();
        let waits: Vec<u64> = expected
            .iter()
            .map(|_| {
                fail(&mut pause, failure);
                pause.until().map_or(0, |until| until.duration_since(NOW).unwrap().as_secs())
            })
            .collect();
        assert_eq!(waits, expected, "{failure:?}");
    }

    #[test]
    fn names_that_are_refused_come_five_times_in_the_first_hour() {
        let name = |pause: &mut Pause, failure| pause.name_failed(failure, NOW, 0.0);
        check(Failure::Refused, name, &[60, 180, 540, 1620, 4860, 14580, 43200, 43200]);
        let sum: u64 = [60, 180, 540, 1620].iter().sum();
        assert!(sum < 3600 && sum + 4860 > 3600);
        check(Failure::Transient, name, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 43200]);
        check(Failure::Unreachable { retry_after: None }, name, &[0, 0]);
        check(Failure::Limited { retry_after: Some(after(7200)) }, name, &[7200, 7200]);
        check(Failure::Limited { retry_after: Some(after(1)) }, name, &[60, 60]);
        check(Failure::Limited { retry_after: None }, name, &[60, 180]);
        check(Failure::Limited { retry_after: Some(after(1 << 30)) }, name, &[604_800]);
    }

    #[test]
    fn authorities_that_are_away_are_asked_twice_an_hour_at_last() {
        let authority = |pause: &mut Pause, failure| pause.authority_failed(failure, NOW, 0.0);
        let away = Failure::Unreachable { retry_after: None };
        check(away, authority, &[5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]);
        check(Failure::Unreachable { retry_after: Some(after(900)) }, authority, &[900, 900]);
        check(Failure::Limited { retry_after: Some(after(7200)) }, authority, &[60, 60]);
        check(Failure::Refused, authority, &[0, 0]);
    }

    #[test]
    fn chance_makes_waits_longer_by_a_quarter_at_most() {
        let mut pause = Pause::default();
        pause.name_failed(Failure::Refused, NOW, 1.0);
        assert_eq!(pause.until(), Some(after(75)));
        assert!(!pause.is_over(after(74)) && pause.is_over(after(75)));
        pause.succeeded();
        assert!(pause.is_over(NOW));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_wait_longer() {
        let mut pause = Pause::default();
        pause.name_failed(Failure::Refused, after(1 << 30), 0.0);
        pause.shorten(after(1 << 30));
        assert_eq!(pause.until(), Some(after((1 << 30) + 60)));
        pause.shorten(NOW);
        assert_eq!(pause.until(), Some(after(60)));
        pause.shorten(after(10));
        assert_eq!(pause.until(), Some(after(60)));
    }
}
