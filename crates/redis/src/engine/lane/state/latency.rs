//! How long a node takes to answer, measured by pings of the lane's own among the callers' commands: what it finds is
//! what callers wait.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pilotlight_resp::encode;

use super::State;
use super::ping::{Ping, micros};

impl State {
    /// Pings the node.
    pub(crate) fn ping(&mut self, now: Instant) {
        self.ping = Some(Ping { number: self.next_number, at: now });
        self.submit_for_nobody(|out| encode::command(out.page(), &[b"PING"]));
    }

    /// Whether the last measurement is so old, or was on another connection.
    pub(crate) fn wants_ping(&self, now: Instant, every: Duration) -> bool {
        let is_old = |at| now.saturating_duration_since(at) >= every;
        // An idle lane is pinged by and by.
        self.ping.is_none() && self.pinged.is_none_or(|at| is_old(at) && !self.is_idle())
    }

    /// A node that is slower than it was shows before it has answered.
    pub(crate) fn note_silence(&self, now: Instant) {
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
