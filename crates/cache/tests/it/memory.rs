//! The budget in bytes.

use std::thread;

use http::Method;
use pilotlight_cache::{Cache, CacheOptions, Decision, MAX_VARIANTS, OptionsError, RouteRules, Unstored};
use proptest::prelude::*;

use crate::support::*;

const FOR_A_MINUTE: (&str, &str) = ("cache-control", "max-age=60");

fn small(max_bytes: u64, max_object_bytes: u64) -> Cache {
    Cache::new(CacheOptions { max_bytes, max_object_bytes, ..CacheOptions::default() }).unwrap()
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let new = |max_bytes, max_object_bytes| {
        Cache::new(CacheOptions { max_bytes, max_object_bytes, ..CacheOptions::default() }).map(drop)
    };
    assert_eq!(new(1000, 10), Err(OptionsError::TooSmall { max_bytes: 1000 }));
    let too_large = OptionsError::ObjectTooLarge { max_object_bytes: 65_537, max_bytes: 131_072 };
    assert_eq!(new(131_072, 65_537), Err(too_large));
    assert!(too_large.to_string().contains("at most half"), "{too_large}");
    assert_eq!(new(131_072, 65_536), Ok(()));
    assert_eq!(new(u64::MAX, 0), Ok(()));
}

#[test]
fn a_flood_of_distinct_keys_stays_within_the_budget() {
    const MAX: u64 = 1 << 20;
    let cache = small(MAX, 64 << 10);
    let body = "x".repeat(500);
    let mut highest = 0;
    for n in 0..20_000 {
        let target = format!("/{n}?{}", "q".repeat(n % 300));
        fetch(&cache, &key(&target), &[], (200, &[FOR_A_MINUTE], &body), START).unwrap();
        let usage = cache.usage();
        assert!(usage.bytes <= MAX, "{usage:?} after {n}");
        highest = highest.max(usage.bytes);
    }
    assert!(highest > MAX / 2, "the budget is used: {highest}");
    let usage = cache.usage();
    assert!(usage.bytes / usage.resources as u64 > 500 + 20, "weights count more than the body: {usage:?}");
}

#[test]
fn a_flood_of_variants_stays_within_the_list() {
    let cache = cache();
    let weight_of = |value: &str| {
        let answer = (200, &[FOR_A_MINUTE, ("vary", "x-any")] as Fields<'_>, "body");
        fetch(&cache, &KEY, &[("x-any", value)], answer, START).unwrap();
        cache.usage().bytes
    };
    for n in 1000..1000 + MAX_VARIANTS {
        weight_of(&n.to_string());
    }
    let full = cache.usage().bytes;
    for n in 5000..5100 {
        assert_eq!(weight_of(&n.to_string()), full);
    }
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("x-any", "5099")], START), "hit body");
    assert_eq!(outcome(&cache, &KEY, &Method::GET, &[("x-any", "1000")], START), "miss VaryMiss");
}

#[test]
fn large_bodies_pass() {
    let cache = small(1 << 20, 1000);
    let body = "x".repeat(1001);
    let announced = [FOR_A_MINUTE, ("content-length", "1001")];
    assert_eq!(fetch(&cache, &KEY, &[], (200, &announced, &body), START).map(drop), Err(Unstored::TooLarge));
    assert_eq!(fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], &body), START).map(drop), Err(Unstored::TooLarge));
    let fits = body.get(1..).unwrap();
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], fits), START).unwrap();
    assert_eq!(cache.usage().resources, 1);
}

#[test]
fn the_largest_object_fits_into_the_smallest_cache_that_may_have_it() {
    let cache = small(64 << 10, 32 << 10);
    let body = "x".repeat(32 << 10);
    fetch(&cache, &KEY, &[], (200, &[FOR_A_MINUTE], &body), START).unwrap();
    assert_eq!(cache.usage().resources, 1);
}

#[test]
fn recordings_share_a_budget_and_give_it_back() {
    let cache = small(1 << 20, 64 << 10);
    let request = fields(&[]);
    let response = fields(&[FOR_A_MINUTE, ("content-length", "65536")]);
    let body = vec![b'x'; 65_536];
    let record = |n: usize| {
        let fill = lead(&cache, &key(&format!("/{n}")), &request, START);
        match fill.response(&request, http::StatusCode::OK, &response, at(START), RouteRules::default()) {
            Decision::Store(mut recorder) => recorder.push(&body).map(|()| recorder),
            Decision::Pass(why) => Err(why),
        }
    };
    // A quarter of the cache is three bodies of this size with what they take besides.
    let mut running: Vec<_> = (0..3).map(|n| record(n).unwrap()).collect();
    assert_eq!(record(4).map(drop), Err(Unstored::Busy));
    running.pop().unwrap().finish(START).unwrap();
    running.push(record(5).unwrap());
    assert_eq!(record(6).map(drop), Err(Unstored::Busy));
    drop(running);
    let again: Vec<_> = (10..13).map(|n| record(n).unwrap()).collect();
    assert_eq!(again.len(), 3);
}

