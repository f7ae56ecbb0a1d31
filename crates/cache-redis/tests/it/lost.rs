//! A Redis that is not there, or does not answer.

use std::time::{Duration, Instant};

use http::HeaderMap;
use pilotlight_cache_redis::{Coherence, CoherenceOptions, Config, MAX_FAILURES, Options};
use pilotlight_testkit::Server;

use crate::node::{FRESH, LIMIT, Node, key, now, options, run};

const BUDGET: Duration = Duration::from_millis(20);

fn node(server: &Server) -> Node {
    Node::with(&server.url(), Options { budget: BUDGET, ..options() })
}

/// Asks until Redis answers again.
async fn until_it_answers(node: &Node) -> Duration {
    let begun = Instant::now();
    drop(node.until_answered(&key("/"), &HeaderMap::new()).await);
    begun.elapsed()
}

/// Asks until the stored response comes within the budget, which a busy machine may exceed.
async fn until_found(node: &Node, target: &str) {
    let begun = Instant::now();
    while node.found(target, &HeaderMap::new()).await.is_none() {
        assert!(begun.elapsed() < LIMIT, "{target} is not found: {:?}", node.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_paused_redis_costs_a_few_budgets_and_comes_back_by_itself() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = node(&server);
        node.store("/", &[], FRESH, b"x").await;
        until_it_answers(&node).await;
        let before = node.status().totals;
        server.stop().unwrap();
        let begun = Instant::now();
        for _ in 0..1000 {
            let asked = node.ask("/", &HeaderMap::new()).await;
            assert!(asked.stored.is_none() && asked.ticket.is_none());
        }
        let totals = node.status().totals;
        assert_eq!(node.status().open_breakers, 1);
        let (timeouts, skipped) = (totals.timeouts - before.timeouts, totals.skipped - before.skipped);
        assert_eq!((timeouts >= u64::from(MAX_FAILURES), timeouts + skipped), (true, 1000));
        println!("1,000 requests of a paused Redis took {:?}, {timeouts} waited", begun.elapsed());
        server.cont().unwrap();
        println!("it was back after {:?}", until_it_answers(&node).await);
        until_found(&node, "/").await;
        assert_eq!(node.status().open_breakers, 0);
    });
}

#[test]
fn a_killed_redis_costs_nothing_and_its_successor_is_used() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = node(&server);
        node.store("/", &[], FRESH, b"x").await;
        server.kill().unwrap();
        for _ in 0..1000 {
            assert!(node.ask("/", &HeaderMap::new()).await.ticket.is_none());
        }
        assert_eq!(node.status().open_breakers, 1);
        node.post("/other");
        server.restart().unwrap();
        println!("it was back after {:?}", until_it_answers(&node).await);
        // The script is not known there any more.
        node.store("/2", &[], FRESH, b"y").await;
        until_found(&node, "/2").await;
        node.settled().await;
        assert_eq!(node.status().totals.invalidations, 1);
    });
}

#[test]
fn a_redis_that_starts_later() {
    run(|| async {
        let server = Server::start().unwrap();
        server.kill().unwrap();
        let node = node(&server);
        assert!(node.ask("/", &HeaderMap::new()).await.ticket.is_none());
        server.restart().unwrap();
        until_it_answers(&node).await;
        node.store("/", &[], FRESH, b"x").await;
        until_found(&node, "/").await;
    });
}

#[test]
fn what_has_no_room_in_the_queue_is_dropped_and_counted() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::with(&server.url(), Options { max_queue: 2, max_queue_bytes: 10_000, ..options() });
        let mut flights = Vec::new();
        for target in ["/1", "/2", "/3"] {
            flights.push(node.takeoff(target, &HeaderMap::new()).await);
        }
        let large = node.takeoff("/large", &HeaderMap::new()).await;
        // Without a pause in between, in which the writer could take one.
        large.land(&crate::node::fields(FRESH), &[0; 20_000]).unwrap();
        for flight in flights {
            flight.land(&crate::node::fields(FRESH), b"x").unwrap();
        }
        assert_eq!((node.status().queued, node.status().totals.dropped_writes), (2, 2));
        node.settled().await;
        assert_eq!((node.status().totals.writes, node.status().queued_bytes), (2, 0));
    });
}

#[test]
fn what_is_in_the_queue_is_written_before_the_end() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        let flight = node.takeoff("/", &HeaderMap::new()).await;
        flight.land(&crate::node::fields(FRESH), b"x").unwrap();
        node.tier.close(LIMIT).await;
        assert!(Node::new(&server.url()).found("/", &HeaderMap::new()).await.is_some());
    });
}

#[test]
fn while_purges_of_others_are_not_known_what_redis_has_is_validated_first() {
    run(|| async {
        // As two primaries of a cluster, of which one has the log and the other the record.
        let (records, log) = (Server::start().unwrap(), Server::start().unwrap());
        // The one with records is never away: a budget that a busy machine keeps.
        let node = Node::with(&records.url(), options());
        let config = Config::from_url(&log.url()).unwrap();
        let (coherence, driver) =
            Coherence::new(&config, node.cache.clone(), CoherenceOptions::new("test", "node")).unwrap();
        node.shared.tell_writes(coherence.clone());
        let is_found = async || {
            let stored = node.ask("/", &HeaderMap::new()).await.stored.expect("Redis has it");
            node.cache.serves(&key("/"), &stored, &HeaderMap::new(), now())
        };
        let until = async |knows: bool| {
            let begun = Instant::now();
            while coherence.knows_purges() != knows {
                assert!(begun.elapsed() < LIMIT, "{:?}", coherence.status());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // What is known of purges lasts for a moment only, which a busy machine may take: then it is known again.
        let until_found = async || {
            let begun = Instant::now();
            while !is_found().await {
                assert!(begun.elapsed() < LIMIT, "{:?}", coherence.status());
                until(true).await;
            }
        };
        node.store("/", &[], FRESH, b"x").await;
        assert!(!is_found().await, "the log was not read yet");
        let driver = tokio::task::spawn_local(driver.run());
        until_found().await;
        log.stop().unwrap();
        until(false).await;
        assert!(!is_found().await, "it may have been purged");
        log.cont().unwrap();
        until_found().await;
        driver.abort();
    });
}
