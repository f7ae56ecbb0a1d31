//! Real clusters: many nodes, slots that move, nodes that die.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::{Client, Commands, Event, GapReason, Subscription};
use pilotlight_testkit::{Cluster, Failover, Node};
use tokio::time::{Instant, timeout};

use super::{LIMIT, assert_message, assert_silent, client, gap, next, shard_subscribers, subscribers, text, until};
use crate::spare::Kind;

fn cluster_client(cluster: &Cluster) -> Client {
    let seeds: Vec<_> = cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    client(&format!("redis+cluster://{}", seeds.join(",")))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Where an ordinary channel is subscribed.
fn home<'c>(cluster: &'c Cluster, channel: &str) -> Vec<&'c Node> {
    let has_it = |node: &&Node| node.server().pid().is_some() && subscribers(node.server(), channel) > 0;
    cluster.nodes().iter().filter(has_it).collect()
}

#[tokio::test]
async fn every_message_comes_once_wherever_it_is_published() {
    let cluster = Kind::of(3, 0).start();
    let client = cluster_client(&cluster);
    let mut channels = client.subscribe(["a", "b"]).await.unwrap();
    let mut patterns = client.psubscribe("a*").await.unwrap();
    assert_eq!(home(&cluster, "a").len(), 1);
    for (index, node) in cluster.nodes().iter().enumerate() {
        let payload = index.to_string();
        node.server().command(&["PUBLISH", "a", &payload]).unwrap();
        assert_message(&next(&mut channels).await, "a", &payload);
        assert_message(&next(&mut patterns).await, "a", &payload);
    }
    let names: Vec<String> = (0..20).map(|number| format!("shard{number}")).collect();
    let mut shards = client.ssubscribe(&names).await.unwrap();
    for name in &names {
        assert_eq!(client.spublish(name, name).await.unwrap(), 1);
        assert_message(&next(&mut shards).await, name, name);
        let (owner, _) = cluster.node_for_key(name).unwrap();
        assert_eq!(shard_subscribers(owner.server(), name), 1);
    }
    assert_silent(&mut channels);
    assert_silent(&mut patterns);
    drop(shards);
    until("the end of all", || {
        cluster.nodes().iter().all(|node| names.iter().all(|it| shard_subscribers(node.server(), it) == 0))
    })
    .await;
}

/// Publishes until something comes by the subscription; the events up to the first message.
async fn until_message(
    client: &Client,
    channel: &str,
    is_sharded: bool,
    subscription: &mut Subscription,
) -> Vec<Event> {
    let mut events = Vec::new();
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "no message in time, but {events:?}");
        let published =
            if is_sharded { client.spublish(channel, "again").await } else { client.publish(channel, "again").await };
        let _ = published;
        while let Ok(Some(event)) = timeout(Duration::from_millis(10), subscription.next()).await {
            let is_message = matches!(event, Event::Message(_));
            events.push(event);
            if is_message {
                return events;
            }
        }
    }
}

fn drain(subscription: &mut Subscription) -> usize {
    std::iter::from_fn(|| subscription.try_next()).filter(|event| matches!(event, Event::Gap { .. })).count()
}

#[tokio::test]
async fn a_slot_that_moves_is_one_gap_and_messages_again_within_a_second() {
    let cluster = Arc::new(Kind::of(3, 0).start());
    let client = cluster_client(&cluster);
    let (owner, slot) = cluster.node_for_key("a").unwrap();
    let others: Vec<String> =
        cluster.nodes().iter().filter(|node| node.id() != owner.id()).map(|node| node.id().to_owned()).collect();
    let mut subscription = client.ssubscribe(["a", "other"]).await.unwrap();
    let mut ordinary = client.subscribe("a").await.unwrap();
    for target in [&others[0], &others[1], &others[0]] {
        let target = target.clone();
        let moving = Arc::clone(&cluster);
        // Returns when every node knows.
        let moved = tokio::spawn(blocking(move || moving.move_slot(slot, moving.node(&target).unwrap()).unwrap()));
        assert_eq!(gap(&mut subscription).await, GapReason::Moved);
        let gone = Instant::now();
        moved.await.unwrap();
        let events = until_message(&client, "a", true, &mut subscription).await;
        assert!(gone.elapsed() < Duration::from_secs(1), "{:?}", gone.elapsed());
        assert_message(&events[0], "a", "again");
        // Longer than the map is let settle.
        let _ = timeout(Duration::from_millis(1300), ordinary.next()).await;
        assert_eq!(drain(&mut subscription), 0, "one gap is enough");
        assert_eq!(shard_subscribers(cluster.node_for_slot(slot).unwrap().server(), "a"), 1);
    }
    assert_silent(&mut ordinary);
}

