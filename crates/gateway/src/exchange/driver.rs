//! Drives the decisions of `pilotlight_exchange`: does what they ask for, one action at a time, and reports what came
//! of it. The driver decides only which part of the gateway does it.
//!
//! Invariant: a request holds a place at one instance at most, and only while it is sent there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use pilotlight_cache::{self as cache, Forward};
use pilotlight_exchange::retry::Instance;
use pilotlight_exchange::{
    Action, Connection, Event, Exchange, Limits, Lookup, OnlyIfCached, Request, RestOfBody, Turn,
};
use pilotlight_exchange::{BodyLeft, Upstream as Kind, WaitsFor};

use super::handles::{Ours, stale};
use super::inbound::{Inbound, Looked, Parted};
use super::unread;
use crate::lookup::now;
use crate::problem::Failure;
use crate::request_body::{BodySource, RequestBody};
use crate::timing::Layer;
use crate::upstream::one_try::Kept;

impl Inbound {
    /// The response, and what becomes of the client's connection. `took`: how long Redis was waited for before it
    /// began.
    pub(super) async fn respond(
        &mut self,
        begin: Event<Ours>,
        took: Duration,
    ) -> (Result<Parted, Failure>, Connection) {
        let begun = Instant::now();
        self.ends = self
            .route
            .timeout
            .and_then(|after| Some((after, begun.checked_sub(took).unwrap_or(begun).checked_add(after)?)));
        let mut exchange = Exchange::new(self.request(took));
        let mut at = begun;
        let mut action = exchange.step(begin, at);
        loop {
            self.record.verdict(exchange.verdict());
            self.detached_fetch.follow(exchange.leads().map(|fill| &**fill));
            // A place is held for a try only: an instance that refused it, or that is replaced, has to be able to end.
            if !matches!(action, Action::Send { .. } | Action::SendAgain { .. }) {
                self.lease = None;
            }
            let takes_time = !matches!(action, Action::OpenBody | Action::LookAtBody(_));
            let event = match action {
                Action::Respond { response, connection } => {
                    if exchange.is_over_budget() {
                        self.over_budget();
                    }
                    return (self.answer(response), connection);
                }
                Action::OpenBody => self.open_body(),
                Action::TakePlace(turn, _) => match self.enter(turn) {
                    Some(placed) => placed,
                    None => Box::pin(self.wait_for_place()).await,
                },
                Action::Send { body, condition, .. } => self.send(body, condition, Kept::MayBeUsed).await,
                Action::SendAgain { body, condition } => self.send(body, condition, Kept::IsNotUsed).await,
                Action::LookAtBody(kept) => self.look_at_body(kept),
                other => Box::pin(self.seldom(other)).await,
            };
            if takes_time {
                at = Instant::now();
            }
            action = exchange.step(event, at);
        }
    }

    /// What most requests that are passed on do not need: in a box of its own, so that they do not pay for its size.
    async fn seldom(&mut self, action: Action<Ours>) -> Event<Ours> {
        match action {
            Action::HoldBody(body, _) => self.hold_body(body).await,
            Action::AwaitEnd(time) => {
                if let Some(instance) = &self.instance {
                    // Whether it has ended is looked at next.
                    let _ = tokio::time::timeout(time, instance.ended()).await;
                }
                Event::Instance(self.instance_state())
            }
            Action::ReportStuck => {
                if let Some(instance) = &self.instance {
                    instance.report_stuck();
                }
                Event::Reported
            }
            Action::Drain { max_bytes, within } => {
                let Some(rest) = self.incoming.take() else { return Event::Drained(true) };
                Event::Drained(unread::drain(rest, max_bytes, within, self.worker.deadlines.deadline()).await)
            }
            // Begun where it was found.
            Action::Refresh(_) => Event::Refreshing,
            Action::TakeTurn => self.take_turn(),
            Action::Follow(wait, _) => self.follow(*wait).await,
            Action::AskRedis(fill) => self.ask_redis(fill).await,
            Action::AwaitLead(fill, redis, _) => self.await_lead(fill, redis).await,
            Action::Adopt(fill, redis) => self.adopt(*fill, redis),
            Action::Prepare(fill, redis, keep) => self.prepare(fill, *redis, keep),
            Action::AskRedisOnly => self.ask_redis_only().await,
            Action::BeginPost => Event::PostBegun(self.begin_post()),
            Action::Invalidate(fetched) => self.invalidate(fetched),
            Action::MayServeStale(stored) => Event::MayServeStale(self.serves_if_error(&stored, now())),
            Action::LandFailed(fill, stored, refusal) => self.land_failed(*fill, stored, refusal),
            Action::Validate(fill, stored, fetched) => self.validate(*fill, &stored, fetched),
            Action::Judge(fill, fetched, judgement) => self.judge(*fill, fetched, judgement),
            Action::Respond { .. }
            | Action::OpenBody
            | Action::TakePlace(..)
            | Action::Send { .. }
            | Action::SendAgain { .. }
            | Action::LookAtBody(_) => Event::Reported, // the loop does these
        }
    }

