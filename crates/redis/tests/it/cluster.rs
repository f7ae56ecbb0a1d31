//! Routing, redirects and the map of a real cluster.

mod addresses;
mod epochs;
mod scripted;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::Server;

use crate::bed::{Bed, SECOND, address, eventually, preimages, until_ok, within};
use crate::lag::Lag;

#[tokio::test]
async fn every_slot_goes_to_the_node_that_owns_it() {
    let bed = Bed::start(5, 0).await;
    let client = bed.client();
    let keys = preimages();
    // The server is the one who knows.
    for (chunk, keys) in keys.chunks(512).enumerate() {
        let mut pipeline = client.pipeline();
        let ask = |key| (&mut pipeline).run::<usize>(Command::raw("CLUSTER KEYSLOT").arg(key));
        let asked: Vec<_> = keys.iter().map(ask).collect();
        let mut replies = pipeline.run().await.unwrap();
        for (at, asked) in asked.into_iter().enumerate() {
            assert_eq!(replies.take(asked).unwrap(), chunk * 512 + at);
        }
    }
    for keys in keys.chunks(512) {
        let mut pipeline = client.pipeline();
        let queued: Vec<_> = keys.iter().map(|key| pipeline.set(key, key)).collect();
        let mut replies = pipeline.run().await.unwrap();
        queued.into_iter().for_each(|queued| replies.take(queued).unwrap());
    }
    for key in keys.iter().step_by(13) {
        assert_eq!(client.get(key).await.unwrap(), Some(Bytes::from(key.clone())));
    }
    assert_eq!(bed.errors("MOVED"), 0, "nobody was asked for another's slot");
    for node in bed.nodes() {
        let known = node.known_nodes().unwrap();
        let own = known.iter().find(|known| known.has_flag("myself")).unwrap();
        let expected: usize = own.slots.iter().map(|range| range.len()).sum();
        assert_eq!(node.server().command(&["DBSIZE"]).unwrap().integer(), Some(expected as i64));
    }
}

#[tokio::test]
async fn a_moved_slot_costs_one_redirect() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    client.set("{a}1", "v").await.unwrap();
    bed.run(|cluster| {
        let (source, slot) = cluster.node_for_key("{a}1").unwrap();
        let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        cluster.move_slot(slot, target).unwrap();
    })
    .await;
    for _ in 0..100 {
        assert_eq!(client.get("{a}1").await.unwrap().as_deref(), Some(&b"v"[..]));
    }
    assert_eq!(bed.errors("MOVED"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ask_is_followed_for_this_key_and_this_time_only() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let (source, slot) = bed.node_for_key("{a}1").unwrap();
    let target = bed.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    client.set("{a}here", "1").await.unwrap();
    client.set("{a}there", "2").await.unwrap();
    let step = bed.begin_move(slot, target).unwrap();
    step.migrate(&["{a}there"]).unwrap();
    for _ in 0..10 {
        assert_eq!(client.get("{a}here").await.unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(client.get("{a}there").await.unwrap().as_deref(), Some(&b"2"[..]));
    }
    // A key that does not exist yet is made where the slot goes to.
    client.set("{a}new", "3").await.unwrap();
    assert_eq!(target.server().command(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).unwrap().integer(), Some(2));
    assert_eq!((bed.errors("ASK"), bed.errors("MOVED")), (11, 0));
    step.migrate_all().unwrap();
    step.finish().unwrap();
    assert_eq!(client.get("{a}new").await.unwrap().as_deref(), Some(&b"3"[..]));
}

/// `TRYAGAIN` of the source, then of the target: while some keys are here and some there, nobody can answer for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_for_keys_on_both_sides_of_a_migration_waits_for_its_end() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let (source, slot) = bed.node_for_key("{a}1").unwrap();
    let target = bed.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    for key in ["{a}1", "{a}2", "{a}3"] {
        client.set(key, key).await.unwrap();
    }
    let step = bed.begin_move(slot, target).unwrap();
    step.migrate(&["{a}1"]).unwrap();
    let call = |keys: [&'static str; 2]| {
        let client = client.clone();
        tokio::spawn(async move {
            client.mget(keys).await.map(|values: Vec<Option<Bytes>>| values.into_iter().flatten().count())
        })
    };
    let at_source = call(["{a}1", "{a}2"]);
    eventually(5 * SECOND, "TRYAGAIN of the source", || bed.errors("TRYAGAIN") > 0).await;
    // Neither key is at the source, and one of them nowhere: the target is asked and cannot say.
    let at_target = call(["{a}1", "{a}none"]);
    let before = bed.errors("TRYAGAIN");
    // More often than redirects are followed.
    eventually(5 * SECOND, "TRYAGAIN of the target", || bed.errors("TRYAGAIN") > before + 12).await;
    assert!(!at_source.is_finished() && !at_target.is_finished());
    step.migrate_all().unwrap();
    step.finish().unwrap();
    assert_eq!(within(2 * SECOND, "the end", at_source).await.unwrap().unwrap(), 2);
    assert_eq!(within(2 * SECOND, "the end", at_target).await.unwrap().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_nobody_serves_is_waited_for() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    client.set("k", "v").await.unwrap();
    let (owner, slot) = bed.node_for_key("k").unwrap();
    let slot = slot.to_string();
    owner.server().command(&["CLUSTER", "DELSLOTS", &slot]).unwrap();
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.get("k").timeout(Duration::from_millis(300)).await.unwrap_err();
    println!("{error}");
    lag.assert_in_time(begin, Duration::from_millis(300)).await;
    // The deadline may have come in the middle of an attempt.
    assert_ne!(error.ran(), Ran::Executed, "{error}");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get("k").await }
    });
    eventually(2 * SECOND, "CLUSTERDOWN", || bed.errors("CLUSTERDOWN") > 1).await;
    owner.server().command(&["CLUSTER", "ADDSLOTS", &slot]).unwrap();
    let value = within(6 * SECOND, "the slot", waiting).await.unwrap().unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
}

