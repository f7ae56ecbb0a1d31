//! One measurement of how long a node takes to answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A `PING` that is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ping {
    /// Of its submission.
    pub(super) number: u64,
    pub(super) at: Instant,
}

/// Another measurement counts for a quarter.
pub(super) fn note(latency: &AtomicU64, sample: Duration) {
    let (sample, known) = (micros(sample), latency.load(Ordering::Relaxed));
    let average = if known == 0 { sample } else { (known * 3 + sample) / 4 };
    latency.store(average.max(1), Ordering::Relaxed);
}

/// At least one: 0 stands for what is not known.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4)
}
