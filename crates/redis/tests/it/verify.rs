//! Replies that are verified: a server that loses one, or says one twice, deceives nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::Probe;
use pilotlight_redis::{Client, Commands, Config, Error, ErrorKind, Ran};
use pilotlight_testkit::{ScriptedServer, Server};
use tokio::task::JoinSet;

use crate::bed::{SECOND, within};
use crate::spare::Kind;

/// A server that answers `GETDEL key` with the key. The `odd`-th of them it answers `times` times.
async fn odd_server(odd: usize, times: usize) -> ScriptedServer {
    let count = AtomicUsize::new(0);
    let bulk = |word: &Bytes| format!("${}\r\n{}\r\n", word.len(), String::from_utf8_lossy(word));
    let respond = move |words: Vec<Bytes>| match &*words[0] {
        b"GETDEL" if count.fetch_add(1, Ordering::Relaxed) == odd => bulk(&words[1]).repeat(times),
        b"GETDEL" | b"ECHO" => bulk(&words[1]),
        _ => "+PONG\r\n".to_owned(),
    };
    ScriptedServer::respond(respond).await.unwrap()
}

fn client(url: &str, verify_replies: bool) -> Client {
    let probe = Probe { idle_ping: None, stall: Some(SECOND / 10) };
    let mut config = Config { verify_replies, probe, ..Config::from_url(url).unwrap() };
    config.reconnect.max = SECOND / 20;
    Client::new(config).unwrap()
}

/// What 32 callers at once got, each of whom asked for another key.
async fn ask(client: &Client) -> Vec<(String, Result<Option<Bytes>, Error>)> {
    let mut calls = JoinSet::new();
    for number in 0..32 {
        let client = client.clone();
        calls.spawn(async move {
            let key = format!("key:{number}");
            let result = client.getdel(&key).timeout(SECOND).await;
            (key, result)
        });
    }
    within(5 * SECOND, "all callers", calls.join_all()).await
}

fn is_foreign((key, result): &(String, Result<Option<Bytes>, Error>)) -> bool {
    result.as_ref().is_ok_and(|value| value.as_deref() != Some(key.as_bytes()))
}

#[tokio::test]
async fn nobody_gets_anothers_reply() {
    for times in [0, 2] {
        let server = odd_server(9, times).await;
        assert!(ask(&client(&server.url(), false)).await.iter().any(is_foreign), "what it is against");
        let server = odd_server(9, times).await;
        let client = client(&server.url(), true);
        let outcomes = ask(&client).await;
        assert!(!outcomes.iter().any(is_foreign), "{outcomes:?}");
        let failed: Vec<_> = outcomes.iter().filter_map(|(_, result)| result.as_ref().err()).collect();
        assert!(!failed.is_empty());
        for error in failed {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::Protocol(_) | ErrorKind::Connection(_) | ErrorKind::Timeout(_)),
                "{error}"
            );
            assert_eq!(error.ran(), Ran::MaybeExecuted, "{error}");
        }
        // On another connection, all is well.
        let after = within(5 * SECOND, "the next call", client.getdel("after")).await.unwrap();
        assert_eq!(after.as_deref(), Some(&b"after"[..]));
        assert!(client.stats().lanes[0].snapshot.counters.connects >= 2);
    }
}

#[tokio::test]
async fn a_pipeline_is_proven_as_a_whole() {
    let server = odd_server(1, 0).await;
    let client = client(&server.url(), true);
    let mut pipeline = client.pipeline().timeout(SECOND);
    let queued = [(); 3].map(|()| pipeline.getdel("key"));
    let mut replies = pipeline.run().await.unwrap();
    for queued in queued {
        let error = replies.take(queued).unwrap_err();
        assert_eq!(error.ran(), Ran::MaybeExecuted, "{error}");
    }
}

#[tokio::test]
async fn all_ways_of_asking_go_on_as_before() {
    let server = Server::start().unwrap();
    let client = client(&format!("{}?verify_replies=true", server.url()), true);
    assert!(Config::from_url("redis://localhost?verify_replies=true").unwrap().verify_replies);
    client.set("k", "v").await.unwrap();
    assert_eq!(client.get("k").await.unwrap().unwrap(), "v");
    assert_eq!(client.lpush("k", ["x"]).await.unwrap_err().server().unwrap().code(), "WRONGTYPE");
    let mut pipeline = client.pipeline();
    let (count, wrong, value) = (pipeline.incr("n"), pipeline.incr("k"), pipeline.get("k"));
    let mut replies = pipeline.run().await.unwrap();
    assert_eq!(replies.take(count).unwrap(), 1);
    assert!(replies.take(wrong).is_err());
    assert_eq!(replies.take(value).unwrap().unwrap(), "v");
    let mut transaction = client.transaction();
    let (first, second) = (transaction.incr("n"), transaction.incr("n"));
    let mut replies = transaction.run().await.unwrap();
    assert_eq!((replies.take(first).unwrap(), replies.take(second).unwrap()), (2, 3));
    client.rpush("list", ["a"]).await.unwrap();
    assert!(client.blpop(["list"], 1.0).await.unwrap().is_some());
    let error = client.blpop(["list"], 0.0).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
}

#[tokio::test]
async fn a_cluster_goes_on_as_before() {
    let cluster = Arc::new(tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap());
    let seeds = cluster.nodes().iter().map(crate::bed::address);
    let client = Client::new(Config { verify_replies: true, ..Config::cluster(seeds) }).unwrap();
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    client.mset(keys.iter().map(|key| (key, key)).collect::<Vec<_>>()).await.unwrap();
    let values: Vec<Option<String>> = client.mget(&keys).read_as().await.unwrap();
    assert_eq!(values.into_iter().flatten().collect::<Vec<_>>(), keys);
    // ASKING, the command and the check.
    let mover = Arc::clone(&cluster);
    let step = move || {
        let (source, slot) = mover.node_for_key("key:1").unwrap();
        let target = mover.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        let step = mover.begin_move(slot, target).unwrap();
        step.migrate_all().unwrap();
        std::mem::forget(step);
    };
    tokio::task::spawn_blocking(step).await.unwrap();
    assert_eq!(client.get("key:1").await.unwrap().unwrap(), "key:1");
    assert_eq!(client.stats().redirects_ask, 1);
}
