//! How long a response may let itself be waited for.
//!
//! Two times, one deadline: the whole exchange's (the route's `timeout`), which runs from the request's head on, and
//! the service's (`response_timeout`), which stands still while the gateway waits for the client's body and begins anew
//! when more of it has come: a slow client is not a slow service.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::silence::{Limit, Silence, SilenceLimit};
use super::{SendError, UpstreamError};
use crate::deadline::Deadline;
use crate::request_body::BodyError;

/// The wait for one response.
pub(crate) struct FirstByte {
    deadline: Deadline,
    /// The service's time.
    limit: Option<Limit>,
    /// The whole exchange's time, and when it is over.
    whole: Option<(Limit, Instant)>,
    /// What follows the first byte.
    silence: SilenceLimit,
    /// Whether the service's time is running.
    running: Cell<bool>,
}

impl FirstByte {
    /// The whole exchange's time runs, the service's does not yet.
    pub(crate) fn new(
        deadline: Deadline,
        limit: Option<Limit>,
        whole: Option<(Limit, Instant)>,
        silence: SilenceLimit,
    ) -> Self {
        let new = Self { deadline, limit, whole, silence, running: Cell::new(false) };
        new.deadline.set_or_clear(new.left());
        new
    }

    /// What is left of the whole exchange's time, for services that can be told (P-28).
    pub(crate) fn left(&self) -> Option<Duration> {
        self.whole.map(|(_, ends)| ends.saturating_duration_since(Instant::now()))
    }

    /// It is the service's turn: its time runs.
    pub(crate) fn service_turn(&self) {
        if !self.running.replace(true) {
            self.begin_anew();
        }
    }

    /// Who is waited for while a body is sent; `moved`: more of it has come since the last time.
    pub(crate) fn turn(&self, waits_for_client: bool, moved: bool) {
        if waits_for_client {
            if self.running.replace(false) {
                self.deadline.set_or_clear(self.left());
            }
        } else if !self.running.replace(true) || moved {
            self.begin_anew();
        }
    }

    fn begin_anew(&self) {
        let limit = self.limit.map(|(after, _)| after);
        self.deadline.set_or_clear(limit.into_iter().chain(self.left()).min());
    }

    /// The response has begun.
    pub(crate) fn came(&self) {
        self.deadline.clear();
    }

    /// The wait for the rest of a response with this `Content-Type`.
    pub(crate) fn then(self, content_type: Option<&[u8]>) -> Silence {
        Silence::new(self.deadline, self.silence, content_type)
    }

    /// Ready when the time is over; wakes the task then.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.limit.is_some() || self.whole.is_some() { self.deadline.poll(cx) } else { Poll::Pending }
    }

    /// What to say when the time is over.
    pub(crate) fn over(&self, service: &str) -> UpstreamError {
        let whole = self.whole.filter(|(_, ends)| Instant::now() >= *ends).map(|(limit, _)| limit);
        let (after, setting) = whole.or(self.limit).unwrap_or((Duration::ZERO, "its deadline"));
        UpstreamError::Timeout { service: service.to_owned(), after, setting }
    }

    /// The same where the request's body may be on its way: then it is the client that is late.
    pub(crate) fn over_for(&self, service: &str) -> SendError {
        if self.running.get() { self.over(service).into() } else { SendError::Client(self.late()) }
    }

    /// What to say when the time is over and the client's body is not whole.
    pub(crate) fn late(&self) -> BodyError {
        let (after, setting) = self.whole.map_or((Duration::ZERO, "its deadline"), |(limit, _)| limit);
        BodyError::Late { after, setting }
    }

    /// Waits for `work` no longer than the time allows; `None` when it is over.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_over(cx).map(|()| None),
        })
        .await
    }
}
