//! A cluster that looks like one server, also while its nodes fail over and its slots move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pilotlight_testkit::{Cluster, Failover};

use super::bed::{Tunnel, encoded, shown, until};
use super::smart::tells_no_addresses;

pub(super) fn tunnel(cluster: &Cluster, more: &[&str]) -> Tunnel {
    let seed = format!("127.0.0.1:{}", cluster.nodes()[0].port());
    Tunnel::start(&[&["-c", "-h", &seed], more].concat())
}

#[test]
fn a_cluster_looks_like_one_server() {
    let cluster = Cluster::start(3, 0).unwrap();
    let tunnel = tunnel(&cluster, &[]);
    let mut peer = tunnel.peer();
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let pairs: Vec<&str> = keys.iter().flat_map(|key| [key.as_str(), key.as_str()]).collect();
    assert_eq!(peer.say(&[&["MSET"], &pairs[..]].concat()), "OK");
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(peer.say(&[&["MGET"], &names[..]].concat()), format!("[{}]", names.join(" ")));
    assert_eq!(peer.say(&["DBSIZE"]), "100");
    let mut all = Vec::new();
    names.iter().for_each(|name| all.extend(encoded(&["GET", name])));
    peer.write(&all);
    names.iter().for_each(|name| assert_eq!(shown(&peer.reply()), **name));

    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let pilotlight_resp::Value::Array(reply) = peer.ask(&["SCAN", &cursor, "COUNT", "7"]) else { panic!() };
        cursor = shown(&reply[0]);
        let pilotlight_resp::Value::Array(page) = &reply[1] else { panic!() };
        found.extend(page.iter().map(shown));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, keys.iter().cloned().collect());

    assert_eq!(peer.say(&["SUNIONSTORE", "a", "b", "c"]), "-CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(peer.say(&["EVAL", "return KEYS[1]", "1", "k"]), "k");
    assert_eq!(peer.say(&["SELECT", "0"]), "OK");
    assert_eq!(peer.say(&["SELECT", "1"]), "-ERR SELECT is not allowed in cluster mode");
    assert_eq!(peer.say(&[&["DEL"], &names[..]].concat()), "100");
}

#[test]
fn nodes_are_not_told_of() {
    let cluster = Cluster::start(3, 1).unwrap();
    let ports: Vec<u16> = cluster.nodes().iter().map(|node| node.port()).collect();
    tells_no_addresses(&tunnel(&cluster, &[]), &ports);
    // Replicas are not told apart from primaries.
    let url = format!("redis+cluster://127.0.0.1:{}?read_from=replica", ports[0]);
    tells_no_addresses(&Tunnel::start(&["--url", &url]), &ports);
}

