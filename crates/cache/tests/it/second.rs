//! What another tier is told, and what it is asked.

use std::sync::{Arc, Mutex};

use http::Method;
use pilotlight_cache::{
    Cache, Decision, Invalidations, Key, LanguageOrder, Lookup, PolicyOptions, RouteRules, Selection, Unstored,
};

use crate::support::*;

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Invalidations for Told {
    fn invalidated(&self, key: &Key<'_>) {
        self.0.lock().unwrap().push(key.target.to_owned());
    }
}

#[test]
fn an_answer_that_is_not_kept_in_place_of_what_is_stored_is_told() {
    let (cache, told) = (cache(), Arc::new(Told::default()));
    cache.tell_invalidations(Arc::clone(&told) as _);
    let fresh: Fields<'_> = &[("cache-control", "max-age=60")];
    fetch(&cache, &KEY, &[], (200, fresh, "body"), START).unwrap();
    assert_eq!(told.0.lock().unwrap().len(), 0);
    let request = fields(&[("cache-control", "no-cache")]);
    let Lookup::Stale(stored, _) = cache.lookup(&KEY, &Method::GET, &request, START) else { panic!("not validated") };
    let fill = lead(&cache, &KEY, &request, START).validating(&stored);
    let answer = fields(&[("cache-control", "no-store")]);
    let decision = fill.response(&request, http::StatusCode::OK, &answer, at(START), RouteRules::default());
    assert!(matches!(decision, Decision::Pass(Unstored::NoStore)), "{decision:?}");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[], START), "miss UriMiss");
    assert_eq!(*told.0.lock().unwrap(), [KEY.target]);
}

#[test]
fn another_tiers_response_does_not_answer_a_request_with_a_body() {
    let cache: Cache = cache();
    let stored = fetch(&cache, &KEY, &[], (200, &[("cache-control", "max-age=60")], "body"), START).unwrap();
    assert!(cache.serves(&KEY, &stored, &fields(&[]), START));
    assert!(cache.serves(&KEY, &stored, &fields(&[("content-length", "0")]), START));
    for body in [("content-length", "3"), ("transfer-encoding", "chunked")] {
        assert!(!cache.serves(&KEY, &stored, &fields(&[body]), START), "{body:?}");
    }
}

#[test]
fn what_another_tier_had_is_selected_by_the_order_of_languages_that_counts_here() {
    let policy = |language_order| PolicyOptions { language_order, ..PolicyOptions::default() };
    for (order, expected) in [(LanguageOrder::Ignored, true), (LanguageOrder::Counts, false)] {
        let cache = cache();
        cache.set_policy(policy(order));
        let varies: Fields<'_> = &[("cache-control", "max-age=60"), ("vary", "accept-language")];
        let request: Fields<'_> = &[("accept-language", "en, de")];
        let parts = fetch(&cache, &KEY, request, (200, varies, "body"), START).unwrap().to_parts();
        let names = [&http::header::ACCEPT_LANGUAGE];
        let other = fields(&[("accept-language", "de, en")]);
        let request = fields(request);
        let selection = |request| Selection::of(names, request, cache.language_order());
        assert_eq!(selection(&request), parts.selection, "as it is stored");
        assert_eq!(selection(&other) == parts.selection, expected);
        let restored = cache.restored(&KEY, 0, parts, cache.purges().position());
        assert!(restored.is_selected_by(&request));
        assert_eq!(restored.is_selected_by(&other), expected, "{order:?}");
    }
}
