//! A cluster: each reply is covered by the connection to the owner of its slot.

use std::sync::Arc;

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{CacheConfig, Client, Commands, Config};
use pilotlight_testkit::Cluster;

use super::{barrier, cached, until, value};
use crate::spare::Kind;

fn client(cluster: &Cluster) -> Client {
    Client::new(Config::cluster(cluster.nodes().iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port())))).unwrap()
}

#[tokio::test]
async fn a_slot_that_moves_takes_its_replies_along() {
    let cluster = Arc::new(tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap());
    let (writer, cached) = (client(&cluster), cached(&client(&cluster)));
    let keys: Vec<String> = (0..60).map(|number| format!("key:{number}")).collect();
    // The very first call finds no map yet: what it reads is not kept.
    value(&cached, &keys[0]).await;
    for key in &keys {
        writer.set(key, "old").await.unwrap();
        assert_eq!(value(&cached, key).await, "old");
    }
    for key in &keys {
        assert_eq!(value(&cached, key).await, "old");
    }
    assert_eq!(cached.stats().hits, 60);

    let moving = keys[..6].to_vec();
    let moved = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || {
        for key in &moving {
            let (_, slot) = moved.node_for_key(key).unwrap();
            moved.move_slot(slot, &moved.nodes()[0]).unwrap();
        }
    })
    .await
    .unwrap();
    for key in &keys {
        writer.set(key, "new").await.unwrap();
        barrier(&cached, key).await;
        assert_eq!(value(&cached, key).await, "new", "{key}");
        // Kept again, at the new owner.
        value(&cached, key).await;
        let hits = cached.stats().hits;
        assert_eq!(value(&cached, key).await, "new", "{key}");
        assert_eq!(cached.stats().hits, hits + 1, "{key}");
    }
    for key in &keys {
        writer.set(key, "newest").await.unwrap();
        barrier(&cached, key).await;
        assert_eq!(value(&cached, key).await, "newest", "{key}");
    }
}

#[tokio::test]
async fn a_killed_connection_takes_only_its_own_replies_along() {
    let cluster = tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap();
    let (writer, cached) = (client(&cluster), client(&cluster).cached(CacheConfig::default()).unwrap());
    let keys: Vec<String> = (0..30).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        writer.set(key, "old").await.unwrap();
        assert_eq!(value(&cached, key).await, "old");
    }
    let (node, _) = cluster.node_for_key(&keys[0]).unwrap();
    node.server().client_kill_all().unwrap();
    until(|| cached.stats().losses == 1).await;
    let mut hits = 0;
    for key in &keys {
        let before = cached.stats().hits;
        assert_eq!(value(&cached, key).await, "old");
        let is_hit = cached.stats().hits > before;
        assert_eq!(is_hit, cluster.node_for_key(key).unwrap().0.id() != node.id(), "{key}");
        hits += u64::from(is_hit);
    }
    assert!(hits > 0);
}
