//! Whether Redis is worth asking: after some failures in a row it is asked only now and then, until it answers.
//!
//! In a cluster there is one breaker for each range of slots, so that a lost primary costs what is stored there and
//! nothing else.

use std::time::{Duration, Instant};

use pilotlight_redis::{SLOTS, Slot};

/// Reads in a row that fail before one stops to ask.
pub const MAX_FAILURES: u32 = 5;
/// Bounds of the pause between two tries; it doubles with each that fails. Its upper bound is how much later than Redis
/// the tier is back.
pub const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));
/// Breakers for a cluster. Primaries serve a few ranges of slots, so most breakers see one primary.
const RANGES: usize = 64;

/// The breakers of one worker.
#[derive(Debug)]
pub(crate) struct Breakers {
    ranges: Box<[Breaker]>,
}

impl Breakers {
    pub(crate) fn new(is_cluster: bool) -> Self {
        let count = if is_cluster { RANGES } else { 1 };
        Self { ranges: (0..count).map(|_| Breaker::default()).collect() }
    }

    /// That of a key.
    pub(crate) fn of(&mut self, key: &str) -> &mut Breaker {
        let at = match self.ranges.len() {
            1 => 0,
            count => usize::from(Slot::of(key.as_bytes()).number()) * count / usize::from(SLOTS),
        };
        &mut self.ranges[at]
    }
}

/// Closed (ask), open (do not), or about to be tried.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    /// Open: when it is tried again, and the pause that led there.
    open: Option<(Instant, Duration)>,
}

impl Breaker {
    /// Whether to ask now. Of an open breaker that is due, one request is let through; if nothing is heard of it,
    /// another one after the next pause.
    pub(crate) fn permits(&mut self, now: Instant) -> bool {
        match &mut self.open {
            None => true,
            Some((at, pause)) if *at <= now => {
                *at = now + *pause;
                true
            }
            Some(_) => false,
        }
    }

    /// Redis has answered. Says whether that is news.
    pub(crate) fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.open.take().is_some()
    }

    /// Redis has not answered in time. Says whether the breaker has opened by that.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some((at, pause)) => {
                // Those that were asked before it opened fail later, and are no tries.
                if self.failures > MAX_FAILURES && *at <= now + *pause {
                    *pause = (*pause * 2).min(PAUSE.1);
                    *at = now + *pause;
                }
                false
            }
            None if self.failures >= MAX_FAILURES => {
                self.open = Some((now + PAUSE.0, PAUSE.0));
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_after_failures_in_a_row_and_closes_with_an_answer() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 1..MAX_FAILURES {
            assert!(breaker.permits(now) && !breaker.failed(now));
        }
        breaker.succeeded();
        for _ in 1..MAX_FAILURES {
            assert!(!breaker.failed(now), "an answer starts the count anew");
        }
        assert!(breaker.failed(now) && !breaker.permits(now));
        let due = now + PAUSE.0;
        assert!(breaker.permits(due) && !breaker.permits(due), "one try");
        assert!(breaker.succeeded() && breaker.permits(due) && breaker.permits(due));
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        (0..MAX_FAILURES).for_each(|_| {
            breaker.failed(now);
        });
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let asked = now;
            while !breaker.permits(now) {
                now += Duration::from_millis(1);
            }
            pauses.push((now - asked).as_millis());
            breaker.failed(now);
        }
        assert_eq!(pauses, [50, 100, 200, 400, 400, 400]);
    }

    #[test]
    fn a_try_that_is_given_up_is_followed_by_another() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        (0..MAX_FAILURES).for_each(|_| {
            breaker.failed(now);
        });
        assert!(breaker.permits(now + PAUSE.0));
        assert!(breaker.permits(now + PAUSE.0 * 2));
    }

    #[test]
    fn each_range_of_slots_has_its_own() {
        let (mut breakers, now) = (Breakers::new(true), Instant::now());
        (0..MAX_FAILURES).for_each(|_| {
            breakers.of("{a}").failed(now);
        });
        assert!(!breakers.of("{a}:more").permits(now), "slot 15495");
        assert!(breakers.of("{b}").permits(now), "slot 3300");
    }
}
