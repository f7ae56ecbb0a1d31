//! What purges forbid is not given: not from memory, not to those who wait, not after the table has forgotten, not by
//! any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    Address, Answered, Cache, CacheOptions, Decision, Key, Lookup, MAX_PURGED_PREFIXES, MAX_PURGED_TAGS,
    MAX_PURGED_URLS, Mode, Place, Purge, RouteRules, Scope, Standing, TagFields, Turn, Validated,
};

use crate::support::*;

const TAGGED: (u16, Fields<'_>, &str) =
    (200, &[("cache-control", "max-age=60"), ("cache-tag", "t"), ("etag", "\"e\"")], "x");
const PLAIN: (u16, Fields<'_>, &str) = (200, &[("cache-control", "max-age=60")], "x");

fn tag(name: &str, mode: Mode) -> Purge {
    Purge { scope: Scope::Tag(name.to_owned()), mode }
}

fn address(target: &str) -> Address {
    Address { scheme: KEY.scheme.into(), authority: KEY.authority.into(), target: target.into() }
}

#[track_caller]
fn check(cache: &Cache, target: &str, expected: &str) {
    assert_eq!(outcome(cache, &key(target), &Method::GET, &[], START), expected, "{target}");
}

#[test]
fn a_hard_purge_is_a_miss_and_a_soft_one_is_stale() {
    for (mode, expected) in [(Mode::Hard, "miss UriMiss"), (Mode::Soft, "stale Stale")] {
        let cache = cache();
        fetch(&cache, &key("/tagged"), &[], TAGGED, START).unwrap();
        fetch(&cache, &key("/plain"), &[], PLAIN, START).unwrap();
        cache.purge(&[tag("other", mode)], START);
        check(&cache, "/tagged", "hit x");
        cache.purge(&[tag("t", mode)], START);
        check(&cache, "/tagged", expected);
        check(&cache, "/plain", "hit x");
        fetch(&cache, &key("/tagged"), &[], TAGGED, START).unwrap();
        check(&cache, "/tagged", "hit x");
    }
}

#[test]
fn a_url_is_told_to_have_been_stored() {
    let cache = cache();
    fetch(&cache, &key("/a"), &[], PLAIN, START).unwrap();
    let url = |target, mode| Purge { scope: Scope::Url(address(target)), mode };
    assert_eq!(cache.purge(&[url("/a", Mode::Soft), url("/b", Mode::Soft), url("/b", Mode::Hard)], START), 1);
    check(&cache, "/a", "stale Stale");
    assert_eq!(cache.purge(&[url("/a", Mode::Hard)], START), 1);
    assert_eq!(cache.usage().resources, 0, "its memory is free");
}

#[test]
fn what_was_under_way_is_stored_as_purged() {
    let cache = cache();
    let request = HeaderMap::new();
    let fill = lead(&cache, &key("/a"), &request, START);
    cache.purge(&[tag("t", Mode::Hard)], START);
    let (status, headers, body) = TAGGED;
    let status = StatusCode::from_u16(status).unwrap();
    let decision = fill.response(&request, status, &fields(headers), at(START), RouteRules::default());
    let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
    recorder.push(body.as_bytes()).unwrap();
    recorder.finish(START).unwrap();
    check(&cache, "/a", "miss UriMiss");
}

#[tokio::test]
async fn those_who_wait_are_not_given_what_was_purged_meanwhile() {
    for mode in [Mode::Hard, Mode::Soft] {
        let cache = cache();
        let request = HeaderMap::new();
        let fill = lead(&cache, &key("/a"), &request, START);
        let follow = || match cache.begin(&key("/a"), &Method::GET, &request, START) {
            Turn::Follower(wait) => wait,
            other => panic!("{other:?}"),
        };
        let (first, second) = (follow(), follow());
        cache.purge(&[tag("t", mode)], START);
        let (status, headers, body) = TAGGED;
        let status = StatusCode::from_u16(status).unwrap();
        let decision = fill.response(&request, status, &fields(headers), at(START), RouteRules::default());
        let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
        recorder.push(body.as_bytes()).unwrap();
        recorder.finish(START).unwrap();
        let first = first.landed().await.turn(&key("/a"), &request, START);
        assert!(matches!(first, Turn::Leader(_)), "{first:?}");
        let second = second.landed().await.turn(&key("/a"), &request, START);
        assert!(matches!(second, Turn::Follower(_)), "one of them asks, the other one waits: {second:?}");
    }
}

#[test]
fn validation_makes_good_what_was_purged_softly_and_takes_over_new_tags() {
    let cache = cache();
    fetch(&cache, &key("/a"), &[], TAGGED, START).unwrap();
    cache.purge(&[tag("t", Mode::Soft)], START);
    let request = HeaderMap::new();
    let Lookup::Stale(stored, _) = cache.lookup(&key("/a"), &Method::GET, &request, START) else { panic!() };
    let fill = lead(&cache, &key("/a"), &request, START);
    let fresh = fields(&[("etag", "\"e\""), ("cache-tag", "new"), ("cache-control", "max-age=60")]);
    let validated = fill.not_modified(&stored, &request, &fresh, at(START), RouteRules::default());
    assert!(matches!(validated, Validated::Response { unstored: None, .. }), "{validated:?}");
    check(&cache, "/a", "hit x");
    cache.purge(&[tag("t", Mode::Hard)], START);
    check(&cache, "/a", "hit x");
    cache.purge(&[tag("new", Mode::Hard)], START);
    check(&cache, "/a", "miss UriMiss");
}

#[test]
fn an_answer_to_head_does_not_make_a_purged_body_good() {
    let cache = cache();
    fetch(&cache, &key("/a"), &[], TAGGED, START).unwrap();
    cache.purge(&[tag("t", Mode::Soft)], START);
    let request = HeaderMap::new();
    let Turn::Leader(fill) = cache.begin(&key("/a"), &Method::HEAD, &request, START) else { panic!() };
    let (_, headers, _) = TAGGED;
    let decision = fill.response(&request, StatusCode::OK, &fields(headers), at(START), RouteRules::default());
    assert!(matches!(decision, Decision::Pass(_)), "{decision:?}");
    check(&cache, "/a", "stale Stale");
}

#[test]
fn variants_are_purged_each_by_its_own_tags() {
    let cache = cache();
    let english = (200, &[("cache-control", "max-age=60"), ("vary", "accept-language"), ("cache-tag", "en")][..], "en");
    let french = (200, &[("cache-control", "max-age=60"), ("vary", "accept-language"), ("cache-tag", "fr")][..], "fr");
    fetch(&cache, &key("/a"), &[("accept-language", "en")], english, START).unwrap();
    fetch(&cache, &key("/a"), &[("accept-language", "fr")], french, START).unwrap();
    cache.purge(&[tag("fr", Mode::Hard)], START);
    let look = |language| outcome(&cache, &key("/a"), &Method::GET, &[("accept-language", language)], START);
    assert_eq!((look("en").as_str(), look("fr").as_str()), ("hit en", "miss VaryMiss"));
    cache.purge(&[Purge { scope: Scope::Url(address("/a")), mode: Mode::Soft }], START);
    assert_eq!(look("en"), "stale Stale");
}

#[test]
fn groups_are_invalidated_by_unsafe_requests_of_their_origin() {
    let grouped = (200, &[("cache-control", "max-age=60"), ("cache-groups", "\"g\", \"h\"")][..], "x");
    let invalidation = fields(&[("cache-group-invalidation", "\"g\"")]);
    let other = pilotlight_cache::Key { authority: "other.example", ..key("/a") };
    let after = |method: Method, status| {
        let cache = cache();
        fetch(&cache, &key("/a"), &[], grouped, START).unwrap();
        fetch(&cache, &other, &[], grouped, START).unwrap();
        let told = cache.invalidate(&key("/form"), &method, status, &invalidation, START);
        assert_eq!(outcome(&cache, &other, &Method::GET, &[], START), "hit x", "a group belongs to one origin");
        (outcome(&cache, &key("/a"), &Method::GET, &[], START), told.purges.len())
    };
    assert_eq!(after(Method::POST, StatusCode::OK), ("miss UriMiss".into(), 1));
    assert_eq!(after(Method::GET, StatusCode::OK), ("hit x".into(), 0), "RFC 9875 §3: not by a safe method");
    assert_eq!(after(Method::POST, StatusCode::CONFLICT), ("hit x".into(), 0));
}

#[test]
fn clients_get_tags_only_if_that_is_wanted() {
    let answered = (
        200,
        &[("cache-control", "max-age=60"), ("cache-tag", "t"), ("surrogate-key", "u"), ("cache-groups", "\"g\"")][..],
        "x",
    );
    for (tag_fields, expected) in [(TagFields::Removed, ("", "", "\"g\"")), (TagFields::Kept, ("t", "u", "\"g\""))] {
        let cache = Cache::new(CacheOptions { tag_fields, ..CacheOptions::default() }).unwrap();
        fetch(&cache, &KEY, &[], answered, START).unwrap();
        let answer = hit(&cache, &KEY, &Method::GET, &[], START);
        check_header(&answer, "cache-tag", expected.0);
        check_header(&answer, "surrogate-key", expected.1);
        check_header(&answer, "cache-groups", expected.2);
    }
}

/// Purges so many things besides, each once.
fn bury(cache: &Cache, count: usize, scope: impl Fn(usize) -> Scope) {
    for number in 0..count {
        cache.purge(&[Purge { scope: scope(number), mode: Mode::Hard }], START);
    }
}

#[test]
fn what_the_table_has_forgotten_must_be_validated() {
    let tag = |number: usize| Scope::Tag(format!("other {number}"));
    // Without tags it is no concern of theirs.
    check_forgotten(2 * MAX_PURGED_TAGS, tag, "hit x");
    check_forgotten(2 * MAX_PURGED_URLS, |number| Scope::Url(address(&format!("/other/{number}"))), "stale Stale");
    check_forgotten(
        2 * MAX_PURGED_PREFIXES,
        |number| Scope::Prefix(address(&format!("/other/{number}"))),
        "stale Stale",
    );
}

/// `plain` is what becomes of a response without tags.
#[track_caller]
fn check_forgotten(count: usize, scope: impl Fn(usize) -> Scope, plain: &str) {
    let cache = cache();
    fetch(&cache, &key("/tagged"), &[], TAGGED, START).unwrap();
    fetch(&cache, &key("/plain"), &[], PLAIN, START).unwrap();
    bury(&cache, count, scope);
    check(&cache, "/tagged", "stale Stale");
    check(&cache, "/plain", plain);
    let counts = cache.purges().counts();
    assert!(counts.tags <= MAX_PURGED_TAGS && counts.urls <= MAX_PURGED_URLS);
    assert!(counts.prefixes <= MAX_PURGED_PREFIXES);
    fetch(&cache, &key("/tagged"), &[], TAGGED, START).unwrap();
    check(&cache, "/tagged", "hit x");
}

#[test]
fn records_are_judged_by_the_numbers_of_the_log() {
    let cache = Cache::shared(CacheOptions::default(), |_| 0).unwrap();
    let purges = cache.purges();
    let tagged = fields(&[("cache-tag", "t")]);
    let admits = |headers: &HeaderMap, logged| purges.admits(&KEY, headers, logged);
    assert_eq!(purges.position().logged(), 0);
    purges.apply_logged(&[(tag("t", Mode::Hard), 7), (tag("u", Mode::Soft), 9)], START);
    assert_eq!(purges.position().logged(), 9);
    assert_eq!([6, 7, 8].map(|number| admits(&tagged, number)), [Standing::Gone, Standing::Good, Standing::Good]);
    assert_eq!(admits(&fields(&[("surrogate-key", "u")]), 8), Standing::Stale(START));
    assert_eq!(admits(&fields(&[]), 0), Standing::Good);
    fetch(&cache, &key("/a"), &[], TAGGED, START).unwrap();
    purges.apply_logged(&[(tag("t", Mode::Hard), 13)], START);
    check(&cache, "/a", "miss UriMiss");
    purges.forget_logged(20);
    assert_eq!([19, 20].map(|number| admits(&fields(&[]), number)), [Standing::Unknown, Standing::Good]);
}

#[test]
fn until_a_purge_of_its_own_has_a_number_no_record_passes_it() {
    let prefix = |number: usize| Purge { scope: Scope::Prefix(address(&format!("/a{number}"))), mode: Mode::Hard };
    let url = Purge { scope: Scope::Url(address("/a?b")), mode: Mode::Soft };
    let everything = Purge { scope: Scope::Everything, mode: Mode::Hard };
    let own = fields(&[("cache-tag", "own")]);
    for (purge, waiting) in [
        (tag("own", Mode::Hard), Standing::Gone),
        (tag("own", Mode::Soft), Standing::Stale(START)),
        (url, Standing::Stale(START)),
        (Purge { scope: Scope::Prefix(address("/a")), mode: Mode::Hard }, Standing::Gone),
        (everything.clone(), Standing::Gone),
    ] {
        let cache = Cache::shared(CacheOptions::default(), |_| 0).unwrap();
        let admits = |logged| cache.purges().admits(&KEY, &own, logged);
        // Twice, so that one number is not enough.
        for _ in 0..2 {
            cache.purge(std::slice::from_ref(&purge), START);
        }
        assert_eq!([0, 9, 100].map(admits), [waiting; 3], "{purge:?}");
        cache.purges().number(&purge, 9);
        assert_eq!(admits(100), waiting, "{purge:?}");
        cache.purges().number(&purge, 12);
        assert_eq!((admits(11) == Standing::Good, admits(12)), (false, Standing::Good), "{purge:?}");
    }
    // Too many to be told one by one.
    let cache = Cache::shared(CacheOptions::default(), |_| 0).unwrap();
    let admits = |logged| cache.purges().admits(&KEY, &own, logged);
    let many: Vec<Purge> = (0..2 * MAX_PURGED_PREFIXES).map(prefix).collect();
    cache.purge(&many, START);
    assert_eq!(admits(100), Standing::Unknown);
    cache.purges().fold(&many);
    assert_eq!(admits(100), Standing::Gone);
    cache.purges().number(&everything, 20);
    assert_eq!((admits(19), admits(20)), (Standing::Gone, Standing::Good));
}

#[test]
fn a_replaced_record_concerns_its_own_stripe() {
    fn name(key: &pilotlight_cache::Key<'_>) -> u64 {
        key.target.len() as u64
    }
    let cache = Cache::shared(CacheOptions::default(), name).unwrap();
    for target in ["/", "/a"] {
        fetch(&cache, &key(target), &[], PLAIN, START).unwrap();
    }
    cache.purges().replaced(&[2]);
    check(&cache, "/", "hit x");
    check(&cache, "/a", "stale Stale");
    fetch(&cache, &key("/a"), &[], PLAIN, START).unwrap();
    check(&cache, "/a", "hit x");
    cache.purge(&[Purge { scope: Scope::Everything, mode: Mode::Hard }], START);
    check(&cache, "/", "miss UriMiss");
    check(&cache, "/a", "miss UriMiss");
}

/// A service whose content has versions, four threads that fetch and read, and one that changes the content and purges.
/// Whoever asks after a purge has returned must not be given what is older.
#[test]
fn no_thread_is_given_what_was_purged_before_it_asked() {
    const ROUNDS: u64 = 20_000;
    const TARGETS: [&str; 3] = ["/a", "/b", "/c"];
    let cache = cache();
    let (version, purged) = (AtomicU64::new(1), AtomicU64::new(0));
    let exchange = |target: &str| {
        let request = HeaderMap::new();
        let floor = purged.load(Ordering::SeqCst);
        let seen = match cache.lookup(&key(target), &Method::GET, &request, START) {
            Lookup::Hit(stored) => stored,
            _ => match cache.begin(&key(target), &Method::GET, &request, START) {
                Turn::Hit(stored) => stored,
                Turn::Follower(_) | Turn::Live(_) | Turn::Failed(_) => return,
                Turn::Leader(fill) => {
                    let body = version.load(Ordering::SeqCst).to_string();
                    std::thread::yield_now();
                    let decision =
                        fill.response(&request, StatusCode::OK, &fields(TAGGED.1), at(START), RouteRules::default());
                    let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
                    recorder.push(body.as_bytes()).unwrap();
                    recorder.finish(START).unwrap();
                    return;
                }
            },
        };
        let body: u64 = std::str::from_utf8(&seen.body().to_bytes()).unwrap().parse().unwrap();
        assert!(body > floor, "version {body} was given after the purge of version {floor}");
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let exchange = &exchange;
            let purged = &purged;
            scope.spawn(move || {
                for round in thread.. {
                    exchange(TARGETS[round % TARGETS.len()]);
                    if purged.load(Ordering::SeqCst) == ROUNDS {
                        break;
                    }
                }
            });
        }
        for round in 1..=ROUNDS {
            version.store(round + 1, Ordering::SeqCst);
            let mode = if round % 2 == 0 { Mode::Hard } else { Mode::Soft };
            cache.purge(&[tag("t", mode)], START);
            purged.store(round, Ordering::SeqCst);
        }
    });
}

