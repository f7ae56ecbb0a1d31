//! The other ways to Redis: over TLS, and where Sentinels say it is.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use pilotlight_redis::Config;
use pilotlight_testkit::{ClientAuth, Sentinels, Server};

use crate::coherence::{blocking, purges_reach_everybody, replaced_records_are_noticed};
use crate::node::{FRESH, LIMIT, Node, run};

fn tls(server: &Server) -> String {
    let ca = server.certificates().unwrap().ca_path().display().to_string();
    format!("rediss://localhost:{}?tls_ca={ca}", server.port())
}

fn named(bed: &Sentinels) -> String {
    let addresses: Vec<String> = bed.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    format!("redis+sentinel://{}/{}", addresses.join(","), bed.name())
}

/// What one node stores the other finds, and what it invalidates the other does not.
async fn is_shared(a: &Node, b: &Node, target: &str) {
    a.store(target, &[], FRESH, b"x").await;
    assert_eq!(b.found(target, &HeaderMap::new()).await.as_deref(), Some(&b"x"[..]), "{:?}", b.status());
    b.post(target);
    b.settled().await;
    assert_eq!(a.found(target, &HeaderMap::new()).await, None);
}

#[test]
fn records_over_tls() {
    run(|| async {
        let server = Server::builder().tls(ClientAuth::None).start().unwrap();
        is_shared(&Node::new(&tls(&server)), &Node::new(&tls(&server)), "/").await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn coherence_over_tls() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let config = Config::from_url(&tls(&server)).unwrap();
    purges_reach_everybody(&config).await;
    replaced_records_are_noticed(&config).await;
}

#[test]
fn records_follow_the_primary_that_sentinels_name() {
    run(|| async {
        let bed = blocking(|| Arc::new(Sentinels::start(1).unwrap())).await;
        let (a, b) = (Node::new(&named(&bed)), Node::new(&named(&bed)));
        is_shared(&a, &b, "/before").await;
        {
            let bed = Arc::clone(&bed);
            blocking(move || bed.failover().map(drop).unwrap()).await;
        }
        // A tier may be without Redis for a moment, never for long.
        let begun = Instant::now();
        for node in [&a, &b] {
            for number in 0.. {
                let target = format!("/between/{number}");
                if node.ask(&target, &HeaderMap::new()).await.ticket.is_some() {
                    node.store(&target, &[], FRESH, b"x").await;
                    let written = bed.primary().unwrap().command(&["DBSIZE"]).unwrap().integer().unwrap();
                    if node.found(&target, &HeaderMap::new()).await.is_some() && written > 0 {
                        break;
                    }
                }
                assert!(begun.elapsed() < LIMIT, "{:?}", node.status());
            }
        }
        is_shared(&a, &b, "/after").await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn coherence_with_sentinels() {
    let bed = blocking(|| Arc::new(Sentinels::start(1).unwrap())).await;
    let config = Config::from_url(&named(&bed)).unwrap();
    purges_reach_everybody(&config).await;
    let of_failover = Arc::clone(&bed);
    blocking(move || of_failover.failover().map(drop).unwrap()).await;
    replaced_records_are_noticed(&config).await;
}
