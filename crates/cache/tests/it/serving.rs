//! What comes out of the store, and when.

use http::{Method, StatusCode};
use pilotlight_cache::Unstored;

use crate::support::*;

const FOR_A_MINUTE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_hit_is_the_stored_response_with_its_age() {
    let cache = cache();
    let response: Fields<'_> =
        &[FOR_A_MINUTE, ("content-type", "text/plain"), ("link", "</a>"), ("link", "</b>"), ("connection", "close")];
    fetch(&cache, &KEY, &[], (200, response, "hello"), START).unwrap();

    let answer = hit(&cache, &KEY, &Method::GET, &[], seconds(7));
    assert_eq!((answer.status(), answer.body().to_bytes().as_ref()), (StatusCode::OK, b"hello".as_slice()));
    check_header(&answer, "content-type", "text/plain");
    check_header(&answer, "link", "</a>, </b>");
    check_header(&answer, "content-length", "5");
    check_header(&answer, "date", START_DATE);
    check_header(&answer, "age", "7");
    check_header(&answer, "cache-status", "pilotlight; hit; ttl=53");
    check_header(&answer, "connection", "");

    // The prepared fields of one second must not serve another.
    let later = hit(&cache, &KEY, &Method::GET, &[], seconds(9));
    check_header(&later, "age", "9");
    check_header(&later, "cache-status", "pilotlight; hit; ttl=51");
    check_header(&hit(&cache, &KEY, &Method::GET, &[], seconds(7)), "age", "7");
}

#[test]
fn head_shares_the_stored_get() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], "hello"), START).unwrap();
    let answer = hit(&cache, &KEY, &Method::HEAD, &[], START);
    assert!(answer.body().is_empty());
    check_header(&answer, "content-length", "5");
}

#[test]
fn a_status_without_content_has_no_length() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (204, &[FOR_A_MINUTE], ""), START).unwrap();
    let answer = hit(&cache, &KEY, &Method::GET, &[], START);
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    check_header(&answer, "content-length", "");
}

#[test]
fn a_client_that_has_it_gets_304() {
    let cache = cache();
    let response: Fields<'_> = &[
        FOR_A_MINUTE,
        ("etag", "\"v1\""),
        ("content-type", "text/plain"),
        ("vary", "accept"),
        ("cache-status", "inner; hit"),
    ];
    fetch(&cache, &KEY, &[], (200, response, "hello"), START).unwrap();
    for method in [Method::GET, Method::HEAD] {
        let answer = hit(&cache, &KEY, &method, &[("if-none-match", "W/\"v1\"")], seconds(3));
        assert_eq!((answer.status(), answer.body().len()), (StatusCode::NOT_MODIFIED, 0));
        check_header(&answer, "etag", "\"v1\"");
        check_header(&answer, "cache-control", "max-age=60");
        check_header(&answer, "vary", "accept");
        check_header(&answer, "date", START_DATE);
        check_header(&answer, "age", "3");
        check_header(&answer, "cache-status", "inner; hit, pilotlight; hit; ttl=57");
        check_header(&answer, "content-type", "");
        check_header(&answer, "content-length", "");
    }
    let full = hit(&cache, &KEY, &Method::GET, &[("if-none-match", "\"v2\"")], START);
    assert_eq!(full.status(), StatusCode::OK);
}

#[test]
fn conditions_do_not_turn_a_stored_404_into_304() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (404, &[FOR_A_MINUTE, ("etag", "\"e\"")], "no"), START).unwrap();
    let answer = hit(&cache, &KEY, &Method::GET, &[("if-none-match", "*")], START);
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

#[track_caller]
fn check(method: &Method, request: Fields<'_>, after_s: u64, expected: &str) {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], "x"), START).unwrap();
    assert_eq!(outcome(&cache, &KEY, method, request, seconds(after_s)), expected, "{method} {request:?} at {after_s}");
}

