//! Answers that are read while they are recorded.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    BrokenOff, Cache, CacheOptions, CacheStatus, Decision, Fill, Forward, Live, LiveBody, Mode, Purge, Recorder,
    RouteRules, Scope, Tail, Turn, Unstored, Wait,
};

use crate::support::*;

const FOR_A_MINUTE: (&str, &str) = ("cache-control", "max-age=60");

fn record(cache: &Cache, response: Fields<'_>) -> Box<Recorder> {
    record_on(lead(cache, &KEY, &fields(&[]), START), response)
}

fn record_on(fill: Fill, response: Fields<'_>) -> Box<Recorder> {
    let request = fields(&[]);
    match fill.response(&request, StatusCode::OK, &fields(response), at(START), RouteRules::default()) {
        Decision::Store(recorder) => recorder,
        Decision::Pass(why) => panic!("{why}"),
    }
}

#[track_caller]
fn follow(cache: &Cache, request: Fields<'_>) -> Wait {
    match cache.begin(&KEY, &Method::GET, &fields(request), START) {
        Turn::Follower(wait) => wait,
        other => panic!("not a follower but {other:?}"),
    }
}

/// What is there for a follower now.
fn now(wait: Wait, request: Fields<'_>) -> Option<Turn> {
    let mut landed = std::pin::pin!(wait.landed());
    match landed.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(landed) => Some(landed.turn(&KEY, &fields(request), START)),
        Poll::Pending => None,
    }
}

#[track_caller]
fn live(turn: Option<Turn>) -> Live {
    match turn {
        Some(Turn::Live(live)) => live,
        other => panic!("nothing to read along but {other:?}"),
    }
}

#[track_caller]
fn body(live: Live) -> LiveBody {
    let status = CacheStatus::forwarded(Forward::UriMiss).collapsed();
    let answer = live.response_as(status, &Method::GET, &HeaderMap::new(), START);
    assert_eq!(answer.headers()["content-length"], answer.body().left().to_string());
    assert_eq!(answer.headers()["cache-status"], "pilotlight; fwd=uri-miss; collapsed");
    answer.into_body()
}

fn read(body: &mut LiveBody) -> Poll<Option<Result<Bytes, BrokenOff>>> {
    body.poll_data(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn check_read(body: &mut LiveBody, expected: &[u8]) {
    assert_eq!(read(body), Poll::Ready(Some(Ok(Bytes::copy_from_slice(expected)))));
}

#[test]
fn a_part_is_read_before_the_rest_has_come() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "9")]);
    let early = follow(&cache, &[]);
    recorder.push(b"one ").unwrap();
    let mut early = body(live(now(early, &[])));
    check_read(&mut early, b"one ");
    assert_eq!(read(&mut early), Poll::Pending);
    recorder.push(b"two").unwrap();
    check_read(&mut early, b"two");
    let mut late = body(live(now(follow(&cache, &[]), &[])));
    check_read(&mut late, b"one two");
    recorder.push(b" 3").unwrap();
    let stored = recorder.finish(START).unwrap();
    for mut body in [early, late] {
        check_read(&mut body, b" 3");
        assert_eq!((read(&mut body), body.left()), (Poll::Ready(None), 0));
    }
    assert_eq!(stored.body().to_bytes(), "one two 3");
}

#[test]
fn what_is_read_is_shared_with_what_is_stored() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "100000")]);
    recorder.push(&[7; 99_000]).unwrap();
    let mut body = body(live(now(follow(&cache, &[]), &[])));
    let Poll::Ready(Some(Ok(piece))) = read(&mut body) else { panic!("nothing to read") };
    recorder.push(&[7; 1000]).unwrap();
    let stored = recorder.finish(START).unwrap();
    assert_eq!(piece.as_ptr(), stored.body().pieces()[0].as_ptr());
}

#[test]
fn an_answer_that_breaks_off_has_no_end() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "9")]);
    let waits = follow(&cache, &[]);
    recorder.push(b"one ").unwrap();
    let mut reads = body(live(now(follow(&cache, &[]), &[])));
    check_read(&mut reads, b"one ");
    drop(recorder);
    assert_eq!(read(&mut reads), Poll::Ready(Some(Err(BrokenOff))));
    // Who has read nothing yet asks again.
    assert!(matches!(now(waits, &[]), Some(Turn::Leader(_))));
    assert_eq!(cache.usage().resources, 0);
}

