//! When an instance has been idle for long enough to be frozen, or to be stopped.

use std::time::{Duration, Instant};

/// What a service does with an instance that nobody asks; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleLimits {
    pub(crate) freeze_after: Option<Duration>,
    pub(crate) stop_after: Option<Duration>,
}

/// What to do about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It has been idle for its whole idle timeout.
    Stop,
    /// It has been idle for long enough to be frozen, and is not.
    Freeze,
    /// Neither can be before this time.
    LookAgain(Instant),
    /// Nothing is to be done until somebody asks.
    Never,
}

impl IdleLimits {
    /// Decides by the open exchanges and the end of the last one.
    pub(crate) fn decide(&self, now: Instant, in_flight: u64, last_use: Instant, frozen: bool) -> Idle {
        let freeze_after = self.freeze_after.filter(|_| !frozen);
        // While exchanges are open none of them has ended yet, and the times count from their end.
        let from = if in_flight > 0 { now } else { last_use };
        let due = |after: Option<Duration>| after.map(|after| from + after);
        match (due(freeze_after), due(self.stop_after)) {
            (_, Some(stop)) if stop <= now && in_flight == 0 => Idle::Stop,
            (Some(freeze), _) if freeze <= now && in_flight == 0 => Idle::Freeze,
            (Some(freeze), Some(stop)) => Idle::LookAgain(freeze.min(stop)),
            (Some(at), None) | (None, Some(at)) => Idle::LookAgain(at),
            (None, None) => Idle::Never,
        }
    }
}

/// How many frozen instances those who wait need, beside the free places of the ones that are not frozen.
pub(crate) fn thaws(waiting: u64, free: u64, frozen: u32, concurrency: Option<u32>) -> u32 {
    let short = waiting.saturating_sub(free);
    let wanted = match concurrency {
        Some(each) => short.div_ceil(u64::from(each.max(1))),
        None => u64::from(short > 0),
    };
    frozen.min(u32::try_from(wanted).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[track_caller]
    fn check(freeze: Option<u32>, stop: Option<u32>, in_flight: u64, idle: u32, frozen: bool, expected: Idle) {
        let start = Instant::now();
        let limits = IdleLimits {
            freeze_after: freeze.map(|after| after * SECOND),
            stop_after: stop.map(|after| after * SECOND),
        };
        let found = limits.decide(start + idle * SECOND, in_flight, start, frozen);
        match (found, expected) {
            (Idle::LookAgain(at), Idle::LookAgain(_)) => assert!(at > start + idle * SECOND),
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn decisions() {
        let again = Idle::LookAgain(Instant::now());
        check(None, Some(10), 0, 10, false, Idle::Stop);
        check(None, Some(10), 0, 9, false, again);
        check(None, Some(3), 1, 10, false, again);
        check(None, None, 0, 1000, false, Idle::Never);
        check(Some(5), Some(10), 0, 4, false, again);
        check(Some(5), Some(10), 0, 5, false, Idle::Freeze);
        check(Some(5), Some(10), 1, 5, false, again);
        check(Some(5), Some(10), 0, 7, true, again);
        check(Some(5), Some(10), 0, 10, true, Idle::Stop);
        check(Some(5), None, 0, 7, true, Idle::Never);
        check(Some(20), Some(10), 0, 10, false, Idle::Stop);
    }

    #[test]
    fn the_times_count_from_the_end_of_the_last_exchange() {
        let start = Instant::now();
        let limits = IdleLimits { freeze_after: Some(5 * SECOND), stop_after: Some(10 * SECOND) };
        let now = start + 20 * SECOND;
        assert_eq!(limits.decide(now, 0, now - SECOND, false), Idle::LookAgain(now + 4 * SECOND));
        assert_eq!(limits.decide(now, 2, start, false), Idle::LookAgain(now + 5 * SECOND));
        assert_eq!(limits.decide(start, 0, now, true), Idle::LookAgain(now + 10 * SECOND));
    }

    proptest! {
        /// Whoever looks when it was told to comes to an end: a frozen or stopped instance, or one that is never
        /// either.
        #[test]
        fn looking_again_ends(freeze in proptest::option::of(0_u64..100), stop in proptest::option::of(0_u64..100)) {
            let start = Instant::now();
            let limits = IdleLimits { freeze_after: freeze.map(Duration::from_secs), stop_after: stop.map(Duration::from_secs) };
            let (mut now, mut frozen, mut looks) = (start, false, 0);
            loop {
                looks += 1;
                prop_assert!(looks <= 4);
                match limits.decide(now, 0, start, frozen) {
                    Idle::LookAgain(at) => { prop_assert!(at > now); now = at }
                    Idle::Freeze => { prop_assert!(!frozen && now >= start + limits.freeze_after.unwrap()); frozen = true }
                    Idle::Stop => { prop_assert!(now >= start + limits.stop_after.unwrap()); break }
                    Idle::Never => { prop_assert!(stop.is_none()); break }
                }
            }
        }

        /// Nobody waits while a frozen instance could take him, and none is thawed for nothing.
        #[test]
        fn thaws_are_enough_and_not_too_many(waiting in 0_u64..1000, free in 0_u64..100, frozen in 0_u32..20, each in 1_u32..50) {
            let count = thaws(waiting, free, frozen, Some(each));
            let places = free + u64::from(count) * u64::from(each);
            prop_assert!(count <= frozen && (places >= waiting || count == frozen));
            prop_assert!(count == 0 || places - u64::from(each) < waiting);
            prop_assert_eq!(thaws(waiting, free, frozen, None), u32::from(waiting > free && frozen > 0));
        }
    }
}
