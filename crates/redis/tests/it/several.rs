//! Several servers without Sentinel or cluster, and servers that send their clients elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::{NodeAddress, ReadFrom, WhenDown};
use pilotlight_redis::{Client, Commands, Config, ErrorKind};
use pilotlight_testkit::{Handshake, ScriptedServer, Server};

const LIMIT: Duration = Duration::from_secs(10);

fn address(server: &Server) -> NodeAddress {
    NodeAddress::tcp("127.0.0.1", server.port())
}

async fn start(count: usize) -> Vec<Server> {
    let servers = tokio::task::spawn_blocking(move || (0..count).map(|_| Server::start().unwrap()).collect::<Vec<_>>());
    servers.await.unwrap()
}

fn replicate(replica: &Server, primary: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
}

async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_linked(replica: &Server) {
    until("the replica follows", || replica.info("master_link_status").is_ok_and(|link| link == "up")).await;
}

fn config(servers: &[Server], read_from: ReadFrom) -> Config {
    Config { servers: servers.iter().map(address).collect(), read_from, ..Config::default() }
}

fn gets(server: &Server) -> u64 {
    let info = server.info("cmdstat_get").unwrap_or_default();
    info.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap_or("0").parse().unwrap()
}

#[tokio::test]
async fn the_primary_is_found_and_replicas_read_from() {
    let servers = start(3).await;
    replicate(&servers[0], &servers[1]);
    replicate(&servers[2], &servers[1]);
    until_linked(&servers[0]).await;
    until_linked(&servers[2]).await;
    let client = Client::new(config(&servers, ReadFrom::PreferReplica)).unwrap();
    client.set("k", "v").await.unwrap();
    assert_eq!(*client.stats().lanes[0].node, *servers[1].addr().to_string());
    until("replicas answer", || client.stats().lanes.iter().filter(|lane| lane.snapshot.is_connected).count() == 3)
        .await;
    until("the value is everywhere", || {
        servers.iter().all(|server| server.command(&["EXISTS", "k"]).unwrap().integer() == Some(1))
    })
    .await;
    for _ in 0..100 {
        assert_eq!(client.get("k").await.unwrap().as_deref(), Some(b"v".as_slice()));
    }
    assert_eq!(gets(&servers[1]), 0);
    assert!(gets(&servers[0]) > 10 && gets(&servers[2]) > 10);
}

/// By hand: the replica is promoted, the primary demoted, and nobody tells.
#[tokio::test]
async fn another_primary_is_followed_without_an_error() {
    for protocol in ["resp3", "resp2"] {
        let servers = start(2).await;
        replicate(&servers[1], &servers[0]);
        until_linked(&servers[1]).await;
        let url = format!("redis://{},{}?protocol={protocol}&read_from=replica", servers[0].addr(), servers[1].addr());
        let client = Client::connect(&url).await.unwrap();
        client.incr("n").await.unwrap();
        until("it is replicated", || servers[1].command(&["GET", "n"]).unwrap().integer() == Some(1)).await;
        servers[1].command(&["REPLICAOF", "NO", "ONE"]).unwrap();
        replicate(&servers[0], &servers[1]);
        let load = (0..16).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.incr("n").await })
        });
        for task in load.collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
        assert_eq!(servers[1].command(&["GET", "n"]).unwrap().integer(), Some(17), "{protocol}");
    }
}

#[tokio::test]
async fn a_replica_that_lost_its_primary_is_passed_over() {
    let servers = start(2).await;
    servers[1].config_set("replica-serve-stale-data", "no").unwrap();
    replicate(&servers[1], &servers[0]);
    until_linked(&servers[1]).await;
    let client = Client::new(config(&servers, ReadFrom::PreferReplica)).unwrap();
    client.set("k", "v").await.unwrap();
    until("the replica answers", || client.stats().lanes.iter().all(|lane| lane.snapshot.is_connected)).await;
    servers[1].command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    for _ in 0..100 {
        assert_eq!(client.get("k").await.unwrap().as_deref(), Some(b"v".as_slice()));
    }
    let info = servers[1].info("errorstat_MASTERDOWN").unwrap();
    let refused: u64 = info.trim_start_matches("count=").parse().unwrap();
    assert!(refused < 20, "{refused}");
    replicate(&servers[1], &servers[0]);
    until_linked(&servers[1]).await;
    let before = gets(&servers[1]);
    let since = Instant::now();
    while gets(&servers[1]) <= before {
        client.get("k").await.unwrap();
        assert!(since.elapsed() < LIMIT, "it is not asked again");
    }
}

