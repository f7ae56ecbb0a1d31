//! A request to its service: the place at an instance, and one try. What comes of a failed one is decided elsewhere
//! (`pilotlight_exchange::retry`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, Version};
use pilotlight_cache::{Stored, Timing};
use pilotlight_exchange::retry::{Fault, Reuse};
use pilotlight_exchange::{BodyLeft, Event, PlaceTurn, WaitsFor};
use pilotlight_supervisor::{Lease, Phase, Service, StartError};

use super::handles::{Fetched, Ours};
use super::inbound::{Caller, Inbound};
use super::site;
use crate::compress;
use crate::grpc;
use crate::outbound::Outbound;
use crate::problem::Failure;
use crate::request_body::{BodyError, RequestBody};
use crate::timing::{Layer, Moment};
use crate::traces::TryOutcome;
use crate::upstream::first_byte::FirstByte;
use crate::upstream::one_try::{Kept, Try};
use crate::upstream::server::{self, Seat};
use crate::upstream::silence::SilenceLimit;
use crate::upstream::{
    self, Delivery, Failed, SendError, ServiceResponse, UpstreamError, cgi, http, http2, https, lambda, pipe, seated,
};
use crate::worker::Upstream;

impl Inbound {
    pub(super) fn open_body(&mut self) -> Event<Ours> {
        if let Some(failure) = self.grpc_refused() {
            return failed(failure, None);
        }
        match self.body() {
            Ok(body) => Event::BodyOpened(body),
            Err(failure) => failed(failure, None),
        }
    }

    /// gRPC needs HTTP/2 on both sides, for its trailers; the pipe has them as well.
    fn grpc_refused(&self) -> Option<Failure> {
        let is_http2 = self.head().version == Version::HTTP_2;
        let failure = match &*self.upstream {
            Upstream::Http2(..) | Upstream::ExternalHttp2(..) | Upstream::ExternalTls(..) if !is_http2 => {
                Failure::GrpcWithoutHttp2
            }
            Upstream::Http(..)
            | Upstream::External(..)
            | Upstream::Cgi(..)
            | Upstream::ExternalCgi(..)
            | Upstream::Lambda(_)
                if is_http2 =>
            {
                Failure::GrpcToHttp1 { service: self.service_name() }
            }
            _ => return None,
        };
        grpc::is_grpc(self.head()).then_some(failure)
    }

    /// A small body is awaited before the place, so that a client that sends it byte by byte takes no place of
    /// `concurrency`.
    pub(super) async fn hold_body(&self, mut body: Box<RequestBody>) -> Event<Ours> {
        let first_byte = self.new_wait();
        let held = match &self.route.lambda {
            // An event has all of it, and its instance does one thing at a time.
            Some(lambda) => first_byte.within(body.gather(lambda.max_payload)).await.map(|held| held.map(drop)),
            None => first_byte.within(body.hold()).await,
        };
        self.record.end_named(Layer::Service, "request_body"); // it would be sent in that time
        match held {
            Some(Ok(())) => Event::BodyHeld(body),
            Some(Err(error)) => failed(Failure::Body(error), Some(body)),
            None => Event::TimeOver { waits_for: WaitsFor::Client, body: BodyLeft::Whole(Some(body)) },
        }
    }

    /// A place at an instance, if one has a place now.
    pub(super) fn enter(&mut self, turn: PlaceTurn) -> Option<Event<Ours>> {
        self.wait = Some(self.new_wait());
        // A second try asks the supervisor, which knows of the first instance's drain or death by then.
        let service = self.service().filter(|_| turn == PlaceTurn::First)?;
        let lease = service.enter(self.worker.index)?;
        self.record.end_phase(Layer::Queue);
        self.instance = Some(Arc::clone(lease.instance()));
        self.lease = Some(lease);
        Some(Event::Placed)
    }

