//! Refused writes: Redis answers, and does not write, because its user lacks a right, it is full, or it is a replica.
//!
//! The workers of a gateway share this state, so that the log has one line about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pilotlight_redis::Error;

/// Number of successful writes in a row that end the refusals. One is not enough: a node of a cluster behind `redis://`
/// refuses only the keys of other nodes, and a nearly full server only large values.
pub(crate) const CALM_WRITES: u32 = 16;

/// Refusals of one kind of writes.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Whether there is a reason. Successful writes read it without the lock.
    are_known: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reason: Option<Arc<str>>,
    taken: u32,
}

impl Refusals {
    /// Records a failed write. Returns whether it is the first refusal, which the caller logs.
    pub(super) fn failed(&self, error: &Error) -> bool {
        if error.server().is_none() {
            return false;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = state.reason.is_none();
        *state = State { reason: Some(error.to_string().into()), taken: 0 };
        self.are_known.store(true, Ordering::Relaxed);
        is_first
    }

    /// Records a successful write. Returns whether it ends the refusals, which the caller logs.
    pub(super) fn taken(&self) -> bool {
        if !self.are_known.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.taken += 1;
        let is_over = state.reason.is_some() && state.taken >= CALM_WRITES;
        if is_over {
            *state = State::default();
            self.are_known.store(false, Ordering::Relaxed);
        }
        is_over
    }

    /// The text of the last refusal; `None` while writes succeed.
    pub(super) fn reason(&self) -> Option<Arc<str>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reason.clone()
    }
}

#[cfg(test)]
mod tests {
    use pilotlight_redis::{ErrorKind, Ran, ServerError};

    use super::*;

    fn refusal(text: &str) -> Error {
        Error::new(ErrorKind::Server(ServerError::parse(text.as_bytes())), Ran::NotSent, "EVALSHA")
    }

    #[test]
    fn refusals_are_said_once_and_over_after_a_calm() {
        let refusals = Refusals::default();
        assert!(!refusals.taken() && refusals.reason().is_none());
        assert!(!refusals.failed(&Error::new(ErrorKind::Closed, Ran::NotSent, "EVALSHA")), "that is no refusal");
        assert!(refusals.failed(&refusal("OOM command not allowed")));
        assert!(!refusals.failed(&refusal("NOPERM no permissions to run the 'eval' command")));
        assert!(refusals.reason().unwrap().contains("'eval'"));
        assert!((1..CALM_WRITES).all(|_| !refusals.taken()));
        assert!(!refusals.failed(&refusal("OOM again")));
        assert!((1..CALM_WRITES).all(|_| !refusals.taken()));
        assert!(refusals.taken() && refusals.reason().is_none());
        assert!(refusals.failed(&refusal("OOM again")), "it is said again");
    }
}
