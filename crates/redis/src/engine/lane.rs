//! A lane: one logical connection that many tasks share. It outlives its sockets.
//!
//! A caller encodes its command straight into the lane's output and takes a waiter's cell in the same critical section;
//! the lane's driver, one task, writes waves, reads, and completes cells. Reading never waits for writing. See
//! `state` for what the lock protects.

mod body;
mod clock;
mod driver;
mod room;
mod session;
mod settings;
mod silence;
mod spares;
mod state;
mod submit;

pub(crate) use body::{Lane, Refused};
pub(crate) use room::Crowd;
pub(crate) use settings::{Dial, DialError, Settings, Sign, Watch, WhenDown, WhenFull};
pub(crate) use silence::MAX_SILENCE;
pub(crate) use state::Ticket;