#[test]
fn who_may_not_have_it_does_not_read_it() {
    let cache = cache();
    let answer: Fields<'_> = &[FOR_A_MINUTE, ("content-length", "9"), ("vary", "accept")];
    let mut recorder = record(&cache, answer);
    let (same, other) = (follow(&cache, &[]), follow(&cache, &[("accept", "text/html")]));
    recorder.push(b"one ").unwrap();
    live(now(same, &[]));
    let html: Fields<'_> = &[("accept", "text/html")];
    // It is known now what the resource varies on: those of the other variant have a flight of their own.
    let turn = now(other, html);
    assert!(matches!(turn, Some(Turn::Leader(_))), "{turn:?}");
    let third = match now(follow(&cache, html), html) {
        Some(Turn::Follower(wait)) => wait,
        other => panic!("it follows the leader of its variant: {other:?}"),
    };
    drop(turn);
    // By way of the flight that is there, which tells it again what the resource varies on.
    let again = match now(third, html) {
        Some(Turn::Follower(wait)) => now(wait, html),
        other => other,
    };
    assert!(matches!(again, Some(Turn::Leader(_))), "{again:?}");
}

#[test]
fn nobody_reads_an_answer_from_before_a_purge() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "9")]);
    let (one, other) = (follow(&cache, &[]), follow(&cache, &[]));
    recorder.push(b"one ").unwrap();
    cache.purge(&[Purge { scope: Scope::Everything, mode: Mode::Hard }], START);
    let leader = now(one, &[]);
    assert!(matches!(leader, Some(Turn::Leader(_))), "{leader:?}");
    assert!(matches!(now(other, &[]), Some(Turn::Follower(_))), "one asks again for all");
}

/// They may turn out too large to be kept, or are of no use to others.
#[test]
fn what_may_not_become_whole_is_not_read_along() {
    for answer in
        [&[FOR_A_MINUTE] as Fields<'_>, &[("cache-control", "no-cache"), ("etag", "\"a\""), ("content-length", "9")]]
    {
        let cache = cache();
        let mut recorder = record(&cache, answer);
        let wait = follow(&cache, &[]);
        recorder.push(b"one ").unwrap();
        let turn = now(wait, &[]);
        assert!(turn.is_none(), "{answer:?}: {turn:?}");
    }
}

#[test]
fn nobody_reads_an_answer_from_before_an_invalidation() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "9")]);
    let wait = follow(&cache, &[]);
    cache.remove(&KEY);
    recorder.push(b"one ").unwrap();
    assert!(now(wait, &[]).is_none());
}

#[test]
fn conditions_are_answered_without_the_body() {
    let cache = cache();
    let mut recorder = record(&cache, &[FOR_A_MINUTE, ("content-length", "9"), ("etag", "\"a\"")]);
    recorder.push(b"one ").unwrap();
    let condition: Fields<'_> = &[("if-none-match", "\"a\"")];
    let live = live(now(follow(&cache, condition), condition));
    let status = CacheStatus::forwarded(Forward::UriMiss).collapsed();
    let answer = live.response_as(status, &Method::GET, &fields(condition), START);
    assert_eq!((answer.status(), answer.body().left()), (StatusCode::NOT_MODIFIED, 0));
}

#[test]
fn it_is_known_who_waits() {
    let cache = cache();
    let fill = lead(&cache, &KEY, &fields(&[]), START);
    let watch = fill.watch();
    let mut recorder = record_on(fill, &[FOR_A_MINUTE, ("content-length", "9")]);
    assert!(watch.is_shared() && !watch.is_awaited());
    let wait = follow(&cache, &[]);
    assert!(watch.is_awaited());
    recorder.push(b"one ").unwrap();
    let body = body(live(now(wait, &[])));
    assert!(watch.is_awaited(), "who reads waits");
    drop(body);
    assert!(!watch.is_awaited());
}

/// Everything that a tail has, read from the beginning.
fn all(tail: &Tail) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        match tail.read(found.len()) {
            data if data.is_empty() => return found,
            data => found.extend_from_slice(&data),
        }
    }
}

#[test]
fn a_tail_has_what_was_recorded_whatever_becomes_of_the_rest() {
    let data: Vec<u8> = (0..100_000).map(|n| (n % 251) as u8).collect();
    for end in ["finished", "too large", "broken off"] {
        let cache = Cache::new(CacheOptions { max_object_bytes: 100_000, ..CacheOptions::default() }).unwrap();
        let mut recorder = record(&cache, &[FOR_A_MINUTE]);
        let tail = recorder.tail();
        assert!(tail.read(0).is_empty());
        for chunk in data.chunks(7_001) {
            recorder.push(chunk).unwrap();
        }
        assert_eq!(all(&tail), data, "{end}: before");
        match end {
            "finished" => drop(recorder.finish(START).unwrap()),
            "too large" => assert_eq!(recorder.push(b"x"), Err(Unstored::TooLarge)),
            _ => drop(recorder),
        }
        assert_eq!(all(&tail), data, "{end}: after");
    }
}
