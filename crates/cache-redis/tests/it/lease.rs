//! One fetch of several nodes.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use pilotlight_cache_redis::Options;
use pilotlight_testkit::Server;
use tokio::sync::Notify;

use crate::node::{FRESH, Flight, LIMIT, Node, fields, key, now, options, run};

fn answer() -> (HeaderMap, Bytes) {
    (fields(FRESH), Bytes::from_static(b"the answer"))
}

#[test]
fn three_nodes_fetch_a_cold_target_once() {
    run(|| async {
        let server = Server::start().unwrap();
        let nodes: Vec<Rc<Node>> = (0..3).map(|_| Rc::new(Node::new(&server.url()))).collect();
        for round in 0..20 {
            let target = format!("/{round}");
            let gets: Vec<_> = nodes
                .iter()
                .map(|node| {
                    let (node, target) = (Rc::clone(node), target.clone());
                    tokio::task::spawn_local(async move {
                        node.get(&target, async || {
                            tokio::time::sleep(Duration::from_millis(20)).await; // so long a service takes
                            answer()
                        })
                        .await
                    })
                })
                .collect();
            for get in gets {
                assert_eq!(&get.await.unwrap()[..], b"the answer");
            }
        }
        assert_eq!(nodes.iter().map(|node| node.fetched()).sum::<u32>(), 20);
        let status: Vec<_> = nodes.iter().map(|node| node.status().totals.waits).collect();
        assert_eq!(status.iter().sum::<u64>(), 40, "{status:?}");
        for node in &nodes {
            node.settled().await;
        }
        assert_eq!(server.command(&["KEYS", "*:l"]).unwrap().array().len(), 0, "leases are given back");
    });
}

#[test]
fn who_gives_up_makes_room_for_the_next() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Rc::new(Node::new(&server.url())), Node::new(&server.url()));
        let asked = Rc::new(Notify::new());
        let first = {
            let (a, asked) = (Rc::clone(&a), Rc::clone(&asked));
            tokio::task::spawn_local(async move {
                a.get("/", async || {
                    asked.notify_one();
                    std::future::pending().await
                })
                .await
            })
        };
        asked.notified().await;
        let second = b.get("/", async || answer());
        let (_, body) = tokio::join!(
            async {
                b.until("it waits", |status| status.totals.waits == 1).await;
                first.abort();
            },
            second
        );
        assert_eq!((&body[..], b.fetched()), (&b"the answer"[..], 1));
    });
}

#[test]
fn nobody_waits_longer_than_the_lease() {
    run(|| async {
        let server = Server::start().unwrap();
        let lease = Some(Duration::from_millis(100));
        let node = || Node::with(&server.url(), Options { lease, ..options() });
        let (a, b) = (Rc::new(node()), node());
        let asked = Rc::new(Notify::new());
        let hung = {
            let (a, asked) = (Rc::clone(&a), Rc::clone(&asked));
            tokio::task::spawn_local(async move {
                a.get("/", async || {
                    asked.notify_one();
                    std::future::pending().await
                })
                .await
            })
        };
        asked.notified().await;
        let begun = Instant::now();
        assert_eq!(&b.get("/", async || answer()).await[..], b"the answer");
        assert!(begun.elapsed() >= Duration::from_millis(50), "it did wait: {:?}", begun.elapsed());
        hung.abort();
    });
}

#[test]
fn a_lease_that_is_taken_too_late_is_given_back() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::with(&server.url(), Options { budget: Duration::from_millis(20), ..options() });
        let mut ticket = node.until_answered(&key("/"), &HeaderMap::new()).await;
        server.stop().unwrap();
        assert!(node.tier.lead(&mut ticket, &key("/"), &HeaderMap::new(), now).await.is_none());
        server.cont().unwrap();
        drop(ticket);
        node.tier.close(LIMIT).await;
        assert_eq!(server.command(&["KEYS", "*:l"]).unwrap().array().len(), 0);
        let calls = server.command(&["INFO", "commandstats"]).unwrap();
        assert!(calls.text().contains("cmdstat_set:calls=1,"), "it was taken: {}", calls.text());
    });
}

#[test]
fn a_write_that_fails_gives_the_lease_back() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        let mut fill = node.begin("/", &HeaderMap::new());
        let mut ticket = node.until_answered(&key("/"), &HeaderMap::new()).await;
        assert!(node.tier.lead(&mut ticket, &key("/"), &HeaderMap::new(), now).await.is_none());
        assert_eq!(server.command(&["KEYS", "*:l"]).unwrap().array().len(), 1);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(); // no write has room
        fill.write_behind(Box::new(ticket));
        let _ = Flight { fill, request: HeaderMap::new() }.land(&fields(FRESH), b"x");
        node.tier.close(LIMIT).await;
        assert_eq!(node.status().totals.failed_writes, 1);
        assert_eq!(server.command(&["KEYS", "*:l"]).unwrap().array().len(), 0);
    });
}

#[test]
fn without_leases_each_node_fetches() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = || Rc::new(Node::with(&server.url(), Options { lease: None, ..options() }));
        let (a, b) = (node(), node());
        let both_asked = Rc::new(tokio::sync::Barrier::new(2));
        let get = |node: &Rc<Node>| {
            let (node, both_asked) = (Rc::clone(node), Rc::clone(&both_asked));
            tokio::task::spawn_local(async move {
                node.get("/", async || {
                    both_asked.wait().await;
                    answer()
                })
                .await
            })
        };
        let (first, second) = (get(&a), get(&b));
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!((a.fetched(), b.fetched()), (1, 1));
    });
}
