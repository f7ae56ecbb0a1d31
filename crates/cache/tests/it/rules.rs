//! What services and operators may allow beyond plain freshness: staleness, answers to POST, other choices of policy.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use pilotlight_cache::{
    Address, Answered, Cache, Decision, Fill, LanguageOrder, Lookup, Mode, Place, PolicyOptions, Purge, RouteRules,
    Scope, Unstored,
};

use crate::support::*;

const POSTED: Fields<'_> = &[("cache-control", "max-age=60"), ("content-location", "/a?b")];

/// The service's response to a POST for [`KEY`], which invalidates as every POST does.
fn post(cache: &Cache, fill: Fill, status: StatusCode, response: Fields<'_>) -> Result<(), Unstored> {
    let (request, response) = (fields(&[("content-length", "3")]), fields(response));
    cache.invalidate(&KEY, &Method::POST, status, &response, START);
    match fill.posted(&request, status, &response, at(START), RouteRules::default()) {
        Decision::Pass(why) => Err(why),
        Decision::Store(mut recorder) => {
            recorder.push(b"posted").unwrap();
            recorder.finish(START).map(drop)
        }
    }
}

#[test]
fn an_answer_to_post_may_be_what_a_get_gets() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, &[("cache-control", "max-age=60")], "old"), START).unwrap();
    assert_eq!(post(&cache, cache.begin_post(&KEY), StatusCode::OK, POSTED), Ok(()));
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "hit posted");
    assert_eq!(outcome(&cache, &KEY, &Method::POST, &[], START), "bypass Method");
}

#[test]
fn any_other_answer_to_post_is_not() {
    let elsewhere: Fields<'_> = &[("cache-control", "max-age=60"), ("content-location", "/other")];
    let silent: Fields<'_> = &[("content-location", "/a?b"), ("last-modified", "Wed, 01 Jan 1992 00:00:00 GMT")];
    for (status, response, why) in [
        (StatusCode::OK, elsewhere, Unstored::Method),
        (StatusCode::OK, &[("cache-control", "max-age=60")], Unstored::Method),
        (StatusCode::CREATED, POSTED, Unstored::Method),
        (StatusCode::BAD_REQUEST, POSTED, Unstored::Method),
        (StatusCode::OK, silent, Unstored::NoFreshness),
    ] {
        let cache = cache();
        cache.set_policy(PolicyOptions { max_heuristic: Some(Duration::from_secs(60)), ..PolicyOptions::default() });
        assert_eq!(post(&cache, cache.begin_post(&KEY), status, response), Err(why), "{status} {response:?}");
    }
}

#[test]
fn an_answer_to_post_is_stored_under_the_key_that_two_of_its_names_have() {
    let cache = cache();
    let place = |target: &str| Place::of(target.split("&utm_").next().unwrap());
    let fill = cache.begin_post(&KEY);
    let (request, response) = (fields(&[("content-length", "3")]), fields(POSTED));
    let answered = Answered { method: &Method::POST, status: StatusCode::OK, response: &response };
    let invalidated = cache.invalidate_as(&key("/a?b&utm_x=1"), answered, START, place);
    assert_eq!(invalidated.targets, 0);
    let decision = fill.posted(&request, StatusCode::OK, &response, at(START), RouteRules::default());
    let Decision::Store(recorder) = decision else { panic!("{decision:?}") };
    assert!(recorder.finish(START).is_ok());
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "hit ");
}

#[test]
fn a_post_that_another_request_overtook_stores_nothing() {
    let cache = cache();
    let fill = cache.begin_post(&KEY);
    cache.invalidate(&KEY, &Method::PUT, StatusCode::NO_CONTENT, &fields(&[]), START);
    assert_eq!(post(&cache, fill, StatusCode::OK, POSTED), Err(Unstored::Invalidated));
    let fill = cache.begin_post(&KEY);
    cache.purge(&[Purge { scope: Scope::Everything, mode: Mode::Hard }], START);
    assert_eq!(post(&cache, fill, StatusCode::OK, POSTED), Ok(()));
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "miss UriMiss", "purged while it was on its way");
}

const SPARE: Fields<'_> =
    &[("cache-control", "max-age=10, stale-while-revalidate=30, stale-if-error=60"), ("etag", "\"v\"")];

fn url(mode: Mode) -> Purge {
    let address = Address { scheme: KEY.scheme.into(), authority: KEY.authority.into(), target: KEY.target.into() };
    Purge { scope: Scope::Url(address), mode }
}

