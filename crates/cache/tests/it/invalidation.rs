//! Unsafe requests (RFC 9111 §4.4).

use http::{Method, StatusCode};
use pilotlight_cache::{Decision, RouteRules, Unstored};

use crate::support::*;

const STORED: (u16, Fields<'_>, &str) = (200, &[("cache-control", "max-age=60")], "x");

#[track_caller]
fn check(method: &str, status: u16, response: Fields<'_>, gone: &[&str]) {
    let cache = cache();
    let targets = ["/a?b", "/a?other", "/items/1", "/list"];
    for target in targets {
        fetch(&cache, &key(target), &[], STORED, START).unwrap();
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let removed =
        cache.invalidate(&KEY, &method, StatusCode::from_u16(status).unwrap(), &fields(response), START).targets;
    assert_eq!(removed, gone.len(), "{method} {status} {response:?}");
    for target in targets {
        let expected = if gone.contains(&target) { "miss UriMiss" } else { "hit x" };
        assert_eq!(outcome(&cache, &key(target), &Method::GET, &[], START), expected, "{method} {status}: {target}");
    }
}

#[test]
fn unsafe_methods_remove_their_target_when_they_succeed() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        check(method, 200, &[], &["/a?b"]);
        check(method, 303, &[], &["/a?b"]);
        for status in [101, 400, 404, 500] {
            check(method, status, &[], &[]);
        }
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY"] {
        check(method, 200, &[], &[]);
    }
}

#[test]
fn named_targets_of_the_same_origin_go_too() {
    check("POST", 201, &[("location", "/items/1")], &["/a?b", "/items/1"]);
    check("POST", 201, &[("location", "items/1")], &["/a?b", "/items/1"]);
    let both: Fields<'_> = &[("location", "http://EXAMPLE.org:80/items/1"), ("content-location", "/list")];
    check("POST", 201, both, &["/a?b", "/items/1", "/list"]);
    check("POST", 201, &[("location", "http://other.example/items/1")], &["/a?b"]);
    check("POST", 400, &[("location", "/items/1")], &[]);
}

#[test]
fn what_was_on_its_way_is_not_stored() {
    let cache = cache();
    let request = fields(&[]);
    let fill = lead(&cache, &KEY, &request, START);
    cache.invalidate(&KEY, &Method::PUT, StatusCode::NO_CONTENT, &fields(&[]), START);
    let headers = fields(&[("cache-control", "max-age=60")]);
    let decision = fill.response(&request, StatusCode::OK, &headers, at(START), RouteRules::default());
    let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
    recorder.push(b"from before").unwrap();
    assert_eq!(recorder.finish(START).map(drop), Err(Unstored::Invalidated));
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "miss UriMiss");

    fetch(&cache, &KEY, &[], STORED, START).unwrap();
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "hit x");
}
