//! When a client's session ends, other than by the age of its tickets: with the certificates that the client has shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Of one connection. What checks the client's certificates sets it, what makes its tickets reads it.
#[derive(Debug)]
pub(crate) struct SessionEnd(AtomicU64);

impl SessionEnd {
    const NEVER: u64 = u64::MAX;

    /// That of a client which has shown nothing.
    pub(crate) fn never() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(Self::NEVER)))
    }

    /// A full handshake: what a ticket said before does not count.
    pub(crate) fn set(&self, end: SystemTime) {
        let seconds = end.duration_since(SystemTime::UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs);
        self.0.store(seconds, Ordering::Relaxed); // one connection is one task
    }

    /// A ticket that is taken. A client may offer several.
    pub(crate) fn lower(&self, seconds: u64) {
        self.0.fetch_min(seconds, Ordering::Relaxed);
    }

    /// In seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a session with that end is over.
    pub(crate) fn is_over(seconds: u64, now: SystemTime) -> bool {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).is_some_and(|end| now >= end)
    }
}
