//! Answers that are written as HTTP/1.1 sends them say what the others say.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pilotlight_cache::{Cache, CacheOptions, CacheStatus, Freshness, Key, LifetimeSource, Parts, Selection, Timestamp};

const RECEIVED: Timestamp = Timestamp(784_111_777_000);

#[test]
fn an_answer_with_another_status_of_the_cache_has_the_fields_and_the_body_of_the_one_that_is_not_written() {
    let cache = Cache::new(CacheOptions::default()).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("content-length", "4"),
        ("cache-tag", "secret"),
        ("surrogate-key", "secret"),
        ("cache-status", "inner; hit"),
        ("x-twice", "1"),
        ("x-twice", "2"),
    ] {
        headers.append(name, HeaderValue::from_static(value));
    }
    let freshness = Freshness {
        received: RECEIVED,
        initial_age_ms: 2_000,
        lifetime_ms: 60_000,
        source: LifetimeSource::Response,
        must_revalidate: false,
        no_cache: false,
        while_revalidate_ms: 0,
        if_error_ms: 0,
    };
    let (status, body) = (StatusCode::NOT_FOUND, Bytes::from_static(b"body"));
    let parts = Parts { status, headers, body, selection: Selection::default(), freshness };
    let key = Key { scheme: "http", authority: "example.org", target: "/", extra: "" };
    let stored = cache.restored(&key, 0, parts, cache.purges().position());

    let (now, status) = (Timestamp(RECEIVED.0 + 5_000), CacheStatus::hit(53).detailed("redis"));
    let mut written = BytesMut::from("before");
    stored.write_response_as(status, now, &mut written);
    let written = std::str::from_utf8(&written).unwrap().strip_prefix("before").unwrap();
    let (head, body) = written.split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n");
    assert_eq!((lines.next(), body), (Some("HTTP/1.1 404 Not Found"), "body"));

    let answer = stored.response_as(status, &Method::GET, &HeaderMap::new(), now);
    let line = |(name, value): (&http::HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let expected: BTreeSet<_> = answer.headers().iter().map(line).collect();
    assert!(expected.contains("age: 7") && expected.contains("x-twice: 2"), "{expected:?}");
    assert_eq!(lines.map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    let at = |text: &str| head.find(text).unwrap();
    assert!(
        at("cache-status: inner") < at("cache-status: pilotlight; hit; ttl=53; detail=redis"),
        "RFC 9211: in this order"
    );
}
