//! What is large goes its own way; what may wait a moment gathers.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config, Counters};
use pilotlight_testkit::{FaultProxy, Server};

use crate::bed::{SECOND, eventually, within};

const MIB: usize = 1 << 20;
const LARGE: usize = 64 << 10;

fn config(port: u16) -> Config {
    Config { large_bytes: Some(LARGE), ..Config::standalone(NodeAddress::tcp("127.0.0.1", port)) }
}

/// Of the lane for all, and of that for what is large.
fn both(client: &Client) -> [Counters; 2] {
    let lanes = client.stats().lanes;
    assert_eq!(lanes.len(), 2);
    [0, 1].map(|lane| lanes[lane].snapshot.counters)
}

#[tokio::test]
async fn large_values_and_replies_have_a_connection_of_their_own() {
    let server = Server::start().unwrap();
    let client = Client::new(config(server.port())).unwrap();
    let value = Bytes::from(vec![b'x'; 2 * MIB]);
    client.set("large", &value).await.unwrap();
    client.set("small", "x").await.unwrap();
    let [small, large] = both(&client);
    assert_eq!((small.commands, large.commands), (1, 1));

    // The first reply is a surprise, the second is not, and a small one in its place is forgotten as well.
    for (commands, bytes) in [(2, 2 * MIB), (2, 2 * MIB), (3, 1)] {
        if bytes == 1 {
            client.set("large", "x").await.unwrap();
        }
        assert_eq!(client.get("large").await.unwrap().unwrap().len(), bytes);
        assert_eq!(both(&client)[0].commands, commands, "{:?}", both(&client));
    }
    client.get("large").await.unwrap();
    let [small, large] = both(&client);
    assert_eq!((small.commands, large.commands), (4, 3), "the last read was small");
    assert!(small.bytes_written < LARGE as u64 && small.bytes_read < 2 * MIB as u64 + 1000, "{small:?}");
}

/// A value that takes its time on the way does not delay the small ones behind it.
#[tokio::test]
async fn a_large_value_on_its_way_delays_no_small_one() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::to(server.addr()).await.unwrap();
    let client = Client::new(config(proxy.port())).unwrap();
    let value = Bytes::from(vec![b'x'; 8 * MIB]);
    client.set("small", "x").await.unwrap();
    client.set("large", &value).await.unwrap();
    // Nothing passes to the server any more: what is on its way stays there, with more than all buffers hold.
    proxy.set(|faults| faults.to_server.is_paused = true);
    let large = tokio::spawn({
        let client = client.clone();
        async move { client.set("large", value).timeout(60 * SECOND).await }
    });
    eventually(10 * SECOND, "the large one is under way", || both(&client)[1].bytes_written > 8 * MIB as u64 + 1000)
        .await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.set("small", "y").await }
    });
    eventually(10 * SECOND, "the small one is written", || both(&client)[0].commands == 2).await;
    let lanes = client.stats().lanes;
    assert_eq!(lanes[0].snapshot.queued, 0, "it is written although the large one is not: {lanes:?}");
    proxy.set(|faults| faults.to_server.is_paused = false);
    within(10 * SECOND, "the small one", waiting).await.unwrap().unwrap();
    within(30 * SECOND, "the large one", large).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pipeline_keeps_its_order_however_large_its_parts() {
    let server = Server::start().unwrap();
    let client = Client::new(config(server.port())).unwrap();
    for round in 0..20_u8 {
        let value = vec![round; 4 * LARGE];
        let mut pipeline = client.pipeline();
        let _ = pipeline.set("k", "before");
        let _ = pipeline.set("k", &value);
        let read = pipeline.get("k");
        let mut replies = pipeline.run().await.unwrap();
        assert!(replies.take(read).unwrap().is_some_and(|read| read == value), "round {round}");
    }
    assert_eq!(both(&client).map(|lane| lane.commands), [0, 60]);
}

/// Writes of so many commands that come one after the other while a reply is awaited.
async fn writes(flush_delay: Option<Duration>) -> u64 {
    const CALLS: u64 = 20;
    let server = Server::start().unwrap();
    let config = Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()));
    let client = Client::new(Config { flush_delay, ..config }).unwrap();
    client.set("k", 0).await.unwrap();
    let waves = || client.stats().lanes[0].snapshot.counters.waves;
    server.stop().unwrap();
    let mut calls = tokio::task::JoinSet::new();
    let before = waves();
    for _ in 0..=CALLS {
        let client = client.clone();
        calls.spawn(async move { client.incr("k").await });
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }
    eventually(SECOND, "all are written", || client.stats().lanes[0].snapshot.in_flight as u64 == CALLS + 1).await;
    let writes = waves() - before;
    server.cont().unwrap();
    for result in within(10 * SECOND, "the replies", calls.join_all()).await {
        result.unwrap();
    }
    assert_eq!(client.get("k").read_as::<u64>().await.unwrap(), CALLS + 1);
    writes
}

#[tokio::test]
async fn with_a_flush_delay_commands_gather() {
    let (without, with) = (writes(None).await, writes(Some(Duration::from_millis(10))).await);
    assert_eq!(without, 20, "each was written when it came");
    assert!(with < without, "{with} writes");
    // Shorter than timers can tell.
    assert!(writes(Some(Duration::from_micros(500))).await <= 20);
}
