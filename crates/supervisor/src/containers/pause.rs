//! Pauses between tries.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A pause that grows with each try, from the first to the longest.
#[derive(Debug)]
pub(super) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    pub(super) fn new(range: &RangeInclusive<Duration>) -> Self {
        Self { next: *range.start(), longest: *range.end() }
    }

    /// Cancel safe.
    pub(super) async fn wait(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        tokio::time::sleep(pause).await;
    }
}