#[test]
fn transactions_watches_blocking_and_messages_find_their_nodes() {
    let cluster = Cluster::start(3, 0).unwrap();
    let tunnel = tunnel(&cluster, &[]);
    let (mut peer, mut other) = (tunnel.peer(), tunnel.peer());
    for tag in ["a", "b", "c", "d", "e", "f"] {
        let (first, second) = (format!("{{{tag}}}1"), format!("{{{tag}}}2"));
        assert_eq!(peer.say(&["MULTI"]), "OK");
        assert_eq!(peer.say(&["SET", &first, tag]), "QUEUED");
        assert_eq!(peer.say(&["INCR", &second]), "QUEUED");
        assert_eq!(peer.say(&["EXEC"]), "[OK 1]");
        assert_eq!(peer.say(&["WATCH", &first, &second]), "OK");
        other.ask(&["INCR", &second]);
        peer.ask(&["MULTI"]);
        peer.ask(&["GET", &first]);
        assert_eq!(peer.say(&["EXEC"]), "nil");
        peer.send(&["BLPOP", &format!("{{{tag}}}list"), "20"]);
        other.ask(&["RPUSH", &format!("{{{tag}}}list"), tag]);
        assert_eq!(shown(&peer.reply()), format!("[{{{tag}}}list {tag}]"));
    }
    peer.ask(&["MULTI"]);
    peer.ask(&["GET", "a"]);
    assert_eq!(peer.say(&["GET", "b"]), "-CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(peer.say(&["EXEC"]), "-EXECABORT Transaction discarded because of previous errors.");
    peer.ask(&["HELLO", "3"]);
    for channel in ["c1", "c2", "c3"] {
        peer.send(&["SUBSCRIBE", channel]);
        peer.push();
        peer.send(&["SSUBSCRIBE", channel]);
        peer.push();
        other.ask(&["PUBLISH", channel, "p"]);
        assert_eq!(peer.push(), ["message", channel, "p"]);
        other.ask(&["SPUBLISH", channel, "s"]);
        assert_eq!(peer.push(), ["smessage", channel, "s"]);
    }
}

/// Counts with plain commands and in transactions, and tells what was acknowledged.
fn count_until(tunnel: &Tunnel, is_over: &Arc<AtomicBool>, key: &'static str) -> thread::JoinHandle<(i64, i64, i64)> {
    let (mut peer, is_over) = (tunnel.peer(), Arc::clone(is_over));
    thread::spawn(move || {
        let (mut done, mut maybe, mut rounds) = (0, 0, 0);
        while !is_over.load(Ordering::Relaxed) {
            rounds += 1;
            let reply = if rounds % 2 == 0 {
                peer.say(&["INCR", key])
            } else {
                peer.ask(&["MULTI"]);
                peer.ask(&["INCR", key]);
                peer.say(&["EXEC"]).trim_matches(['[', ']']).to_owned()
            };
            match reply.parse::<i64>() {
                Ok(_) => done += 1,
                Err(_) => {
                    assert!(reply.starts_with('-'), "{reply}");
                    maybe += 1;
                }
            }
        }
        let now = peer.say(&["GET", key]).parse().unwrap();
        (done, maybe, now)
    })
}

#[test]
fn nodes_that_fail_over_lose_no_acknowledged_write_twice() {
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &[]);
    let is_over = Arc::new(AtomicBool::new(false));
    let keys = ["x", "y", "z", "{x}2", "w"];
    let counters: Vec<_> = keys.iter().map(|key| count_until(&tunnel, &is_over, key)).collect();
    let mut subscriber = tunnel.peer();
    subscriber.send(&["SUBSCRIBE", "still"]);
    subscriber.push();
    for primary in 0..3 {
        let replica = cluster.replica_of(&cluster.nodes()[primary]).unwrap();
        cluster.failover(replica, Failover::Graceful).unwrap();
    }
    until("a message after all failovers", || tunnel.peer().say(&["PUBLISH", "still", "here"]).parse::<i64>().is_ok());
    assert_eq!(subscriber.push(), ["message", "still", "here"]);
    is_over.store(true, Ordering::Relaxed);
    for counter in counters {
        let (done, maybe, now) = counter.join().unwrap();
        assert!(done > 0 && done <= now && now <= done + maybe, "{done} done, {maybe} in doubt, {now} counted");
    }
}

#[test]
fn slots_that_move_are_not_noticed() {
    let cluster = Cluster::start(2, 0).unwrap();
    let tunnel = tunnel(&cluster, &[]);
    let is_over = Arc::new(AtomicBool::new(false));
    let counter = count_until(&tunnel, &is_over, "moving");
    let (from, slot) = cluster.node_for_key("moving").unwrap();
    let to = cluster.nodes().iter().find(|node| node.id() != from.id()).unwrap();
    cluster.move_slot(slot, to).unwrap();
    let mut peer = tunnel.peer();
    assert!(peer.say(&["INCR", "moving"]).parse::<i64>().is_ok());
    is_over.store(true, Ordering::Relaxed);
    let (done, maybe, now) = counter.join().unwrap();
    assert!(maybe == 0 && now >= done && now <= done + 1, "{done} done, {maybe} in doubt, {now} counted");
}

#[test]
fn a_node_that_dies_is_replaced() {
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &[]);
    let mut peer = tunnel.peer();
    let (primary, _) = cluster.node_for_key("x").unwrap();
    let replica = cluster.replica_of(primary).unwrap();
    assert_eq!(peer.say(&["SET", "x", "1"]), "OK");
    let mut subscriber = tunnel.peer();
    subscriber.send(&["SUBSCRIBE", "still"]);
    subscriber.push();
    let is_over = Arc::new(AtomicBool::new(false));
    let counter = count_until(&tunnel, &is_over, "x");
    primary.server().kill().unwrap();
    cluster.wait_for_promotion(&[replica]).unwrap();
    // A key of the dead node, in a transaction, by a client that was there before.
    peer.ask(&["MULTI"]);
    peer.ask(&["SET", "{x}2", "new"]);
    assert_eq!(peer.say(&["EXEC"]), "[OK]");
    assert_eq!(peer.say(&["GET", "{x}2"]), "new");
    until("a message", || {
        peer.ask(&["PUBLISH", "still", "here"]);
        subscriber.stream.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        subscriber.stream.peek(&mut [0; 1]).is_ok()
    });
    assert_eq!(subscriber.push(), ["message", "still", "here"]);
    is_over.store(true, Ordering::Relaxed);
    let (done, _, _) = counter.join().unwrap();
    assert!(done > 0);
}
