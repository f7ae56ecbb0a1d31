//! How long a node takes to answer, measured by pings of the lane's own among the callers' commands: what it finds is
//! what callers wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pilotlight_resp::encode;

use super::State;

/// A `PING` that is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ping {
    /// Of its submission.
    pub(super) number: u64,
    pub(super) at: Instant,
}

impl State {
    /// Pings the node.
    pub(in crate::net::lane) fn ping(&mut self, now: Instant) {
        self.ping = Some(Ping { number: self.next_number, at: now });
        self.submit_for_nobody(|out| encode::command(out.page(), &[b"PING"]));
    }

    /// Whether the last measurement is so old, or was on another connection.
    pub(in crate::net::lane) fn wants_ping(&self, now: Instant, every: Duration) -> bool {
        let is_old = |at| now.saturating_duration_since(at) >= every;
        // An idle lane is pinged by and by.
        self.ping.is_none() && self.pinged.is_none_or(|at| is_old(at) && !self.is_idle())
    }

    /// A node that is slower than it was shows before it has answered.
    pub(in crate::net::lane) fn note_silence(&self, now: Instant) {
        if let Some(ping) = self.ping {
            let age = micros(now.saturating_duration_since(ping.at));
            let known = self.latency.load(Ordering::Relaxed);
            if known > 0 && age > known.saturating_mul(2) {
                self.latency.store(age, Ordering::Relaxed);
            }
        }
    }

    /// There is no connection: on another one it will be measured anew.
    pub(super) fn forget_latency(&mut self) {
        (self.ping, self.pinged) = (None, None);
        self.latency.store(0, Ordering::Relaxed);
    }
}

/// Another measurement counts for a quarter.
pub(super) fn note(latency: &AtomicU64, sample: Duration) {
    let (sample, known) = (micros(sample), latency.load(Ordering::Relaxed));
    let average = if known == 0 { sample } else { (known * 3 + sample) / 4 };
    latency.store(average.max(1), Ordering::Relaxed);
}

/// At least one: 0 stands for what is not known.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4)
}
