//! Replies that exceed a limit of the client: the caller gets one error, and the connection stays.

use std::time::Duration;

use pilotlight_redis::{Advice, CacheConfig, Client, Commands, Config, Error, ErrorKind, Ran};
use pilotlight_testkit::Server;
use tokio::task::JoinSet;

use crate::bed::{SECOND, within};

const WRITERS: usize = 32;
const WRITES: usize = 100;

/// A server with a string and a list that a client of this configuration does not read.
async fn start(limits: &str) -> (Server, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let plenty = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    plenty.set("small", "s").await.unwrap();
    plenty.set("large", "x".repeat(300_000)).await.unwrap();
    plenty.rpush("list", vec!["x".repeat(1000); 400]).await.unwrap();
    let client = Client::new(Config::from_url(&format!("{}?{limits}", server.url())).unwrap()).unwrap();
    (server, client)
}

#[track_caller]
fn assert_is_too_large(error: &Error, limit: &str) {
    assert!(matches!(error.kind(), ErrorKind::Reply(_)), "{error}");
    assert_eq!((error.ran(), error.advice()), (Ran::Executed, Advice::Never), "{error}");
    assert!(error.to_string().contains(limit), "{error}");
}

fn counters(client: &Client) -> (u64, u64, u64) {
    let stats = client.stats();
    let counters = &stats.lanes[0].snapshot.counters;
    (counters.connects, counters.disconnects, stats.retries)
}

#[tokio::test]
async fn a_reply_beyond_a_limit_is_its_callers_error_and_no_one_elses() {
    let (_server, client) = start("max_bulk_bytes=1KiB").await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let client = client.clone();
        writers.spawn(async move {
            for _ in 0..WRITES {
                client.incr(format!("n{writer}")).await.unwrap();
            }
        });
    }
    within(60 * SECOND, "the reads", async {
        for _ in 0..20 {
            assert_is_too_large(&client.get("large").await.unwrap_err(), "max_bulk_bytes");
        }
    })
    .await;
    within(60 * SECOND, "the writes", writers.join_all()).await;
    assert_eq!(counters(&client), (1, 0, 0), "one connection, and nothing was tried again");
}

#[tokio::test]
async fn each_limit_is_named() {
    for (limits, limit) in [
        ("max_bulk_bytes=1000", None),
        ("max_elements=100", Some("max_elements")),
        ("max_frame_bytes=50000", Some("max_frame_bytes")),
    ] {
        let (_server, client) = start(limits).await;
        match limit {
            Some(limit) => assert_is_too_large(&client.lrange("list", 0, -1).await.unwrap_err(), limit),
            None => assert_eq!(client.lrange("list", 0, -1).await.unwrap().len(), 400),
        }
        assert_eq!(client.get("small").await.unwrap().unwrap(), "s");
        assert_eq!(counters(&client), (1, 0, 0), "{limits}");
    }
}

#[tokio::test]
async fn every_way_of_asking_has_its_error() {
    let (_server, client) = start("max_bulk_bytes=1KiB").await;
    let mut pipeline = client.pipeline();
    let (before, large, after) = (pipeline.get("small"), pipeline.get("large"), pipeline.get("small"));
    let mut replies = pipeline.run().await.unwrap();
    assert_eq!(replies.take(before).unwrap().unwrap(), "s");
    assert_is_too_large(&replies.take(large).unwrap_err(), "max_bulk_bytes");
    assert_eq!(replies.take(after).unwrap().unwrap(), "s");

    let mut transaction = client.transaction();
    transaction.incr("count");
    transaction.get("large");
    assert_is_too_large(&transaction.run().await.unwrap_err(), "max_bulk_bytes");
    assert_eq!(client.get("count").await.unwrap().unwrap(), "1", "it was run");

    let mut own = client.dedicated().await.unwrap();
    assert_is_too_large(&own.get("large").await.unwrap_err(), "max_bulk_bytes");
    own.ping().await.unwrap();
    drop(own);

    let error = client.mget(["small", "large"]).await.unwrap_err();
    assert_is_too_large(&error, "max_bulk_bytes");
    let cached = client.cached(CacheConfig::default()).unwrap();
    assert_is_too_large(&cached.get("large").await.unwrap_err(), "max_bulk_bytes");
    assert_eq!(cached.get("small").await.unwrap().unwrap(), "s");
    assert_eq!(client.get("small").timeout(Duration::from_secs(5)).await.unwrap().unwrap(), "s");
    assert_eq!(counters(&client), (1, 0, 0));
}
