//! A request to its service: the lease on an instance, the try, and when to try again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_cache::Timing;
use pilotlight_supervisor::{Lease, Phase, Service};

use super::Inbound;
use super::unread::Rest;
use crate::problem::Failure;
use crate::request_body::RequestBody;
use crate::timing::{Layer, Moment};
use crate::upstream::first_byte::FirstByte;
use crate::upstream::http::Target;
use crate::upstream::silence::SilenceLimit;
use crate::upstream::{Answer, BodyLeft, Failed, SendError, Tries, UpstreamError, http, pipe};
use crate::worker::Upstream;

/// How long the end of an instance may take from its socket to the supervisor.
const END_NOTICE: Duration = Duration::from_millis(500);
/// The setting of a service that says when an instance counts as stuck.
const MAX_REQUEST_TIME: &str = "its max_request_time";

impl Inbound<'_> {
    /// Sends the request and waits for the head of the answer. A body that is still whole afterwards stays in `body`.
    pub(super) async fn fetch(&self, body: &mut Option<Box<RequestBody>>) -> Result<(Answer, Timing), Failure> {
        if body.is_some() {
            Box::pin(self.hold_small(body)).await?;
        }
        let mut tries = Tries::first();
        let mut is_first = true; // of its leases
        loop {
            let first_byte = self.first_byte();
            let lease = match self.enter(is_first) {
                Some(lease) => lease,
                None => Box::pin(self.ready(&first_byte)).await?,
            };
            let instance = lease.as_ref().map(|lease| Arc::clone(lease.instance()));
            let sent = self.worker.clock.timestamp(self.record.timeline.last()); // its start is not part of the answer's age
            let failed = match (self.upstream(), lease) {
                (Upstream::Pipe(_, link), Some(lease)) => {
                    Box::pin(pipe::send(link, lease, &self.outbound, body.take(), first_byte)).await
                }
                (Upstream::Http(_, pool), Some(lease)) => {
                    http::send(pool, Target::Managed(lease), &self.outbound, body.take(), first_byte, &mut tries).await
                }
                (Upstream::External(external, pool), _) => {
                    let target = Target::External(&external.addr);
                    http::send(pool, target, &self.outbound, body.take(), first_byte, &mut tries).await
                }
                (Upstream::Pipe(..) | Upstream::Http(..), None) => return Err(Failure::ShuttingDown),
            };
            self.record.end_phase(Layer::Service);
            let Failed { error, body: left } = match failed {
                Ok(answer) => {
                    let received = self.worker.clock.timestamp(self.record.timeline.last());
                    return Ok((answer, Timing { sent, received }));
                }
                Err(failed) => failed,
            };
            // Nobody accepts there any more: the supervisor is about to learn it, too.
            if let (SendError::Upstream(UpstreamError::Connect { .. }), Some(instance)) = (&error, &instance) {
                let ended = Box::pin(tokio::time::timeout(END_NOTICE, instance.ended()));
                let _ = ended.await; // `may_retry` looks
            }
            if let (SendError::Upstream(UpstreamError::Timeout { setting: MAX_REQUEST_TIME, .. }), Some(instance)) =
                (&error, &instance)
            {
                instance.report_stuck();
            }
            let is_whole = matches!(left, BodyLeft::Whole(_));
            if let BodyLeft::Whole(whole) = left {
                *body = whole;
            }
            match error {
                SendError::Upstream(e)
                    if is_whole && e.may_retry(self.outbound.is_idempotent(), instance.as_deref()) && tries.again() =>
                {
                    tracing::debug!(request_id = self.outbound.id.as_str(), "sent again: {e}");
                    is_first = false;
                }
                SendError::Upstream(e) => return Err(Failure::Upstream(e)),
                SendError::Client(e) => return Err(Failure::Body(e)),
                SendError::Start(e) => return Err(Failure::Start(e)),
            }
        }
    }

    /// The same, and keeps for [`Inbound::rest`] what is left of the body if nobody answers.
    pub(super) async fn fetch_or_keep(
        &mut self,
        mut body: Option<Box<RequestBody>>,
    ) -> Result<(Answer, Timing), Failure> {
        let fetched = self.fetch(&mut body).await;
        if fetched.is_err() {
            self.unsent = body;
        }
        fetched
    }

    /// What is left of the request's body when it has been answered, or not been.
    pub(super) fn rest(&mut self, has_failed: bool) -> Rest {
        let unsent = self.unsent.take().and_then(|body| body.into_untouched());
        match self.incoming.take().or(unsent) {
            Some(incoming) => Rest::Unread(incoming),
            // A service that has answered goes on taking it.
            None if has_failed && !self.record.has_received_all() => Rest::Lost,
            None => Rest::Read,
        }
    }

    /// A small body is awaited before the lease, so that a client that sends it byte by byte takes no place of
    /// `concurrency`.
    async fn hold_small(&self, body: &mut Option<Box<RequestBody>>) -> Result<(), Failure> {
        let Some(body) = body.as_mut().filter(|_| self.service().is_some()) else { return Ok(()) };
        let first_byte = self.first_byte();
        let held = first_byte.within(body.hold()).await.unwrap_or_else(|| Err(first_byte.late()));
        self.record.end_phase(Layer::Service); // it would be sent in that time
        held.map_err(Failure::Body)
    }

    /// The right to use an instance, if one has a place now; `Some(None)` for servers of somebody else's.
    fn enter(&self, is_first: bool) -> Option<Option<Lease>> {
        let lease = match self.service() {
            // A second try asks the supervisor, which knows of the first instance's drain or death by then.
            Some(service) if is_first => Some(service.enter(self.worker.index)?),
            Some(_) => return None,
            None => None,
        };
        self.record.end_phase(Layer::Queue);
        Some(lease)
    }

    /// The right to use an instance, which is started if need be.
    async fn ready(&self, first_byte: &FirstByte) -> Result<Option<Lease>, Failure> {
        let Some(service) = self.service() else { return Ok(None) };
        let Some(started) = first_byte.within(service.ready(self.worker.index)).await else {
            self.record.end_phase(Layer::Queue);
            return Err(Failure::Upstream(first_byte.over(&self.service_name())));
        };
        let (now, timeline) = (Moment::now(), &self.record.timeline);
        let until = Instant::now(); // the same, as the supervisor writes it
        let from = until.checked_sub(Duration::from_nanos(now.since(timeline.last()))).unwrap_or(until);
        match started.as_ref().ok().and_then(|lease| lease.instance().start_times()) {
            // Ready before this request came: it only waited for the supervisor's word.
            Some(times) if times.ready <= from => timeline.end_phase(Layer::Queue, now),
            Some(times) => timeline.end_start(times.phases(from, until)),
            None if started.as_ref().is_err_and(|e| e.phase != Phase::Queue) => timeline.end_phase(Layer::Start, now),
            None => timeline.end_phase(Layer::Queue, now),
        }
        started.map(Some).map_err(Failure::Start)
    }

    /// The service, if Pilotlight starts it.
    fn service(&self) -> Option<&Service> {
        match self.upstream() {
            Upstream::Pipe(service, _) | Upstream::Http(service, _) => Some(service),
            Upstream::External(..) => None,
        }
    }

    fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    fn service_name(&self) -> String {
        match self.upstream() {
            Upstream::Pipe(service, _) | Upstream::Http(service, _) => service.name().to_string(),
            Upstream::External(_, pool) => pool.service.clone(),
        }
    }

    pub(super) fn first_byte(&self) -> FirstByte {
        let whole = self.ends.map(|(after, ends)| ((after, "the route's timeout"), ends));
        let route = self.route.response_timeout.map(|after| (after, "the route's response_timeout"));
        let general = self.client.settings.limits.response_timeout.map(|after| (after, "limits.response_timeout"));
        let own = self.service().and_then(|service| service.max_request_time()).map(|after| (after, MAX_REQUEST_TIME));
        let limit = route.or(general).into_iter().chain(own).min_by_key(|(after, _)| *after);
        let silence =
            SilenceLimit::new(self.route.response_body_timeout, self.client.settings.limits.response_body_timeout);
        FirstByte::new(self.worker.deadlines.deadline(), limit, whole, silence)
    }
}
