//! An open loop: when requests are due, who sends them, and what wakes the load for the next.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Requests of an open loop.
#[derive(Debug)]
pub(super) struct Schedule {
    begin: Instant,
    per_second: u32,
    /// How many have been sent, and so the number of the next.
    sent: u64,
    total: u64,
    /// Connections without a request in flight.
    idle: Vec<usize>,
    timer: OwnedFd,
    /// The number of the request that the timer waits for.
    armed: Option<u64>,
}

impl Schedule {
    pub(super) fn new(begin: Instant, per_second: u32, duration: Duration, connections: usize) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let total = (duration.as_secs_f64() * f64::from(per_second)).ceil() as u64;
        Ok(Self { begin, per_second, sent: 0, total, idle: (0..connections).rev().collect(), timer, armed: None })
    }

    /// Readable when the next request is due.
    pub(super) fn timer(&self) -> &OwnedFd {
        &self.timer
    }

    /// A connection can send again.
    pub(super) fn free(&mut self, connection: usize) {
        self.idle.push(connection);
    }

    /// A connection for a request that is due, and since when it is.
    pub(super) fn next(&mut self, now: Instant) -> Option<(usize, Instant)> {
        let due = self.due(self.sent);
        if self.sent == self.total || due > now {
            return None;
        }
        let connection = self.idle.pop()?;
        self.sent += 1;
        Some((connection, due))
    }

    /// Since when the oldest request waits that has no connection yet.
    pub(super) fn oldest(&self) -> Option<Instant> {
        (self.sent < self.total).then(|| self.due(self.sent))
    }

    /// Nothing more is to be sent.
    pub(super) fn end(&mut self) {
        self.total = self.sent;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.sent == self.total
    }

    /// Sets the timer for the next request, if a connection could send it.
    pub(super) fn arm(&mut self, now: Instant) -> io::Result<()> {
        let next = (!self.has_ended() && !self.idle.is_empty()).then_some(self.sent);
        if next == self.armed {
            return Ok(());
        }
        self.armed = next;
        // A time of 0 would stop the timer.
        let wait = next.map(|number| self.due(number).saturating_duration_since(now).max(Duration::from_nanos(1)));
        let once = wait.map_or(NO_TIME, |wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: NO_TIME, it_value: once })?;
        Ok(())
    }

    fn due(&self, number: u64) -> Instant {
        let rate = u64::from(self.per_second);
        let (seconds, rest) = (number / rate, number % rate);
        self.begin + Duration::from_secs(seconds) + Duration::from_nanos(rest * 1_000_000_000 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_distances_and_wait_for_a_connection() {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, 4, Duration::from_secs(1), 2).expect("a timer");
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(schedule.next(at(0)), Some((0, at(0))));
        assert_eq!(schedule.next(at(249)), None);
        assert_eq!(schedule.next(at(600)), Some((1, at(250))));
        assert_eq!(schedule.next(at(600)), None, "no connection is free");
        assert_eq!(schedule.oldest(), Some(at(500)));
        schedule.free(0);
        assert_eq!(schedule.next(at(610)), Some((0, at(500))), "its time began when it was due");
        schedule.free(1);
        assert_eq!(schedule.next(at(5000)), Some((1, at(750))));
        schedule.free(1);
        assert_eq!((schedule.next(at(5000)), schedule.has_ended(), schedule.oldest()), (None, true, None));
    }
}