    fn request(&self, already_took: Duration) -> Request {
        use pilotlight_exchange::Method as Promise;

        let settings = &self.client.settings.limits;
        Request {
            method: match self.head().method {
                Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Promise::Safe,
                Method::PUT | Method::DELETE => Promise::Idempotent,
                Method::POST => Promise::Post,
                _ => Promise::Other,
            },
            has_body: self.incoming.as_ref().is_some_and(|body| !body.is_ended()),
            expects_continue: self.head().has(&http::header::EXPECT),
            has_cache: self.worker.common.cache.is_some(),
            upstream: if self.service().is_some() { Kind::Managed } else { Kind::External },
            limits: Limits {
                timeout: self.route.timeout,
                route_response: self.route.response_timeout,
                general_response: settings.response_timeout,
                max_request_time: self.service().and_then(|service| service.max_request_time()),
            },
            already_took,
        }
    }

    /// What is known when the exchange begins.
    pub(super) fn begin(&mut self, looked: Looked) -> Event<Ours> {
        let Looked { lookup, redis } = looked;
        let lookup = match lookup {
            None => Lookup::Off(Forward::Disabled),
            Some(cache::Lookup::Bypass(why)) => Lookup::Bypass { why, is_by_method: why == Forward::Method },
            Some(cache::Lookup::OnlyIfCached) => Lookup::OnlyIfCached(self.only_if_cached()),
            // Answered when it was found; a refresh was begun there as well.
            Some(cache::Lookup::Hit(stored) | cache::Lookup::StaleWhileRevalidate(stored)) => Lookup::Hit(stored),
            Some(cache::Lookup::Miss(why)) => Lookup::Miss(why),
            Some(cache::Lookup::Stale(stored, why)) => {
                self.stale = Some(Arc::clone(&stored));
                Lookup::Stale(stale(stored), why)
            }
        };
        // Unless memory, or the rules of the route, have changed meanwhile.
        let asks = matches!(lookup, Lookup::Miss(_) | Lookup::Stale(..));
        let is_for = |redis: &crate::client::received::RedisMiss| self.key().is_ok_and(|key| redis.redis.is_for(&key));
        let redis = redis.filter(|redis| asks && is_for(redis)).map(|redis| self.asked(*redis.redis));
        Event::Begin { lookup, redis }
    }

    fn only_if_cached(&self) -> OnlyIfCached {
        if self.has_second_tier_for_stored() { OnlyIfCached::RedisToo } else { OnlyIfCached::MemoryOnly }
    }

    /// RFC 9111 §4: to ask, to wait for another request that asks for the same, or to use its response.
    fn take_turn(&mut self) -> Event<Ours> {
        let first_byte = self.new_wait();
        first_byte.service_turn(); // the other request takes as long as this one may
        self.wait = Some(first_byte);
        let turn = match (&self.worker.common.cache, self.key()) {
            (Some(cache), Ok(key)) => {
                Some(cache.begin(&key.as_key(), &self.head().method, self.head().headers(), now()))
            }
            _ => None,
        };
        self.turned(turn)
    }

