//! Real servers, two clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Duration;

use pilotlight_redis::config::Probe;
use pilotlight_redis::{CacheConfig, Client, Command, Commands, Config, ErrorKind, Value};
use pilotlight_testkit::{FaultProxy, Server};
use tokio::task::JoinSet;

use super::{barrier, broadcast, cached, client, get, until, value};

#[tokio::test]
async fn what_another_client_writes_is_read() {
    let server = Server::start().unwrap();
    for config in [CacheConfig::default(), broadcast(&[]), broadcast(&["x", "k"])] {
        let (writer, cached) = (client(&server.url()), client(&server.url()).cached(config).unwrap());
        assert_eq!(value(&cached, "key").await, "nothing");
        for number in 0..100 {
            writer.set("key", number).await.unwrap();
            barrier(&cached, "key").await;
            assert_eq!(value(&cached, "key").await, number.to_string());
            assert_eq!(value(&cached, "key").await, number.to_string());
        }
        let stats = cached.stats();
        assert_eq!((stats.hits, stats.misses, stats.invalidations), (100, 101, 100));
        writer.del("key").await.unwrap();
        barrier(&cached, "key").await;
        assert_eq!(value(&cached, "key").await, "nothing");
    }
}

#[tokio::test]
async fn all_replies_of_a_key_go_at_once_and_others_stay() {
    let server = Server::start().unwrap();
    let (writer, cached) = (client(&server.url()), cached(&client(&server.url())));
    writer.hset("h", [("a", "1"), ("b", "2")]).await.unwrap();
    writer.set("s", "text").await.unwrap();
    let read = async || {
        let a: Option<String> = cached.hget("h", "a").read_as().await.unwrap();
        let all: std::collections::HashMap<String, String> = cached.hgetall("h").read_as().await.unwrap();
        let length: i64 = cached.strlen("s").read_as().await.unwrap();
        (a.unwrap(), all["b"].clone(), length)
    };
    assert_eq!(read().await, ("1".into(), "2".into(), 4));
    assert_eq!(read().await, ("1".into(), "2".into(), 4));
    assert_eq!(cached.stats().hits, 3);
    writer.hset("h", [("a", "3"), ("b", "4")]).await.unwrap();
    barrier(&cached, "h").await;
    assert_eq!(read().await, ("3".into(), "4".into(), 4));
    assert_eq!(cached.stats().hits, 4);
}

#[tokio::test]
async fn keys_outside_of_the_prefixes_are_not_kept() {
    let server = Server::start().unwrap();
    let (writer, cached) = (client(&server.url()), client(&server.url()).cached(broadcast(&["user:"])).unwrap());
    for number in 0..3 {
        writer.set("other", number).await.unwrap();
        assert_eq!(value(&cached, "other").await, number.to_string());
    }
    assert_eq!(cached.stats().entries, 0);
}

#[tokio::test]
async fn a_flush_of_the_database_flushes() {
    let server = Server::start().unwrap();
    let (writer, cached) = (client(&server.url()), cached(&client(&server.url())));
    writer.set("k", "v").await.unwrap();
    assert_eq!(value(&cached, "k").await, "v");
    writer.flushall().await.unwrap();
    barrier(&cached, "k").await;
    assert_eq!(value(&cached, "k").await, "nothing");
    assert_eq!(cached.stats().flushes, 1);
}