#[test]
fn lookups() {
    check(&Method::GET, &[], 59, "hit x");
    check(&Method::GET, &[], 60, "stale Stale");
    check(&Method::GET, &[("cache-control", "max-stale")], 90, "hit x");
    check(&Method::GET, &[("cache-control", "no-cache")], 1, "stale Request");
    check(&Method::GET, &[("pragma", "no-cache")], 1, "stale Request");
    check(&Method::GET, &[("cache-control", "no-store")], 1, "hit x");
    check(&Method::GET, &[("cache-control", "no-store")], 60, "bypass Request");
    check(&Method::GET, &[("cache-control", "only-if-cached")], 1, "hit x");
    check(&Method::GET, &[("cache-control", "only-if-cached")], 60, "only-if-cached");
    check(&Method::GET, &[("cache-control", "only-if-cached"), ("range", "bytes=0-")], 1, "only-if-cached");
    check(&Method::GET, &[("range", "bytes=0-")], 1, "bypass Range");
    check(&Method::GET, &[("content-length", "2")], 1, "bypass RequestBody");
    check(&Method::POST, &[], 1, "bypass Method");
    check(&Method::OPTIONS, &[], 1, "bypass Method");
}

#[test]
fn keys_are_told_apart() {
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], "x"), START).unwrap();
    for other in [key("/a"), key("/a?B"), key("/a?b&"), pilotlight_cache::Key { scheme: "https", ..KEY }] {
        assert_eq!(outcome(&cache, &other, &Method::GET, &[], START), "miss UriMiss", "{other:?}");
    }
}

#[test]
fn a_default_lifetime_fills_silence_between_anonymous_requests() {
    let cache = cache();
    fetch_by(&cache, &KEY, &[], (200, &[], "x"), START, route(5)).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(4)), "hit x");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], seconds(5)), "stale Stale");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("cookie", "a=b")], seconds(1)), "miss Credentials");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("authorization", "x")], seconds(1)), "miss Credentials");
    let signed_in = fetch_by(&cache, &key("/other"), &[("cookie", "a=b")], (200, &[], "x"), START, route(5));
    assert_eq!(signed_in.map(drop), Err(Unstored::Credentials));
}

#[test]
fn variants_are_kept_side_by_side_newest_first() {
    let cache = cache();
    let vary = ("vary", "accept-language");
    for language in ["en", "de"] {
        let answer = (200, &[FOR_A_MINUTE, vary] as Fields<'_>, language);
        fetch(&cache, &KEY, &[("accept-language", language)], answer, START).unwrap();
    }
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept-language", "en")], START), "hit en");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept-language", "DE")], START), "hit de");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept-language", "fr")], START), "miss VaryMiss");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "miss VaryMiss");

    // A response that does not vary is right for everyone and hides the others.
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], "all"), START).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept-language", "en")], START), "hit all");
}

#[test]
fn a_new_answer_replaces_its_own_variant_only() {
    let cache = cache();
    let vary = ("vary", "accept");
    let short = ("cache-control", "max-age=1");
    fetch(&cache, &KEY, &[("accept", "a")], (200, &[short, vary], "old"), START).unwrap();
    fetch(&cache, &KEY, &[("accept", "b")], (200, &[FOR_A_MINUTE, vary], "other"), START).unwrap();
    let before = cache.usage();
    fetch(&cache, &KEY, &[("accept", "a")], (200, &[short, vary], "new"), seconds(2)).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept", "a")], seconds(2)), "hit new");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("accept", "b")], seconds(2)), "hit other");
    assert_eq!(cache.usage(), before, "the old one is gone");
}

#[test]
fn bodies_that_are_not_whole_are_not_stored() {
    let announced: Fields<'_> = &[FOR_A_MINUTE, ("content-length", "5")];
    for body in ["", "1234", "123456"] {
        let cache = cache();
        let result = fetch(&cache, &KEY, &[], (200, announced, body), START);
        assert_eq!(result.map(drop), Err(Unstored::Incomplete), "{body:?}");
        assert_eq!(cache.usage().resources, 0);
    }
    let cache = cache();
    fetch(&cache, &KEY, &[], (200, announced, "12345"), START).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "hit 12345");
}
