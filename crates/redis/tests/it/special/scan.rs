//! Scans.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config, ErrorKind, Scan, ScanToken};
use pilotlight_testkit::{Cluster, Node};

use super::{SECOND, cluster, keys, soon, standalone};

async fn all(mut scan: Scan) -> Vec<Bytes> {
    let mut found = Vec::new();
    while let Some(page) = soon(scan.next()).await {
        found.extend(page.unwrap());
    }
    assert!(scan.next().await.is_none());
    found
}

fn set(keys: &[impl AsRef<[u8]>]) -> HashSet<Vec<u8>> {
    keys.iter().map(|key| key.as_ref().to_vec()).collect()
}

async fn fill(client: &Client, count: usize) -> Vec<String> {
    let keys = keys(count);
    client.mset(keys.iter().map(|key| (key, "v")).collect::<Vec<_>>()).await.unwrap();
    keys
}

#[tokio::test]
async fn all_keys_of_a_server() {
    let (_server, client) = standalone();
    assert!(all(client.scan()).await.is_empty());
    let keys = fill(&client, 500).await;
    filters(&client, &keys).await;
    resumed(&client, &keys).await;
}

#[tokio::test]
async fn all_keys_of_a_cluster() {
    let (_cluster, client) = cluster(5);
    assert!(all(client.scan()).await.is_empty());
    let keys = fill(&client, 500).await;
    filters(&client, &keys).await;
    resumed(&client, &keys).await;
}

async fn filters(client: &Client, keys: &[String]) {
    assert_eq!(set(&all(client.scan()).await), set(keys));
    assert_eq!(set(&all(client.scan().count(100)).await), set(keys));
    let twos: Vec<_> = keys.iter().filter(|key| key.starts_with("key:2")).collect();
    assert_eq!(set(&all(client.scan().pattern("key:2*")).await), set(&twos));
    client.lpush("list", 1).await.unwrap();
    assert_eq!(all(client.scan().type_("list")).await, ["list"]);
    client.del("list").await.unwrap();
    let mut scan = client.scan().count(50);
    let page = std::future::poll_fn(|cx| Pin::new(&mut scan).poll_next(cx)).await.unwrap().unwrap();
    assert!(!page.is_empty());
}

/// In one client after the other, by the token's text.
async fn resumed(client: &Client, keys: &[String]) {
    let mut found = Vec::new();
    let mut token: ScanToken = client.scan().token().to_string().parse().unwrap();
    for _ in 0..1000 {
        let mut scan = client.scan().count(20).resume(token);
        let Some(page) = soon(scan.next()).await else {
            assert_eq!(set(&found), set(keys));
            return;
        };
        found.extend(page.unwrap());
        token = scan.token().to_string().parse().unwrap();
    }
    panic!("no end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stable_key_is_found_while_slots_move() {
    let (cluster, client) = cluster(3);
    let stable = fill(&client, 2000).await;
    let other: Vec<_> = (0..500).map(|number| format!("brief:{number}")).collect();
    let is_over = AtomicBool::new(false);
    let moves = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Slots go round among the nodes as long as the scans last.
            for round in 0.. {
                agree_on_the_epoch(&cluster);
                for number in (0..2000).step_by(40) {
                    let (_, slot) = cluster.node_for_key(&format!("key:{number}")).unwrap();
                    cluster.move_slot(slot, &cluster.nodes()[round % 3]).unwrap();
                    moves.fetch_add(1, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        let scanning = async {
            for _ in 0..3 {
                for key in &other {
                    client.set(key, 1).await.unwrap();
                }
                let found = all(client.scan().count(50)).await;
                let found = set(&found);
                let (mut missing, mut dropped) = (Vec::new(), 0);
                for key in stable.iter().filter(|key| !found.contains(key.as_bytes())) {
                    // Nodes that quarrel about a slot on a loaded machine drop its keys: those were not stable.
                    match client.exists([key]).await.unwrap() {
                        0 => dropped += 1,
                        _ => missing.push(key),
                    }
                }
                assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
                assert!(dropped < stable.len() / 10, "{dropped} were dropped by the servers");
                client.del(&other).await.unwrap();
            }
        };
        // Caught, so that the slots stop moving.
        let scanned = tokio::task::block_in_place(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                tokio::runtime::Handle::current().block_on(scanning);
            }))
        });
        is_over.store(true, Ordering::Relaxed);
        scanned.unwrap();
    });
    assert!(moves.load(Ordering::Relaxed) > 20, "the slots moved too slowly for this to be a test");
}

