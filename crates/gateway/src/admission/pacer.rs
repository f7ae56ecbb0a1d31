//! Bodies at the pace of a route's `bandwidth`. What a connection has sent is paid for with time, as requests are
//! ([`super::rate`]): nothing is sent while more than [`AHEAD`] is owed. The waits are the worker's deadlines, ten a
//! second, so [`AHEAD`] is longer than the longest of their steps: no time is lost between two of them.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::deadline::Deadline;
use crate::timing::Moment;

/// How much may be sent at once, as the time that it takes.
const AHEAD: Duration = Duration::from_millis(300);
/// What goes out together: at most, as the time that it takes.
const PIECE: Duration = Duration::from_millis(100);
const SECOND_NS: u128 = 1_000_000_000;

/// Until when what a connection has sent is paid for, in nanoseconds of the monotonic clock.
pub(crate) type PaidUntil = Rc<Cell<u64>>;

/// Holds one response to its route's pace.
pub(crate) struct Pacer {
    /// Bytes in a second.
    rate: u64,
    paid_until_ns: PaidUntil,
    deadline: Deadline,
    /// What is left of a piece that is too long to be sent at once.
    rest: Bytes,
}

impl Pacer {
    pub(crate) fn new(rate: u64, paid_until_ns: PaidUntil, deadline: Deadline) -> Self {
        Self { rate: rate.max(1), paid_until_ns, deadline, rest: Bytes::new() }
    }

    /// Ready when something may be sent.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let owed = self.paid_until_ns.get().saturating_sub(Moment::now().as_ns());
        let ahead = AHEAD.as_nanos() as u64;
        if owed <= ahead {
            return Poll::Ready(());
        }
        // Registered, so that the end of the wait wakes the task; then the time is looked at again.
        self.deadline.set(Duration::from_nanos(owed - ahead));
        self.deadline.poll(cx)
    }

    /// Pays for a piece, and gives out what of it is to be sent now.
    pub(crate) fn take(&mut self, piece: Bytes) -> Bytes {
        let most = usize::try_from(self.most()).unwrap_or(usize::MAX).min(piece.len());
        let mut rest = piece;
        let now = rest.split_to(most);
        self.rest = rest;
        self.pay(now.len() as u64);
        now
    }

    /// Bytes that may go out together; one at least.
    pub(crate) fn most(&self) -> u64 {
        let most = u128::from(self.rate) * PIECE.as_nanos() / SECOND_NS;
        u64::try_from(most).unwrap_or(u64::MAX).max(1)
    }

    /// Pays for what is sent now.
    pub(crate) fn pay(&self, bytes: u64) {
        let cost = u64::try_from(u128::from(bytes) * SECOND_NS / u128::from(self.rate)).unwrap_or(u64::MAX);
        let from = self.paid_until_ns.get().max(Moment::now().as_ns());
        self.paid_until_ns.set(from.saturating_add(cost));
    }

    /// What is left of the last piece.
    pub(crate) fn rest(&mut self) -> Option<Bytes> {
        (!self.rest.is_empty()).then(|| std::mem::take(&mut self.rest))
    }

    /// Whether something is left of the last piece.
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Deadlines;

    fn pacer(rate: u64) -> Pacer {
        Pacer::new(rate, PaidUntil::default(), Deadlines::new().deadline())
    }

    #[test]
    fn pieces_are_cut_and_none_is_lost() {
        let mut pacer = pacer(1000);
        let body = Bytes::from(vec![7; 250]);
        let (mut sent, mut piece) = (Vec::new(), Some(body.clone()));
        while let Some(next) = piece {
            let part = pacer.take(next);
            assert!(!part.is_empty() && part.len() <= 100);
            sent.extend_from_slice(&part);
            assert_eq!(pacer.has_rest(), sent.len() < body.len());
            piece = pacer.rest();
        }
        assert_eq!(sent, body);
    }

    #[test]
    fn what_is_ahead_waits() {
        let mut pacer = pacer(1_000_000);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let mut sent = 0;
        while pacer.poll(cx).is_ready() {
            sent += pacer.take(Bytes::from(vec![0; 100_000])).len();
        }
        // A third of a second, the piece that goes beyond it, and what the time since the first one is worth.
        assert!((400_000..=600_000).contains(&sent), "{sent}");
    }
}