#[tokio::test]
async fn a_node_that_dies_is_replaced() {
    let cluster = Arc::new(Kind::of(3, 1).start());
    let client = cluster_client(&cluster);
    let mut shard = client.ssubscribe("a").await.unwrap();
    let mut ordinary = client.subscribe("a").await.unwrap();
    let owner = cluster.node_for_key("a").unwrap().0;
    let home = home(&cluster, "a")[0];
    let replica = cluster.replica_of(owner).unwrap();
    owner.server().kill().unwrap();
    let (killed, promoting) = (Arc::clone(&cluster), replica.id().to_owned());
    let promoted = blocking(move || killed.wait_for_promotion(&[killed.node(&promoting).unwrap()]).unwrap().at).await;
    let events = until_message(&client, "a", true, &mut shard).await;
    println!("messages again {:?} after the promotion", promoted.elapsed());
    assert_eq!(events[0], Event::Gap { reason: GapReason::ConnectionLost });
    assert_eq!(events.len(), 2, "{events:?}");
    let events = until_message(&client, "a", false, &mut ordinary).await;
    let gaps = usize::from(home.id() == owner.id());
    assert_eq!(events.len(), 1 + gaps, "{events:?}");
}

#[tokio::test]
async fn ordinary_channels_leave_a_node_that_cannot_be_reached() {
    let cluster = Kind::of(3, 0).start();
    let client = cluster_client(&cluster);
    let mut subscription = client.subscribe("a").await.unwrap();
    let old = home(&cluster, "a")[0];
    old.server().kill().unwrap();
    let since = Instant::now();
    assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    let new = home(&cluster, "a");
    assert_eq!(new.len(), 1);
    new[0].server().command(&["PUBLISH", "a", "1"]).unwrap();
    assert_message(&next(&mut subscription).await, "a", "1");
}

#[tokio::test]
async fn a_graceful_failover() {
    let cluster = Arc::new(Kind::of(3, 1).start());
    let client = cluster_client(&cluster);
    let mut shard = client.ssubscribe("a").await.unwrap();
    let replica = cluster.replica_of(cluster.node_for_key("a").unwrap().0).unwrap().id().to_owned();
    let failing = Arc::clone(&cluster);
    blocking(move || failing.failover(failing.node(&replica).unwrap(), Failover::Graceful).unwrap()).await;
    // The old primary says so itself, or the map does.
    gap(&mut shard).await;
    let events = until_message(&client, "a", true, &mut shard).await;
    assert_message(&events[0], "a", "again");
}

#[tokio::test]
async fn killed_connections_of_a_cluster() {
    let cluster = Kind::of(3, 0).start();
    let client = cluster_client(&cluster);
    let names: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
    let mut shards = client.ssubscribe(&names).await.unwrap();
    for node in cluster.nodes() {
        node.server().command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    }
    gap(&mut shards).await;
    until("all are back", || shards.is_live()).await;
    drain(&mut shards);
    for name in &names {
        assert_eq!(client.spublish(name, name).await.unwrap(), 1);
        let Event::Message(message) = next(&mut shards).await else { panic!("no message") };
        assert_eq!(text(&message.payload), *name);
    }
}

#[test]
fn a_cluster_is_followed_on_the_next_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = Kind::of(3, 0).start();
    let client = cluster_client(&cluster);
    let mut subscription = runtime().block_on(client.ssubscribe("a")).unwrap();
    let (owner, slot) = cluster.node_for_key("a").unwrap();
    let other = cluster.nodes().iter().find(|node| node.id() != owner.id()).unwrap();
    runtime().block_on(async {
        assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
        cluster.move_slot(slot, other).unwrap();
        assert_eq!(gap(&mut subscription).await, GapReason::Moved);
        other.server().command(&["SPUBLISH", "a", "1"]).unwrap();
        assert_message(&next(&mut subscription).await, "a", "1");
    });
}
