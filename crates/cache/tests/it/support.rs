//! A cache with a clock that the test moves, and one call for a whole exchange.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use pilotlight_cache::{
    Cache, CacheOptions, Decision, Key, Lookup, RouteRules, Stored, StoredBody, Timestamp, Timing, Turn, Unstored,
};

pub(crate) type Fields<'a> = &'a [(&'static str, &'a str)];

pub(crate) const KEY: Key<'static> = Key { scheme: "http", authority: "example.org", target: "/a?b", extra: "" };

/// Sun, 06 Nov 1994 08:49:37 GMT, and half a second.
pub(crate) const START: Timestamp = Timestamp(784_111_777_500);
pub(crate) const START_DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

pub(crate) fn fields(list: Fields<'_>) -> HeaderMap {
    list.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_str(v).unwrap())).collect()
}

pub(crate) fn seconds(after_start: u64) -> Timestamp {
    Timestamp(START.0 + after_start * 1000)
}

pub(crate) fn at(now: Timestamp) -> Timing {
    Timing { sent: now, received: now }
}

pub(crate) fn key(target: &str) -> Key<'_> {
    Key { target, ..KEY }
}

pub(crate) fn cache() -> Cache {
    Cache::new(CacheOptions::default()).unwrap()
}

pub(crate) fn route(default_ttl_s: u64) -> RouteRules {
    RouteRules { default_ttl: Some(Duration::from_secs(default_ttl_s)), ..RouteRules::default() }
}

/// The fill of a request that must be the one to ask.
#[track_caller]
pub(crate) fn lead(cache: &Cache, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> pilotlight_cache::Fill {
    match cache.begin(key, &Method::GET, request, now) {
        Turn::Leader(fill) => fill,
        other => panic!("not the leader but {other:?}"),
    }
}

/// Gets a response from the service and stores it.
pub(crate) fn fetch(
    cache: &Cache,
    key: &Key<'_>,
    request: Fields<'_>,
    answer: (u16, Fields<'_>, &str),
    now: Timestamp,
) -> Result<Arc<Stored>, Unstored> {
    fetch_by(cache, key, request, answer, now, RouteRules::default())
}

pub(crate) fn fetch_by(
    cache: &Cache,
    key: &Key<'_>,
    request: Fields<'_>,
    (status, response, body): (u16, Fields<'_>, &str),
    now: Timestamp,
    rules: RouteRules,
) -> Result<Arc<Stored>, Unstored> {
    let request = fields(request);
    let fill = lead(cache, key, &request, now);
    match fill.response(&request, StatusCode::from_u16(status).unwrap(), &fields(response), at(now), rules) {
        Decision::Pass(why) => Err(why),
        Decision::Store(mut recorder) => {
            recorder.push(body.as_bytes())?;
            recorder.finish(now)
        }
    }
}

/// The response from the store, which must have one.
#[track_caller]
pub(crate) fn hit(
    cache: &Cache,
    key: &Key<'_>,
    method: &Method,
    request: Fields<'_>,
    now: Timestamp,
) -> Response<StoredBody> {
    let request = fields(request);
    match cache.lookup(key, method, &request, now) {
        Lookup::Hit(stored) => stored.response(method, &request, now),
        other => panic!("not a hit but {other:?}"),
    }
}

/// A lookup's result in a word or two.
pub(crate) fn outcome(cache: &Cache, key: &Key<'_>, method: &Method, request: Fields<'_>, now: Timestamp) -> String {
    match cache.lookup(key, method, &fields(request), now) {
        Lookup::Hit(stored) => format!("hit {}", String::from_utf8_lossy(&stored.body().to_bytes())),
        Lookup::Miss(why) => format!("miss {why:?}"),
        Lookup::StaleWhileRevalidate(stored) => {
            format!("while revalidated {}", String::from_utf8_lossy(&stored.body().to_bytes()))
        }
        Lookup::Stale(_, why) => format!("stale {why:?}"),
        Lookup::Bypass(why) => format!("bypass {why:?}"),
        Lookup::OnlyIfCached => "only-if-cached".to_owned(),
    }
}

#[track_caller]
pub(crate) fn check_header(response: &Response<StoredBody>, name: &'static str, expected: &str) {
    let found: Vec<_> = response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(found.join(", "), expected, "{name}");
}
