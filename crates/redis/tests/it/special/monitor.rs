//! What a server runs, seen by somebody else.

use std::time::Duration;

use pilotlight_redis::{Command, Commands, ErrorKind, Misuse, Monitor, Route};

use super::{at, cluster, owner, soon, standalone};

/// The words of the next command.
async fn next(monitor: &mut Monitor) -> Vec<String> {
    let command = soon(monitor.next()).await.unwrap().unwrap();
    command.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[tokio::test]
async fn every_command_is_seen_with_its_bytes() {
    let (server, client) = standalone();
    client.set("before", "x").await.unwrap();
    let mut monitor = client.monitor(Route::Any).await.unwrap();
    assert_eq!(monitor.node(), at(&server).to_string());
    client.set("k", &b"a \"quoted\"\r\n\0\xff"[..]).await.unwrap();
    let seen = soon(monitor.next()).await.unwrap().unwrap();
    assert_eq!(seen.words, [&b"SET"[..], b"k", b"a \"quoted\"\r\n\0\xff"]);
    assert!(seen.database == 0 && seen.source.starts_with("127.0.0.1:"), "{seen:?}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(now.abs_diff(seen.at) < Duration::from_secs(60));
    let _: i64 = client.eval("return redis.call('incr', KEYS[1])", ["count"], [] as [&str; 0]).read_as().await.unwrap();
    assert_eq!(next(&mut monitor).await[0], "EVAL");
    let inner = soon(monitor.next()).await.unwrap().unwrap();
    assert_eq!((&*inner.source, inner.words.len()), ("lua", 2));
    // A future that is dropped loses nothing.
    assert!(tokio::time::timeout(Duration::from_millis(10), monitor.next()).await.is_err());
    client.get("k").await.unwrap();
    assert_eq!(next(&mut monitor).await, ["GET", "k"]);
    assert_eq!(client.stats().pool.nodes[0].in_use, 1);
    // It is closed with the client, which does not wait for it.
    soon(client.close(Duration::from_secs(3600))).await;
    assert!(soon(monitor.next()).await.is_none());
}

#[tokio::test]
async fn a_lost_connection_is_told_once() {
    let (server, client) = standalone();
    let mut monitor = client.monitor(Route::Any).await.unwrap();
    server.client_kill_all().unwrap();
    let mut last = soon(monitor.next()).await;
    while matches!(last, Some(Ok(_))) {
        last = soon(monitor.next()).await;
    }
    assert!(matches!(last.unwrap().unwrap_err().kind(), ErrorKind::Connection(_)));
    assert!(soon(monitor.next()).await.is_none());
    // Elsewhere it is refused, and says what to use.
    let error = client.run::<()>(Command::raw("MONITOR")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::ConnectionState { instead: "use client.monitor()", .. })));
}

#[tokio::test]
async fn of_a_cluster_one_node_is_watched() {
    let (cluster, client) = cluster(3);
    let node = owner(&cluster, "k");
    let mut monitor = client.monitor(Route::Node(at(node.server()))).await.unwrap();
    let other = (0..).map(|number| format!("o{number}")).find(|key| owner(&cluster, key).id() != node.id()).unwrap();
    client.set(&other, "v").await.unwrap();
    client.set("k", "v").await.unwrap();
    let mut seen = next(&mut monitor).await;
    while !matches!(&*seen[0], "SET") {
        seen = next(&mut monitor).await;
    }
    assert_eq!(seen, ["SET", "k", "v"]);
    assert!(client.monitor(Route::AllNodes).await.is_err());
}
