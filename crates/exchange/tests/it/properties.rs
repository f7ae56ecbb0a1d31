//! What holds for whatever happens: random events that fit what was asked for.

use std::time::{Duration, Instant};

use pilotlight_exchange::retry::{Delivery, Fault, Instance, MAX_MOVES, MAX_TRIES, Reuse};
use pilotlight_exchange::{
    Action, Adopted, BodyLeft, Event, Exchange, Found, Lookup, Method, OnlyIfCached, RedisReply, Refusal, Request,
    Response, RestOfBody, Stale, Status, Tier, Turn, Upstream, WaitsFor,
};
use proptest::prelude::*;

use crate::support::{Count, Fill, GET, Plain};

const MAX_STEPS: u32 = 100;

struct Player {
    choices: Vec<u8>,
    at: usize,
    fills: Count,
    request: Request,
    /// Since the request was given to a service first, or without a condition.
    sends: u16,
    /// Of them, those at instances that were told to go.
    moves: u16,
    /// Of them, those at servers that took no connection.
    awaited: u16,
    must_not_send: bool,
    sent: Option<&'static str>,
    is_stored: bool,
    may_serve_stale: bool,
    status: u16,
}

impl Player {
    fn choose(&mut self, below: u8) -> u8 {
        self.at += 1;
        self.choices.get(self.at - 1).copied().unwrap_or(0) % below
    }

    fn yes(&mut self) -> bool {
        self.choose(2) == 1
    }

    fn fill(&self) -> Fill {
        Fill::new(&self.fills)
    }

    fn tier(&mut self) -> Tier {
        if self.yes() { Tier::AsksRedis } else { Tier::AsksService }
    }

    fn stale(&mut self) -> Stale<Plain> {
        Stale { stored: 1, has_validator: self.yes(), received_ms: u64::from(self.choose(3)) }
    }

    fn found(&mut self) -> Option<Found> {
        let (serves, is_selected, is_of_use) = (self.yes(), self.yes(), self.yes());
        let received_ms = u64::from(self.choose(3));
        self.yes().then_some(Found { serves, is_selected, is_of_use, received_ms })
    }

    fn redis(&mut self) -> RedisReply<Plain> {
        if self.yes() {
            return RedisReply::Silent;
        }
        RedisReply::Answered { redis: (), is_shared: self.yes(), found: self.found() }
    }

    fn lookup(&mut self) -> Lookup<Plain> {
        match self.choose(9) {
            0 => Lookup::Refused { failure: "no route", status: 404 },
            1 => Lookup::Off(()),
            2 => Lookup::Hit(1),
            3 => Lookup::StaleWhileRevalidate(1),
            4 => Lookup::Stale(self.stale(), ()),
            5 => Lookup::Bypass { why: (), is_by_method: self.yes() },
            6 => Lookup::OnlyIfCached(if self.yes() { OnlyIfCached::RedisToo } else { OnlyIfCached::MemoryOnly }),
            7 => Lookup::Refresh(self.fill(), self.tier(), self.stale(), ()),
            _ => Lookup::Miss(()),
        }
    }

    fn turn(&mut self) -> Event<Plain> {
        Event::Turn(match self.choose(6) {
            0 => Turn::Hit(2),
            1 => Turn::Live(()),
            2 => Turn::Failed(2),
            3 => Turn::Alone,
            4 if self.at < 60 => Turn::Follow(()),
            _ => Turn::Lead(self.fill(), self.tier()),
        })
    }

    fn over(&mut self) -> Event<Plain> {
        let waits_for = if self.yes() { WaitsFor::Service } else { WaitsFor::Client };
        self.status = if waits_for == WaitsFor::Service { 504 } else { 408 };
        let body = self.left();
        Event::TimeOver { waits_for, body }
    }

    fn left(&mut self) -> BodyLeft<Plain> {
        match self.sent.take() {
            Some(_) if self.yes() => {
                self.must_not_send = true;
                BodyLeft::Spent
            }
            body => BodyLeft::Whole(body),
        }
    }

