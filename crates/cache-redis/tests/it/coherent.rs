//! What was invalidated does not come back: neither by a response from before that is written late, nor from a Redis
//! that has not heard of it.

use http::{HeaderMap, Method};
use pilotlight_cache::{Lookup, RouteRules, Timing};
use pilotlight_testkit::Server;

use crate::node::{FRESH, Node, fields, key, now, run};

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// What happens to one target, in some order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first node asks Redis and begins to fetch: the service still gives the old answer if it was not changed yet.
    Takeoff,
    /// The service's response changes, and the other node (or the same one) invalidates the target.
    Change,
    /// The response arrives, is stored, and written.
    Landing,
}

const ORDERS: [[Step; 3]; 3] = [
    [Step::Change, Step::Takeoff, Step::Landing],
    [Step::Takeoff, Step::Change, Step::Landing],
    [Step::Takeoff, Step::Landing, Step::Change],
];

async fn play(order: [Step; 3], is_same_node: bool, is_stored_before: bool, vary: bool) {
    let context = format!("{order:?}, same node {is_same_node}, stored before {is_stored_before}, vary {vary}");
    let server = Server::start().unwrap();
    let (a, b, fresh) = (Node::new(&server.url()), Node::new(&server.url()), Node::new(&server.url()));
    let answer: &[(&str, &str)] = if vary { &[("cache-control", "max-age=60"), ("vary", "Accept")] } else { FRESH };
    let request = fields(&[("accept", "a")]);
    if is_stored_before {
        // A stale one, so that it is fetched again.
        let stale: Vec<_> = answer.iter().copied().chain([("age", "61"), ("etag", "\"1\"")]).collect();
        b.store("/", &[("accept", "a")], &stale, OLD).await;
    }
    let (mut flight, mut body) = (None, OLD);
    let mut answered = None;
    for step in order {
        match step {
            Step::Takeoff => {
                answered = Some(body);
                flight = Some(a.takeoff("/", &request).await);
            }
            Step::Change => {
                body = NEW;
                let node = if is_same_node { &a } else { &b };
                node.post("/");
                node.settled().await;
            }
            Step::Landing => {
                flight.take().unwrap().land(&fields(answer), answered.unwrap());
                a.settled().await;
            }
        }
    }
    for node in [&a, &b, &fresh] {
        let found = node.found("/", &request).await;
        assert!(found.is_none() || found.as_deref() == Some(NEW), "{context}: {found:?}");
    }
    if order[0] == Step::Change {
        assert_eq!(fresh.found("/", &request).await.as_deref(), Some(NEW), "{context}: what is new may be written");
    }
}

#[test]
fn no_answer_from_before_an_invalidation_is_found_after_it() {
    run(|| async {
        for order in ORDERS {
            for choice in 0..8 {
                play(order, choice & 1 == 1, choice & 2 == 2, choice & 4 == 4).await;
            }
        }
    });
}

#[test]
fn an_old_variant_does_not_come_back_with_a_new_one() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let answer = [("cache-control", "max-age=60"), ("vary", "Accept")];
        a.store("/", &[("accept", "a")], &answer, OLD).await;
        b.post("/");
        b.settled().await;
        b.store("/", &[("accept", "b")], &answer, NEW).await;
        for node in [&a, &b, &Node::new(&server.url())] {
            assert_eq!(node.found("/", &fields(&[("accept", "a")])).await, None);
            assert_eq!(node.found("/", &fields(&[("accept", "b")])).await.as_deref(), Some(NEW));
        }
        // Also if the tombstone and all that followed it were evicted.
        let names = server.command(&["KEYS", "*}"]).unwrap();
        server.command(&["DEL", &names.array()[0].text()]).unwrap();
        let c = Node::new(&server.url());
        c.store("/", &[("accept", "b")], &answer, NEW).await;
        assert_eq!(c.found("/", &fields(&[("accept", "a")])).await, None);
    });
}

#[test]
fn of_two_fetches_at_the_same_time_the_first_to_be_written_stays() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let (first, second) = (a.takeoff("/", &HeaderMap::new()).await, b.takeoff("/", &HeaderMap::new()).await);
        second.land(&fields(FRESH), b"second").unwrap();
        b.settled().await;
        first.land(&fields(FRESH), b"first").unwrap();
        a.settled().await;
        assert_eq!(a.found("/", &HeaderMap::new()).await.as_deref(), Some(&b"second"[..]));
        assert_eq!((a.status().totals.outdated_writes, b.status().totals.writes), (1, 1));
    });
}

#[test]
fn an_invalidation_counts_here_at_once_and_there_when_redis_is_back() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        a.store("/", &[], FRESH, OLD).await;
        assert!(b.found("/", &HeaderMap::new()).await.is_some());
        server.stop().unwrap();
        a.post("/");
        assert_eq!(a.status().pending_invalidations, 1);
        server.cont().unwrap();
        // Before the tombstone may have arrived, and after it.
        assert_eq!(a.found("/", &HeaderMap::new()).await, None);
        a.settled().await;
        assert_eq!(a.found("/", &HeaderMap::new()).await, None);
        assert_eq!(b.found("/", &HeaderMap::new()).await, None);
        b.store("/", &[], FRESH, NEW).await;
        assert_eq!(a.found("/", &HeaderMap::new()).await.as_deref(), Some(NEW), "of the generation that a has begun");
    });
}

#[test]
fn an_invalidation_that_redis_has_lost_still_counts_here() {
    run(|| async {
        let server = Server::start().unwrap();
        let a = Node::new(&server.url());
        a.store("/", &[], FRESH, OLD).await;
        let name = server.command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
        let dump = server.command(&["DUMP", &name]).unwrap();
        let pilotlight_testkit::Reply::Text(dump) = dump else { panic!("{dump:?}") };
        a.post("/");
        a.settled().await;
        // As after a failover to a replica that was behind.
        server.command(&[&b"RESTORE"[..], name.as_bytes(), b"60000", &dump, b"REPLACE"]).unwrap();
        assert_eq!(a.found("/", &HeaderMap::new()).await, None);
        assert!(Node::new(&server.url()).found("/", &HeaderMap::new()).await.is_some(), "it is there again");
    });
}

#[test]
fn what_the_service_no_longer_wants_stored_goes_from_redis_as_well() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        a.store("/", &[], &[("cache-control", "max-age=60"), ("etag", "\"1\"")], OLD).await;
        assert!(b.found("/", &HeaderMap::new()).await.is_some());
        // RFC 9111 §4.3.4: a 304 updates the stored response, and this one forbids to keep it.
        let reload = fields(&[("cache-control", "no-cache")]);
        let Lookup::Stale(stored, _) = a.cache.lookup(&key("/"), &Method::GET, &reload, now()) else {
            panic!("a wish for validation")
        };
        let timing = Timing { sent: now(), received: now() };
        let answer = fields(&[("cache-control", "no-store")]);
        let _ = a.begin("/", &reload).not_modified(&stored, &reload, &answer, timing, RouteRules::default());
        a.settled().await;
        assert_eq!(b.found("/", &HeaderMap::new()).await, None);
    });
}