#[test]
fn one_request_refreshes() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, SPARE, "x"), START).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(11)), "while revalidated x");
    let refresh = cache.refresh(&KEY, &fields(&[]), seconds(11)).expect("nobody does");
    assert!(cache.refresh(&KEY, &fields(&[("authorization", "ann")]), seconds(11)).is_none(), "somebody does");
    drop(refresh);
    assert!(cache.refresh(&KEY, &fields(&[]), seconds(11)).is_some(), "the one who did went away");
    assert!(cache.refresh(&KEY, &fields(&[]), seconds(9)).is_none(), "it is fresh");
}

#[test]
fn a_soft_purge_begins_the_time_of_stale_use() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, SPARE, "x"), START).unwrap();
    cache.purge(&[url(Mode::Soft)], seconds(5));
    let ask = |request, after_s| outcome(&cache, &KEY, &Method::GET, request, seconds(after_s));
    assert_eq!(ask(&[], 6), "while revalidated x");
    assert_eq!(ask(&[("cache-control", "no-cache")], 6), "stale Request");
    assert_eq!(ask(&[("cache-control", "max-stale=3")], 6), "stale Stale");
    assert_eq!(ask(&[], 34), "while revalidated x");
    assert_eq!(ask(&[], 35), "stale Stale");
}

#[test]
fn a_purge_that_came_meanwhile_forbids_the_stale_answer() {
    let cache = cache();
    let stored = fetch(&cache, &KEY, &[], (200, SPARE, "x"), START).unwrap();
    let serves =
        |request: Fields<'_>, after_s| cache.serves_if_error(&KEY, &stored, &fields(request), seconds(after_s));
    assert!(serves(&[], 69) && !serves(&[], 70) && serves(&[("cache-control", "stale-if-error=90")], 70));
    cache.purge(&[url(Mode::Soft)], seconds(5));
    assert!(serves(&[], 64) && !serves(&[], 70));
    cache.purge(&[url(Mode::Hard)], seconds(20));
    assert!(!serves(&[], 21));
}

#[test]
fn an_assumed_lifetime_is_not_for_those_who_show_who_they_are() {
    let cache = cache();
    cache.set_policy(PolicyOptions {
        max_heuristic: Some(Duration::from_secs(10)),
        stale_if_error: Some(Duration::from_secs(60)),
        ..PolicyOptions::default()
    });
    let silent: Fields<'_> = &[("last-modified", "Wed, 01 Jan 1992 00:00:00 GMT")];
    let refused = fetch(&cache, &KEY, &[("cookie", "ann")], (200, silent, "x"), START);
    assert_eq!(refused.map(drop), Err(Unstored::Credentials));
    let stored = fetch(&cache, &KEY, &[], (200, silent, "x"), START).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(9)), "hit x");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("cookie", "ann")], seconds(9)), "miss Credentials");
    assert!(cache.serves_if_error(&KEY, &stored, &fields(&[]), seconds(20)));
    assert!(!cache.serves_if_error(&KEY, &stored, &fields(&[("authorization", "ann")]), seconds(20)));
}

#[test]
fn an_answer_that_is_not_kept_outdates_what_it_was_to_validate() {
    for (status, response, expected) in [
        (StatusCode::OK, ("cache-control", "no-store"), "miss UriMiss"),
        (StatusCode::NOT_FOUND, ("cache-control", "private"), "miss UriMiss"),
        (StatusCode::BAD_GATEWAY, ("cache-control", "no-store"), "while revalidated x"),
        (StatusCode::PARTIAL_CONTENT, ("cache-control", "max-age=9"), "while revalidated x"),
    ] {
        let cache = cache();
        let stored = fetch(&cache, &KEY, &[], (200, SPARE, "x"), START).unwrap();
        let fill = cache.refresh(&KEY, &fields(&[]), seconds(11)).unwrap().validating(&stored);
        let request = fields(&[]);
        let decision = fill.response(&request, status, &fields(&[response]), at(seconds(11)), RouteRules::default());
        assert!(matches!(decision, Decision::Pass(_)), "{decision:?}");
        assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(12)), expected, "{status}");
    }
}

#[test]
fn policy_counts_from_when_it_is_set() {
    let cache = cache();
    let own = HeaderName::from_static("own-cache-control");
    let response: Fields<'_> = &[("own-cache-control", "max-age=60"), ("vary", "accept-language")];
    assert!(fetch(&cache, &KEY, &[], (200, response, "x"), START).is_err());
    let language_order = LanguageOrder::Ignored;
    cache.set_policy(PolicyOptions { targets: vec![own], language_order, ..PolicyOptions::default() });
    fetch(&cache, &KEY, &[("accept-language", "en, de")], (200, response, "x"), START).unwrap();
    let found = cache.lookup(&KEY, &Method::GET, &fields(&[("accept-language", "de, en")]), START);
    assert!(matches!(found, Lookup::Hit(_)), "{found:?}");
}
