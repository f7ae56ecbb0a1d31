//! The decisions, as values: how many instances, when to start again, when an instance is idle or worn, what a zygote
//! is used for, which of several services that share a budget may run, where a line of output ends.
//!
//! Nothing here knows a clock, a socket or a process. Time and randomness are arguments.

pub(crate) mod backoff;
pub(crate) mod circuit;
pub(crate) mod groups;
pub(crate) mod hints;
pub(crate) mod idle;
pub(crate) mod lines;
pub(crate) mod orders;
pub(crate) mod recycle;
pub(crate) mod scale;
#[cfg(test)]
mod simulation;
pub(crate) mod zygote;
