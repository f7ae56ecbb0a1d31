//! Runs of schedules, of which each is taken by one of several gateways.

use pilotlight_cache_redis::Taken;
use pilotlight_testkit::{Cluster, Server};

use crate::node::{Node, run};

const NOON: i64 = 1_800_000_000;
const HOUR: i64 = 3600;

async fn take(node: &Node, due: Option<i64>, token: &str) -> Taken {
    node.tier.take_run("app/clean up", due, token).await.expect("an answer of Redis")
}

async fn end(node: &Node, token: &str) {
    node.tier.end_run("app/clean up", token).await.expect("an answer of Redis");
}

async fn one_gateway_takes_each_time(url: &str) {
    let (a, b) = (Node::new(url), Node::new(url));
    assert_eq!(take(&a, Some(NOON), "a1").await, Taken::Ours);
    assert_eq!(take(&b, Some(NOON), "b1").await, Taken::Elsewhere);
    assert_eq!(take(&a, Some(NOON), "a1").await, Taken::Ours, "it asks again, as it has heard nothing");
    assert_eq!(take(&b, Some(NOON + HOUR), "b2").await, Taken::Overlaps, "the run of noon is not over");
    assert_eq!(take(&b, None, "b3").await, Taken::Overlaps, "nor does one by hand begin");
    assert!(a.tier.renew_run("app/clean up", "a1").await.unwrap());
    assert!(!b.tier.renew_run("app/clean up", "b2").await.unwrap());
    end(&b, "b2").await;
    assert_eq!(take(&b, Some(NOON + 2 * HOUR), "b4").await, Taken::Overlaps, "it was not b's to end");
    end(&a, "a1").await;
    assert_eq!(take(&a, Some(NOON + HOUR), "a2").await, Taken::Elsewhere, "what was skipped does not come later");
    assert_eq!(take(&b, None, "b5").await, Taken::Ours);
    end(&b, "b5").await;
    assert_eq!(take(&b, Some(NOON + 3 * HOUR), "b6").await, Taken::Ours);
}

#[test]
fn by_one_server() {
    run(|| async { one_gateway_takes_each_time(&Server::start().unwrap().url()).await });
}

#[test]
fn by_a_cluster() {
    run(|| async {
        let cluster = Cluster::start(3, 0).unwrap();
        one_gateway_takes_each_time(&cluster.urls()[0].replace("redis://", "redis+cluster://")).await;
    });
}

/// The lease is moved into the past, as if half a minute had gone by.
#[test]
fn a_gateway_that_has_died_holds_nothing_for_ever() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        assert_eq!(take(&a, Some(NOON), "a1").await, Taken::Ours);
        let names = server.command(&["KEYS", "*"]).unwrap();
        let name = names.array()[0].text().into_owned();
        assert!(name.starts_with("pilotlight:schedule:1:"), "{name}");
        assert!(server.command(&["PTTL", &name]).unwrap().integer().unwrap() > 366 * 24 * 3600 * 1000);
        server.command(&["HSET", &name, "until", "1"]).unwrap();
        assert_eq!(take(&b, Some(NOON), "b1").await, Taken::Elsewhere, "its run is not repeated");
        assert_eq!(take(&b, Some(NOON + HOUR), "b2").await, Taken::Ours);
        assert!(!a.tier.renew_run("app/clean up", "a1").await.unwrap());
    });
}
