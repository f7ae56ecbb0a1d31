//! A port for each node: addresses in the right replies, and nowhere else.

use std::collections::BTreeSet;

use pilotlight_resp::Value;
use pilotlight_testkit::{Cluster, Failover, FaultProxy, Sentinels, Server};

use super::bed::{Peer, Tunnel, shown, until};
use super::cluster::tunnel;

/// The ports in `CLUSTER SLOTS`.
fn slots(peer: &mut Peer) -> BTreeSet<u16> {
    let Value::Array(ranges) = peer.ask(&["CLUSTER", "SLOTS"]) else { panic!() };
    let mut ports = BTreeSet::new();
    for range in ranges {
        let Value::Array(parts) = range else { panic!() };
        for node in &parts[2..] {
            let Value::Array(node) = node else { panic!() };
            assert_eq!(shown(&node[0]), "127.0.0.1");
            ports.insert(shown(&node[1]).parse().unwrap());
        }
    }
    ports
}

#[test]
fn a_client_that_knows_clusters_sees_only_the_tunnel() {
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &["--mode", "pinned"]);
    let ports: BTreeSet<u16> = tunnel.ports.iter().map(|(_, local)| local.port()).collect();
    assert_eq!(ports.len(), 6);
    let mut peer = tunnel.peer();
    for protocol in ["2", "3"] {
        peer.ask(&["HELLO", protocol]);
        // A replica is told of once it has its data.
        until("all nodes in CLUSTER SLOTS", || slots(&mut peer) == ports);
        let nodes = peer.say(&["CLUSTER", "NODES"]);
        let found: BTreeSet<u16> = nodes
            .lines()
            .map(|line| line.split([' ', '@']).nth(1).unwrap().rsplit_once(':').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(found, ports, "{nodes}");
        let shards = peer.say(&["CLUSTER", "SHARDS"]);
        for (node, local) in &tunnel.ports {
            let port = node.rsplit_once(':').unwrap().1;
            assert!(shards.contains(&local.port().to_string()) && !shards.contains(port), "{shards}");
        }
    }
    // A redirect leads to another of the ports, and there the key is found.
    let mut redirects = 0;
    for number in 0..20 {
        let key = format!("key:{number}");
        let mut reply = peer.say(&["SET", &key, "v"]);
        if let Some(target) = reply.strip_prefix("-MOVED ").and_then(|rest| rest.split(' ').nth(1)) {
            redirects += 1;
            reply = Peer::connect(target.parse().unwrap()).say(&["SET", &key, "v"]);
        }
        assert_eq!(reply, "OK");
    }
    assert!(redirects > 0);
    let role = tunnel.ports.iter().map(|(_, local)| Peer::connect(*local).say(&["ROLE"])).collect::<Vec<_>>();
    for line in role {
        let known = ports.iter().any(|port| line.contains(&port.to_string()));
        assert!(known, "{line}");
    }
}

#[test]
fn nodes_without_the_names_that_clients_are_to_use_are_found() {
    let cluster = Cluster::builder().masters(3).config("cluster-preferred-endpoint-type hostname").start().unwrap();
    let (node, slot) = cluster.node_for_key("k").unwrap();
    let other = cluster.nodes().iter().find(|other| other.id() != node.id()).unwrap();
    let moved = other.server().command(&["GET", "k"]);
    assert!(moved.is_err_and(|error| error.to_string().contains(&format!("MOVED {slot} ?:{}", node.port()))));
    let tunnel = tunnel(&cluster, &["--mode", "pinned"]);
    let local = |port: u16| tunnel.ports.iter().find(|(node, _)| node.ends_with(&format!(":{port}"))).unwrap().1;
    let ports: BTreeSet<u16> = tunnel.ports.iter().map(|(_, local)| local.port()).collect();
    for protocol in ["2", "3"] {
        let mut peer = Peer::connect(local(other.port()));
        peer.ask(&["HELLO", protocol]);
        assert_eq!(slots(&mut peer), ports);
        assert!(!peer.say(&["CLUSTER", "SLOTS"]).contains('?'));
        assert_eq!(peer.say(&["GET", "k"]), format!("-MOVED {slot} {}", local(node.port())));
    }
}

#[test]
fn data_that_looks_like_addresses_is_not_touched() {
    let cluster = Cluster::start(2, 0).unwrap();
    let tunnel = tunnel(&cluster, &["--mode", "pinned"]);
    let (node, _) = cluster.node_for_key("k").unwrap();
    let (real, local) = tunnel.ports.iter().find(|(name, _)| name.ends_with(&format!(":{}", node.port()))).unwrap();
    let mut peer = Peer::connect(*local);
    let nodes = "MOVED 1 ".to_owned() + real + "\r\n07c3 " + real + "@17000 master - 0 0 1 connected 0-5 a.b";
    for value in [real.as_str(), &nodes, "-MOVED 1 127.0.0.1:1\r\n", "*1\r\n*3\r\n"] {
        assert_eq!(peer.say(&["SET", "k", value]), "OK");
        assert_eq!(peer.say(&["GET", "k"]), value);
        assert_eq!(peer.say(&["ECHO", value]), value);
        peer.ask(&["DEL", "{k}l"]);
        peer.ask(&["RPUSH", "{k}l", value, value]);
        assert_eq!(peer.say(&["LRANGE", "{k}l", "0", "-1"]), format!("[{value} {value}]"));
        peer.send(&["SUBSCRIBE", "c"]);
        peer.push();
        Peer::connect(*local).ask(&["PUBLISH", "c", value]);
        assert_eq!(peer.push(), ["message", "c", value]);
        peer.send(&["UNSUBSCRIBE"]);
        peer.push();
        assert!(peer.say(&["CLUSTER", "NODES"]).contains(&local.to_string()));
    }
    peer.ask(&["MULTI"]);
    peer.ask(&["GET", "k"]);
    assert_eq!(peer.say(&["EXEC"]), "[*1\r\n*3\r\n]");
}

