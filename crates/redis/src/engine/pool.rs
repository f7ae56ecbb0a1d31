//! Connections that are not shared: lent to one user at a time, kept for the next one while they are as good as new.
//!
//! Invariant: a connection is put back only between two commands, and lent with nothing switched on that its user would
//! notice: what `RESET` undoes is undone before. An exchange takes the connection out of its lease, so that a future
//! that is dropped in the middle closes it.

mod body;
mod bounds;
mod lease;
mod lend;
mod link;

pub(crate) use body::Pool;
pub(crate) use lease::Lease;
