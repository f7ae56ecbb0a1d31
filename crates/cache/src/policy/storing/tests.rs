use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::super::time::Timestamp;
use super::*;

type Fields = &'static [(&'static str, &'static str)];

const CACHEABLE: (&str, &str) = ("cache-control", "max-age=60");

fn map(fields: Fields) -> HeaderMap {
    fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

fn plan(
    method: &Method,
    request: Fields,
    status: u16,
    response: Fields,
    default_s: Option<u64>,
) -> Result<Plan, Unstored> {
    let at = Timestamp(784_111_777_000);
    Candidate {
        method,
        request: &map(request),
        status: StatusCode::from_u16(status).unwrap(),
        response: &map(response),
        timing: Timing { sent: at, received: at },
        rules: RouteRules { default_ttl: default_s.map(Duration::from_secs), ..RouteRules::default() },
        policy: &PolicyOptions::default(),
    }
    .plan()
}

#[track_caller]
fn check(request: Fields, status: u16, response: Fields, expected: Result<(), Unstored>) {
    let found = plan(&Method::GET, request, status, response, None).map(drop);
    assert_eq!(found, expected, "{request:?} answered {status} {response:?}");
}

#[track_caller]
fn check_default(request: Fields, status: u16, response: Fields, expected: Result<(), Unstored>) {
    let found = plan(&Method::GET, request, status, response, Some(5)).map(drop);
    assert_eq!(found, expected, "{request:?} answered {status} {response:?} on a route with a default");
}

#[test]
fn only_get_without_body() {
    for method in [Method::HEAD, Method::PUT, Method::PATCH, Method::OPTIONS] {
        assert_eq!(plan(&method, &[], 200, &[CACHEABLE], None).map(drop), Err(Unstored::Method), "{method}");
    }
    let post =
        |response, default_s| plan(&Method::POST, &[("content-length", "3")], 200, response, default_s).map(drop);
    assert_eq!(post(&[CACHEABLE], None), Ok(()));
    assert_eq!(post(&[], Some(5)), Err(Unstored::NoFreshness));
    assert_eq!(post(&[CACHEABLE, ("set-cookie", "a=b")], None), Err(Unstored::SetCookie));
    check(&[], 200, &[CACHEABLE], Ok(()));
    check(&[("content-length", "0")], 200, &[CACHEABLE], Ok(()));
    check(&[("content-length", "3")], 200, &[CACHEABLE], Err(Unstored::RequestBody));
    check(&[("transfer-encoding", "chunked")], 200, &[CACHEABLE], Err(Unstored::RequestBody));
    check(&[("cache-control", "no-store")], 200, &[CACHEABLE], Err(Unstored::RequestNoStore));
    check(&[("cache-control", "no-cache")], 200, &[CACHEABLE], Ok(()));
}

#[test]
fn statuses() {
    for status in [200, 204, 301, 302, 404, 500, 503, 599, 299, 418] {
        check(&[], status, &[CACHEABLE], Ok(()));
    }
    for status in [100, 103, 206, 304, 412, 416] {
        check(&[], status, &[CACHEABLE], Err(Unstored::Status));
    }
}

#[test]
fn response_directives() {
    check(&[], 200, &[("cache-control", "max-age=60, no-store")], Err(Unstored::NoStore));
    check(&[], 200, &[("cache-control", "max-age=60, private")], Err(Unstored::Private));
    check(&[], 200, &[("cache-control", "max-age=60, private=\"x-user\"")], Err(Unstored::Private));
    check(&[], 200, &[("cache-control", "max-age=60, x=\"")], Err(Unstored::Malformed));
    check(&[], 200, &[("cache-control", "max-age=60, immutable")], Ok(()));
}

#[test]
fn must_understand() {
    check(&[], 200, &[("cache-control", "max-age=60, no-store, must-understand")], Ok(()));
    check(&[], 200, &[("cache-control", "max-age=60, must-understand")], Ok(()));
    check(&[], 299, &[("cache-control", "max-age=60, no-store, must-understand")], Err(Unstored::Status));
    check(&[], 299, &[("cache-control", "max-age=60, must-understand")], Err(Unstored::Status));
    check(&[], 200, &[("cache-control", "max-age=60, private, must-understand")], Err(Unstored::Private));
}

#[test]
fn authorization() {
    const AUTH: Fields = &[("authorization", "Basic YTpi")];
    check(AUTH, 200, &[CACHEABLE], Err(Unstored::Authorization));
    check(AUTH, 200, &[("cache-control", "max-age=60, proxy-revalidate")], Err(Unstored::Authorization));
    check(AUTH, 200, &[("cache-control", "max-age=60, s-maxage=x")], Err(Unstored::Authorization));
    check(AUTH, 200, &[("cache-control", "max-age=60, public=x")], Err(Unstored::Authorization));
    check(AUTH, 200, &[("cache-control", "max-age=60, public")], Ok(()));
    check(AUTH, 200, &[("cache-control", "max-age=60, must-revalidate")], Ok(()));
    check(AUTH, 200, &[("cache-control", "s-maxage=60")], Ok(()));
}

#[test]
fn cookies() {
    check(&[], 200, &[CACHEABLE, ("set-cookie", "a=b")], Err(Unstored::SetCookie));
    check(&[], 200, &[("cache-control", "public, s-maxage=60"), ("set-cookie", "a=b")], Err(Unstored::SetCookie));
    check(&[], 200, &[CACHEABLE, ("vary", "accept, cookie")], Err(Unstored::VaryCookie));
    check(&[("cookie", "a=b")], 200, &[CACHEABLE], Ok(()));
    check(&[], 200, &[CACHEABLE, ("vary", "*")], Err(Unstored::VaryAny));
}

#[test]
fn freshness_is_needed_or_a_validator() {
    check(&[], 200, &[], Err(Unstored::NoFreshness));
    check(&[], 200, &[("etag", "\"a\"")], Err(Unstored::NoFreshness));
    check(&[], 200, &[("cache-control", "public")], Err(Unstored::NoFreshness));
    check(&[], 200, &[("cache-control", "no-cache")], Err(Unstored::Stale));
    check(&[], 200, &[("cache-control", "max-age=0")], Err(Unstored::Stale));
    check(&[], 200, &[("expires", "0")], Err(Unstored::Stale));
    check(&[], 200, &[CACHEABLE, ("age", "60")], Err(Unstored::Stale));
    check(&[], 200, &[("cache-control", "no-cache, max-age=60")], Err(Unstored::Stale));
    check(&[], 200, &[("cache-control", "no-cache"), ("etag", "\"a\"")], Ok(()));
    check(&[], 200, &[("cache-control", "max-age=0"), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")], Ok(()));
    check(&[], 200, &[CACHEABLE, ("content-length", "x")], Err(Unstored::Malformed));
}

#[test]
fn the_default_fills_silence_only() {
    check_default(&[], 200, &[], Ok(()));
    check_default(&[], 404, &[], Ok(()));
    check_default(&[], 200, &[("cache-control", "public")], Ok(()));
    for status in [201, 302, 403, 405, 500, 501, 503] {
        check_default(&[], status, &[], Err(Unstored::NoFreshness));
    }
    check_default(&[], 200, &[("cache-control", "no-store")], Err(Unstored::NoStore));
    check_default(&[], 200, &[("cache-control", "private")], Err(Unstored::Private));
    check_default(&[], 200, &[("cache-control", "no-cache")], Err(Unstored::Stale));
    check_default(&[], 200, &[("cache-control", "max-age=0")], Err(Unstored::Stale));
    check_default(&[("cookie", "a=b")], 200, &[], Err(Unstored::Credentials));
    check_default(&[("cookie", "a=b")], 200, &[CACHEABLE], Ok(()));
    check_default(&[("authorization", "x")], 200, &[("cache-control", "public")], Err(Unstored::Credentials));
}

#[test]
fn behind_credentials_that_the_cache_does_not_see() {
    let at = Timestamp(784_111_777_000);
    let plan = |response: Fields, default_s: Option<u64>| {
        let rules = RouteRules {
            default_ttl: default_s.map(Duration::from_secs),
            behind_credentials: true,
            ..RouteRules::default()
        };
        Candidate {
            method: &Method::GET,
            request: &map(&[]),
            status: StatusCode::OK,
            response: &map(response),
            timing: Timing { sent: at, received: at },
            rules,
            policy: &PolicyOptions::default(),
        }
        .plan()
        .map(drop)
    };
    assert_eq!(plan(&[CACHEABLE], None), Err(Unstored::Authorization));
    assert_eq!(plan(&[], Some(5)), Err(Unstored::Authorization));
    assert_eq!(plan(&[("cache-control", "public, max-age=60")], None), Ok(()));
    assert_eq!(plan(&[("cache-control", "s-maxage=60")], None), Ok(()));
    assert_eq!(plan(&[("cache-control", "public")], Some(5)), Err(Unstored::Credentials));
}
