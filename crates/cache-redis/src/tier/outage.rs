//! Whether Redis is known not to answer, for one of its uses. It is said once, however many workers and breakers find
//! out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Breakers that are open, of all workers.
    open: AtomicUsize,
    /// Somebody has said that Redis does not answer, and nobody yet that it does again.
    is_said: AtomicBool,
}

impl Outage {
    pub(super) fn open_breakers(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether it is still to be said.
    pub(super) fn begins(&self) -> bool {
        !self.is_said.swap(true, Ordering::Relaxed)
    }

    /// A breaker has opened. Says whether that is still to be said.
    pub(super) fn opened(&self) -> bool {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.begins()
    }

    /// A breaker has closed. Says whether it is over with that, and that is still to be said.
    pub(super) fn closed(&self) -> bool {
        let was_last = self.open.fetch_sub(1, Ordering::Relaxed) == 1;
        was_last && self.is_said.swap(false, Ordering::Relaxed)
    }
}
