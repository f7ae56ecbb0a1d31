//! Requests for one target that go away at every point at which they can: whoever stays is answered, rightly, and
//! nothing is left.
//!
//! A request is a future that is polled by hand, and only when it was woken: a wake that is missing ends a run with
//! requests that nobody will ever poll, which fails it. Every pair of requests is dropped after every number of polls,
//! in several orders of polling.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    BrokenOff, Cache, CacheOptions, CacheStatus, Decision, Fill, Forward, Live, RouteRules, TagFields, Turn,
};

use crate::support::*;

const REQUESTS: usize = 4;
/// More polls than any request needs.
const MAX_POLLS: usize = 12;
const PIECES: usize = 4;
const PIECE: [u8; 4 * 1024] = [b'x'; 4 * 1024];
/// All recordings together may take one response.
const SMALLEST: CacheOptions =
    CacheOptions { max_bytes: 64 << 10, max_object_bytes: 16 << 10, tag_fields: TagFields::Removed };

/// What the service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Announced,
    /// Without `Content-Length`.
    Unannounced,
    /// Not to be stored.
    Private,
    /// Announced, and the first time it ends after half of it.
    HalfAtFirst,
}

struct World {
    cache: Cache,
    answer: Answer,
    asked: Cell<usize>,
    /// The target is changed when so many requests were asked for and one of them is under way.
    invalidates: bool,
    /// Requests that were told that their response broke off, with the bytes that they had read.
    broken: RefCell<Vec<usize>>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Ready with its second poll.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// One request; the bytes of its response.
async fn ask(world: Rc<World>) -> Result<usize, BrokenOff> {
    let request = HeaderMap::new();
    let mut turn = world.cache.begin(&KEY, &Method::GET, &request, START);
    loop {
        turn = match turn {
            Turn::Hit(stored) => return Ok(stored.body().len()),
            Turn::Follower(wait) => wait.landed().await.turn(&KEY, &request, START),
            Turn::Live(live) => return read(&world, live, &request).await,
            Turn::Failed(_) => panic!("nothing is stale"),
            Turn::Leader(fill) => return lead(&world, fill, &request).await,
        };
    }
}

async fn read(world: &World, live: Live, request: &HeaderMap) -> Result<usize, BrokenOff> {
    let status = CacheStatus::forwarded(Forward::UriMiss).collapsed();
    let mut body = live.response_as(status, &Method::GET, request, START).into_body();
    assert_eq!(body.left(), PIECES * PIECE.len());
    let mut length = 0;
    while let Some(data) = std::future::poll_fn(|cx| body.poll_data(cx)).await {
        match data {
            Ok(data) => length += data.len(),
            Err(broken) => {
                world.broken.borrow_mut().push(length);
                return Err(broken);
            }
        }
    }
    Ok(length)
}

async fn lead(world: &World, fill: Fill, request: &HeaderMap) -> Result<usize, BrokenOff> {
    world.asked.set(world.asked.get() + 1);
    let fails = world.answer == Answer::HalfAtFirst && world.asked.get() == 1;
    pause().await;
    let length = (PIECES * PIECE.len()).to_string();
    let response: Fields<'_> = match world.answer {
        Answer::Unannounced => &[("cache-control", "max-age=60")],
        Answer::Private => &[("cache-control", "private")],
        Answer::Announced | Answer::HalfAtFirst => &[("cache-control", "max-age=60"), ("content-length", &length)],
    };
    let decision = fill.response(request, StatusCode::OK, &fields(response), at(START), RouteRules::default());
    let mut recorder = match decision {
        Decision::Store(recorder) => Some(recorder),
        Decision::Pass(_) => None,
    };
    for piece in 0..PIECES {
        pause().await;
        if fails && piece == PIECES / 2 {
            return Err(BrokenOff);
        }
        if world.invalidates && piece == 1 {
            world.cache.remove(&KEY);
        }
        if let Some(recorder) = &mut recorder {
            recorder.push(&PIECE).unwrap();
        }
    }
    pause().await;
    if let Some(recorder) = recorder {
        // It may have become invalid meanwhile.
        let _ = recorder.finish(START);
    }
    Ok(PIECES * PIECE.len())
}

type Request = Pin<Box<dyn Future<Output = Result<usize, BrokenOff>>>>;

/// One request of a run.
struct Client {
    request: Option<Request>,
    woken: Arc<Woken>,
    polls: usize,
    goes_after: usize,
    got: Option<Result<usize, BrokenOff>>,
}

/// Runs all requests to their end; each goes away after so many polls.
fn play(world: &Rc<World>, goes_after: [usize; REQUESTS], first: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = goes_after
        .into_iter()
        .map(|goes_after| Client {
            request: Some(Box::pin(ask(Rc::clone(world)))),
            woken: Arc::new(Woken(AtomicBool::new(true))),
            polls: 0,
            goes_after,
            got: None,
        })
        .collect();
    loop {
        let mut is_idle = true;
        for n in 0..REQUESTS {
            let client = &mut clients[(first + n) % REQUESTS];
            let Some(request) = &mut client.request else { continue };
            if client.polls == client.goes_after {
                client.request = None;
                is_idle = false;
                continue;
            }
            if !client.woken.0.swap(false, Ordering::SeqCst) {
                continue;
            }
            is_idle = false;
            client.polls += 1;
            let waker = Waker::from(Arc::clone(&client.woken));
            if let Poll::Ready(got) = request.as_mut().poll(&mut Context::from_waker(&waker)) {
                client.got = Some(got);
                client.request = None;
            }
        }
        if is_idle {
            return clients;
        }
    }
}

