//! A real cluster.

use std::sync::Arc;

use http::HeaderMap;
use pilotlight_testkit::{Cluster, Failover};

use crate::coherence::blocking;
use crate::node::{FRESH, Node, fields, run};

fn url(cluster: &Cluster) -> String {
    cluster.urls()[0].replace("redis://", "redis+cluster://")
}

#[test]
fn targets_are_spread_over_all_primaries_and_all_of_one_is_in_one_slot() {
    run(|| async {
        let cluster = Arc::new(Cluster::start(3, 0).unwrap());
        let (a, b) = (Node::new(&url(&cluster)), Node::new(&url(&cluster)));
        let body = vec![7; 100_000];
        for number in 0..60 {
            // Variants, a body apart, a lease: several keys in one script.
            let answer = [("cache-control", "max-age=60"), ("vary", "Accept")];
            let body = if number % 3 == 0 { &body[..] } else { b"short" };
            a.store(&format!("/{number}"), &[], &answer, body).await;
        }
        for number in 0..60 {
            assert!(b.found(&format!("/{number}"), &HeaderMap::new()).await.is_some(), "{number}");
        }
        for node in cluster.nodes() {
            let size = node.server().command(&["DBSIZE"]).unwrap().integer().unwrap();
            assert!(size > 0, "node {} has nothing", node.port());
        }
    });
}

#[test]
fn a_failover_and_a_moved_slot_lose_nothing() {
    run(|| async {
        let cluster = Arc::new(Cluster::start(3, 1).unwrap());
        let (a, b) = (Node::new(&url(&cluster)), Node::new(&url(&cluster)));
        for number in 0..30 {
            a.store(&format!("/{number}"), &[], FRESH, b"x").await;
        }
        {
            let cluster = Arc::clone(&cluster);
            blocking(move || {
                let name = cluster.nodes()[0].server().command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
                let (from, slot) = cluster.node_for_key(&name).unwrap();
                let to = cluster.nodes()[..3].iter().find(|node| node.id() != from.id()).unwrap();
                cluster.move_slot(slot, to).unwrap();
                let replica = cluster.replica_of(&cluster.nodes()[2]).unwrap();
                cluster.failover(replica, Failover::Graceful).unwrap();
            })
            .await;
        }
        for number in 0..30 {
            assert!(b.found(&format!("/{number}"), &HeaderMap::new()).await.is_some(), "{number}: {:?}", b.status());
        }
        // Writes follow as well.
        for number in 0..30 {
            b.post(&format!("/{number}"));
        }
        b.settled().await;
        for number in 0..30 {
            assert_eq!(a.found(&format!("/{number}"), &HeaderMap::new()).await, None, "{number}");
            let flight = b.takeoff(&format!("/{number}"), &HeaderMap::new()).await;
            flight.land(&fields(FRESH), b"y").unwrap();
        }
        b.settled().await;
        assert_eq!((b.status().totals.failed_writes, b.status().totals.writes), (0, 30));
    });
}

#[test]
fn without_one_primary_the_others_go_on() {
    run(|| async {
        let cluster = Arc::new(Cluster::builder().masters(3).replicas_per_master(0).start().unwrap());
        let node = Node::new(&url(&cluster));
        for number in 0..60 {
            node.store(&format!("/{number}"), &[], FRESH, b"x").await;
        }
        let lost = cluster.nodes()[0].server().command(&["DBSIZE"]).unwrap().integer().unwrap();
        for server in cluster.nodes() {
            // Else the rest would refuse to answer.
            server.server().config_set("cluster-require-full-coverage", "no").unwrap();
        }
        cluster.nodes()[0].server().kill().unwrap();
        let mut found = 0;
        for number in 0..60 {
            found += i64::from(node.found(&format!("/{number}"), &HeaderMap::new()).await.is_some());
        }
        assert_eq!(found, 60 - lost, "{:?}", node.status());
    });
}