    fn failed(&mut self, body: Option<&'static str>) -> Event<Plain> {
        self.status = [408, 413, 503, 502][usize::from(self.choose(4))];
        Event::Failed { failure: "failed", status: self.status, body }
    }

    /// The service answers, or does not.
    fn send(&mut self, body: Option<&'static str>) -> Event<Plain> {
        self.sends += 1;
        let (moves, awaited) = (self.moves, self.awaited);
        assert!(
            self.sends <= MAX_TRIES + moves + awaited,
            "sent {} times, {moves} moves, {awaited} awaited",
            self.sends
        );
        assert!(self.moves <= MAX_MOVES, "moved {} times", self.moves);
        assert!(!self.must_not_send, "sent again");
        self.sent = body;
        match self.choose(4) {
            0 => {
                self.status = [200, 204, 304, 404, 500, 502, 503, 504][usize::from(self.choose(8))];
                Event::Answered { answer: self.status, status: self.status }
            }
            1 => {
                self.must_not_send = true;
                self.over()
            }
            _ => self.fault(),
        }
    }

    fn fault(&mut self) -> Event<Plain> {
        let delivery = [Delivery::No, Delivery::Maybe, Delivery::Suspect][usize::from(self.choose(3))];
        let reuse = if self.yes() { Reuse::Kept } else { Reuse::New };
        let faults = [Fault::Connect, Fault::Refused, Fault::Overloaded, Fault::Client, Fault::Start];
        let fault = match self.choose(10) {
            at @ 0..5 => faults[usize::from(at)],
            _ => Fault::Closed(delivery, reuse),
        };
        self.must_not_send |= match fault {
            Fault::Closed(Delivery::No, _) | Fault::Connect | Fault::Refused => false,
            Fault::Closed(Delivery::Maybe, _) => !self.request.method.is_idempotent(),
            _ => true,
        };
        self.status = 502;
        let instance = self.instance();
        let is_awaited = fault == Fault::Connect && instance.is_awaited && self.request.upstream == Upstream::External;
        self.awaited += u16::from(is_awaited);
        let nothing_done = matches!(fault, Fault::Closed(Delivery::No, _) | Fault::Refused);
        self.moves += u16::from(nothing_done && instance.drains && !instance.has_ended);
        Event::SendFailed { fault, failure: "fault", status: 502, body: self.left(), instance }
    }

    fn instance(&mut self) -> Instance {
        Instance {
            drains: self.yes(),
            has_ended: self.yes(),
            has_others: self.yes(),
            over_budget: self.yes(),
            is_awaited: self.yes(),
        }
    }

    fn play(&mut self, action: Action<Plain>) -> Event<Plain> {
        match action {
            Action::Respond { .. } => unreachable!("it is the end"),
            Action::Refresh(_) => Event::Refreshing,
            Action::Follow(..) if self.yes() => self.over(),
            Action::TakeTurn | Action::Follow(..) => self.turn(),
            Action::AskRedis(fill) => Event::Redis(fill, self.redis()),
            Action::AwaitLead(fill, (), _) => Event::Lead(fill, (), self.found()),
            Action::Adopt(..) if self.yes() => Event::Adopted(Adopted::Landed(3)),
            Action::Adopt(fill, ()) => Event::Adopted(Adopted::Invalidated(fill, ())),
            Action::Prepare(fill, (), _) => {
                let kept = self.yes().then(|| self.stale());
                Event::Prepared(fill, kept)
            }
            Action::AskRedisOnly => Event::RedisOnly(self.yes().then_some(3)),
            Action::OpenBody if self.choose(4) == 0 => self.failed(None),
            Action::OpenBody => Event::BodyOpened(self.yes().then_some("body")),
            Action::HoldBody(body, _) => match self.choose(4) {
                0 => self.failed(Some(body)),
                1 => {
                    self.sent = Some(body);
                    self.status = 408;
                    Event::TimeOver { waits_for: WaitsFor::Client, body: self.left() }
                }
                _ => Event::BodyHeld(body),
            },
            Action::BeginPost => Event::PostBegun(self.yes().then(|| self.fill())),
            Action::TakePlace(..) => match self.choose(8) {
                0 => self.failed(None),
                1 => {
                    self.status = 504;
                    Event::TimeOver { waits_for: WaitsFor::Service, body: BodyLeft::NONE }
                }
                _ => Event::Placed,
            },
            Action::Send { body, .. } | Action::SendAgain { body, .. } => self.send(body),
            Action::AwaitEnd(_) => Event::Instance(Instance { is_awaited: false, ..self.instance() }),
            Action::ReportStuck => Event::Reported,
            action => self.play_answer(action),
        }
    }

