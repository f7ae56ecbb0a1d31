//! Concurrent misses: one request asks, the others wait, whatever becomes of any of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{Cache, Decision, Fill, Key, Lookup, Recorder, RouteRules, Timestamp, Turn, Unstored, Wait};

use crate::support::*;

const FOR_A_MINUTE: (&str, &str) = ("cache-control", "max-age=60");
const LIMIT: Duration = Duration::from_secs(20);

fn begin(cache: &Cache, request: &HeaderMap) -> Turn {
    cache.begin(&KEY, &Method::GET, request, START)
}

#[track_caller]
fn follow(cache: &Cache, request: &HeaderMap) -> Wait {
    match begin(cache, request) {
        Turn::Follower(wait) => wait,
        other => panic!("not a follower but {other:?}"),
    }
}

#[track_caller]
fn recorder(fill: Fill, request: &HeaderMap, response: Fields<'_>) -> Recorder {
    match fill.response(request, StatusCode::OK, &fields(response), at(START), RouteRules::default()) {
        Decision::Store(recorder) => *recorder,
        Decision::Pass(why) => panic!("{why}"),
    }
}

/// Waits for the landing, which must be there soon.
async fn turn(wait: Wait, request: &HeaderMap) -> Turn {
    let landed = tokio::time::timeout(LIMIT, wait.landed()).await.expect("the flight has landed");
    landed.turn(&KEY, request, START)
}

#[track_caller]
fn body(turn: Turn) -> String {
    match turn {
        Turn::Hit(stored) => String::from_utf8(stored.body().to_bytes().to_vec()).unwrap(),
        other => panic!("not a hit but {other:?}"),
    }
}

#[tokio::test]
async fn followers_share_the_answer() {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let waits: Vec<_> = (0..100).map(|_| follow(&cache, &request)).collect();
    let mut recorder = recorder(fill, &request, &[FOR_A_MINUTE]);
    recorder.push(b"one ").unwrap();
    let late = follow(&cache, &request);
    recorder.push(b"body").unwrap();
    recorder.finish(START).unwrap();
    for wait in waits.into_iter().chain([late]) {
        assert_eq!(body(turn(wait, &request).await), "one body");
    }
}

