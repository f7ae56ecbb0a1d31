//! Stale responses, conditional requests and what 304 does.

use std::sync::Arc;

use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{Method, StatusCode};
use pilotlight_cache::{Cache, CacheStatus, Forward, Lookup, RouteRules, Stored, Timestamp, Unstored, Validated};

use crate::support::*;

const OLD: Fields<'_> = &[("cache-control", "max-age=10"), ("etag", "\"v1\""), ("x-count", "1")];

#[track_caller]
fn stale(cache: &Cache, request: Fields<'_>, now: Timestamp) -> Arc<Stored> {
    match cache.lookup(&KEY, &Method::GET, &fields(request), now) {
        Lookup::Stale(stored, _) => stored,
        other => panic!("not stale but {other:?}"),
    }
}

/// Validates what is stored for `request` with a 304 that has `confirmation`.
fn validate(cache: &Cache, request: Fields<'_>, confirmation: Fields<'_>, now: Timestamp) -> Validated {
    let stored = stale(cache, request, now);
    let request = fields(request);
    let fill = lead(cache, &KEY, &request, now);
    fill.not_modified(&stored, &request, &fields(confirmation), at(now), RouteRules::default())
}

#[test]
fn a_304_makes_the_stored_response_fresh_and_updates_its_fields() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
    let stored = stale(&cache, &[], seconds(20));
    let mut upstream = fields(&[("if-none-match", "\"client\""), ("if-modified-since", START_DATE)]);
    stored.make_conditional(&mut upstream);
    assert_eq!(upstream.get(IF_NONE_MATCH).unwrap(), "\"v1\"");
    assert!(!upstream.contains_key(IF_MODIFIED_SINCE), "the client's condition is not ours");

    let confirmation: Fields<'_> = &[("etag", "\"v1\""), ("x-count", "2"), ("content-length", "0"), ("age", "3")];
    let Validated::Response { stored, unstored: None } = validate(&cache, &[], confirmation, seconds(20)) else {
        panic!("not stored");
    };
    let status = CacheStatus::forwarded(Forward::Stale).answered(StatusCode::NOT_MODIFIED).stored();
    let answer = stored.response_as(status, &Method::GET, &fields(&[]), seconds(20));
    assert_eq!((answer.status(), answer.body().to_bytes().as_ref()), (StatusCode::OK, b"body".as_slice()));
    check_header(&answer, "x-count", "2");
    check_header(&answer, "content-length", "4");
    check_header(&answer, "age", "3");
    check_header(&answer, "date", "Sun, 06 Nov 1994 08:49:57 GMT");
    check_header(&answer, "cache-status", "pilotlight; fwd=stale; fwd-status=304; stored");

    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(26)), "hit body");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(27)), "stale Stale");
}

#[test]
fn a_304_for_something_else_is_no_answer() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
    let Validated::Mismatch(fill) = validate(&cache, &[], &[("etag", "\"v2\"")], seconds(20)) else {
        panic!("accepted");
    };
    drop(fill);
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(20)), "stale Stale");
}

#[track_caller]
fn check_unstored(request: Fields<'_>, confirmation: Fields<'_>, expected: Unstored, afterwards: &str) {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
    let Validated::Response { stored, unstored } = validate(&cache, request, confirmation, seconds(20)) else {
        panic!("mismatch");
    };
    assert_eq!((unstored, stored.body().to_bytes().as_ref()), (Some(expected), b"body".as_slice()));
    let answer = stored.response(&Method::GET, &fields(request), seconds(20));
    check_header(&answer, "set-cookie", "");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(21)), afterwards);
}

#[test]
fn a_304_made_for_one_user_updates_nothing_for_others() {
    check_unstored(&[("authorization", "a")], &[("x-user", "a")], Unstored::Authorization, "stale Stale");
    check_unstored(&[], &[("x-user", "a"), ("set-cookie", "s=a")], Unstored::SetCookie, "miss UriMiss");
    check_unstored(&[], &[("cache-control", "private")], Unstored::Private, "miss UriMiss");
    check_unstored(&[], &[("cache-control", "no-store")], Unstored::NoStore, "miss UriMiss");
}

