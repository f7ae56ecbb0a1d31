//! Whether a lock is held, and why not.

use std::fmt;
use std::time::Instant;

/// Whether it is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Until(Instant),
    Lost(Lost),
    /// By its guard.
    Released,
}

/// Why a lock is not held any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The server says so: it expired, was deleted, or a failover forgot it; somebody else may have it.
    Taken,
    /// No renewal came through in its time to live.
    Expired,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "the lock is not this holder's any more",
            Self::Expired => "the lock could not be renewed in time",
        })
    }
}