#[tokio::test]
async fn a_killed_connection_takes_its_replies_along() {
    let server = Server::start().unwrap();
    let (writer, cached) = (client(&server.url()), cached(&client(&server.url())));
    for number in 1..5 {
        writer.set("k", "old").await.unwrap();
        barrier(&cached, "k").await;
        assert_eq!(value(&cached, "k").await, "old");
        assert_eq!(value(&cached, "k").await, "old");
        server.client_kill_all().unwrap();
        until(|| cached.stats().losses == number).await;
        writer.set("k", "new").retryable().await.unwrap();
        assert_eq!(value(&cached, "k").await, "new");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again() {
    let server = Arc::new(Server::start().unwrap());
    let (writer, cached) = (client(&server.url()), cached(&client(&server.url())));
    writer.set("k", "old").await.unwrap();
    assert_eq!(value(&cached, "k").await, "old");
    let again = Arc::clone(&server);
    tokio::task::spawn_blocking(move || again.kill().and_then(|()| again.restart())).await.unwrap().unwrap();
    until(|| cached.stats().losses == 1).await;
    assert_eq!(value(&cached, "k").await, "nothing");
}

#[tokio::test]
async fn an_idle_connection_that_is_dead_without_a_sign_is_found_out() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::to(server.addr()).await.unwrap();
    let probe = Probe { idle_ping: Some(Duration::from_millis(50)), stall: Some(Duration::from_millis(200)) };
    let config = Config { probe, ..Config::from_url(&format!("redis://{}", proxy.addr())).unwrap() };
    let (writer, cached) = (client(&server.url()), cached(&Client::new(config).unwrap()));
    writer.set("k", "old").await.unwrap();
    assert_eq!(value(&cached, "k").await, "old");
    assert_eq!(value(&cached, "k").await, "old");
    for connection in proxy.connections() {
        connection.set(|faults| {
            faults.to_server.is_paused = true;
            faults.to_client.is_paused = true;
        });
    }
    writer.set("k", "new").await.unwrap();
    // Nobody asks anything meanwhile: it is the lane's own PING that stays unanswered.
    until(|| cached.stats().losses == 1).await;
    assert_eq!(value(&cached, "k").await, "new");
}

#[tokio::test]
async fn only_reads_are_taken() {
    let server = Server::start().unwrap();
    let cached = cached(&client(&server.url()));
    let error = cached.set("k", "v").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    assert_eq!(error.command(), "SET");
    let error = cached.run::<Value>(Command::raw("CLIENT TRACKING").arg("OFF")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    let both: Vec<Option<String>> = cached.mget(["a", "b"]).read_as().await.unwrap();
    assert_eq!(both, [None, None]);
}

#[tokio::test]
async fn memory_stays_within_its_budget() {
    let server = Server::start().unwrap();
    let config = CacheConfig { max_bytes: 1 << 20, ..CacheConfig::default() };
    let (writer, cached) = (client(&server.url()), client(&server.url()).cached(config).unwrap());
    let value = "x".repeat(1000);
    let keys: Vec<String> = (0..3000).map(|number| format!("k{number}")).collect();
    writer.set("large", "y".repeat(2 << 20)).await.unwrap();
    writer.mset(keys.iter().map(|key| (key, &value)).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(super::value(&cached, "large").await.len(), 2 << 20);
    for key in &keys {
        assert_eq!(super::value(&cached, key).await.len(), 1000);
        assert!(cached.stats().bytes <= 1 << 20);
    }
    assert!(cached.stats().entries > 400);
}

/// Whoever was told that a write is done, and then waits for the server's word, reads that write or a later one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_what_was_replaced_before() {
    const KEYS: usize = 4;
    let server = Server::start().unwrap();
    for config in [CacheConfig::default(), broadcast(&["k"])] {
        let (writer, cached) = (client(&server.url()), client(&server.url()).cached(config).unwrap());
        writer.flushall().await.unwrap();
        let done: Arc<[AtomicU64; KEYS]> = Arc::default();
        let mut tasks = JoinSet::new();
        for key in 0..KEYS {
            let (writer, done) = (writer.clone(), Arc::clone(&done));
            tasks.spawn(async move {
                for number in 1..=500_u64 {
                    writer.set(format!("k{key}"), number).await.unwrap();
                    done[key].store(number, Ordering::SeqCst);
                }
            });
        }
        for reader in 0..8 {
            let (cached, done) = (cached.clone(), Arc::clone(&done));
            tasks.spawn(async move {
                let (name, key) = (format!("k{}", reader % KEYS), reader % KEYS);
                let mut last = 0;
                while last < 500 {
                    let least = done[key].load(Ordering::SeqCst);
                    barrier(&cached, &name).await;
                    for _ in 0..5 {
                        let read: u64 = get(&cached, &name).await.unwrap().map_or(0, |text| text.parse().unwrap());
                        assert!(read >= least, "{read} was read after {least} was written");
                        last = last.max(read);
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let stats = cached.stats();
        assert!(stats.hits > 0 && stats.invalidations > 0, "{stats:?}");
    }
}

/// The server finds out late that a key has expired, and says so even later.
#[tokio::test]
async fn a_hit_ends_with_the_time_to_live_of_its_key() {
    let server = Server::builder().debug_commands().start().unwrap();
    server.command(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).unwrap();
    let writer = client(&server.url());
    for config in [CacheConfig::default(), broadcast(&[])] {
        let cached = client(&server.url()).cached(config).unwrap();
        server.command(&["SET", "k", "v", "PX", "300"]).unwrap();
        assert_eq!(value(&cached, "k").await, "v");
        server.command(&["SET", "lasting", "v"]).unwrap();
        barrier(&cached, "lasting").await;
        assert_eq!(value(&cached, "lasting").await, "v");
        let begin = std::time::Instant::now();
        while value(&cached, "k").await != "nothing" {
            assert!(begin.elapsed() < super::PATIENCE, "it is still served: {:?}", cached.stats());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let misses = cached.stats().misses;
        assert_eq!(value(&cached, "lasting").await, "v");
        assert_eq!(cached.stats().misses, misses);
        writer.del("lasting").await.unwrap();
    }
}