    /// A place at an instance, which is started if need be.
    pub(super) async fn wait_for_place(&mut self) -> Event<Ours> {
        if self.is_away() {
            self.come_home();
            self.wait = Some(self.new_wait());
        } else if self.route.spill.is_some() && self.spill() {
            return Event::Placed;
        }
        let (Some(service), Some(first_byte)) = (self.service(), &self.wait) else { return Event::Placed };
        let Some(started) = first_byte.within(service.ready(self.worker.index)).await else {
            self.record.end_phase(Layer::Queue);
            return Event::TimeOver { waits_for: WaitsFor::Service, body: BodyLeft::NONE };
        };
        self.count_start(&started);
        match started {
            Ok(lease) => {
                self.instance = Some(Arc::clone(lease.instance()));
                self.lease = Some(lease);
                Event::Placed
            }
            Err(error) => failed(Failure::Start(error), None),
        }
    }

    /// Counts the wait for an instance to its parts.
    fn count_start(&self, started: &Result<Lease, StartError>) {
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
    }

    /// Sends the request, and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        body: Option<Box<RequestBody>>,
        condition: Option<Arc<Stored>>,
        kept: Kept,
    ) -> Event<Ours> {
        self.outbound.validators = condition.map(|stored| {
            let mut validators = Box::<HeaderMap>::default();
            stored.make_conditional(&mut validators);
            validators
        });
        let mut body = body;
        if self.service().is_none() && kept == Kept::MayBeUsed && !self.take_spilled_place() {
            self.record.end_phase(Layer::Queue);
            self.wait = None;
            if let Some(none) = self.take_server() {
                body = match Box::pin(self.without_server(none, body)).await {
                    Ok(body) => body,
                    Err(event) => return *event,
                };
            }
        }
        if self.wait.is_none() {
            self.wait = Some(self.new_wait());
        }
        let sent = self.worker.clock.timestamp(self.record.timeline.last()); // its start is not part of the answer's age
        if let Some(trace) = self.record.begin_try() {
            self.outbound.trace = Some(trace);
        }
        if let Some(answer) = self.find_script() {
            return answer;
        }
        let result = self.ask(body, kept).await;
        self.record.end_phase(Layer::Service);
        self.record.end_try(|| match &result {
            Ok(answer) => TryOutcome::Answered(answer.status.as_u16()),
            Err(failed) => TryOutcome::Failed(error_type(&failed.error)),
        });
        self.judge_server(&result);
        match result {
            Ok(mut answer) => {
                if let Some(seat) = self.seat.take() {
                    self.cookie = seat.cookie(self.outbound.origin().scheme).map(Box::new);
                    answer = seated::hold(answer, seat);
                }
                if let Some(options) = self.route.cgi.as_deref() {
                    answer = site::sent_file(&self.worker, options, self.head(), answer);
                }
                if let Some(options) = &self.route.compress {
                    answer = compress::apply(&self.worker.encoding, options, self.head(), answer);
                }
                let received = self.worker.clock.timestamp(self.record.timeline.last());
                let status = answer.status.as_u16();
                Event::Answered { answer: Box::new(Fetched { answer, timing: Timing { sent, received } }), status }
            }
            Err(failed) => self.send_failed(failed),
        }
    }

    /// One try: sends the request and waits for the head of the response.
    async fn ask(&mut self, body: Option<Box<RequestBody>>, kept: Kept) -> Result<ServiceResponse, Failed> {
        let mut one = Try { lease: &mut self.lease, first_byte: &mut self.wait };
        let (outbound, seat, asker) = (&self.outbound, self.seat.as_ref(), &self.client);
        let at = |external| server::server(external, seat, || client_address(outbound, asker));
        match &*self.upstream {
            Upstream::Pipe(_, link) => Box::pin(pipe::send(link, &mut one, outbound, body)).await,
            Upstream::Http(_, pool) => http::send(pool, None, &mut one, outbound, body, kept).await,
            Upstream::Http2(_, pool) => Box::pin(http2::send(pool, None, &mut one, outbound, body, kept)).await,
            Upstream::ExternalHttp2(external, pool) => {
                Box::pin(http2::send(pool, at(external).as_ref(), &mut one, outbound, body, kept)).await
            }
            Upstream::ExternalTls(external, http1, http2) => {
                let (to, pools) = (at(external), https::Pools { http1, http2 });
                Box::pin(https::send(external, to.as_ref(), pools, &mut one, outbound, body, kept)).await
            }
            Upstream::External(external, pool) => {
                http::send(pool, at(external).as_ref(), &mut one, outbound, body, kept).await
            }
            Upstream::Cgi(_, protocol, pool) => {
                let options = self.route.cgi.as_deref();
                let to = cgi::To { pool, protocol: *protocol, options, external: None };
                Box::pin(cgi::send(to, &mut one, outbound, body, kept)).await
            }
            Upstream::ExternalCgi(external, protocol, pool) => {
                let (options, server) = (self.route.cgi.as_deref(), at(external));
                let to = cgi::To { pool, protocol: *protocol, options, external: server.as_ref() };
                Box::pin(cgi::send(to, &mut one, outbound, body, kept)).await
            }
            Upstream::Lambda(service) => {
                let (functions, options) = (&self.worker.common.functions, self.route.lambda.as_deref());
                Box::pin(lambda::send(functions, service, options, &mut one, outbound, body)).await
            }
        }
    }

    /// Looks for the script of a request that was made here, whose head nobody looked at before. What else is found
    /// there is the answer.
    fn find_script(&mut self) -> Option<Event<Ours>> {
        if self.outbound.script.is_some() {
            return None;
        }
        let scripts = self.route.cgi.as_ref()?.scripts.as_ref()?;
        let target = self.outbound.target();
        let found = site::find(&self.worker, scripts, None, self.head(), site::path_of(&target));
        match found {
            Ok(site::Site::Script(script)) => {
                drop(target);
                self.outbound.script = Some(script);
                None
            }
            Ok(site::Site::Own(answer)) => {
                let (parts, body) = answer.into_parts();
                let (status, fields) = (parts.status, parts.headers.into());
                let answer = ServiceResponse { status, fields, body, upgraded: None };
                let now = self.worker.clock.timestamp(self.record.timeline.last());
                let timing = Timing { sent: now, received: now };
                Some(Event::Answered { answer: Box::new(Fetched { answer, timing }), status: status.as_u16() })
            }
            Err(failure) => Some(failed(failure, None)),
        }
    }

    pub(super) fn send_failed(&self, failed: Failed) -> Event<Ours> {
        let Failed { mut error, body, reuse } = failed;
        // A server that was taken off the list ends because of that, not because of the request.
        if let SendError::Upstream(UpstreamError::Closed { delivery: delivery @ Delivery::Suspect, .. }) = &mut error
            && self.seat.as_ref().is_some_and(Seat::has_left)
        {
            *delivery = Delivery::Maybe;
        }
        let body = match body {
            upstream::BodyLeft::Whole(body) => BodyLeft::Whole(body),
            upstream::BodyLeft::Spent => BodyLeft::Spent,
        };
        let fault = match &error {
            SendError::Upstream(UpstreamError::Timeout { .. }) => {
                return Event::TimeOver { waits_for: WaitsFor::Service, body };
            }
            SendError::Client(BodyError::Late { .. }) => {
                return Event::TimeOver { waits_for: WaitsFor::Client, body };
            }
            SendError::Upstream(error) => fault(error, reuse),
            SendError::Client(_) => Fault::Client,
            SendError::Start(_) => Fault::Start,
        };
        let failure = match error {
            SendError::Upstream(error) => {
                tracing::debug!(
                    request_id = self.outbound.id.as_str(),
                    trace_id = self.record.trace_id(),
                    "not answered: {error}"
                );
                Failure::Upstream(error)
            }
            SendError::Client(error) => Failure::Body(error),
            SendError::Start(error) => Failure::Start(error),
        };
        let status = failure.status().as_u16();
        Event::SendFailed { fault, failure: Box::new(failure), status, body, instance: self.instance_state() }
    }

    /// The service, if Pilotlight starts it.
    pub(super) fn service(&self) -> Option<&Arc<Service>> {
        match &*self.upstream {
            Upstream::Pipe(service, _)
            | Upstream::Http(service, _)
            | Upstream::Http2(service, _)
            | Upstream::Cgi(service, ..)
            | Upstream::Lambda(service) => Some(service),
            Upstream::External(..)
            | Upstream::ExternalHttp2(..)
            | Upstream::ExternalTls(..)
            | Upstream::ExternalCgi(..) => None,
        }
    }

    pub(super) fn service_name(&self) -> String {
        match &*self.upstream {
            Upstream::Pipe(service, _) | Upstream::Http(service, _) | Upstream::Lambda(service) => {
                service.name().to_string()
            }
            Upstream::External(_, pool)
            | Upstream::ExternalTls(_, pool, _)
            | Upstream::Cgi(_, _, pool)
            | Upstream::ExternalCgi(_, _, pool) => pool.service.clone(),
            Upstream::Http2(_, pool) | Upstream::ExternalHttp2(_, pool) => pool.service.clone(),
        }
    }

    pub(super) fn new_wait(&self) -> FirstByte {
        let whole = self.ends.map(|(after, ends)| ((after, "the route's timeout"), ends));
        let route = self.route.response_timeout.map(|after| (after, "the route's response_timeout"));
        let general = self.client.settings.limits.response_timeout.map(|after| (after, "limits.response_timeout"));
        let own =
            self.service().and_then(|service| service.max_request_time()).map(|after| (after, "its max_request_time"));
        let limit = route.or(general).into_iter().chain(own).min_by_key(|(after, _)| *after);
        let silence =
            SilenceLimit::new(self.route.response_body_timeout, self.client.settings.limits.response_body_timeout);
        FirstByte::new(self.worker.deadlines.deadline(), limit, whole, silence)
    }
}

