//! When the phases of a start were over, and how much of each a caller waited for.

use std::fmt;
use std::time::{Duration, Instant};

/// When an instance reached each step of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartTimes {
    /// The start was begun.
    pub asked: Instant,
    /// Its program was executed.
    pub spawned: Instant,
    /// It connected (pipe) or listened (`PORT`); a service that inherits its socket needs neither.
    pub connected: Instant,
    /// It took exchanges.
    pub ready: Instant,
}

/// A caller's wait for an instance, by what it waited for. The parts add up to the wait, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartPhases {
    /// For the start to begin, and for the caller's turn once the instance was ready.
    pub queue: Duration,
    /// From the start's begin to the execution of its program.
    pub spawn: Duration,
    /// From there to its connection.
    pub connect: Duration,
    /// From there to ready.
    pub ready: Duration,
}

impl StartTimes {
    /// What a caller that waited `from` then `until` then waited for. It may have come while the start was going on.
    #[must_use]
    pub fn phases(&self, from: Instant, until: Instant) -> StartPhases {
        let until = until.max(from);
        // An instance's connection may be seen before the guardian's word that it was spawned, so the later steps are
        // bounds for the earlier ones.
        let ready = self.ready.clamp(from, until);
        let connected = self.connected.clamp(from, ready);
        let spawned = self.spawned.clamp(from, connected);
        let asked = self.asked.clamp(from, spawned);
        StartPhases {
            queue: (asked - from) + (until - ready),
            spawn: spawned - asked,
            connect: connected - spawned,
            ready: ready - connected,
        }
    }
}

impl StartPhases {
    /// The whole wait.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.queue + self.spawn + self.connect + self.ready
    }
}

impl fmt::Display for StartPhases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, spawn, connect, ready } = self;
        write!(f, "queue {queue:?}, spawn {spawn:?}, connect {connect:?}, ready {ready:?}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(steps: [u64; 4], wait: (u64, u64), expected: [u64; 4]) {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let [asked, spawned, connected, ready] = steps.map(at);
        let phases = StartTimes { asked, spawned, connected, ready }.phases(at(wait.0), at(wait.1));
        let found = [phases.queue, phases.spawn, phases.connect, phases.ready].map(|part| part.as_millis() as u64);
        assert_eq!(found, expected, "{steps:?} {wait:?}");
    }

    #[test]
    fn who_waits_for_what() {
        check([1, 3, 50, 52], (0, 53), [2, 2, 47, 2]);
        check([1, 3, 50, 52], (20, 52), [0, 0, 30, 2]); // came in the middle
        check([1, 3, 50, 52], (60, 61), [1, 0, 0, 0]); // it was ready already
        check([1, 51, 50, 52], (1, 52), [0, 49, 0, 2]); // the guardian's word came last
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole(steps: [u32; 4], from: u32, wait: u32) {
            let zero = Instant::now();
            let at = |ns: u32| zero + Duration::from_nanos(u64::from(ns));
            let [asked, spawned, connected, ready] = steps.map(at);
            let until = at(from) + Duration::from_nanos(u64::from(wait));
            let phases = StartTimes { asked, spawned, connected, ready }.phases(at(from), until);
            prop_assert_eq!(phases.total(), until - at(from));
        }
    }
}
