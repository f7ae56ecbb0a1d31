//! Each rule as a table: what happens, and what is to be done then.

use std::time::{Duration, Instant};

use pilotlight_exchange::retry::{Delivery, Fault, Instance, Reuse};
use pilotlight_exchange::{
    Adopted, BodyLeft, Event, Exchange, Found, Limits, Lookup, OnlyIfCached, RedisReply, Request, RestOfBody, Tier,
    Turn, Upstream, WaitsFor,
};

use crate::support::{Count, Fill, GET, POST, Plain, name, stale};

type Happens = Event<Plain>;

#[track_caller]
fn check(request: Request, events: Vec<Happens>, expected: &[&str]) {
    check_at(request, events.into_iter().map(|event| (0, event)).collect(), expected);
}

/// The same with times in milliseconds.
#[track_caller]
fn check_at(request: Request, events: Vec<(u64, Happens)>, expected: &[&str]) {
    let mut exchange = Exchange::new(request);
    let begun = Instant::now();
    let step = |(ms, event)| name(&exchange.step(event, begun + Duration::from_millis(ms)));
    let done: Vec<String> = events.into_iter().map(step).collect();
    assert_eq!(done, expected);
}

fn begin(lookup: Lookup<Plain>) -> Happens {
    Event::Begin { lookup, redis: None }
}

fn fill() -> Fill {
    Fill::new(&Count::default())
}

fn miss() -> Happens {
    begin(Lookup::Miss(()))
}

fn leads() -> Happens {
    Event::Turn(Turn::Lead(fill(), Tier::AsksService))
}

fn answered(status: u16) -> Happens {
    Event::Answered { answer: status, status }
}

fn failed(fault: Fault, body: BodyLeft<Plain>, instance: Instance) -> Happens {
    Event::SendFailed { fault, failure: "fault", status: 502, body, instance }
}

fn closed(delivery: Delivery) -> Happens {
    failed(Fault::Closed(delivery, Reuse::New), BodyLeft::NONE, Instance::default())
}

fn over(waits_for: WaitsFor) -> Happens {
    Event::TimeOver { waits_for, body: BodyLeft::NONE }
}

#[test]
fn what_memory_has() {
    check(GET, vec![begin(Lookup::Hit(7))], &["stored 7: hit"]);
    let swr = vec![begin(Lookup::StaleWhileRevalidate(7)), Event::Refreshing];
    check(GET, swr, &["refresh 7", "stored 7: revalidating"]);
    check(Request { has_body: true, ..GET }, vec![begin(Lookup::Hit(7))], &["stored 7: hit, SkipBody"]);
    let refused = || vec![begin(Lookup::Refused { failure: "no route", status: 404 })];
    check(GET, refused(), &["404: no route"]);
    check(POST, refused(), &["look at body"]);
}

#[test]
fn passed_on_in_three_steps() {
    let off = || begin(Lookup::Off(()));
    check(GET, vec![off(), Event::Placed, answered(200)], &["place", "send", "passed 200"]);
    let external = Request { upstream: Upstream::External, ..GET };
    check(external, vec![off(), answered(200)], &["send", "passed 200"]);
}

#[test]
fn only_if_cached() {
    let begin = |from| begin(Lookup::OnlyIfCached(from));
    check(GET, vec![begin(OnlyIfCached::MemoryOnly)], &["504"]);
    let redis = |stored| vec![begin(OnlyIfCached::RedisToo), Event::RedisOnly(stored)];
    check(GET, redis(Some(3)), &["ask Redis only", "stored 3: Redis"]);
    check(GET, redis(None), &["ask Redis only", "504"]);
}

#[test]
fn flights() {
    let turn = |turn| vec![miss(), Event::Turn(turn)];
    check(GET, turn(Turn::Hit(2)), &["turn", "stored 2: collapsed"]);
    check(GET, turn(Turn::Live(())), &["turn", "live"]);
    check(GET, turn(Turn::Failed(2)), &["turn", "stored 2: collapsed stale"]);
    check(GET, turn(Turn::Alone), &["turn", "place"]);
    let follow = || Event::Turn(Turn::Follow(()));
    check(GET, vec![miss(), follow(), leads()], &["turn", "follow", "place"]);
    let late = vec![miss(), follow(), over(WaitsFor::Service), Event::Placed, answered(200)];
    check(GET, late, &["turn", "follow", "place", "send", "passed 200"]);
}

