//! Rates that several gateways count together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use pilotlight_cache_redis::{Counted, MAX_FAILURES, Options, SharedRate};
use pilotlight_testkit::{Cluster, Server};

use crate::coherence::blocking;
use crate::node::{FRESH, LIMIT, Node, options, run};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;

/// One in an hour, `burst` at once.
fn hourly(burst: u64) -> SharedRate {
    SharedRate { cost_ns: HOUR_NS, most_ns: burst * HOUR_NS }
}

async fn count(node: &Node, key: &str, rate: SharedRate) -> Option<Counted> {
    node.tier.count([key.as_bytes()], rate).await
}

async fn is_admitted(node: &Node, key: &str, rate: SharedRate) -> bool {
    match count(node, key, rate).await.expect("an answer of Redis") {
        Counted::Admitted { .. } => true,
        Counted::Refused { .. } => false,
    }
}

async fn admitted(nodes: &[&Node], key: &str, times: usize) -> usize {
    let mut admitted = 0;
    for at in 0..times {
        admitted += usize::from(is_admitted(nodes[at % nodes.len()], key, hourly(5)).await);
    }
    admitted
}

/// Names and values are those of Redis, times have a second for the machine.
#[test]
fn gateways_count_together_and_other_keys_apart() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        assert_eq!(admitted(&[&a, &b], "k", 9).await, 5);
        assert_eq!(admitted(&[&a, &b], "other", 3).await, 3);
        let Some(Counted::Refused { ahead_ns }) = count(&a, "k", hourly(5)).await else { panic!("it is at its limit") };
        assert!((5 * HOUR_NS - LIMIT.as_nanos() as u64..=5 * HOUR_NS).contains(&ahead_ns), "{ahead_ns}");
        let elsewhere = Node::with(&server.url(), Options { prefix: "elsewhere".into(), ..options() });
        assert_eq!(admitted(&[&elsewhere], "k", 3).await, 3, "another prefix");
        for name in server.command(&["KEYS", "*"]).unwrap().array() {
            let name = name.text().into_owned();
            assert!(name.starts_with("pilotlight:rate:1:") || name.starts_with("elsewhere:rate:1:"), "{name}");
            let left = server.command(&["PTTL", &name]).unwrap().integer().unwrap();
            assert!((1..=5 * 3600 * 1000).contains(&left), "{name} is kept for {left} ms");
        }
        let totals = a.status().totals;
        assert_eq!((totals.admitted_rates, totals.refused_rates), (5, 3), "{totals:?}");
    });
}

/// At 500 in a second one has to wait for two milliseconds each; what is let in never is more than the promise.
#[test]
fn what_is_paid_for_is_admitted() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        let rate = SharedRate { cost_ns: SECOND_NS / 500, most_ns: SECOND_NS / 100 };
        let (begun, mut count) = (Instant::now(), 0_u64);
        while count < 100 {
            count += u64::from(is_admitted(&node, "k", rate).await);
        }
        let most = 5 + begun.elapsed().as_nanos() as u64 / rate.cost_ns;
        assert!(count <= most, "{count} in {:?}", begun.elapsed());
        // A key of which nothing is owed any more is gone, or soon will be.
        let name = server.command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
        let begun = Instant::now();
        while server.command(&["EXISTS", &name]).unwrap().integer().unwrap() == 1 {
            assert!(begun.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// Nobody is refused for longer than a limit says, whatever is under its name.
#[test]
fn values_that_make_no_sense() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        assert!(is_admitted(&node, "k", hourly(5)).await);
        let name = server.command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
        for value in ["", "x", "-1", "1.2.3", "999999999999999999999999", "1e9.5"] {
            server.command(&["SET", &name, value]).unwrap();
            assert_eq!(admitted(&[&node], "k", 6).await, 5, "{value:?}");
        }
        // As after the server's clock was set back by a year.
        let now = server.command(&["TIME"]).unwrap().array()[0].text().parse::<u64>().unwrap();
        server.command(&["SET", &name, &format!("{}.000000000", now + 365 * 24 * 3600)]).unwrap();
        let second = SharedRate { cost_ns: SECOND_NS / 20, most_ns: SECOND_NS / 4 };
        assert!(!is_admitted(&node, "k", second).await);
        let begun = Instant::now();
        while !is_admitted(&node, "k", second).await {
            assert!(begun.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(begun.elapsed() >= Duration::from_millis(20), "it was at its limit: {:?}", begun.elapsed());
        // A list: an error, and no harm to others.
        server.command(&["DEL", &name]).unwrap();
        server.command(&["RPUSH", &name, "x"]).unwrap();
        assert_eq!(count(&node, "k", second).await, None);
        assert!(is_admitted(&node, "other", second).await);
        assert_eq!(node.status().totals.failed_rates, 1);
    });
}

#[test]
fn a_server_that_has_forgotten_the_script_gets_it_again() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        assert_eq!(admitted(&[&node], "k", 3).await, 3);
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        assert_eq!(admitted(&[&node], "k", 4).await, 2);
    });
}