/// Found by the property in `two_users`.
#[test]
fn an_update_with_another_vary_does_not_open_the_body_to_others() {
    let cache = cache();
    let varies: Fields<'_> = &[("cache-control", "max-age=10, public"), ("etag", "\"v1\""), ("vary", "authorization")];
    fetch(&cache, &KEY, &[("authorization", "ann")], (200, varies, "for ann"), START).unwrap();
    let confirmation: Fields<'_> = &[("vary", "accept"), ("cache-control", "max-age=10, public")];
    let validated = validate(&cache, &[("authorization", "ann")], confirmation, seconds(20));
    assert!(matches!(validated, Validated::Response { unstored: None, .. }), "{validated:?}");
    let ask = |request| outcome(&cache, &KEY, &Method::GET, request, seconds(21));
    assert_eq!(ask(&[("authorization", "ann")]), "hit for ann");
    assert_eq!(ask(&[("authorization", "bob")]), "miss VaryMiss");
    assert_eq!(ask(&[("authorization", "ann"), ("accept", "x")]), "miss VaryMiss");
}

fn head(cache: &Cache, status: u16, response: Fields<'_>, now: Timestamp) {
    // Even if it is fresh: the client insists.
    let request = fields(&[("cache-control", "no-cache")]);
    match cache.begin(&KEY, &Method::HEAD, &request, now) {
        pilotlight_cache::Turn::Leader(fill) => {
            let status = StatusCode::from_u16(status).unwrap();
            let decision = fill.response(&request, status, &fields(response), at(now), RouteRules::default());
            assert!(matches!(decision, pilotlight_cache::Decision::Pass(Unstored::Method)), "{decision:?}");
        }
        other => panic!("HEAD goes alone: {other:?}"),
    }
}

#[test]
fn an_answer_to_head_freshens_what_it_describes() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
    let same: Fields<'_> = &[("etag", "\"v1\""), ("cache-control", "max-age=30"), ("content-length", "4")];
    head(&cache, 200, same, seconds(20));
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(49)), "hit body");
}

#[test]
fn an_answer_to_head_that_may_not_be_stored_changes_nothing() {
    let refused: [Fields<'_>; 4] = [
        &[("x-count", "2")],
        &[("cache-control", "private, max-age=60")],
        &[("cache-control", "no-store")],
        &[("cache-control", "max-age=60"), ("set-cookie", "a=b")],
    ];
    for response in refused {
        let cache = cache();
        fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
        head(&cache, 200, response, seconds(9));
        check_header(&hit(&cache, &KEY, &Method::GET, &[], seconds(9)), "x-count", "1");
        assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(10)), "stale Stale", "{response:?}");
    }
}

#[test]
fn an_answer_to_head_that_differs_removes_what_is_outdated() {
    for other in [("etag", "\"v2\""), ("content-length", "9")] {
        let cache = cache();
        fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
        head(&cache, 500, &[other], seconds(1));
        assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(1)), "hit body", "a failure says nothing");
        head(&cache, 200, &[other], seconds(1));
        assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(1)), "miss UriMiss", "{other:?}");
    }
}

#[test]
fn a_304_after_an_invalidation_is_not_stored() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "body"), START).unwrap();
    let stored = stale(&cache, &[], seconds(20));
    let request = fields(&[]);
    let fill = lead(&cache, &KEY, &request, seconds(20));
    assert!(cache.remove(&KEY));
    let validated = fill.not_modified(&stored, &request, &fields(&[]), at(seconds(20)), RouteRules::default());
    assert!(matches!(validated, Validated::Response { unstored: Some(Unstored::Invalidated), .. }), "{validated:?}");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(20)), "miss UriMiss");
}

#[test]
fn a_late_304_does_not_bring_back_what_was_replaced() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, OLD, "old"), START).unwrap();
    let stored = stale(&cache, &[], seconds(20));
    let request = fields(&[]);
    let slow = lead(&cache, &KEY, &request, seconds(20));
    let insists = [("cache-control", "no-cache")];
    fetch(&cache, &KEY, &insists, (200, &[("cache-control", "max-age=10")], "new"), seconds(21)).unwrap();
    let validated = slow.not_modified(&stored, &request, &fields(&[]), at(seconds(22)), RouteRules::default());
    assert!(matches!(validated, Validated::Response { unstored: Some(Unstored::Superseded), .. }), "{validated:?}");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(22)), "hit new");
}
