mod kills;

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::recipes::stream::{Consumer, ConsumerConfig, DeadLetters, Start, StreamError, Trim};
use pilotlight_redis::{Client, Command, Commands};
use pilotlight_testkit::Server;
use tokio::time::timeout;

use super::{start, until};
use crate::spare::Kind;

const LIMIT: Duration = Duration::from_secs(30);

fn config() -> ConsumerConfig {
    ConsumerConfig { claim_after: Duration::from_millis(300), ..ConsumerConfig::new("s", "g") }
}

async fn add(client: &Client, count: usize) {
    for number in 1..=count {
        client.xadd("s", format!("{number}-0"), [("n", number)]).await.unwrap();
    }
}

async fn next(consumer: &mut Consumer) -> pilotlight_redis::recipes::stream::Entry {
    timeout(LIMIT, consumer.next()).await.expect("an entry comes").expect("it is not at its end").unwrap()
}

async fn pending(client: &Client) -> u64 {
    client.xpending("s", "g").await.unwrap().count
}

#[tokio::test]
async fn entries_come_once_and_are_acknowledged() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 3).await;
    let mut consumer = Consumer::open(&client, config()).await.unwrap();
    for number in 1..=3 {
        let mut entry = next(&mut consumer).await;
        assert_eq!((&**entry.id(), entry.deliveries()), (format!("{number}-0").as_bytes(), 1));
        assert_eq!(entry.get("n").unwrap(), number.to_string().as_bytes());
        assert!(entry.is_held() && entry.ack().await.unwrap());
        assert!(!entry.ack().await.unwrap(), "only once");
    }
    assert_eq!(pending(&client).await, 0);
    consumer.stopper().stop();
    assert!(timeout(LIMIT, consumer.next()).await.unwrap().is_none());
    assert!(consumer.close(LIMIT).await);
    assert_eq!(client.xinfo_consumers("s", "g").await.unwrap().len(), 0, "it took leave");
}

#[tokio::test]
async fn no_more_are_prefetched_than_there_is_room_for() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 20).await;
    let mut consumer = Consumer::open(&client, ConsumerConfig { max_prefetched: 4, ..config() }).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(next(&mut consumer).await);
    }
    assert!(timeout(Duration::from_millis(50), consumer.next()).await.is_err(), "there is room for four");
    assert_eq!(pending(&client).await, 4);
    held[1].ack().await.unwrap();
    held.remove(1);
    assert_eq!(&**next(&mut consumer).await.id(), b"5-0");
}

#[tokio::test]
async fn what_is_held_is_kept_and_what_is_dropped_comes_again() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 2).await;
    // Nobody is claimed from while this test is slow.
    let patient = ConsumerConfig { claim_after: Duration::from_secs(3), max_prefetched: 1, ..config() };
    let mut first = Consumer::open(&client, patient.clone()).await.unwrap();
    let held = next(&mut first).await;
    let mut second = Consumer::open(&client, patient).await.unwrap();
    let dropped = next(&mut second).await;
    assert_eq!((held.deliveries(), dropped.deliveries()), (1, 1));
    let id = dropped.id().clone();
    drop(dropped);
    let again = next(&mut second).await;
    assert_eq!((again.id(), again.deliveries()), (&id, 2));
    assert!(held.is_held(), "longer than it would be without being kept");
    drop(again);
    // A consumer that is gone keeps nothing.
    drop(first);
    let first = held.id().clone();
    drop(held);
    let mut seen = std::collections::HashMap::new();
    while seen.len() < 2 {
        let mut entry = next(&mut second).await;
        seen.insert(entry.id().clone(), entry.deliveries());
        entry.ack().await.unwrap();
    }
    assert_eq!(seen[&first], 2);
    assert!(seen[&id] >= 3);
}

