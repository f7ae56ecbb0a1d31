//! Nodes that die, stop, and are replaced, under load.

use std::time::{Duration, Instant};

use pilotlight_redis::config::WhenDown;
use pilotlight_redis::{Client, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::Failover;

use crate::bed::{Bed, Failed, Load, SECOND, address, preimages, until_ok, within};
use crate::lag::Lag;

const TASKS: usize = 64;

/// A key for each of some slots all over the cluster.
fn keys() -> Vec<String> {
    preimages().into_iter().step_by(31).collect()
}

/// The first of three shards.
fn is_of_first(slot: u16) -> bool {
    slot < 5461
}

#[track_caller]
fn assert_only_doubt(failed: &[Failed]) {
    for Failed { slot, error, took } in failed {
        assert!(is_of_first(*slot), "slot {slot} is not concerned: {error}");
        assert!(matches!(error.kind(), ErrorKind::Connection(_) | ErrorKind::Timeout(_)), "{error}");
        assert_eq!(
            (error.ran(), error.command()),
            (Ran::MaybeExecuted, "SET"),
            "what was not sent and what only reads is sent again: {error}"
        );
        assert!(*took < 6 * SECOND, "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_with_a_replica() {
    let bed = Bed::start(3, 1).await;
    let client = bed.client();
    // Made before: it takes a moment that is not the client's.
    let key = &preimages()[100];
    let load = Load::start(&client, TASKS, keys());
    load.more(2000).await;
    let lag = Lag::start();
    bed.nodes()[0].server().kill().unwrap();
    let promoted = bed.run(|cluster| cluster.wait_for_promotion(&[&cluster.nodes()[3]]).unwrap().at).await;
    let first = until_ok(5 * SECOND, || client.set(key, format!("{key}/"))).await;
    let delay = first.saturating_duration_since(promoted);
    load.more(2000).await;
    let failed = load.stop().await;
    println!("{} commands in doubt; first success {delay:?} after the promotion", failed.len());
    assert_only_doubt(&failed);
    assert!(failed.len() <= TASKS, "{} commands in doubt of {TASKS} tasks", failed.len());
    assert!(lag.excuses(promoted, SECOND, delay), "{delay:?}");
}

/// Commands to a killed primary wait for its successor within their deadlines: how long after the promotion they
/// succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_command_notices_the_promotion() {
    let bed = Bed::start(3, 1).await;
    let client = bed.client();
    let key = preimages().swap_remove(100);
    client.set(&key, "before").await.unwrap();
    let lag = Lag::start();
    bed.nodes()[0].server().kill().unwrap();
    let waiting = tokio::spawn({
        let (client, key) = (client.clone(), key.clone());
        async move {
            let result = client.set(&key, "after").retryable().timeout(20 * SECOND).await;
            (result, Instant::now())
        }
    });
    let promoted = bed.run(|cluster| cluster.wait_for_promotion(&[&cluster.nodes()[3]]).unwrap().at).await;
    let (result, at) = within(5 * SECOND, "the command", waiting).await.unwrap();
    result.unwrap();
    let delay = at.saturating_duration_since(promoted);
    println!("{delay:?} after the promotion");
    assert!(lag.excuses(promoted, SECOND, delay), "{delay:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_primary_with_a_replica() {
    let bed = Bed::start(3, 1).await;
    let client = bed.client();
    let key = &preimages()[100];
    let load = Load::start(&client, TASKS, keys());
    load.more(2000).await;
    bed.nodes()[0].server().stop().unwrap();
    let promoted = bed.run(|cluster| cluster.wait_for_promotion(&[&cluster.nodes()[3]]).unwrap().at).await;
    let first = until_ok(8 * SECOND, || client.set(key, format!("{key}/")).timeout(300 * SECOND / 1000)).await;
    println!("first success {:?} after the promotion", first.saturating_duration_since(promoted));
    load.more(2000).await;
    bed.nodes()[0].server().cont().unwrap();
    bed.run(|cluster| cluster.wait_until_agreed().unwrap()).await;
    load.more(2000).await;
    let failed = load.stop().await;
    println!("{} commands in doubt", failed.len());
    assert_only_doubt(&failed);
    assert!(first.saturating_duration_since(promoted) < 3 * SECOND);
}

async fn handed_over(how: Failover) {
    let bed = Bed::start(3, 1).await;
    let client = bed.client();
    let load = Load::start(&client, TASKS, keys());
    load.more(1000).await;
    bed.run(move |cluster| cluster.failover(&cluster.nodes()[3], how).unwrap()).await;
    load.more(2000).await;
    bed.run(|cluster| cluster.wait_until_agreed().unwrap()).await;
    // And back.
    bed.run(move |cluster| cluster.failover(&cluster.nodes()[0], how).unwrap()).await;
    load.more(2000).await;
    let failed = load.stop().await;
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_failover_costs_no_command() {
    handed_over(Failover::Graceful).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_failover_costs_no_command() {
    handed_over(Failover::Force).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_costs_no_command() {
    handed_over(Failover::Takeover).await;
}

/// Nobody takes its place: each command ends at its deadline and says that it was not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_without_a_replica() {
    let bed = Bed::start_lenient().await;
    let client = bed.client();
    let keys = preimages();
    for key in [&keys[0], &keys[16_000]] {
        client.set(key, "v").await.unwrap();
    }
    bed.nodes()[0].server().kill().unwrap();
    let limit = Duration::from_millis(500);
    // The loss is noticed: by a command that may still have been written to the dead socket.
    client.set(&keys[0], "v").timeout(limit).await.unwrap_err();
    until_ok(2 * SECOND, || client.set(&keys[16_000], "v")).await;
    let lag = Lag::start();
    let mut calls = tokio::task::JoinSet::new();
    for key in keys.iter().take(200).cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let begin = Instant::now();
            (client.set(key, "v").timeout(limit).await, begin, begin.elapsed())
        });
    }
    let other = Instant::now();
    client.get(&keys[16_000]).await.unwrap();
    lag.assert_in_time(other, Duration::from_millis(200)).await;
    for (result, begin, took) in calls.join_all().await {
        let error = result.unwrap_err();
        assert!(lag.excuses(begin, limit, took), "{took:?}");
        assert!(!matches!(error.kind(), ErrorKind::Closed | ErrorKind::Protocol(_)), "{error}");
        assert_eq!(error.ran(), Ran::NotSent, "{error}");
    }
    let error = client.set(&keys[0], "v").timeout(limit).await.unwrap_err();
    println!("{error}");
    bed.run(|cluster| cluster.nodes()[0].server().restart().unwrap()).await;
    until_ok(10 * SECOND, || client.set(&keys[0], "v")).await;
}

#[tokio::test]
async fn whoever_wants_to_fail_fast_does() {
    let bed = Bed::start_lenient().await;
    let client = Client::new(Config { when_down: WhenDown::FailFast, ..bed.config() }).unwrap();
    let key = preimages().swap_remove(0);
    client.set(&key, "v").await.unwrap();
    bed.nodes()[0].server().kill().unwrap();
    let _ = client.set(&key, "v").await;
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.set(&key, "v").await.unwrap_err();
    assert_eq!(error.ran(), Ran::NotSent);
    lag.assert_in_time(begin, SECOND).await;
}

async fn killed_connections(rounds: usize) {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let load = Load::start(&client, TASKS, keys());
    for _ in 0..rounds {
        load.more(300).await;
        bed.run(|cluster| {
            cluster.nodes().iter().for_each(|node| {
                node.server().client_kill_all().unwrap();
            });
        })
        .await;
    }
    load.more(300).await;
    let failed = load.stop().await;
    println!("{} commands in doubt", failed.len());
    for Failed { error, .. } in &failed {
        assert!(matches!(error.kind(), ErrorKind::Connection(_)), "{error}");
        assert_eq!((error.ran(), error.command()), (Ran::MaybeExecuted, "SET"), "{error}");
    }
    assert!(failed.len() <= TASKS * rounds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_cost_only_what_was_in_flight() {
    killed_connections(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_again_and_again_cost_only_what_was_in_flight() {
    killed_connections(20).await;
}

/// The only address that the client was told is that of a node that dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failover_after_the_other() {
    let bed = Bed::start(3, 1).await;
    let client = Client::new(Config::cluster([address(&bed.nodes()[0])])).unwrap();
    let load = Load::start(&client, 16, keys());
    for (old, new) in [(0, 3), (3, 0), (0, 3)] {
        load.more(500).await;
        bed.nodes()[old].server().kill().unwrap();
        bed.run(move |cluster| {
            cluster.wait_for_promotion(&[&cluster.nodes()[new]]).unwrap();
            cluster.nodes()[old].server().restart().unwrap();
            cluster.wait_until_agreed().unwrap();
        })
        .await;
    }
    load.more(500).await;
    assert_only_doubt(&load.stop().await);
}
