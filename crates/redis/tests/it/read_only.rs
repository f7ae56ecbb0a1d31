//! Writes to a replica: the caller gets its answer, and the connection of all callers stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Commands, Ran};
use pilotlight_testkit::Server;
use tokio::task::JoinSet;

use crate::bed::{SECOND, within};

const WRITERS: usize = 50;
const WRITES: usize = 40;

#[tokio::test]
async fn writes_to_a_replica_are_answered_by_a_few_connections() {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    // Of a primary that is not there.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let client = Arc::new(Client::connect(&server.url()).await.unwrap());
    let begin = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let client = Arc::clone(&client);
        writers.spawn(async move {
            for _ in 0..WRITES {
                let error = client.set(format!("k{writer}"), "v").await.unwrap_err();
                assert_eq!(error.server().map(|it| it.code()), Some("READONLY"), "{error}");
                assert_eq!(error.ran(), Ran::NotSent, "{error}");
            }
        });
    }
    within(60 * SECOND, "the writes", writers.join_all()).await;
    let connects = client.stats().lanes[0].snapshot.counters.connects;
    // One look a second.
    let max = 2 + begin.elapsed().as_secs();
    assert!(connects <= max, "{connects} connections in {:?}", begin.elapsed());

    // The server is promoted, so that writes succeed again.
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    client.set("k", "v").timeout(Duration::from_secs(30)).await.unwrap();
}

/// Blocking commands use connections of the pool.
#[tokio::test]
async fn blocking_commands_at_a_replica_are_answered_by_a_few_connections() {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let begin = Instant::now();
    within(60 * SECOND, "the commands", async {
        for _ in 0..WRITES {
            let error = client.blpop("queue", 30.0).await.unwrap_err();
            assert_eq!(error.server().map(|it| it.code()), Some("READONLY"), "{error}");
        }
    })
    .await;
    let connects = client.stats().pool.connects;
    let max = 3 + 2 * begin.elapsed().as_secs();
    assert!(connects <= max, "{connects} connections in {:?}", begin.elapsed());
}