#[test]
fn what_is_recorded_takes_the_place_of_what_is_stored() {
    const MAX: u64 = 1 << 20;
    const RECORDED: usize = 64 << 10;
    let cache = small(MAX, RECORDED as u64);
    let body = "x".repeat(1000);
    for n in 0..2000 {
        fetch(&cache, &key(&format!("/{n}")), &[], (200, &[FOR_A_MINUTE], &body), START).unwrap();
    }
    let full = cache.usage().bytes;
    assert!(full > MAX / 10 * 9, "{full}");
    let request = fields(&[]);
    let response = fields(&[FOR_A_MINUTE, ("content-length", "65536")]);
    let begin = |n: usize| {
        let fill = lead(&cache, &key(&format!("/large/{n}")), &request, START);
        match fill.response(&request, http::StatusCode::OK, &response, at(START), RouteRules::default()) {
            Decision::Store(recorder) => recorder,
            Decision::Pass(why) => panic!("{why}"),
        }
    };
    let mut running: Vec<_> = (0..3).map(begin).collect();
    for (n, recorder) in running.iter_mut().enumerate() {
        recorder.push(&[b'x'; RECORDED]).unwrap();
        assert!(cache.usage().bytes + (n as u64 + 1) * RECORDED as u64 <= MAX, "{n}: {}", cache.usage().bytes);
    }
    drop(running);
    for n in 0..2000 {
        fetch(&cache, &key(&format!("/again/{n}")), &[], (200, &[FOR_A_MINUTE], &body), START).unwrap();
    }
    assert!(cache.usage().bytes > full / 10 * 9, "it has come back: {}", cache.usage().bytes);
}

#[test]
fn what_is_being_sent_stays() {
    const MAX: u64 = 4 << 20;
    let cache = small(MAX, 256 << 10);
    let body = "x".repeat(100 << 10);
    let store = |target: &str| fetch(&cache, &key(target), &[], (200, &[FOR_A_MINUTE], &body), START).unwrap();
    (0..50).for_each(|n| drop(store(&format!("/before/{n}"))));
    let sent = store("/sent").body().clone();
    drop(store("/gone"));
    for n in 0..100 {
        drop(store(&format!("/after/{n}")));
        assert!(cache.usage().bytes <= MAX, "{n}: {:?}", cache.usage());
    }
    assert_eq!(outcome(&cache, &key("/gone"), &Method::GET, &[], START), "miss UriMiss");
    assert_eq!(outcome(&cache, &key("/sent"), &Method::GET, &[], START), format!("hit {body}"));
    assert_eq!(sent.len(), body.len());
}

#[test]
fn nothing_is_recorded_beyond_what_is_being_sent() {
    const MAX: u64 = 4 << 20;
    let cache = small(MAX, 256 << 10);
    let body = "x".repeat(100 << 10);
    let store = |n: usize| fetch(&cache, &key(&format!("/{n}")), &[], (200, &[FOR_A_MINUTE], &body), START);
    let mut sent = Vec::new();
    let refused = loop {
        match store(sent.len()) {
            Ok(stored) => sent.push(stored.body().clone()),
            Err(why) => break why,
        }
        assert!(cache.usage().bytes <= MAX, "{}: {:?}", sent.len(), cache.usage());
    };
    assert_eq!(refused, Unstored::Busy);
    assert!(sent.len() * body.len() > MAX as usize / 4 * 3, "{}", sent.len());
    drop(sent);
    store(1000).unwrap();
}

#[test]
fn workers_share_it() {
    const MAX: u64 = 1 << 20;
    let cache = small(MAX, 64 << 10);
    let body = "x".repeat(2000);
    thread::scope(|scope| {
        for worker in 0..4u64 {
            let (cache, body) = (cache.clone(), &body);
            scope.spawn(move || {
                for n in 0..2000u64 {
                    let target = format!("/{}", (n * (worker + 1)) % 700);
                    // Someone else may be first: only what leads stores.
                    if outcome(&cache, &key(&target), &Method::GET, &[], START) != format!("hit {body}") {
                        let request = fields(&[]);
                        if let pilotlight_cache::Turn::Leader(fill) =
                            cache.begin(&key(&target), &Method::GET, &request, START)
                        {
                            let headers = fields(&[FOR_A_MINUTE]);
                            let decision = fill.response(
                                &request,
                                http::StatusCode::OK,
                                &headers,
                                at(START),
                                RouteRules::default(),
                            );
                            let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
                            recorder.push(body.as_bytes()).unwrap();
                            let stored = recorder.finish(START);
                            assert!(matches!(stored, Ok(_) | Err(Unstored::Invalidated)), "{stored:?}");
                        }
                    }
                    if n % 50 == 0 {
                        cache.invalidate(&key(&target), &Method::PUT, http::StatusCode::OK, &fields(&[]), START);
                    }
                    assert!(cache.usage().bytes <= MAX);
                }
            });
        }
    });
    assert!(cache.usage().resources > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is stored, replaced and removed, the budget holds, and a body comes out as it went in.
    #[test]
    fn the_budget_holds_and_bodies_stay_whole(
        steps in proptest::collection::vec((0u8..24, 0usize..20_000, 0u8..4, 0u8..8), 1..120),
    ) {
        let cache = small(128 << 10, 16 << 10);
        for (step, (target, length, variant, action)) in steps.into_iter().enumerate() {
            let target = format!("/{target}");
            let request = [("accept", ["a", "b", "c", "d"][usize::from(variant)])];
            if action == 0 {
                cache.remove(&key(&target));
            } else {
                // Old enough that every response of the step before is stale.
                let now = seconds(step as u64 * 10);
                let body = format!("{variant}{}", "y".repeat(length));
                let answer = (200, &[("cache-control", "max-age=5"), ("vary", "accept")] as Fields<'_>, body.as_str());
                match fetch(&cache, &key(&target), &request, answer, now) {
                    Ok(stored) => prop_assert_eq!(stored.body().to_bytes(), body.as_bytes()),
                    Err(why) => prop_assert!(why == Unstored::TooLarge && body.len() > 16 << 10, "{}", why),
                }
            }
            prop_assert!(cache.usage().bytes <= 128 << 10);
        }
    }
}
