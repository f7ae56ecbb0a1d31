//! Clusters.

use crate::started_within;
use pilotlight_testkit::{ClientAuth, Cluster, Error, Failover, FaultProxy, Node, Reply};
use std::time::{Duration, Instant};

fn get(node: &Node, key: &str) -> Result<Reply, Error> {
    node.server().command(&["GET", key])
}

#[track_caller]
fn assert_redirected(result: Result<Reply, Error>, word: &str) {
    match result {
        Err(Error::Refused { message, .. }) => assert!(message.starts_with(word), "{message}"),
        other => panic!("expected {word}, got {other:?}"),
    }
}

#[test]
fn three_masters_with_replicas_within_8_seconds() {
    let cluster = started_within("cluster 3+3", Duration::from_secs(8), || Cluster::start(3, 1));
    assert_eq!(cluster.nodes().len(), 6);
    for (index, slot) in [(0, 0), (0, 5460), (1, 5461), (1, 10_921), (2, 10_922), (2, 16_383)] {
        assert_eq!(cluster.node_for_slot(slot).unwrap().id(), cluster.nodes()[index].id(), "slot {slot}");
    }
    for (primary, replica) in cluster.nodes()[..3].iter().zip(&cluster.nodes()[3..]) {
        assert_eq!(cluster.replica_of(primary).unwrap().id(), replica.id());
        assert_eq!(cluster.primary_of(replica).unwrap().id(), primary.id());
    }
    assert!(cluster.primary_of(&cluster.nodes()[0]).is_err());
}

#[test]
fn five_masters_within_4_seconds() {
    let cluster = started_within("cluster 5+0", Duration::from_secs(4), || Cluster::start(5, 0));
    for node in cluster.nodes() {
        let info = node.server().command(&["CLUSTER", "INFO"]).unwrap();
        assert!(info.text().contains("cluster_slots_ok:16384"));
    }
}

#[test]
fn a_slot_moves_with_its_keys_and_can_be_held_on_its_way() {
    let cluster = Cluster::start(3, 0).unwrap();
    let (source, slot) = cluster.node_for_key("{t}1").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    for number in 0..250 {
        source.server().command(&["SET", &format!("{{t}}{number}"), "v"]).unwrap();
    }

    let step = cluster.begin_move(slot, target).unwrap();
    step.migrate(&["{t}1"]).unwrap();
    assert_redirected(get(source, "{t}1"), "ASK ");
    assert_eq!(get(source, "{t}2").unwrap().text(), "v");
    assert_redirected(get(target, "{t}1"), "MOVED ");
    assert_redirected(source.server().command(&["MGET", "{t}1", "{t}2"]), "TRYAGAIN");
    step.cancel().unwrap();
    assert_eq!(get(source, "{t}1").unwrap().text(), "v");

    let step = cluster.begin_move(slot, target).unwrap();
    assert_eq!(step.migrate_keys(10).unwrap(), 10);
    step.migrate_all().unwrap();
    step.finish().unwrap();
    assert_redirected(get(source, "{t}1"), "MOVED ");
    for number in 0..250 {
        assert_eq!(get(target, &format!("{{t}}{number}")).unwrap().text(), "v");
    }
    assert_eq!(cluster.node_for_slot(slot).unwrap().id(), target.id());
    cluster.move_slots(slot..slot + 20, source).unwrap();
    assert_eq!(cluster.node_for_slot(slot).unwrap().id(), source.id());
    cluster.wait_until_agreed().unwrap();
}

#[test]
fn replicas_take_over_on_request_and_after_a_kill() {
    let cluster = Cluster::start(3, 1).unwrap();
    let [first, second, third] = [0, 1, 2].map(|index| &cluster.nodes()[index]);
    for (primary, how) in [(first, Failover::Graceful), (second, Failover::Force), (third, Failover::Takeover)] {
        let replica = cluster.replica_of(primary).unwrap();
        cluster.failover(replica, how).unwrap();
        cluster.wait_until_agreed().unwrap();
        assert_eq!(cluster.primary_of(primary).unwrap().id(), replica.id(), "{how:?}");
    }

    let primary = cluster.node_for_slot(0).unwrap();
    let replica = cluster.replica_of(primary).unwrap();
    primary.server().kill().unwrap();
    let killed = Instant::now();
    let promotion = cluster.wait_for_promotion(&[replica]).unwrap();
    println!("promoted {:?} after the kill", promotion.at - killed);
    assert_eq!(promotion.node.id(), replica.id());
    cluster.wait_until_agreed().unwrap();
    primary.server().restart().unwrap();
    cluster.wait_until_agreed().unwrap();
    assert_eq!(cluster.primary_of(primary).unwrap().id(), replica.id());
}

#[test]
fn a_stopped_master_is_replaced_while_others_answer() {
    let cluster = Cluster::start(3, 1).unwrap();
    let primary = &cluster.nodes()[0];
    let replica = cluster.replica_of(primary).unwrap();
    primary.server().stop().unwrap();
    assert_eq!(cluster.wait_for_promotion(&[replica]).unwrap().node.id(), replica.id());
    primary.server().cont().unwrap();
    cluster.wait_until_agreed().unwrap();
    assert_eq!(cluster.primary_of(primary).unwrap().id(), replica.id());
}

#[test]
fn with_tls_and_a_password() {
    let cluster = Cluster::builder()
        .masters(3)
        .replicas_per_master(1)
        .tls(ClientAuth::Optional)
        .requirepass("secret")
        .config("cluster-require-full-coverage no")
        .node_timeout(Duration::from_secs(3))
        .start()
        .unwrap();
    assert!(cluster.urls().iter().all(|url| url.starts_with("rediss://:secret@127.0.0.1:")));
    let (source, slot) = cluster.node_for_key("k").unwrap();
    source.server().command(&["SET", "k", "v"]).unwrap();
    let target = cluster.nodes()[..3].iter().find(|node| node.id() != source.id()).unwrap();
    cluster.move_slot(slot, target).unwrap();
    assert_eq!(get(target, "k").unwrap().text(), "v");
}

#[test]
fn a_node_announces_the_proxy_before_it() {
    let cluster = Cluster::start(3, 1).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (node, slot) = cluster.node_for_key("{c}").unwrap();
    let other = cluster.nodes()[..3].iter().find(|other| other.id() != node.id()).unwrap();
    let proxy = runtime.block_on(FaultProxy::to(node.server().addr())).unwrap();
    cluster.announce_port(node, proxy.port()).unwrap();
    cluster.wait_until_agreed().unwrap();
    assert_redirected(get(other, "{c}"), &format!("MOVED {slot} 127.0.0.1:{}", proxy.port()));
    cluster.announce_port(node, 0).unwrap();
    cluster.wait_until_agreed().unwrap();
    assert_redirected(get(other, "{c}"), &format!("MOVED {slot} {}", node.server().addr()));
}