#[track_caller]
fn check(answer: Answer, invalidates: bool, goes_after: [usize; REQUESTS], first: usize) {
    let cache = Cache::new(SMALLEST).unwrap();
    let (asked, broken) = (Cell::new(0), RefCell::default());
    let world = Rc::new(World { cache, answer, asked, invalidates, broken });
    let clients = play(&world, goes_after, first);
    let what = format!("{answer:?}, invalidates: {invalidates}, go after {goes_after:?}, {first} first");
    let gone = clients.iter().filter(|client| client.got.is_none()).count();
    for client in &clients {
        assert!(client.request.is_none(), "{what}: nobody wakes a request that stays");
        if let Some(Ok(length)) = client.got {
            assert_eq!(length, PIECES * PIECE.len(), "{what}: not the whole answer");
        }
    }
    // Only those that had begun to read are told that it broke off, or who asked the service that did.
    let cut = clients.iter().filter(|client| matches!(client.got, Some(Err(_)))).count();
    let own = usize::from(answer == Answer::HalfAtFirst && cut > 0);
    assert!(cut <= world.broken.borrow().len() + own, "{what}");
    assert!(world.broken.borrow().iter().all(|read| (1..PIECES * PIECE.len()).contains(read)), "{what}");
    if answer != Answer::HalfAtFirst && gone == 0 {
        assert_eq!(cut, 0, "{what}");
    }
    // One asks; another one for each that went away, or broke off, or was told that the target has changed.
    match answer {
        Answer::Private => {}
        Answer::HalfAtFirst => assert!(world.asked.get() <= gone + 2, "{what}: asked {}", world.asked.get()),
        _ if invalidates => assert!(world.asked.get() <= REQUESTS, "{what}: asked {}", world.asked.get()),
        Answer::Announced | Answer::Unannounced => {
            assert!(world.asked.get() <= gone + 1, "{what}: asked {}", world.asked.get());
        }
    }
    nothing_is_left(&world.cache, &what);
}

/// No flight that a request could follow, and the whole budget of recordings.
#[track_caller]
fn nothing_is_left(cache: &Cache, what: &str) {
    let turn = cache.begin(&KEY, &Method::GET, &HeaderMap::new(), START);
    assert!(matches!(turn, Turn::Hit(_) | Turn::Leader(_)), "{what}: {turn:?}");
    drop(turn);
    let response = fields(&[("cache-control", "max-age=60"), ("content-length", "16384")]);
    let fill = crate::support::lead(cache, &key("/other"), &HeaderMap::new(), START);
    match fill.response(&HeaderMap::new(), StatusCode::OK, &response, at(START), RouteRules::default()) {
        Decision::Store(mut recorder) => assert_eq!(recorder.push(&[b'x'; 16 << 10]), Ok(()), "{what}"),
        Decision::Pass(why) => panic!("{what}: {why}"),
    }
}

/// Every pair of requests goes away after every pair of numbers of polls.
fn check_all(answer: Answer, invalidates: bool) {
    for first in 0..REQUESTS {
        for (one, other) in (0..REQUESTS).flat_map(|one| (one + 1..REQUESTS).map(move |other| (one, other))) {
            for (after, other_after) in (0..=MAX_POLLS).flat_map(|a| (0..=MAX_POLLS).map(move |b| (a, b))) {
                let mut goes_after = [usize::MAX; REQUESTS];
                (goes_after[one], goes_after[other]) = (after, other_after);
                check(answer, invalidates, goes_after, first);
            }
        }
    }
}

#[test]
fn an_answer_of_known_length() {
    check_all(Answer::Announced, false);
}

#[test]
fn an_answer_of_unknown_length() {
    check_all(Answer::Unannounced, false);
}

#[test]
fn an_answer_that_nobody_may_share() {
    check_all(Answer::Private, false);
}

#[test]
fn an_answer_that_breaks_off() {
    check_all(Answer::HalfAtFirst, false);
}

#[test]
fn a_target_that_changes_meanwhile() {
    check_all(Answer::Announced, true);
}

/// The property is not true for want of reading: without anybody going away, one asks and three read what it gets.
#[test]
fn those_who_stay_read_along() {
    let cache = Cache::new(SMALLEST).unwrap();
    let (asked, broken) = (Cell::new(0), RefCell::default());
    let world = Rc::new(World { cache, answer: Answer::Announced, asked, invalidates: false, broken });
    let clients = play(&world, [usize::MAX; REQUESTS], 0);
    assert_eq!(world.asked.get(), 1);
    // Were they woken at the end only, three polls would do.
    assert!(clients.iter().skip(1).all(|client| client.polls > PIECES), "{:?}", clients[1].polls);
    assert!(clients.iter().all(|client| client.polls < MAX_POLLS), "every point is reached");
}
