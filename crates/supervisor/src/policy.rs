//! The decisions, as values: when to start again, when an instance is idle, where a line of output ends.
//!
//! Nothing here knows a clock, a socket or a process. Time and randomness are arguments.

pub(crate) mod backoff;
pub(crate) mod hints;
pub(crate) mod idle;
pub(crate) mod lines;
