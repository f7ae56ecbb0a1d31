//! How long a response may let itself be waited for.
//!
//! Two times, one deadline: the whole exchange's (the route's `timeout`), which runs from the request's head on, and
//! the service's (`response_timeout`), which stands still while the gateway waits for the client's body and begins anew
//! when more of it has come: a slow client is not a slow service.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pilotlight_supervisor::{Ended, Instance};

use super::silence::{Limit, Silence, SilenceLimit};
use super::{Delivery, SendError, UpstreamError, closed};
use crate::deadline::Deadline;
use crate::outbound::Outbound;
use crate::request_body::BodyError;

/// How long an instance that has never answered may take to exit after its connection has broken. A process that dies
/// closes its sockets first; if it exits within this time, the request failed because the service did not start.
const MAX_EXIT_NOTICE: Duration = Duration::from_millis(250);

/// An exchange with an HTTP service, whose response has not begun.
pub(super) trait Awaited {
    /// The connections that it uses one of.
    type Pool;
    /// Of the response.
    type Head;

    /// Sends more of the request, and takes the head when it is there.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Self::Pool,
        outbound: &Outbound,
    ) -> Poll<Result<Self::Head, SendError>>;

    /// Whether it is the client that keeps the request from going on.
    fn waits_for_client(&self) -> bool;

    /// Whether more of the request's body has come since this was last asked.
    fn take_moved(&mut self) -> bool;
}

/// Whose response is awaited.
pub(super) struct Awaiting<'a, P> {
    pub(super) pool: &'a P,
    pub(super) service: &'a str,
    /// `None` for a server of somebody else's.
    pub(super) instance: Option<&'a Instance>,
    pub(super) outbound: &'a Outbound,
}

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

    /// How long the response may let itself be waited for, from the service's turn on.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.limit.map(|(after, _)| after).into_iter().chain(self.left()).min()
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

    /// The head of the response, unless the instance ends before its first one, or the time is over.
    pub(super) fn head<E: Awaited>(
        &self,
        exchange: &mut E,
        from: &Awaiting<'_, E::Pool>,
    ) -> impl Future<Output = Result<E::Head, SendError>> {
        // Until its first response an instance is starting, and its end is a failed start.
        let mut ended = from.instance.filter(|instance| !instance.answered()).map(|it| Box::pin(it.ended()));
        let mut broken = None;
        poll_fn(move |cx| {
            if broken.is_none()
                && let Poll::Ready(head) = exchange.poll_head(cx, from.pool, from.outbound)
            {
                match head {
                    Err(error) if ended.is_some() && error.is_closed() => {
                        self.deadline.set_or_clear(Some(MAX_EXIT_NOTICE.min(self.left().unwrap_or(MAX_EXIT_NOTICE))));
                        broken = Some(error);
                    }
                    head => return Poll::Ready(head),
                }
            }
            // A process that dies with the connection still in its socket's queue closes nothing.
            if let Some(exit) = &mut ended
                && let Poll::Ready(end) = exit.as_mut().poll(cx)
            {
                return Poll::Ready(Err(start_failed(from.service, end)));
            }
            if broken.is_some() {
                ready!(self.deadline.poll(cx));
            }
            if let Some(error) = broken.take() {
                return Poll::Ready(Err(error));
            }
            self.turn(exchange.waits_for_client(), exchange.take_moved());
            self.poll_over(cx).map(|()| Err(self.over_for(from.service)))
        })
    }

    /// What to say when the time is over.
    pub(crate) fn over(&self, service: &str) -> UpstreamError {
        let (after, setting) = self.what_is_over();
        UpstreamError::Timeout { service: service.to_owned(), after, setting }
    }

    /// The same before there was a server to ask.
    pub(crate) fn over_before(&self, service: &str, why: &'static str) -> UpstreamError {
        let (after, setting) = self.what_is_over();
        UpstreamError::NoServer { service: service.to_owned(), after, setting, why }
    }

    fn what_is_over(&self) -> Limit {
        let whole = self.whole.filter(|(_, ends)| Instant::now() >= *ends).map(|(limit, _)| limit);
        whole.or(self.limit).unwrap_or((Duration::ZERO, "its deadline"))
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

fn start_failed(service: &str, end: Ended) -> SendError {
    match (end.start_error, end.exit) {
        (Some(error), _) => SendError::Start(error),
        (None, Some(exit)) => closed(service, &exit.to_string(), Delivery::Maybe).into(),
        (None, None) => closed(service, "was killed", Delivery::Maybe).into(),
    }
}