#[tokio::test]
async fn who_lost_an_entry_is_told() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 1).await;
    let mut consumer = Consumer::open(&client, config()).await.unwrap();
    let mut entry = next(&mut consumer).await;
    client.xclaim("s", "g", "thief", 0, entry.id()).await.unwrap();
    until(|| async { !entry.is_held() }).await;
    assert!(entry.ack().await.unwrap(), "what was handled is acknowledged all the same");
    assert_eq!(pending(&client).await, 0);
}

/// A process that was paused gives out nothing that somebody else has handled meanwhile.
#[tokio::test]
async fn what_waited_for_too_long_is_asked_for_before_it_is_given_out() {
    let (server, client) = start(Server::builder()).await;
    add(&client, 1).await;
    let mut consumer = Consumer::open(&client, config()).await.unwrap();
    until(|| async { pending(&client).await == 1 }).await;
    // Nothing of this runtime runs: as a process that is stopped.
    std::thread::sleep(config().claim_after * 3 / 2);
    server.command(&["XCLAIM", "s", "g", "thief", "0", "1-0"]).unwrap();
    let entry = next(&mut consumer).await;
    assert_eq!(entry.deliveries(), 3, "only when it was claimed back");
}

#[tokio::test]
async fn too_many_deliveries_make_a_dead_letter() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 2).await;
    let dead_letters = Some(DeadLetters { max_length: Some(1000), ..DeadLetters::after(2, "dead") });
    let mut consumer = Consumer::open(&client, ConsumerConfig { dead_letters, ..config() }).await.unwrap();
    let mut buried = next(&mut consumer).await;
    assert!(buried.bury().await.unwrap() && !buried.bury().await.unwrap());
    for deliveries in 1..=2 {
        assert_eq!(next(&mut consumer).await.deliveries(), deliveries);
    }
    until(|| async { client.xlen("dead").await.unwrap() == 2 }).await;
    until(|| async { pending(&client).await == 0 }).await;
    let dead = client.xrange("dead", "-", "+").await.unwrap();
    let texts = |index: usize| {
        ["n", "dead-letter:stream", "dead-letter:group", "dead-letter:id", "dead-letter:deliveries"]
            .map(|name| String::from_utf8(dead[index].get(name).unwrap().to_vec()).unwrap())
    };
    assert_eq!(texts(0), ["1", "s", "g", "1-0", "1"]);
    assert_eq!(texts(1), ["2", "s", "g", "2-0", "3"]);
}

#[tokio::test]
async fn only_what_all_groups_have_acknowledged_is_trimmed() {
    let (_server, client) = start(Server::builder().config("stream-node-max-entries 10")).await;
    add(&client, 100).await;
    client.xgroup_create("s", "slow", "0").await.unwrap();
    let trimming = ConsumerConfig { trim: Trim::Acknowledged, ..config() };
    let mut consumer = Consumer::open(&client, trimming.clone()).await.unwrap();
    for _ in 0..100 {
        next(&mut consumer).await.ack().await.unwrap();
    }
    let slow = || {
        client.xreadgroup_with(
            "slow",
            "other",
            [("s", ">")],
            pilotlight_redis::commands::options::XreadgroupOptions::new().count(55),
        )
    };
    let read = slow().await.unwrap().unwrap();
    assert_eq!(read[0].1.len(), 55);
    assert_eq!(client.xlen("s").await.unwrap(), 100, "nothing was acknowledged");
    let ids: Vec<_> = read[0].1[..50].iter().map(|entry| entry.id.clone()).collect();
    client.xack("s", "slow", &ids).await.unwrap();
    until(|| async { client.xlen("s").await.unwrap() == 50 }).await;
    client.xack("s", "slow", [&read[0].1[51].id, &read[0].1[54].id]).await.unwrap();
    slow().await.unwrap();
    assert!(consumer.close(LIMIT).await);
    // What is pending in the middle stays, and so do the newest that are to be kept.
    let keeping = ConsumerConfig { trim: Trim::KeepNewest(25), ..trimming };
    let consumer = Consumer::open(&client, keeping).await.unwrap();
    let rest: Vec<_> = (51..=100).map(|number| format!("{number}-0")).collect();
    client.xack("s", "slow", &rest).await.unwrap();
    until(|| async { client.xlen("s").await.unwrap() <= 30 }).await;
    assert!(consumer.close(LIMIT).await);
    assert!(client.xlen("s").await.unwrap() >= 25);
}