/// The leader is dropped at this point; of the followers exactly one must lead, and the others follow it.
async fn check_abandoned(drop_leader: impl FnOnce(Fill, &HeaderMap)) {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let waits: Vec<_> = (0..10).map(|_| follow(&cache, &request)).collect();
    drop_leader(fill, &request);
    let mut leaders = Vec::new();
    let mut followers = Vec::new();
    for wait in waits {
        match turn(wait, &request).await {
            Turn::Leader(fill) => leaders.push(fill),
            Turn::Follower(wait) => followers.push(wait),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((leaders.len(), followers.len()), (1, 9));
    recorder(leaders.pop().unwrap(), &request, &[FOR_A_MINUTE]).finish(START).unwrap();
    for wait in followers {
        assert_eq!(body(turn(wait, &request).await), "");
    }
}

#[tokio::test]
async fn a_leader_that_goes_away_is_replaced() {
    check_abandoned(|fill, _| drop(fill)).await;
    check_abandoned(|fill, request| drop(recorder(fill, request, &[FOR_A_MINUTE]))).await;
    check_abandoned(|fill, request| {
        let mut recorder = recorder(fill, request, &[FOR_A_MINUTE]);
        recorder.push(b"half").unwrap();
    })
    .await;
    check_abandoned(|fill, request| {
        let recorder = recorder(fill, request, &[FOR_A_MINUTE, ("content-length", "5")]);
        assert_eq!(recorder.finish(START).map(drop), Err(Unstored::Incomplete));
    })
    .await;
}

#[tokio::test]
async fn nobody_joins_an_answer_that_was_given_up() {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let mut given_up = recorder(fill, &request, &[FOR_A_MINUTE, ("content-length", "8")]);
    given_up.push(b"half").unwrap();
    let Turn::Live(live) = turn(follow(&cache, &request), &request).await else { panic!("half of it can be read") };
    assert!(!given_up.close_unless_awaited(), "it is read");
    drop(live);
    assert!(given_up.close_unless_awaited());
    // It has not been dropped yet.
    let leads = lead(&cache, &KEY, &request, START);
    drop(given_up);
    let waits = follow(&cache, &request);
    let mut whole = recorder(leads, &request, &[FOR_A_MINUTE]);
    whole.push(b"whole").unwrap();
    whole.finish(START).unwrap();
    assert_eq!(body(turn(waits, &request).await), "whole");
}

#[tokio::test]
async fn leaders_that_keep_going_away_do_not_hold_anyone_for_ever() {
    let (cache, request) = (cache(), fields(&[]));
    let mut leader = lead(&cache, &KEY, &request, START);
    let mut wait = follow(&cache, &request);
    for _ in 1..pilotlight_cache::MAX_WAITS {
        drop(leader);
        leader = lead(&cache, &KEY, &request, START);
        wait = match turn(wait, &request).await {
            Turn::Follower(wait) => wait,
            other => panic!("{other:?}"),
        };
    }
    drop(leader);
    let _in_the_way = lead(&cache, &KEY, &request, START);
    assert!(matches!(turn(wait, &request).await, Turn::Leader(_)), "it has waited often enough");
}

#[tokio::test]
async fn those_who_wait_for_a_service_that_fails_get_what_the_leader_used() {
    let (cache, request) = (cache(), fields(&[]));
    let spare: Fields<'_> = &[("cache-control", "max-age=1, stale-if-error=60")];
    recorder(lead(&cache, &KEY, &request, START), &request, spare).finish(START).unwrap();
    let later = Timestamp(START.0 + 5_000);
    let Lookup::Stale(stored, _) = cache.lookup(&KEY, &Method::GET, &request, later) else { panic!("it is stale") };
    let fill = lead(&cache, &KEY, &request, later).validating(&stored);
    let join = |asks: &HeaderMap| match cache.begin(&KEY, &Method::GET, asks, later) {
        Turn::Follower(wait) => wait,
        other => panic!("not a follower but {other:?}"),
    };
    let (waits, waits_longer) = (join(&request), join(&request));
    fill.failed(Arc::clone(&stored));
    assert!(matches!(waits.landed().await.turn(&KEY, &request, later), Turn::Failed(_)));
    let too_late = Timestamp(START.0 + 62_000);
    assert!(
        matches!(waits_longer.landed().await.turn(&KEY, &request, too_late), Turn::Leader(_)),
        "the window is over"
    );
}

#[tokio::test]
async fn a_follower_that_goes_away_is_not_missed() {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let never_polled = follow(&cache, &request);
    let polled = follow(&cache, &request);
    let stays = follow(&cache, &request);
    drop(never_polled);
    let cancelled = tokio::time::timeout(Duration::ZERO, polled.landed()).await;
    assert!(cancelled.is_err(), "nothing has landed yet");
    recorder(fill, &request, &[FOR_A_MINUTE]).finish(START).unwrap();
    assert_eq!(body(turn(stays, &request).await), "");
}

/// All followers go on at the same time: each leads alone while the others still do.
async fn check_parallel(response: Fields<'_>, then: impl FnOnce(Decision)) {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let waits: Vec<_> = (0..5).map(|_| follow(&cache, &request)).collect();
    then(fill.response(&request, StatusCode::OK, &fields(response), at(START), RouteRules::default()));
    let mut alone = Vec::new();
    for wait in waits {
        match turn(wait, &request).await {
            Turn::Leader(fill) => alone.push(fill),
            other => panic!("{response:?}: {other:?}"),
        }
    }
    // And for a while nobody waits for such a response again.
    let first = begin(&cache, &request);
    let second = begin(&cache, &request);
    assert!(matches!((&first, &second), (Turn::Leader(_), Turn::Leader(_))), "{response:?}: {first:?} {second:?}");
    // Until it turns out that it can be shared.
    drop(recorder(alone.pop().unwrap(), &request, &[FOR_A_MINUTE]).finish(START).unwrap());
    cache.remove(&KEY);
    drop((first, second));
    let _leader = lead(&cache, &KEY, &request, START);
    follow(&cache, &request);
}

#[tokio::test]
async fn answers_that_are_not_shared_let_everyone_go_at_once() {
    let passes = |decision: Decision| assert!(matches!(decision, Decision::Pass(_)), "{decision:?}");
    check_parallel(&[("cache-control", "no-store")], passes).await;
    check_parallel(&[("cache-control", "private, max-age=60")], passes).await;
    check_parallel(&[FOR_A_MINUTE, ("set-cookie", "a=b")], passes).await;
    check_parallel(&[], passes).await;
    check_parallel(&[FOR_A_MINUTE, ("content-length", "99999999")], passes).await;
    // Not known with its head to be too large.
    check_parallel(&[FOR_A_MINUTE], |decision| {
        let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
        let result = recorder.push(&vec![0; (1 << 20) + 1]);
        assert_eq!((result, recorder.push(b"x")), (Err(Unstored::TooLarge), Err(Unstored::TooLarge)));
        assert_eq!(recorder.finish(START).map(drop), Err(Unstored::TooLarge));
    })
    .await;
    // Stored, but to be validated each time.
    check_parallel(&[("cache-control", "no-cache"), ("etag", "\"a\"")], |decision| {
        let Decision::Store(recorder) = decision else { panic!("{decision:?}") };
        recorder.finish(START).unwrap();
    })
    .await;
}

#[test]
fn a_failing_service_is_not_remembered_as_unshareable() {
    let (cache, request) = (cache(), fields(&[]));
    let fill = lead(&cache, &KEY, &request, START);
    let decision = fill.response(&request, StatusCode::BAD_GATEWAY, &fields(&[]), at(START), RouteRules::default());
    assert!(matches!(decision, Decision::Pass(Unstored::NoFreshness)), "{decision:?}");
    let _leader = lead(&cache, &KEY, &request, START);
    follow(&cache, &request);
}

#[test]
fn what_is_remembered_as_unshareable_is_forgotten() {
    let (cache, request) = (cache(), fields(&[]));
    fetch(&cache, &KEY, &[], (200, &[("cache-control", "no-store")], ""), START).unwrap_err();
    let turn_at = |after_s| cache.begin(&KEY, &Method::GET, &request, seconds(after_s));
    let soon = (turn_at(9), turn_at(9));
    assert!(matches!(soon, (Turn::Leader(_), Turn::Leader(_))), "{soon:?}");
    let later = (turn_at(10), turn_at(10));
    assert!(matches!(later, (Turn::Leader(_), Turn::Follower(_))), "{later:?}");
}

#[test]
fn what_is_unshareable_of_one_variant_is_shared_of_another() {
    let cache = cache();
    let english: Fields<'_> = &[("accept-language", "en")];
    let german: Fields<'_> = &[("accept-language", "de")];
    let french = fields(&[("accept-language", "fr")]);
    fetch(&cache, &KEY, english, (200, &[FOR_A_MINUTE, ("vary", "accept-language")], ""), START).unwrap();
    let private: Fields<'_> = &[("cache-control", "private"), ("vary", "accept-language")];
    fetch(&cache, &KEY, german, (200, private, ""), START).unwrap_err();
    let both = (begin(&cache, &fields(german)), begin(&cache, &fields(german)));
    assert!(matches!(both, (Turn::Leader(_), Turn::Leader(_))), "{both:?}");
    let _leader = lead(&cache, &KEY, &french, START);
    follow(&cache, &french);
}

#[test]
fn who_never_waits() {
    for own in [
        ("authorization", "x"),
        ("cache-control", "no-cache"),
        ("cache-control", "max-age=0"),
        ("cache-control", "no-store"),
        ("range", "bytes=0-1"),
        ("content-length", "1"),
    ] {
        let cache = cache();
        let _leader = lead(&cache, &KEY, &fields(&[]), START);
        let turn = begin(&cache, &fields(&[own]));
        assert!(matches!(turn, Turn::Leader(_)), "{own:?}: {turn:?}");
    }
    let cache = cache();
    let _leader = lead(&cache, &KEY, &fields(&[]), START);
    let head = cache.begin(&KEY, &Method::HEAD, &fields(&[]), START);
    assert!(matches!(head, Turn::Leader(_)), "{head:?}");
}

#[tokio::test]
async fn variants_collapse_apart_once_vary_is_known() {
    let cache = cache();
    let requests: Vec<_> = ["en", "de", "fr"].map(|language| fields(&[("accept-language", language)])).into();
    let vary: Fields<'_> = &[FOR_A_MINUTE, ("vary", "accept-language")];
    // Unknown yet: one asks, the others wait.
    let fill = lead(&cache, &KEY, &requests[0], START);
    let waits: Vec<_> =
        requests.iter().skip(1).chain(requests.iter().skip(1)).map(|r| (follow(&cache, r), r)).collect();
    recorder(fill, &requests[0], vary).finish(START).unwrap();
    // Known now: one leader for each language, and one follower for each.
    let mut turns = Vec::new();
    for (wait, request) in waits {
        turns.push((turn(wait, request).await, request));
    }
    let leads = turns.iter().map(|(turn, _)| matches!(turn, Turn::Leader(_))).collect::<Vec<_>>();
    assert_eq!(leads, [true, true, false, false]);
    for (turn_of, request) in turns {
        match turn_of {
            Turn::Leader(fill) => drop(recorder(fill, request, vary).finish(START).unwrap()),
            Turn::Follower(wait) => assert_eq!(body(turn(wait, request).await), ""),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cache.usage().resources, 1);
}

#[tokio::test]
async fn nobody_follows_an_answer_from_before_an_invalidation() {
    let (cache, request) = (cache(), fields(&[]));
    let before = lead(&cache, &KEY, &request, START);
    let early = follow(&cache, &request);
    cache.remove(&KEY);
    let after = lead(&cache, &KEY, &request, START);
    let late = follow(&cache, &request);
    assert_eq!(recorder(before, &request, &[FOR_A_MINUTE]).finish(START).map(drop), Err(Unstored::Invalidated));
    let early = match turn(early, &request).await {
        Turn::Follower(wait) => wait,
        other => panic!("it follows the new one: {other:?}"),
    };
    let mut recorder = recorder(after, &request, &[FOR_A_MINUTE]);
    recorder.push(b"new").unwrap();
    recorder.finish(START).unwrap();
    for wait in [early, late] {
        assert_eq!(body(turn(wait, &request).await), "new");
    }
}

/// Threads with runtimes of their own, as the gateway's workers: for each key the service is asked exactly once.
#[test]
fn workers_collapse_together() {
    const KEYS: usize = 50;
    let cache = cache();
    let asked: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    thread::scope(|scope| {
        for worker in 0..4 {
            let (cache, asked) = (cache.clone(), Arc::clone(&asked));
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let mut requests = tokio::task::JoinSet::new();
                    for n in 0..KEYS * 5 {
                        // Some are cancelled at once, leading or not; at most one for each key, or waiting would end
                        // (MAX_WAITS).
                        let limit = if n < KEYS && n % 10 == worker { Duration::ZERO } else { LIMIT };
                        let (cache, asked) = (cache.clone(), Arc::clone(&asked));
                        requests.spawn(tokio::time::timeout(limit, get(cache, asked, n % KEYS)));
                    }
                    while let Some(done) = requests.join_next().await {
                        if let Ok(answer) = done.unwrap() {
                            assert_eq!(answer, "body");
                        }
                    }
                });
            });
        }
    });
    for (n, asked) in asked.iter().enumerate() {
        assert_eq!(asked.load(Ordering::SeqCst), 1, "/{n}");
    }
}