/// Who asks, as `trust_forwarded` tells it; the port is 0 if another than the connection's is told of.
fn client_address(outbound: &Outbound, client: &Caller) -> Option<SocketAddr> {
    let Caller { settings, peer, .. } = client;
    let told = settings.trust_forwarded.client(outbound.head.headers(), peer.address())?;
    let port = if Some(told) == peer.address() { peer.port() } else { 0 };
    Some(SocketAddr::new(told, port))
}

fn failed(failure: Failure, body: Option<Box<RequestBody>>) -> Event<Ours> {
    Event::Failed { status: failure.status().as_u16(), failure: Box::new(failure), body }
}

/// `error.type` of a span.
fn error_type(error: &SendError) -> &'static str {
    match error {
        SendError::Client(_) => "client",
        SendError::Start(_) => "start",
        SendError::Upstream(error) => match error {
            UpstreamError::Connect { .. } => "connect",
            UpstreamError::Closed { .. } => "closed",
            UpstreamError::Protocol { .. } | UpstreamError::NoExtendedConnect { .. } => "protocol",
            UpstreamError::Refused { .. } => "refused",
            UpstreamError::Overloaded { .. } => "overloaded",
            UpstreamError::Deadline { .. } | UpstreamError::Timeout { .. } | UpstreamError::NoServer { .. } => {
                "timeout"
            }
            UpstreamError::Internal { .. } => "internal",
            UpstreamError::NoShare { .. } => "no_share",
            UpstreamError::Function { .. } => "function",
            UpstreamError::TooLarge { .. } => "too_large",
            UpstreamError::LengthRequired { .. } => "length_required",
        },
    }
}

fn fault(error: &UpstreamError, reuse: Reuse) -> Fault {
    match error {
        UpstreamError::Connect { .. } => Fault::Connect,
        UpstreamError::Closed { delivery, .. } => Fault::Closed(*delivery, reuse),
        UpstreamError::Protocol { .. } | UpstreamError::NoExtendedConnect { .. } => Fault::Protocol,
        UpstreamError::Refused { .. } => Fault::Refused,
        UpstreamError::Overloaded { .. } => Fault::Overloaded,
        UpstreamError::Deadline { .. } | UpstreamError::Timeout { .. } | UpstreamError::NoServer { .. } => {
            Fault::Deadline
        }
        UpstreamError::Internal { .. } | UpstreamError::Function { .. } | UpstreamError::NoShare { .. } => {
            Fault::Internal
        }
        UpstreamError::TooLarge { .. } | UpstreamError::LengthRequired { .. } => Fault::TooLarge,
    }
}