#[tokio::test]
async fn where_nobody_is_the_primary() {
    let servers = start(2).await;
    replicate(&servers[0], &servers[1]);
    replicate(&servers[1], &servers[0]);
    let client = Client::new(config(&servers, ReadFrom::Primary)).unwrap();
    let error = client.set("k", "v").timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(error.to_string().contains("no server is the primary"), "{error}");
    assert!(error.to_string().contains(&format!("{}: is a replica", servers[1].addr())), "{error}");
}

#[tokio::test]
async fn what_cannot_succeed_fails_at_once() {
    let server =
        tokio::task::spawn_blocking(|| Server::builder().requirepass("s3cret").start().unwrap()).await.unwrap();
    let since = Instant::now();
    let error = Client::connect(&format!("redis://:wrong@{}", server.addr())).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Rejected(_)), "{error}");
    let config = Config { when_down: WhenDown::FailFast, ..Config::standalone(NodeAddress::tcp("127.0.0.1", 1)) };
    let error = Client::new(config).unwrap().get("k").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect(_)), "{error}");
    assert!(since.elapsed() < Duration::from_secs(2));
}

/// Valkey 8: a server that was demoted names the new primary to clients that understand it.
#[tokio::test]
async fn a_redirect_to_another_primary_is_followed_and_back() {
    let target = start(1).await.remove(0);
    let (port, is_primary) = (target.port(), Arc::new(AtomicBool::new(false)));
    let (answered, is_primary_now) = (Arc::new(AtomicU16::new(0)), Arc::clone(&is_primary));
    let counter = Arc::clone(&answered);
    let old = ScriptedServer::respond(move |_: Vec<Bytes>| {
        if is_primary_now.load(Ordering::Relaxed) {
            return ":100\r\n".to_owned();
        }
        counter.fetch_add(1, Ordering::Relaxed);
        format!("-REDIRECT 127.0.0.1:{port}\r\n")
    })
    .await
    .unwrap();
    let client = Client::new(Config::standalone(NodeAddress::tcp("127.0.0.1", old.port()))).unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.incr("n").await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for _ in 0..100 {
        client.incr("n").await.unwrap();
    }
    assert_eq!(target.command(&["GET", "n"]).unwrap().integer(), Some(132));
    assert!(answered.load(Ordering::Relaxed) <= 32);
    assert_eq!(old.connections(), 1);
    let capabilities = [Bytes::from_static(b"CLIENT"), Bytes::from_static(b"CAPA"), Bytes::from_static(b"redirect")];
    assert!(old.commands().iter().any(|command| command.words == capabilities), "{:?}", old.commands());

    // The new one dies; the old one is promoted again.
    is_primary.store(true, Ordering::Relaxed);
    target.kill().unwrap();
    let since = Instant::now();
    while client.incr("n").await.ok() != Some(100) {
        assert!(since.elapsed() < LIMIT);
    }
}

/// A server of Valkey 8 as far as `HELLO`: role and availability zone.
async fn valkey(role: &'static str, zone: &'static str) -> ScriptedServer {
    let hello =
        format!("%4\r\n+server\r\n+valkey\r\n+proto\r\n:3\r\n+role\r\n+{role}\r\n+availability_zone\r\n+{zone}\r\n");
    let respond = move |words: Vec<Bytes>| match &*words[0] {
        b"HELLO" => hello.clone(),
        b"PING" => "+PONG\r\n".to_owned(),
        b"GET" => format!("${}\r\n{zone}\r\n", zone.len()),
        _ => "+OK\r\n".to_owned(),
    };
    ScriptedServer::builder().handshake(Handshake::manual()).respond(respond).await.unwrap()
}

#[tokio::test]
async fn zones_are_learnt_from_the_servers() {
    let servers = [valkey("master", "a").await, valkey("replica", "b").await, valkey("replica", "c").await];
    let config = |zone: &str| Config {
        servers: servers.iter().map(|server| NodeAddress::tcp("127.0.0.1", server.port())).collect(),
        read_from: ReadFrom::AzAffinity { zone: zone.into() },
        ..Config::default()
    };
    for (zone, expected) in [("a", &["a"][..]), ("b", &["b"]), ("c", &["c"]), ("d", &["b", "c"])] {
        let client = Client::new(config(zone)).unwrap();
        client.set("k", "v").await.unwrap();
        until("all are connected", || {
            client.stats().lanes.iter().filter(|lane| lane.snapshot.is_connected).count() == 3
        })
        .await;
        let mut answers = std::collections::BTreeSet::new();
        for _ in 0..100 {
            answers.insert(client.get("k").read_as::<String>().await.unwrap());
        }
        assert_eq!(answers.iter().map(String::as_str).collect::<Vec<_>>(), expected, "in {zone}");
    }
}
