//! What is due when: one time for each thing that can be due.

use std::collections::BTreeSet;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The deadline of an instance's stage.
    Instance(u64),
    /// The number of a service's instances is to be decided on again.
    Review(usize),
    /// The memory of a service's instances is to be looked at.
    Memory(usize),
    /// A group is to be looked at.
    Group(usize),
    /// A zygote is to be ready, or to have ended.
    Zygote(u64),
    /// Connections are accepted again.
    Accept,
    /// The gateway's own stop.
    Shutdown,
}

/// A set, not a wheel: there are as many entries as instances and services.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Sets, moves or clears a timer. `slot` belongs to the timer's owner and holds its time.
    pub(super) fn set(&mut self, timer: Timer, slot: &mut Option<Instant>, at: Option<Instant>) {
        if let Some(old) = slot.take() {
            self.0.remove(&(old, timer));
        }
        if let Some(at) = at {
            self.0.insert((at, timer));
        }
        *slot = at;
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes a timer that is due. Its owner clears the slot.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_moved_timer_fires_once_at_its_last_time() {
        let (mut timers, now) = (Timers::default(), Instant::now());
        let (mut a, mut b) = (None, None);
        timers.set(Timer::Instance(1), &mut a, Some(now));
        timers.set(Timer::Instance(2), &mut b, Some(now + Duration::from_secs(1)));
        timers.set(Timer::Instance(1), &mut a, Some(now + Duration::from_secs(2)));
        assert_eq!(timers.pop(now), None);
        assert_eq!(timers.pop(now + Duration::from_secs(3)), Some(Timer::Instance(2)));
        assert_eq!(timers.pop(now + Duration::from_secs(3)), Some(Timer::Instance(1)));
        assert_eq!(timers.next(), None);
    }
}