#[tokio::test]
async fn a_group_that_is_gone_is_an_error_and_the_end() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 1).await;
    let from_now = ConsumerConfig { start: Start::End, ..config() };
    let mut consumer = Consumer::open(&client, from_now).await.unwrap();
    client.xadd("s", "2-0", [("n", 2)]).await.unwrap();
    let mut entry = next(&mut consumer).await;
    assert_eq!(&**entry.id(), b"2-0");
    entry.ack().await.unwrap();
    client.xgroup_destroy("s", "g").await.unwrap();
    let end = timeout(LIMIT, consumer.next()).await.unwrap().unwrap();
    assert!(matches!(end, Err(StreamError::Gone(_))), "{end:?}");
    assert!(consumer.next().await.is_none());
}

#[tokio::test]
async fn consumers_that_left_are_forgotten_unless_they_have_something() {
    let (_server, client) = start(Server::builder()).await;
    add(&client, 1).await;
    client.xgroup_create("s", "g", "0").await.unwrap();
    client.xgroup_createconsumer("s", "g", "idle").await.unwrap();
    client.xreadgroup("g", "has one", [("s", ">")]).await.unwrap();
    let config = ConsumerConfig {
        claim_after: Duration::from_secs(600),
        forget_after: Duration::from_millis(1),
        consumer: Some(Bytes::from_static(b"me")),
        ..config()
    };
    tokio::time::sleep(Duration::from_millis(2)).await;
    let consumer = Consumer::open(&client, config).await.unwrap();
    let names = || async {
        let consumers = client.xinfo_consumers("s", "g").await.unwrap();
        let name = |facts: &pilotlight_redis::reply::Facts| format!("{:?}", facts[&b"name"[..]]);
        consumers.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    until(|| async { !names().await.contains("idle") }).await;
    assert!(names().await.contains("has one"));
    assert!(consumer.close(LIMIT).await);
}

#[tokio::test]
async fn in_a_cluster_and_wrong_uses() {
    let cluster = tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap();
    let url = cluster.nodes()[0].server().url().replace("redis://", "redis+cluster://");
    let client = Client::connect(&url).await.unwrap();
    let dead = |stream: &'static str| Some(DeadLetters::after(1, stream));
    let mut consumer =
        Consumer::open(&client, ConsumerConfig { dead_letters: dead("{s}:dead"), ..config() }).await.unwrap();
    add(&client, 1).await;
    assert_eq!(next(&mut consumer).await.deliveries(), 1);
    until(|| async { client.xlen("{s}:dead").await.unwrap() == 1 }).await;

    let wrong = [
        ConsumerConfig { dead_letters: dead("elsewhere"), ..config() },
        ConsumerConfig { dead_letters: Some(DeadLetters::after(0, "{s}:dead")), ..config() },
        ConsumerConfig { max_prefetched: 0, ..config() },
        ConsumerConfig { claim_after: Duration::from_millis(99), ..config() },
        ConsumerConfig { block: Duration::ZERO, ..config() },
    ];
    for config in wrong {
        assert!(matches!(Consumer::open(&client, config).await, Err(StreamError::Redis(_))));
    }
    client.run::<()>(Command::raw("SET").arg("text").arg("x")).await.unwrap();
    let wrong = Consumer::open(&client, ConsumerConfig::new("text", "g")).await;
    assert!(matches!(wrong, Err(StreamError::Redis(_))), "{wrong:?}");
}