#[test]
fn a_cluster_counts_each_key_once() {
    run(|| async {
        let cluster = Arc::new(blocking(|| Cluster::start(3, 0).unwrap()).await);
        let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
        let (a, b) = (Node::new(&url), Node::new(&url));
        for key in 0..30 {
            assert_eq!(admitted(&[&a, &b], &key.to_string(), 8).await, 5, "{key}");
        }
        for node in cluster.nodes() {
            assert!(node.server().command(&["DBSIZE"]).unwrap().integer().unwrap() > 0, "node {}", node.port());
        }
        let moving = Arc::clone(&cluster);
        blocking(move || {
            let name = moving.nodes()[0].server().command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
            let (from, slot) = moving.node_for_key(&name).unwrap();
            let to = moving.nodes().iter().find(|node| node.id() != from.id()).unwrap();
            moving.move_slot(slot, to).unwrap();
        })
        .await;
        for key in 0..30 {
            assert_eq!(admitted(&[&a, &b], &key.to_string(), 2).await, 0, "{key}");
        }
    });
}

/// A server that takes no writes still answers reads, and they go on.
#[test]
fn a_full_server_counts_nothing_and_is_read_from() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        node.store("/", &[], FRESH, b"x").await;
        assert!(is_admitted(&node, "k", hourly(5)).await);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        for _ in 0..100 {
            assert_eq!(count(&node, "k", hourly(5)).await, None);
        }
        let status = node.status();
        assert_eq!((status.open_rate_breakers, status.open_breakers), (1, 0));
        assert!(status.totals.failed_rates >= u64::from(MAX_FAILURES) && status.totals.skipped_rates > 0);
        assert!(node.found("/", &HeaderMap::new()).await.is_some());
        server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        let begun = Instant::now();
        while count(&node, "k", hourly(5)).await.is_none() {
            assert!(begun.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(node.status().open_rate_breakers, 0);
        assert_eq!(admitted(&[&node], "k", 5).await, 3, "what was counted before is known");
    });
}

#[test]
fn a_paused_server_costs_a_few_budgets() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::with(&server.url(), Options { budget: Duration::from_millis(200), ..options() });
        let begun = Instant::now();
        let counted = loop {
            if let Some(counted) = count(&node, "k", hourly(1000)).await {
                break counted;
            }
            assert!(begun.elapsed() < LIMIT, "no answer of Redis: {:?}", node.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert!(matches!(counted, Counted::Admitted { .. }), "{counted:?}");
        let before = node.status().totals;
        server.stop().unwrap();
        for _ in 0..1000 {
            assert_eq!(count(&node, "k", hourly(5)).await, None);
        }
        let totals = node.status().totals;
        let (late, skipped) = (totals.late_rates - before.late_rates, totals.skipped_rates - before.skipped_rates);
        assert_eq!((late >= u64::from(MAX_FAILURES), late + skipped), (true, 1000), "{totals:?}");
        server.cont().unwrap();
    });
}