/// Its keys are away while the scan passes their places, and at the end it is where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_comes_back_is_scanned_again() {
    let (cluster, _) = cluster(3);
    // It hears of the moves by nothing but the scan.
    let mut config = Config::cluster(cluster.nodes().iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port())));
    config.cluster.refresh_interval = None;
    let client = Client::new(config).unwrap();
    let mut keys = fill(&client, 300).await;
    let first = cluster.node_for_slot(0).unwrap();
    let is_there = |tag: &String| cluster.node_for_key(tag).unwrap().0.id() == first.id();
    let tag = (0..).map(|number| format!("{{{number}}}")).find(is_there).unwrap();
    let tagged: Vec<String> = (0..200).map(|number| format!("{tag}:{number}")).collect();
    client.mset(tagged.iter().map(|key| (key, "v")).collect::<Vec<_>>()).await.unwrap();
    keys.extend(tagged);
    let slot = cluster.node_for_key(&tag).unwrap().1;
    let other = cluster.nodes().iter().find(|node| node.id() != first.id()).unwrap();
    let mut scan = client.scan().count(10);
    let mut found = Vec::new();
    for call in 0..9 {
        match call {
            2 => tokio::task::block_in_place(|| cluster.move_slot(slot, other).unwrap()),
            8 => tokio::task::block_in_place(|| cluster.move_slot(slot, first).unwrap()),
            _ => {}
        }
        found.extend(soon(scan.next()).await.unwrap().unwrap());
    }
    found.extend(all(scan).await);
    let found = set(&found);
    let missing: Vec<_> = keys.iter().filter(|key| !found.contains(key.as_bytes())).collect();
    assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
}

/// Until all nodes know of the last move, the next one with another target may take an epoch that is in use, and then
/// nodes quarrel about slots.
fn agree_on_the_epoch(cluster: &Cluster) {
    let since = Instant::now();
    loop {
        let epoch = |node: &Node| {
            let info = node.server().command(&["CLUSTER", "INFO"]).unwrap().text().into_owned();
            info.lines().find(|line| line.starts_with("cluster_current_epoch:")).unwrap().to_owned()
        };
        let epochs: HashSet<String> = cluster.nodes().iter().map(epoch).collect();
        if epochs.len() == 1 {
            return;
        }
        assert!(since.elapsed() < 10 * SECOND, "{epochs:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn slots_on_their_way_are_waited_for_but_not_for_ever() {
    let (cluster, client) = cluster(3);
    let keys = fill(&client, 100).await;
    let (source, slot) = cluster.node_for_key("key:1").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    let step = cluster.begin_move(slot, target).unwrap();
    let mut scan = client.scan().patience(SECOND);
    let mut found = Vec::new();
    let error = loop {
        match soon(scan.next()).await.unwrap() {
            Ok(page) => found.extend(page),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains(&format!("slots {slot} are on their way")), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Cluster(_)));
    assert!(scan.next().await.is_none());
    step.migrate_all().unwrap();
    step.finish().unwrap();
    found.extend(all(client.scan().resume(scan.token())).await);
    assert_eq!(set(&found), set(&keys));
}

#[tokio::test]
async fn a_refused_scan_ends() {
    let (_server, alone) = standalone();
    let (_cluster, clustered) = cluster(3);
    for client in [alone, clustered] {
        let mut scan = client.scan().count(0);
        assert!(soon(scan.next()).await.unwrap().unwrap_err().server().is_some());
        assert!(scan.next().await.is_none());
    }
}

#[tokio::test]
async fn members_of_one_key() {
    let (cluster, client) = cluster(3);
    let fields: Vec<(String, String)> = (0..1000).map(|n| (format!("f{n}"), format!("v{n}"))).collect();
    client.hset("h", fields.clone()).await.unwrap();
    let mut scan = client.scan_hash("h").count(50);
    let mut found = HashSet::new();
    let mut pages = 0;
    let (source, slot) = cluster.node_for_key("h").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    while let Some(page) = soon(scan.next()).await {
        found.extend(page.unwrap());
        pages += 1;
        if pages == 3 {
            cluster.move_slot(slot, target).unwrap();
        }
    }
    assert!(pages > 3);
    assert_eq!(found, fields.into_iter().map(|(f, v)| (Bytes::from(f), Bytes::from(v))).collect());

    client.sadd("s", ["a", "b", "ab"]).await.unwrap();
    let page = client.scan_set("s").pattern("a*").next().await.unwrap().unwrap();
    assert_eq!(set(&page), set(&["a", "ab"]));
    client.zadd("z", [(1.5, "m")]).await.unwrap();
    assert_eq!(client.scan_sorted_set("z").next().await.unwrap().unwrap(), [(Bytes::from("m"), 1.5)]);
    assert!(client.scan_set("nothing").next().await.is_none());
}