/// A URL has as many keys as there are values of what the route puts into them: all of them go.
#[test]
fn a_url_goes_with_whatever_else_its_keys_hold() {
    let cache = cache();
    let dark = Key { extra: "cookie:theme=dark", ..KEY };
    let light = Key { extra: "cookie:theme=light", ..KEY };
    let answer = (200, &[("cache-control", "max-age=60")][..], "x");
    let fill = |key| {
        fetch(&cache, key, &[], answer, START).unwrap();
        outcome(&cache, key, &Method::GET, &[], START)
    };
    let outcomes = || [&dark, &light].map(|key| outcome(&cache, key, &Method::GET, &[], START));
    assert_eq!([fill(&dark), fill(&light)], ["hit x", "hit x"]);
    let place = |target: &str| Place { target: target.to_owned(), has_extra: true };
    let answered = Answered { method: &Method::POST, status: StatusCode::OK, response: &fields(&[]) };
    cache.invalidate_as(&KEY, answered, START, place);
    assert_eq!(outcomes(), ["miss UriMiss", "miss UriMiss"]);
    assert_eq!([fill(&dark), fill(&light)], ["hit x", "hit x"]);
    let url = Scope::Url(Address::of(&KEY));
    cache.purge(&[Purge { scope: url, mode: Mode::Hard }], START);
    assert_eq!(outcomes(), ["miss UriMiss", "miss UriMiss"]);
}
