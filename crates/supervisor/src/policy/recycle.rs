//! When an instance has served for long enough and is to be replaced by a fresh one.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// An instance is replaced at 90 % to 100 % of its limits, so that those that began together do not end together.
const SPREAD: f64 = 0.1;

/// When an instance is replaced by a fresh one; `None`: never for this reason. Each instance has limits of its own, 90
/// % to 100 % of these, by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecycleLimits {
    /// Requests that it was given.
    pub max_requests: Option<u64>,
    /// Time since it was ready.
    pub max_age: Option<Duration>,
    /// Bytes of its processes, what they share counted once.
    pub max_memory: Option<u64>,
}

/// What an instance has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) requests: u64,
    pub(crate) ready_at: Instant,
    pub(crate) memory: u64,
}

/// Which limit it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Requests(u64),
    Age(Duration),
    Memory(u64),
}

impl RecycleLimits {
    /// Values of `max_requests`.
    pub const MAX_REQUESTS: RangeInclusive<u64> = 1..=1_000_000_000_000;
    /// Values of `max_age`.
    pub const MAX_AGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600);
    /// Values of `max_memory`.
    pub const MAX_MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;

    /// The limits of one instance. `random` is uniform over `u32`.
    pub(crate) fn jittered(&self, random: u32) -> Self {
        let factor = 1.0 - SPREAD * f64::from(random) / f64::from(u32::MAX);
        let scaled = |limit: u64| ((limit as f64 * factor) as u64).max(1);
        Self {
            max_requests: self.max_requests.map(scaled),
            max_age: self.max_age.map(|age| age.mul_f64(factor)),
            max_memory: self.max_memory.map(scaled),
        }
    }

    /// The limit that was reached, if one was.
    pub(crate) fn reached(&self, reached: &Reached, now: Instant) -> Option<LimitReached> {
        let requests =
            self.max_requests.filter(|max| reached.requests >= *max).map(|_| LimitReached::Requests(reached.requests));
        let age = now.saturating_duration_since(reached.ready_at);
        let age = self.max_age.filter(|max| age >= *max).map(|_| LimitReached::Age(age));
        let memory = self.max_memory.filter(|max| reached.memory >= *max).map(|_| LimitReached::Memory(reached.memory));
        requests.or(age).or(memory)
    }

    /// When it is too old.
    pub(crate) fn too_old_at(&self, ready_at: Instant) -> Option<Instant> {
        self.max_age.and_then(|age| ready_at.checked_add(age))
    }

    /// After how many requests of one worker the supervisor looks at their sum: it may be late by a sixteenth.
    pub(crate) fn look_every(&self, workers: usize) -> u64 {
        self.max_requests.map_or(0, |max| (max / 16 / workers.max(1) as u64).max(1))
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(count) => write!(f, "{count} requests (max_requests)"),
            Self::Age(age) => write!(f, "{} s of age (max_age)", age.as_secs()),
            Self::Memory(bytes) => write!(f, "{} MiB of memory (max_memory)", bytes >> 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: RecycleLimits =
        RecycleLimits { max_requests: Some(1000), max_age: Some(Duration::from_secs(100)), max_memory: Some(1 << 20) };

    #[test]
    fn each_limit() {
        let start = Instant::now();
        let check = |requests, age_s, memory, expected: Option<LimitReached>| {
            let reached = Reached { requests, ready_at: start, memory };
            assert_eq!(LIMITS.reached(&reached, start + Duration::from_secs(age_s)), expected);
        };
        check(999, 99, (1 << 20) - 1, None);
        check(1000, 0, 0, Some(LimitReached::Requests(1000)));
        check(0, 100, 0, Some(LimitReached::Age(Duration::from_secs(100))));
        check(0, 0, 1 << 20, Some(LimitReached::Memory(1 << 20)));
        let reached = Reached { requests: u64::MAX, ready_at: start, memory: u64::MAX };
        assert_eq!(RecycleLimits::default().reached(&reached, start + Duration::from_secs(1 << 30)), None);
        assert_eq!((RecycleLimits::default().look_every(2), LIMITS.look_every(2)), (0, 31));
    }

    proptest! {
        #[test]
        fn jitter_never_goes_beyond_the_limit(random in any::<u32>(), requests in 1..u64::MAX >> 12) {
            let limits = RecycleLimits { max_requests: Some(requests), ..LIMITS };
            let one = limits.jittered(random);
            prop_assert!(one.max_requests.unwrap() <= requests.max(1) && one.max_requests.unwrap() >= requests / 10 * 9);
            prop_assert!(one.max_age.unwrap() <= limits.max_age.unwrap() && one.max_memory.unwrap() <= 1 << 20);
        }
    }
}