/// Seeds that are dead are no matter once others are known.
#[tokio::test]
async fn known_nodes_stand_in_for_dead_seeds() {
    let bed = Bed::start(3, 1).await;
    let client = Client::new(Config::cluster([address(&bed.nodes()[0])])).unwrap();
    for key in ["a", "b", "c", "d"] {
        client.set(key, key).await.unwrap();
    }
    bed.nodes()[0].server().kill().unwrap();
    bed.run(|cluster| cluster.wait_for_promotion(&[&cluster.nodes()[3]]).map(|_| ()).unwrap()).await;
    for key in ["a", "b", "c", "d"] {
        until_ok(3 * SECOND, || client.get(key)).await;
    }
}

#[tokio::test]
async fn the_cluster_may_come_after_the_client() {
    // A node takes writes half of this after its first slots, five seconds at most.
    let lone = Server::builder().config("cluster-enabled yes").config("cluster-node-timeout 1000");
    let server = Arc::new(tokio::task::spawn_blocking(|| lone.start().unwrap()).await.unwrap());
    let client = Client::new(Config::cluster([NodeAddress::tcp("127.0.0.1", server.port())])).unwrap();
    // A busy machine may take longer than this for the first map.
    let first_map = async {
        loop {
            let error = client.set("k", "v").timeout(Duration::from_millis(200)).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Cluster(_)), "{error}");
            if error.to_string().contains("no slot is served") {
                break;
            }
        }
    };
    within(10 * SECOND, "the error that no slot is served", first_map).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.set("k", "v").timeout(20 * SECOND).await }
    });
    tokio::time::sleep(2 * SECOND).await;
    let all = server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    all.unwrap();
    within(6 * SECOND, "the first map", waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn all_nodes_restart_on_their_ports() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
    for key in &keys {
        client.set(key, key).await.unwrap();
    }
    bed.run(|cluster| {
        cluster.nodes().iter().for_each(|node| node.server().kill().unwrap());
        cluster.nodes().iter().for_each(|node| node.server().restart().unwrap());
        cluster.wait_until_agreed().unwrap();
    })
    .await;
    for key in &keys {
        client.set(key, key).retryable().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_removed_is_forgotten() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    let keys = preimages();
    let leaving = address(&bed.nodes()[2]).to_string();
    for key in keys.iter().step_by(1000) {
        client.set(key, "v").await.unwrap();
    }
    assert!(client.stats().lanes.iter().any(|lane| *lane.node == *leaving));
    bed.run(|cluster| {
        let [first, _, third] = [0, 1, 2].map(|index| &cluster.nodes()[index]);
        // All its slots at once, so that the test does not take a minute.
        let slots: Vec<String> = third
            .known_nodes()
            .unwrap()
            .iter()
            .filter(|known| known.id == third.id())
            .flat_map(|known| known.slots.clone())
            .flatten()
            .map(|slot| slot.to_string())
            .collect();
        third.server().command(&["FLUSHALL"]).unwrap();
        for node in cluster.nodes().iter().rev() {
            for slot in &slots {
                node.server().command(&["CLUSTER", "SETSLOT", slot, "NODE", first.id()]).unwrap();
            }
        }
        for node in &cluster.nodes()[..2] {
            node.server().command(&["CLUSTER", "FORGET", third.id()]).unwrap();
        }
        third.server().kill().unwrap();
    })
    .await;
    for key in keys.iter().step_by(1000) {
        client.set(key, "v").await.unwrap();
    }
    eventually(5 * SECOND, "the end of its lanes", || client.stats().lanes.iter().all(|lane| *lane.node != *leaving))
        .await;
}

/// Where only the newer question is allowed, that is asked.
#[tokio::test]
async fn the_map_is_had_by_either_question() {
    let bed = Bed::start(3, 0).await;
    bed.nodes().iter().for_each(|node| {
        node.server().command(&["ACL", "SETUSER", "default", "-cluster|slots"]).unwrap();
    });
    let client = bed.client();
    for key in preimages().iter().step_by(1000) {
        client.set(key, "v").await.unwrap();
    }
    assert_eq!((bed.errors("MOVED"), bed.calls("cluster|shards") > 0), (0, true));
    // Neither: the answer to the first is told.
    bed.nodes().iter().for_each(|node| {
        node.server().command(&["ACL", "SETUSER", "default", "-cluster|shards"]).unwrap();
    });
    let error = bed.client().get("k").timeout(SECOND / 2).await.unwrap_err();
    assert!(error.to_string().contains("cluster|slots"), "{error}");
}
