//! Load over HTTP/1.1, on the calling thread: one epoll loop, requests made beforehand where they are all the same, and
//! one read, one look at the clock and one write for whatever a connection has brought.
//!
//! **Closed loop**: a number of requests is in flight on each connection, and an answer makes room for the next. It
//! shows what a server can do. Its times begin with the writing of the request, so a server that stands still for a
//! second delays few of them: those who would have come in that second were never counted (coordinated omission).
//!
//! **Open loop**: requests are due at a constant rate, whatever the server does, as from clients who do not know of
//! each other. A time begins when its request was due, not when a connection was free for it. Every request that was
//! due is counted, however late its answer.
//!
//! Invariant: what is not understood, not expected, lost or too late ends the load with an error; it is never counted.

mod answer;
mod ask;
mod connection;
mod driver;
mod requests;
mod schedule;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stats::Times;

pub(crate) use answer::request_length;
pub(crate) use ask::ask;
pub(crate) use requests::in_turn;
pub use requests::{Next, Requests, get};
pub use target::Target;

/// A server that owes an answer for so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// What `/proc` and the kernel allow without settings of their own.
const MAX_CONNECTIONS: usize = 20_000;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where the server listens.
    pub to: Target,
    /// How many connections.
    pub connections: usize,
    /// When requests are made.
    pub pace: Pace,
    /// For how long.
    pub duration: Duration,
}

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Closed loop: so many are in flight on each connection.
    Closed {
        /// Requests in flight on each connection.
        depth: usize,
    },
    /// Open loop: so many in a second, one at a time on each connection.
    Open {
        /// Requests that are due in a second, at equal distances.
        per_second: u32,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Answers: every request that was made, or was due, within the time is answered and counts.
    pub answers: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of the answers.
    pub times: Times,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// CPU time that the load itself has taken, connecting not counted.
    pub cpu: Duration,
}

impl Outcome {
    /// Answers in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// CPU time of the load for an answer.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.answers.max(1) as f64
    }
}

/// Makes the load.
///
/// # Errors
/// A connection cannot be made or is lost, an answer is not understood, not the expected one or does not come, or the
/// run was interrupted.
pub fn run(load: &Load, requests: impl Into<Requests>) -> anyhow::Result<Outcome> {
    run_with(load, requests.into(), PATIENCE)
}

fn run_with(load: &Load, requests: Requests, patience: Duration) -> anyhow::Result<Outcome> {
    anyhow::ensure!(
        (1..=MAX_CONNECTIONS).contains(&load.connections),
        "a load of {} connections: it takes 1 to {MAX_CONNECTIONS}",
        load.connections
    );
    match load.pace {
        Pace::Closed { depth: 0 } => anyhow::bail!("a closed loop with no request in flight makes no load"),
        Pace::Open { per_second: 0 } => anyhow::bail!("an open loop of 0 requests in a second makes no load"),
        Pace::Closed { .. } | Pace::Open { .. } => {}
    }
    driver::Driver::new(load, requests, patience)?.run()
}