/// Another port of a server, as long as the test runs.
fn proxy(server: std::net::SocketAddr) -> u16 {
    let (sender, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let proxy = FaultProxy::to(server).await.unwrap();
            sender.send(proxy.port()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    port.recv().unwrap()
}

#[test]
fn ports_follow_the_nodes() {
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &["--mode", "pinned"]);
    let before: BTreeSet<u16> = tunnel.ports.iter().map(|(_, local)| local.port()).collect();
    let primary = &cluster.nodes()[0];
    let replica = cluster.replica_of(primary).unwrap();
    cluster.failover(replica, Failover::Graceful).unwrap();
    let mut peer = tunnel.peer();
    until("all nodes in CLUSTER SLOTS", || slots(&mut peer) == before);
    // A node that announces another address gets another port; no reply ever names the address itself.
    let other = proxy(replica.server().addr());
    cluster.announce_port(replica, other).unwrap();
    until("a port for the new address", || {
        let found = slots(&mut peer);
        assert!(!found.contains(&other), "an address of a node was told");
        found.len() == 6 && found != before
    });
}

#[test]
fn everything_of_a_connection_is_there() {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string(), "--mode", "pinned"]);
    let mut peer = tunnel.peer();
    assert_eq!(peer.say(&["AUTH", "whatever"]), "OK");
    assert_eq!(peer.say(&["CLIENT", "GETNAME"]), "nil");
    assert!(peer.say(&["HELLO", "3", "AUTH", "u", "p", "SETNAME", "me"]).contains("proto:3"));
    assert_eq!(peer.say(&["CLIENT", "GETNAME"]), "me");
    assert_eq!(peer.say(&["CLIENT", "TRACKING", "ON"]), "OK");
    assert_eq!(peer.say(&["GET", "k"]), "nil");
    tunnel.peer().ask(&["SET", "k", "1"]);
    assert_eq!(peer.push(), ["invalidate", "[k]"]);
    assert_eq!(peer.say(&["WAIT", "0", "1"]), "0");
    let mut monitor = tunnel.peer();
    assert_eq!(monitor.say(&["MONITOR"]), "OK");
    peer.ask(&["ECHO", "watched"]);
    until("the command", || shown(&monitor.reply()).contains("watched"));
    let value = "x".repeat(10 << 20);
    let mut other = tunnel.peer();
    assert_eq!(other.say(&["SET", "big", &value]), "OK");
    assert_eq!(other.say(&["GET", "big"]), value);
    drop(server);
    assert!(peer.is_closed());
}

#[test]
fn sentinels_name_the_ports_of_the_tunnel() {
    let set = Sentinels::start(1).unwrap();
    let sentinels: Vec<String> = set.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    let tunnel = Tunnel::start(&["-h", &sentinels.join(","), "--sentinel", set.name(), "--mode", "pinned"]);
    let locals: BTreeSet<u16> = tunnel.ports.iter().map(|(_, local)| local.port()).collect();
    assert_eq!(locals.len(), sentinels.len() + 2);
    let (_, sentinel) = tunnel.ports.iter().find(|(node, _)| *node == sentinels[0]).unwrap();
    let mut peer = Peer::connect(*sentinel);
    let Value::Array(address) = peer.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.name()]) else { panic!() };
    let primary: u16 = shown(&address[1]).parse().unwrap();
    assert!(locals.contains(&primary));
    assert!(Peer::connect(format!("127.0.0.1:{primary}").parse().unwrap()).say(&["ROLE"]).starts_with("[master"));
    for question in ["REPLICAS", "SENTINELS"] {
        let said = peer.say(&["SENTINEL", question, set.name()]);
        assert!(locals.iter().any(|port| said.contains(&format!("port {port}"))), "{said}");
    }
}

#[test]
fn the_port_of_a_node_that_died_closes_connections() {
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &["--mode", "pinned"]);
    let primary = &cluster.nodes()[1];
    let replica = cluster.replica_of(primary).unwrap();
    let local = |port: u16| tunnel.ports.iter().find(|(node, _)| node.ends_with(&format!(":{port}"))).unwrap().1;
    let mut before = Peer::connect(local(primary.port()));
    assert_eq!(before.say(&["PING"]), "PONG");
    primary.server().kill().unwrap();
    assert!(before.is_closed());
    assert!(Peer::connect(local(primary.port())).is_closed());
    cluster.wait_for_promotion(&[replica]).unwrap();
    let mut peer = Peer::connect(local(replica.port()));
    until("the new primary in CLUSTER SLOTS", || {
        let Value::Array(ranges) = peer.ask(&["CLUSTER", "SLOTS"]) else { panic!() };
        ranges.iter().any(|range| shown(range).contains(&format!("[127.0.0.1 {}", local(replica.port()).port())))
    });
    let (code, said) = tunnel.end();
    assert_eq!(code, Some(0));
    assert_eq!(said.matches("cannot connect").count(), 1, "{said}");
}
