//! Pools of a client on a real server.
#![cfg(all(feature = "bb8", feature = "deadpool"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use deadpool::managed::Pool;
use pilotlight_redis::{Client, Command, Commands};
use pilotlight_redis_pools::{DedicatedManager, SharedManager};
use pilotlight_testkit::Server;

/// A client of a server of the test's own.
async fn client() -> (Server, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    (server, client)
}

/// Another database, until the connection ends.
fn select<'a>(database: u8) -> Command<'a> {
    Command::raw("SELECT").arg(i64::from(database))
}

/// How many connections a client has that are not shared: in use, and idle.
fn unshared(client: &Client) -> (usize, usize) {
    let nodes = client.stats().pool.nodes;
    (nodes.iter().map(|node| node.in_use).sum(), nodes.iter().map(|node| node.idle).sum())
}

#[tokio::test]
async fn bb8_lends_clones() {
    let (_server, client) = client().await;
    let pool = bb8::Pool::builder().max_size(4).build(SharedManager::new(client.clone())).await.unwrap();
    let visits = (0..16).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.get().await.unwrap().incr("visits").await.unwrap() })
    });
    for visit in visits.collect::<Vec<_>>() {
        visit.await.unwrap();
    }
    assert_eq!(client.get("visits").read_as::<i64>().await.unwrap(), 16);
    assert_eq!(client.stats().lanes.len(), 1);
    assert_eq!(unshared(&client), (0, 0));
}

#[tokio::test]
async fn deadpool_lends_clones() {
    let (_server, client) = client().await;
    let manager = SharedManager::new(client.clone());
    let pool: Pool<SharedManager> = Pool::builder(manager).max_size(2).build().unwrap();
    for _ in 0..4 {
        pool.get().await.unwrap().incr("visits").await.unwrap();
    }
    assert_eq!(client.get("visits").read_as::<i64>().await.unwrap(), 4);
}

#[tokio::test]
async fn what_a_user_of_bb8_left_behind_is_not_seen() {
    let (_server, client) = client().await;
    let pool = bb8::Pool::builder().max_size(1).build(DedicatedManager::new(client.clone())).await.unwrap();
    let mut first = pool.get().await.unwrap();
    first.run::<()>(select(3)).await.unwrap();
    first.set("k", "in 3").await.unwrap();
    first.watch("k").await.unwrap();
    drop(first);
    let mut second = pool.get().await.unwrap();
    assert_eq!(second.get("k").read_as::<Option<String>>().await.unwrap(), None);
    second.set("k", "in 0").await.unwrap();
    assert_eq!(unshared(&client).0, 1);
    drop(second);
    assert_eq!(client.get("k").read_as::<String>().await.unwrap(), "in 0");
}

#[tokio::test]
async fn what_a_user_of_deadpool_left_behind_is_not_seen() {
    let (_server, client) = client().await;
    let pool: Pool<DedicatedManager> = Pool::builder(DedicatedManager::new(client)).max_size(1).build().unwrap();
    pool.get().await.unwrap().run::<()>(select(3)).await.unwrap();
    let mut second = pool.get().await.unwrap();
    second.set("k", "in 0").await.unwrap();
    second.run::<()>(select(3)).await.unwrap();
    assert_eq!(second.get("k").read_as::<Option<String>>().await.unwrap(), None);
}

#[tokio::test]
async fn dedicated_connections_outlive_a_lost_server_connection() {
    let (server, client) = client().await;
    let pool = bb8::Pool::builder().max_size(1).build(DedicatedManager::new(client)).await.unwrap();
    pool.get().await.unwrap().set("k", "v").await.unwrap();
    let kill = move || server.client_kill_all().map(|_| server);
    let _server = tokio::task::spawn_blocking(kill).await.unwrap().unwrap();
    assert_eq!(pool.get().await.unwrap().get("k").read_as::<String>().await.unwrap(), "v");
}
