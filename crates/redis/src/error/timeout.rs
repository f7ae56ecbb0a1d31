//! What is told of a deadline that passed.

use std::fmt;
use std::time::Duration;

use super::reason::Reason;

/// What was going on when a deadline passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeoutReport {
    /// How long the command was given, with all its attempts.
    pub timeout: Duration,
    /// How long it had waited, with all its attempts.
    pub age: Duration,
    /// Whether it was waiting to be written (`queued`) or for its reply (`sent`), or for a connection.
    pub stage: TimeoutStage,
    /// Why there was no connection, if there was none; else why the attempt before this one failed, if there was one.
    pub problem: Option<Reason>,
    /// Commands not yet written on its lane.
    pub queued: usize,
    /// Commands whose replies are awaited on its lane.
    pub in_flight: usize,
    /// Bytes of those.
    pub in_flight_bytes: usize,
    /// Bytes not yet written.
    pub queued_bytes: usize,
    /// Bytes read of a reply that is not complete.
    pub unparsed_bytes: usize,
    /// Time since the lane last read anything; `None`: never.
    pub last_read: Option<Duration>,
    /// How late the lane's own timer ran: a large value means that the runtime is starved.
    pub runtime_lag: Duration,
}

/// Where a command was when its deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutStage {
    /// There was no connection.
    Connecting,
    /// It was not written yet.
    Queued,
    /// Its reply had not come.
    Sent,
    /// It waited for the byte budget.
    Budget,
    /// It waited for one of the [connections that are not shared](crate::Config::max_blocking_connections).
    Pool,
}

impl fmt::Display for TimeoutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            TimeoutStage::Connecting => "waiting for a connection",
            TimeoutStage::Queued => "not yet written",
            TimeoutStage::Sent => "waiting for the reply",
            TimeoutStage::Budget => "waiting for the byte budget",
            TimeoutStage::Pool => "waiting for one of max_blocking_connections",
        };
        write!(
            f,
            "timed out after {:?} (limit {:?}), {stage}; queued {} ({} bytes), in flight {} ({} bytes), unparsed {} bytes, ",
            readable(self.age),
            self.timeout,
            self.queued,
            self.queued_bytes,
            self.in_flight,
            self.in_flight_bytes,
            self.unparsed_bytes
        )?;
        if let Some(problem) = &self.problem {
            write!(f, "last problem: {problem}; ")?;
        }
        match self.last_read {
            Some(age) => write!(f, "last read {:?} ago", readable(age))?,
            None => write!(f, "nothing read yet")?,
        }
        write!(f, ", runtime lag {:?}", readable(self.runtime_lag))
    }
}

/// Without the digits that nobody reads.
fn readable(duration: Duration) -> Duration {
    let unit = if duration < Duration::from_millis(10) { 1_000 } else { 1_000_000 };
    Duration::from_nanos((duration.as_nanos() as u64 / unit) * unit)
}