#[test]
fn redis() {
    let found = |serves, is_of_use, received_ms| Found { serves, is_selected: true, is_of_use, received_ms };
    let lead = || Event::Turn(Turn::Lead(fill(), Tier::AsksRedis));
    let answer = |found, is_shared| Event::Redis(fill(), RedisReply::Answered { redis: (), is_shared, found });
    let asked = |found, is_shared| vec![begin(Lookup::Stale(stale(true), ())), lead(), answer(found, is_shared)];
    let silent = vec![miss(), lead(), Event::Redis(fill(), RedisReply::Silent)];
    check(GET, silent, &["turn", "ask Redis", "place"]);
    check(GET, asked(Some(found(true, true, 1_000)), true), &["turn", "ask Redis", "adopt"]);
    // RFC 9111 §4: the most recent response.
    check(GET, asked(Some(found(true, true, 999)), false), &["turn", "ask Redis", "keep nothing"]);
    check(GET, asked(Some(found(false, true, 1_001)), false), &["turn", "ask Redis", "keep found"]);
    check(GET, asked(Some(found(false, true, 1_000)), false), &["turn", "ask Redis", "keep nothing"]);
    check(GET, asked(Some(found(false, false, 1_001)), false), &["turn", "ask Redis", "keep nothing"]);
    check(GET, asked(None, true), &["turn", "ask Redis", "await lead"]);
    let mut theirs = asked(None, true);
    theirs.push(Event::Lead(fill(), (), Some(found(true, true, 2_000))));
    theirs.push(Event::Adopted(Adopted::Landed(5)));
    check(GET, theirs, &["turn", "ask Redis", "await lead", "adopt", "stored 5: Redis"]);
    let mut purged = asked(Some(found(true, true, 2_000)), true);
    purged.push(Event::Adopted(Adopted::Invalidated(fill(), ())));
    purged.push(Event::Prepared(fill(), None));
    purged.push(Event::Placed);
    check(GET, purged, &["turn", "ask Redis", "adopt", "keep nothing", "place", "send conditionally"]);
}

/// The service is asked about a stale response; what it answers, and what follows.
#[track_caller]
fn check_stale(has_validator: bool, events: Vec<Happens>, expected: &[&str]) {
    let mut all = vec![begin(Lookup::Stale(stale(has_validator), ())), leads(), Event::Placed];
    all.extend(events);
    let send = if has_validator { "send conditionally" } else { "send" };
    check(GET, all, &[&["turn", "place", send], expected].concat());
}

#[test]
fn validation() {
    let validated = vec![answered(304), Event::Validated(2, None, 304)];
    check_stale(true, validated, &["validate", "validated 2"]);
    check_stale(false, vec![answered(304), Event::Unstored(304, "no")], &["judge", "passed 304"]);
    check_stale(true, vec![answered(200), Event::Store(200, ())], &["judge", "recorded 200"]);
    // The second question has no condition, and no third one follows.
    let again = vec![answered(304), Event::Mismatched(fill()), Event::Placed, answered(304)];
    check_stale(true, again, &["validate", "place", "send", "judge"]);
}

#[test]
fn stale_if_error() {
    for status in [500, 502, 503, 504] {
        let stale = vec![answered(status), Event::MayServeStale(true), Event::LandedFailed];
        check_stale(false, stale, &["may serve stale?", "land failed", "stored 1: stale if error"]);
    }
    for status in [200, 400, 404, 501, 505] {
        check_stale(true, vec![answered(status)], &["judge"]);
    }
    check_stale(true, vec![answered(503), Event::MayServeStale(false)], &["may serve stale?", "judge"]);
    check_stale(true, vec![closed(Delivery::Suspect)], &["may serve stale?"]);
    let refused = vec![closed(Delivery::Suspect), Event::MayServeStale(false)];
    check_stale(true, refused, &["may serve stale?", "502: fault"]);
    check_stale(true, vec![over(WaitsFor::Client)], &["408"]);
}