/// One request; a response counts when it is complete.
async fn get(cache: Cache, asked: Arc<Vec<AtomicUsize>>, n: usize) -> String {
    let target = format!("/{n}");
    let key = Key { target: &target, ..KEY };
    let request = HeaderMap::new();
    let mut turn = cache.begin(&key, &Method::GET, &request, START);
    loop {
        turn = match turn {
            Turn::Hit(stored) => return String::from_utf8(stored.body().to_bytes().to_vec()).unwrap(),
            Turn::Follower(wait) => wait.landed().await.turn(&key, &request, START),
            Turn::Live(live) => panic!("of unknown length: {live:?}"),
            Turn::Failed(stale) => panic!("nothing is stale: {stale:?}"),
            Turn::Leader(fill) => {
                tokio::task::yield_now().await;
                let mut recorder = recorder(fill, &request, &[FOR_A_MINUTE]);
                tokio::task::yield_now().await;
                recorder.push(b"body").unwrap();
                asked[n].fetch_add(1, Ordering::SeqCst);
                recorder.finish(START).unwrap();
                return "body".to_owned();
            }
        }
    }
}

#[test]
fn what_is_not_stored_for_credentials_is_not_waited_for_with_credentials() {
    let cache = cache();
    let (user, other, nobody) = (fields(&[("cookie", "a=1")]), fields(&[("cookie", "a=2")]), fields(&[]));
    let fill = lead(&cache, &KEY, &user, START);
    follow(&cache, &other);
    let decision = fill.response(&user, StatusCode::OK, &fields(&[]), at(START), route(60));
    assert!(matches!(decision, Decision::Pass(Unstored::Credentials)), "{decision:?}");
    let leads = [lead(&cache, &KEY, &user, START), lead(&cache, &KEY, &other, START)];
    assert!(leads.iter().all(|fill| !fill.watch().is_shared()));
    assert!(lead(&cache, &KEY, &nobody, START).watch().is_shared(), "for those without, it may be stored");
}
