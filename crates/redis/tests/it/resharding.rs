//! Slots that move while they are used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_redis::Commands;
use pilotlight_testkit::Server;

use crate::bed::{Bed, Load, SECOND, eventually, preimages};

const TASKS: usize = 64;
const MOVED: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_slots_move_under_load_without_an_error() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    // Half of the load is on the slots that move.
    let keys: Vec<String> = preimages();
    let used = keys.iter().take(MOVED).chain(keys.iter().skip(MOVED).step_by(80)).cloned().collect();
    let load = Load::start(&client, TASKS, used);
    load.more(1000).await;
    let (refreshes, begin) = (bed.calls("cluster|slots"), Instant::now());
    bed.run(|cluster| cluster.move_slots(0..MOVED as u16, &cluster.nodes()[2]).unwrap()).await;
    load.more(1000).await;
    let (refreshes, took) = (bed.calls("cluster|slots") - refreshes, begin.elapsed());
    let done = load.done();
    let failed = load.stop().await;
    let (moved, ask) = (bed.errors("MOVED"), bed.errors("ASK"));
    println!("{done} pairs; {moved} MOVED, {ask} ASK; {refreshes} times asked for the map in {took:?}");
    assert!(failed.is_empty(), "{} errors, first {:?}", failed.len(), failed.first());
    // Of each slot, what was in flight when it moved: those tasks that used it, at most.
    assert!(moved <= 3 * MOVED as u64, "{moved} redirects for {MOVED} slots");
    // Three nodes at once, not more often than once a second.
    assert!(refreshes <= 3 * (took.as_secs() + 2), "{refreshes} in {took:?}");
}

/// The map is asked for once, not once for each of many commands that find it stale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_redirects_at_once_are_one_refresh() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let keys = preimages();
    client.set(&keys[0], "v").await.unwrap();
    bed.run(|cluster| cluster.move_slots(0..50, &cluster.nodes()[2]).unwrap()).await;
    let before = bed.calls("cluster|slots");
    let mut calls = tokio::task::JoinSet::new();
    for key in keys.iter().take(50).cloned() {
        let client = client.clone();
        calls.spawn(async move { client.set(key, "v").await });
    }
    for result in calls.join_all().await {
        result.unwrap();
    }
    assert!(bed.errors("MOVED") <= 50);
    eventually(3 * SECOND, "the refresh", || bed.calls("cluster|slots") > before).await;
    for key in keys.iter().take(50) {
        client.get(key).await.unwrap();
    }
    assert!(bed.errors("MOVED") <= 50);
    assert!(bed.calls("cluster|slots") - before <= 6, "{}", bed.calls("cluster|slots") - before);
}

/// A node joins and gets its first slots: until then no map names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_to_a_node_that_the_map_does_not_know() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let load = Load::start(&client, 16, preimages().into_iter().take(40).collect());
    load.more(200).await;
    let new = bed
        .run(|cluster| {
            let new =
                Server::builder().config("cluster-enabled yes").config("cluster-node-timeout 1000").start().unwrap();
            let source = cluster.nodes()[0].server();
            new.command(&["CLUSTER", "MEET", "127.0.0.1", &source.port().to_string()]).unwrap();
            let is_joined = |node: &Server| {
                let info = node.command(&["CLUSTER", "INFO"]).unwrap();
                ["cluster_known_nodes:4", "cluster_state:ok"].iter().all(|line| info.text().contains(line))
            };
            until(|| is_joined(&new) && cluster.nodes().iter().all(|node| is_joined(node.server())));
            Arc::new(new)
        })
        .await;
    for slot in 0..20_u16 {
        let (new, counted) = (Arc::clone(&new), bed.clone());
        bed.run(move |cluster| {
            let source = &cluster.nodes()[0];
            // Somebody is sent to the new node before the slot is.
            move_by_hand(source.server(), source.id(), &new, slot, || until(|| counted.errors("ASK") > 0));
        })
        .await;
        load.more(20).await;
    }
    eventually(20 * SECOND, "MOVED", || bed.errors("MOVED") > 0).await;
    let failed = load.stop().await;
    assert!(failed.is_empty(), "{failed:?}");
}

/// Blocks until it is so.
fn until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < 20 * SECOND);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `meanwhile`: while the keys are there, and the slot is not.
fn move_by_hand(source: &Server, source_id: &str, target: &Server, slot: u16, meanwhile: impl Fn()) {
    let (slot, port) = (slot.to_string(), target.port().to_string());
    let target_id = target.command(&["CLUSTER", "MYID"]).unwrap().text().into_owned();
    target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", source_id]).unwrap();
    source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]).unwrap();
    loop {
        let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]).unwrap();
        let keys: Vec<String> = keys.array().iter().map(|key| key.text().into_owned()).collect();
        if keys.is_empty() {
            break;
        }
        let words =
            ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].into_iter().chain(keys.iter().map(String::as_str));
        source.command(&words.collect::<Vec<_>>()).unwrap();
    }
    meanwhile();
    target.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]).unwrap();
    source.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]).unwrap();
}
