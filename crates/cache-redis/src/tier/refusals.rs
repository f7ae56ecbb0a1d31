//! Whether Redis answers, and refuses what it is to write: a user without a right, a full server, a replica.
//!
//! It is said once, however many workers find out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pilotlight_redis::Error;

/// Writes in a row that have to be taken until refusals are over: a cluster behind the URL of one server refuses those
/// of other nodes' slots only, a server that is nearly full the large ones.
pub(crate) const CALM_WRITES: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// There is a reason. Read without the lock by those whose writes are taken.
    are_known: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reason: Option<Arc<str>>,
    taken: u32,
}

impl Refusals {
    /// A write was not done. Says whether that is still to be said: it is a refusal, and the first one.
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

    /// A write was done. Says whether refusals are over with that.
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

    /// The last refusal, if they are not over.
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