#[test]
fn unsafe_requests() {
    let bypass = |is_by_method| begin(Lookup::Bypass { why: (), is_by_method });
    let body = || vec![Event::BodyOpened(Some("b")), Event::BodyHeld("b"), Event::Placed, answered(201)];
    let put = Request { method: pilotlight_exchange::Method::Idempotent, ..POST };
    let mut events = vec![bypass(true)];
    events.extend(body());
    events.push(Event::Invalidated(201));
    check(put, events, &["open body", "hold body", "place", "send b", "invalidate", "passed 201"]);
    let mut events = vec![bypass(true), Event::BodyOpened(Some("b")), Event::PostBegun(Some(fill()))];
    events.extend(body().into_iter().skip(1));
    events.push(Event::Invalidated(201));
    let post = ["open body", "begin post", "hold body", "place", "send b", "invalidate", "judge posted"];
    check(POST, events, &post);
    let rule = vec![bypass(false), Event::BodyOpened(None), Event::Placed];
    check(POST, rule, &["open body", "place", "send"]);
}

#[test]
fn what_is_sent_again() {
    let sent = || vec![begin(Lookup::Off(())), Event::Placed];
    let check = |event: Happens, expected: &[&str]| {
        let mut events = sent();
        events.push(event);
        check(GET, events, &[&["place", "send"], expected].concat());
    };
    check(closed(Delivery::Maybe), &["place again"]);
    check(closed(Delivery::Suspect), &["502: fault"]);
    let kept = Fault::Closed(Delivery::Maybe, Reuse::Kept);
    check(failed(kept, BodyLeft::NONE, Instance::default()), &["send again"]);
    check(failed(kept, BodyLeft::Spent, Instance::default()), &["502: fault"]);
    check(failed(Fault::Connect, BodyLeft::NONE, Instance::default()), &["await end"]);
    check(over(WaitsFor::Service), &["504"]);
}

#[test]
fn the_end_of_an_instance_is_awaited() {
    let connect = |has_ended| {
        let connect = failed(Fault::Connect, BodyLeft::NONE, Instance::default());
        let end = Event::Instance(Instance { has_ended, ..Instance::default() });
        vec![begin(Lookup::Off(())), Event::Placed, connect, end]
    };
    check(GET, connect(true), &["place", "send", "await end", "place again"]);
    check(GET, connect(false), &["place", "send", "await end", "502: fault"]);
}

#[test]
fn times() {
    let ms = Duration::from_millis;
    let limits = Limits { timeout: Some(ms(100)), max_request_time: Some(ms(50)), ..Limits::default() };
    let sent = |request, at, expected: &[&str]| {
        let events = vec![(0, begin(Lookup::Off(()))), (0, Event::Placed), (at, over(WaitsFor::Service))];
        check_at(request, events, &[&["place", "send"], expected].concat());
    };
    let request = Request { limits, ..GET };
    sent(request, 50, &["stuck"]);
    sent(request, 100, &["504"]);
    // What Redis took before there was an exchange is a part of it.
    sent(Request { already_took: ms(60), ..request }, 40, &["504"]);
}

#[test]
fn the_rest_of_a_body() {
    let rest = |request: Request, rest, expected: &[&str]| {
        let refused = begin(Lookup::Refused { failure: "no route", status: 404 });
        check(request, vec![refused, Event::RestOfBody(rest)], &[&["look at body"], expected].concat());
    };
    let untouched = |is_ended, remaining| RestOfBody::Untouched { is_ended, remaining };
    rest(POST, untouched(true, None), &["404: no route"]);
    rest(POST, untouched(false, Some(64 * 1024)), &["drain"]);
    rest(POST, untouched(false, None), &["drain"]);
    rest(POST, untouched(false, Some(64 * 1024 + 1)), &["404: no route, Close"]);
    rest(Request { expects_continue: true, ..POST }, untouched(false, Some(1)), &["404: no route, Close"]);
    rest(POST, RestOfBody::Touched { received_all: true }, &["404: no route"]);
    rest(POST, RestOfBody::Touched { received_all: false }, &["404: no route, Close"]);
}

#[test]
fn what_fits_no_state_is_a_bug() {
    check(GET, vec![Event::Placed], &["bug, Close"]);
    check(GET, vec![miss(), Event::Placed], &["turn", "bug, Close"]);
}

#[test]
fn who_leads_may_go_on_alone() {
    let mut exchange = Exchange::new(GET);
    let now = Instant::now();
    for (event, leads) in [(miss(), false), (leads(), true), (Event::Placed, true), (answered(200), false)] {
        let _ = exchange.step(event, now);
        assert_eq!(exchange.leads().is_some(), leads);
    }
}
