//! Handshakes of TLS under way: how many there are, and whose turn it is.

use std::cell::Cell;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Handshakes of a worker.
pub(crate) struct Handshakes {
    open: Cell<usize>,
    /// Of them, those that wait for a certificate.
    waiting: Cell<usize>,
    /// The right to go one step further in this turn.
    step: Semaphore,
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        Self { open: Cell::new(0), waiting: Cell::new(0), step: Semaphore::new(1) }
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

    /// One more waits for a certificate, until what is returned is dropped. `None`: `max` do already.
    pub(crate) fn wait(&self, max: usize) -> Option<Waits<'_>> {
        let waiting = self.waiting.get();
        (waiting < max).then(|| {
            self.waiting.set(waiting + 1);
            Waits(self)
        })
    }

    /// Waits for the right to go one step further.
    ///
    /// # Cancel safety
    /// It loses its place among the handshakes that wait.
    pub(crate) async fn step(&self) -> Option<SemaphorePermit<'_>> {
        self.step.acquire().await.ok() // it is never closed
    }
}

/// A handshake that waits for a certificate.
pub(crate) struct Waits<'a>(&'a Handshakes);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_wait() {
        let handshakes = Handshakes::new();
        let (one, other) = (handshakes.wait(2), handshakes.wait(2));
        assert!(one.is_some() && other.is_some() && handshakes.wait(2).is_none());
        drop(one);
        assert!(handshakes.wait(2).is_some());
        drop(other);
        assert_eq!(handshakes.waiting.get(), 0);
    }
}
