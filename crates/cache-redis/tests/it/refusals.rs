//! Redis answers, and does not write.

use http::HeaderMap;
use pilotlight_cache_redis::{WriteProblem, write_probe};
use pilotlight_redis::{Client, Commands as _, Config};
use pilotlight_testkit::Server;

use crate::node::{FRESH, LIMIT, Node, fields, run};

/// Has a node store a response, and waits for what became of it.
async fn try_to_store(node: &Node, target: &str) {
    let ended = |node: &Node| node.status().totals.writes + node.status().totals.failed_writes;
    let before = ended(node);
    let flight = node.takeoff(target, &HeaderMap::new()).await;
    flight.land(&fields(FRESH), b"body").expect("it may be stored");
    node.until("the write has ended", |status| status.totals.writes + status.totals.failed_writes > before).await;
}

#[track_caller]
fn refused(node: &Node) -> String {
    match node.shared.write_problem() {
        Some(WriteProblem::Responses(reason)) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_user_without_a_right_is_named_until_writes_are_taken() {
    run(|| async {
        let server = Server::builder().user("tier on >s3cret ~* &* +@all -eval").start().unwrap();
        let url = format!("redis://tier:s3cret@127.0.0.1:{}", server.port());
        let client = Client::new(Config::from_url(&url).unwrap()).unwrap();
        let probe = async || client.run::<i64>(write_probe("pilotlight")).await;
        let node = Node::new(&url);
        assert_eq!(node.shared.write_problem(), None);
        try_to_store(&node, "/0").await;
        let reason = refused(&node);
        assert!(reason.contains("NOPERM") && reason.contains("'eval'"), "{reason}");
        assert!(probe().await.unwrap_err().to_string().contains("'eval'"));

        server.command(&["ACL", "SETUSER", "tier", "+eval"]).unwrap();
        assert_eq!(probe().await.unwrap(), 1);
        for number in 1.. {
            assert!(number < 100, "{:?}", node.shared.write_problem());
            try_to_store(&node, &format!("/{number}")).await;
            if node.shared.write_problem().is_none() {
                break;
            }
        }
    });
}

#[test]
fn a_full_server_is_told_of() {
    run(|| async {
        let server = Server::builder().config("maxmemory 1").start().unwrap();
        let node = Node::new(&server.url());
        try_to_store(&node, "/").await;
        assert!(refused(&node).contains("OOM"), "{}", refused(&node));
    });
}

#[test]
fn a_replica_takes_neither_responses_nor_invalidations() {
    run(|| async {
        let server = Server::start().unwrap();
        server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
        let node = Node::new(&server.url());
        node.post("/");
        let begun = std::time::Instant::now();
        while node.shared.write_problem().is_none() {
            assert!(begun.elapsed() < LIMIT, "nothing is told");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let Some(WriteProblem::Invalidations(reason)) = node.shared.write_problem() else { panic!() };
        assert!(reason.contains("READONLY"), "{reason}");
        try_to_store(&node, "/other").await;
        assert!(refused(&node).contains("READONLY"), "{}", refused(&node));
    });
}
