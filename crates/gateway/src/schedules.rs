//! Requests that services get at certain times.
//!
//! ```text
//!  spec ──▶ agenda (pure: what begins now) ◀──▶ state (what all see) ◀── runner (a task of worker 0) ──▶ exchange
//! ```
//! A run that gateways share is taken in Redis first (`shared`). Without schedules the task waits and never wakes.

mod agenda;
mod kept;
pub(crate) mod runner;
mod shared;
mod spec;
mod state;

pub(crate) use agenda::{Ended, Report, Run, RunResult};
pub use spec::{Missed, ScheduleSpec};
pub(crate) use state::{NotBegun, Schedules};