    async fn follow(&mut self, wait: cache::Wait) -> Event<Ours> {
        let Some(first_byte) = &self.wait else { return Event::Turn(Turn::Alone) };
        let Some(landed) = first_byte.within(wait.landed()).await else {
            self.record.end_phase(Layer::Cache);
            return Event::TimeOver { waits_for: WaitsFor::Service, body: BodyLeft::NONE };
        };
        let turn = self.key().ok().map(|key| landed.turn(&key.as_key(), self.head().headers(), now()));
        self.turned(turn)
    }

    fn turned(&self, turn: Option<cache::Turn>) -> Event<Ours> {
        if !matches!(turn, Some(cache::Turn::Follower(_))) {
            self.record.end_phase(Layer::Cache);
        }
        Event::Turn(match turn {
            None => Turn::Alone,
            Some(cache::Turn::Hit(stored)) => Turn::Hit(stored),
            Some(cache::Turn::Failed(stored)) => Turn::Failed(stored),
            Some(cache::Turn::Live(live)) => Turn::Live(Box::new(live)),
            Some(cache::Turn::Follower(wait)) => Turn::Follow(Box::new(wait)),
            Some(cache::Turn::Leader(fill)) => {
                let tier = self.tier_for(&fill);
                Turn::Lead(Box::new(fill), tier)
            }
        })
    }

    /// What is left of the request's body, here or on the connection.
    fn look_at_body(&mut self, kept: Option<Box<RequestBody>>) -> Event<Ours> {
        self.incoming = self.incoming.take().or_else(|| kept.and_then(|body| body.into_untouched()));
        Event::RestOfBody(match &self.incoming {
            Some(rest) => RestOfBody::Untouched { is_ended: rest.is_ended(), remaining: rest.remaining() },
            None => RestOfBody::Touched { received_all: self.record.has_received_all() },
        })
    }

    /// What the supervisor knows of the instance that was asked.
    pub(super) fn instance_state(&self) -> Instance {
        if self.is_away() {
            return Instance { has_others: true, ..Instance::default() }; // its own service
        }
        if let Some(seat) = &self.seat {
            let (has_others, over_budget) = (seat.has_others(self.tried), seat.is_over_budget());
            return Instance { has_others, over_budget, is_awaited: self.awaits_server, ..Instance::default() };
        }
        self.instance.as_ref().map_or(Instance::default(), |instance| Instance {
            drains: instance.drain_announced() || instance.drain_requested(),
            has_ended: instance.ended_now().is_some(),
            ..Instance::default()
        })
    }
}

/// Decides what becomes of the connection when a request is refused before it has a route.
pub(super) async fn refuse(
    failure: Failure,
    body: Option<Box<dyn BodySource>>,
    expects_continue: bool,
    deadline: impl FnOnce() -> crate::deadline::Deadline,
) -> (Failure, Connection) {
    let request = Request {
        method: pilotlight_exchange::Method::Other,
        has_body: body.is_some(),
        expects_continue,
        has_cache: false,
        upstream: Kind::External,
        limits: Limits::default(),
        already_took: Duration::ZERO,
    };
    let mut exchange = Exchange::<Ours>::new(request);
    let status = failure.status().as_u16();
    let lookup = Lookup::Refused { failure: Box::new(failure), status };
    let mut action = exchange.step(Event::Begin { lookup, redis: None }, Instant::now());
    let (mut body, mut deadline) = (body, Some(deadline));
    loop {
        let event = match action {
            Action::Respond { response, connection } => return (super::delivery::refused(response), connection),
            Action::LookAtBody(_) => Event::RestOfBody(RestOfBody::Untouched {
                is_ended: body.as_ref().is_none_or(|body| body.is_ended()),
                remaining: body.as_ref().and_then(|body| body.remaining()),
            }),
            Action::Drain { max_bytes, within } => match (body.take(), deadline.take()) {
                (Some(body), Some(deadline)) => {
                    Event::Drained(Box::pin(unread::drain(body, max_bytes, within, deadline())).await)
                }
                _ => Event::Drained(false),
            },
            _ => Event::Reported, // a refusal asks for nothing else
        };
        action = exchange.step(event, Instant::now());
    }
}