    fn play_answer(&mut self, action: Action<Plain>) -> Event<Plain> {
        match action {
            Action::Invalidate(answer) => Event::Invalidated(answer),
            Action::MayServeStale(_) => {
                assert!(matches!(self.status, 500 | 502 | 503 | 504), "stale in place of {}", self.status);
                self.may_serve_stale = self.yes();
                Event::MayServeStale(self.may_serve_stale)
            }
            Action::LandFailed(..) => {
                assert!(self.may_serve_stale, "a flight has failed that has no stale response");
                Event::LandedFailed
            }
            Action::Validate(fill, ..) if self.yes() => {
                (self.sends, self.moves, self.awaited, self.must_not_send) = (0, 0, 0, false);
                Event::Mismatched(fill)
            }
            Action::Validate(_, stored, answer) => Event::Validated(stored, None, answer),
            Action::Judge(_, answer, _) => {
                self.is_stored = self.yes();
                if self.is_stored { Event::Store(answer, ()) } else { Event::Unstored(answer, "no") }
            }
            Action::LookAtBody(_) if self.yes() => Event::RestOfBody(RestOfBody::Touched { received_all: self.yes() }),
            Action::LookAtBody(_) => Event::RestOfBody(RestOfBody::Untouched { is_ended: self.yes(), remaining: None }),
            Action::Drain { .. } => Event::Drained(self.yes()),
            _ => unreachable!("it was played"),
        }
    }

    fn check(&self, response: &Response<Plain>) {
        match response {
            Response::Recorded(..) => assert!(self.is_stored, "stored what is not to be"),
            Response::Passed(..) => assert!(!self.is_stored, "passed what was to be stored"),
            Response::Stored(_, Status::StaleIfError(..)) => assert!(self.may_serve_stale, "stale without leave"),
            Response::Failure(Refusal::Bug) => panic!("a bug"),
            Response::Stored(..) | Response::Live(..) | Response::Validated { .. } | Response::Failure(_) => {}
        }
    }

    fn run(mut self) {
        let lookup = self.lookup();
        let redis = (self.choose(4) == 0).then(|| (self.fill(), self.redis()));
        let mut exchange = Exchange::new(self.request);
        let mut event = Event::Begin { lookup, redis };
        for step in 0..MAX_STEPS {
            event = match exchange.step(event, Instant::now() + Duration::from_millis(u64::from(step))) {
                Action::Respond { response, .. } => {
                    self.check(&response);
                    assert_eq!(self.fills.get(), 0, "a fill has not landed");
                    assert!(exchange.leads().is_none());
                    return;
                }
                action => self.play(action),
            };
        }
        panic!("it does not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(
        choices in prop::collection::vec(any::<u8>(), 80),
        method in prop::sample::select(vec![Method::Safe, Method::Idempotent, Method::Post, Method::Other]),
        (has_body, has_cache, is_external) in any::<(bool, bool, bool)>(),
    ) {
        let upstream = if is_external { Upstream::External } else { Upstream::Managed };
        let request = Request { method, has_body, has_cache, upstream, ..GET };
        let player = Player {
            choices,
            at: 0,
            fills: Count::default(),
            request,
            sends: 0,
            moves: 0,
            awaited: 0,
            must_not_send: false,
            sent: None,
            is_stored: false,
            may_serve_stale: false,
            status: 0,
        };
        player.run();
    }
}
