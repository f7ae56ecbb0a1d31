//! When an instance has been idle for long enough.

use std::time::{Duration, Instant};

/// What to do about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It has been idle for its whole idle timeout.
    Stop,
    /// It cannot have been before this time.
    LookAgain(Instant),
}

/// Decides by the open exchanges and the end of the last one.
pub(crate) fn decide(now: Instant, in_flight: u64, last_use: Instant, timeout: Duration) -> Idle {
    if in_flight > 0 {
        return Idle::LookAgain(now + timeout); // none of them has ended yet, and the timeout counts from their end
    }
    let due = last_use + timeout;
    if due <= now { Idle::Stop } else { Idle::LookAgain(due) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let now = start + 10 * second;
        assert_eq!(decide(now, 0, start, 10 * second), Idle::Stop);
        assert_eq!(decide(now, 0, start + second, 10 * second), Idle::LookAgain(start + 11 * second));
        assert_eq!(decide(now, 1, start, 3 * second), Idle::LookAgain(start + 13 * second));
        assert_eq!(decide(start, 0, now, second), Idle::LookAgain(start + 11 * second));
    }
}
