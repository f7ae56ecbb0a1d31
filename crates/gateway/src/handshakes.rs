//! Handshakes of TLS under way: how many there are, and whose turn it is.

use std::cell::Cell;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Handshakes of a worker.
pub(crate) struct Handshakes {
    open: Cell<usize>,
    /// The right to go one step further in this turn.
    step: Semaphore,
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        Self { open: Cell::new(0), step: Semaphore::new(1) }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    pub(crate) fn begin(&self) {
        self.open.set(self.open.get() + 1);
    }

    pub(crate) fn end(&self) {
        self.open.set(self.open.get() - 1);
    }

    /// Waits for the right to go one step further.
    ///
    /// # Cancel safety
    /// Its place among those who wait is lost.
    pub(crate) async fn step(&self) -> Option<SemaphorePermit<'_>> {
        self.step.acquire().await.ok() // it is never closed
    }
}
