//! One submission of a lane, from there to its outcome.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::command::Command;
use crate::engine::lane::{Lane, Refused, Ticket};
use crate::engine::submission::{Kind, Outcome, Submission};

/// One submission of a lane, given up when dropped.
pub(crate) struct Flight {
    lane: Arc<Lane>,
    ticket: Option<Ticket>,
}

impl Flight {
    /// Submits one command.
    #[inline]
    pub(crate) fn begin(
        lane: Arc<Lane>,
        command: &Command<'_>,
        timeout: Option<Duration>,
        waker: &Waker,
    ) -> Result<Self, (Arc<Lane>, Refused)> {
        let submission = Submission { replies: 1, skip: 0, kind: Kind::One, timeout };
        match lane.submit(submission, Some(waker), |out| command.encode(out)) {
            Ok(ticket) => Ok(Self { lane, ticket: Some(ticket) }),
            Err(refused) => Err((lane, refused)),
        }
    }

    /// Takes over what was submitted.
    pub(crate) fn new(lane: Arc<Lane>, ticket: Ticket) -> Self {
        Self { lane, ticket: Some(ticket) }
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// The outcome, once, and when the command was submitted.
    #[inline]
    pub(crate) fn poll(&mut self, waker: &Waker) -> Option<(Outcome, Instant)> {
        let outcome = self.lane.poll(self.ticket.as_ref()?, waker)?;
        self.ticket = None;
        Some(outcome)
    }

    /// Gives up waiting for a replica that is silent; when the command was submitted. `None`: there is no reason to.
    pub(crate) fn leave_silent_replica(&mut self) -> Option<Instant> {
        if !self.lane.is_silent_replica() {
            return None;
        }
        let ticket = self.ticket.take()?;
        let since = self.lane.submitted_at(&ticket);
        self.lane.cancel(&ticket);
        Some(since)
    }

    /// Awaits the outcome.
    pub(crate) async fn outcome(mut self) -> (Outcome, Instant) {
        std::future::poll_fn(|cx| self.poll(cx.waker()).map_or(Poll::Pending, Poll::Ready)).await
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.lane.cancel(&ticket);
        }
    }
}
