use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::recipes::{Lock, LockError, Lost};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Answer, ScriptedServer, Server};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{run, start, until};
use crate::spare::Kind;

const LIMIT: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_at_a_time_with_tokens_that_grow() {
    let (_server, client) = start(Server::builder()).await;
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let mut holders = JoinSet::new();
    for _ in 0..8 {
        let lock = Lock::new(&client, "lock", TTL).unwrap();
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        holders.spawn(async move {
            for _ in 0..5 {
                let guard = lock.acquire(LIMIT).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                assert!(guard.is_held());
                assert!(last.swap(guard.token(), Ordering::SeqCst) < guard.token());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(guard.release().await);
            }
        });
    }
    timeout(LIMIT, holders.join_all()).await.unwrap();
    assert_eq!(client.exists("lock").await.unwrap(), 0);
    assert_eq!(client.get("{lock}:fence").read_as::<u64>().await.unwrap(), last.load(Ordering::SeqCst));
}

#[tokio::test]
async fn it_is_renewed_while_it_is_held() {
    let (_server, client) = start(Server::builder()).await;
    let ttl = Duration::from_millis(600);
    let lock = Lock::new(&client, "{a}:lock", ttl).unwrap();
    let guard = lock.try_acquire().await.unwrap();
    match lock.try_acquire().await {
        Err(LockError::Held { held_for, .. }) => assert!(held_for <= ttl, "{held_for:?}"),
        other => panic!("{other:?}"),
    }
    // Longer than it would live without.
    assert!(timeout(2 * ttl, guard.lost()).await.is_err());
    assert!(guard.is_held());
    drop(guard);
    until(|| async { client.exists("{a}:lock").await.unwrap() == 0 }).await;
}

#[tokio::test]
async fn who_lost_it_is_told_and_releases_nobody_elses() {
    let (server, client) = start(Server::builder()).await;
    let lock = Lock::new(&client, "lock", Duration::from_millis(300)).unwrap();
    let guard = lock.try_acquire().await.unwrap();
    client.set("lock", "somebody else").await.unwrap();
    assert_eq!(timeout(LIMIT, guard.lost()).await.unwrap(), Lost::Taken);
    assert!(!guard.is_held() && !guard.release().await);
    assert_eq!(client.get("lock").read_as::<String>().await.unwrap(), "somebody else");
    client.del("lock").await.unwrap();

    // A server that is silent: the holder gives up before the lock would expire there.
    let guard = lock.try_acquire().await.unwrap();
    run(&server, |server| server.stop().unwrap()).await;
    assert_eq!(timeout(LIMIT, guard.lost()).await.unwrap(), Lost::Expired);
    assert!(!guard.is_held());
    run(&server, |server| server.cont().unwrap()).await;
}

#[tokio::test]
async fn a_failover_that_forgets_the_lock_makes_no_smaller_token() {
    let (server, client) = start(Server::builder()).await;
    let lock = Lock::new(&client, "lock", TTL).unwrap();
    let before = lock.try_acquire().await.unwrap();
    // Without persistence: as a replica that had heard of nothing.
    run(&server, |server| server.restart().unwrap()).await;
    let after = lock.acquire(LIMIT).await.unwrap();
    assert!(before.token() < after.token());
    assert_eq!(timeout(LIMIT, before.lost()).await.unwrap(), Lost::Taken);
    assert!(after.release().await);
}

#[tokio::test]
async fn in_a_cluster_both_keys_are_in_one_slot() {
    let cluster = tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap();
    let url = cluster.nodes()[0].server().url().replace("redis://", "redis+cluster://");
    let client = Client::connect(&url).await.unwrap();
    for name in ["lock", "{user:1}:lock", "lock:2"] {
        assert!(Lock::new(&client, name, TTL).unwrap().try_acquire().await.unwrap().release().await);
    }
    assert!(Lock::new(&client, "a}b", TTL).is_err());
    assert!(Lock::new(&client, "a", Duration::from_millis(99)).is_err());
}

#[tokio::test]
async fn where_the_server_has_delifeq_it_is_used() {
    let respond = |words: Vec<Bytes>| match &*words[0].to_ascii_uppercase() {
        b"EVALSHA" => Answer::from("*2\r\n$1\r\n8\r\n:0\r\n"),
        b"DELIFEQ" => Answer::from(":1\r\n"),
        _ => Answer::from("-ERR unexpected\r\n"),
    };
    let server = ScriptedServer::respond(respond).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    let guard = Lock::new(&client, "lock", TTL).unwrap().try_acquire().await.unwrap();
    assert_eq!(guard.token(), 8);
    assert!(guard.release().await);
    let last = server.commands().pop().unwrap().words;
    assert_eq!((&*last[0], &*last[1]), (&b"DELIFEQ"[..], &b"lock"[..]));
}
