//! Answers that real nodes give rarely or at bad moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Advice, Client, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::{Answer, Handshake, ScriptedServer, cluster_slots};

use crate::bed::{SECOND, within};
use crate::lag::Lag;

/// One node with all slots, which answers the `n`-th command that is no handshake with `answer(n, its port)`.
async fn node<A: Into<Answer>>(answer: impl Fn(usize, u16) -> A + Send + Sync + 'static) -> (ScriptedServer, Client) {
    let count = AtomicUsize::new(0);
    let port = std::sync::Arc::new(AtomicUsize::new(0));
    let known = std::sync::Arc::clone(&port);
    let respond =
        move |_: Vec<Bytes>| answer(count.fetch_add(1, Ordering::Relaxed), known.load(Ordering::Relaxed) as u16);
    let server = ScriptedServer::respond(respond).await.unwrap();
    port.store(usize::from(server.port()), Ordering::Relaxed);
    let map = cluster_slots(&[(0, 16_383, &[("127.0.0.1", server.port(), "a")])]);
    server.set_handshake(Handshake::default().with_cluster_slots(map));
    let client = Client::new(Config::cluster([NodeAddress::tcp("127.0.0.1", server.port())])).unwrap();
    (server, client)
}

const VALUE: &str = "$1\r\nv\r\n";

async fn is_answered(client: &Client) {
    let value = within(2 * SECOND, "the value", async { client.get("k").await }).await.unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
}

/// Behind one address there is another server by now: only a new connection leads to it.
#[tokio::test]
async fn moved_to_itself_is_a_new_connection() {
    let (server, client) = node(|count, port| match count {
        1 => format!("-MOVED 7629 127.0.0.1:{port}\r\n"),
        _ => VALUE.to_owned(),
    })
    .await;
    is_answered(&client).await;
    is_answered(&client).await;
    let data: Vec<_> =
        server.commands().into_iter().filter(|it| *it.words[0] == *b"GET").map(|it| it.connection).collect();
    assert_eq!(data.len(), 3);
    assert!(data[0] == data[1] && data[1] < data[2], "{data:?}");
}

/// The others on the connection get their answers before it ends.
#[tokio::test]
async fn moved_to_itself_costs_nobody_else_a_command() {
    let (_server, client) = node(|count, port| match count {
        5 => format!("-MOVED 7629 127.0.0.1:{port}\r\n"),
        _ => ":1\r\n".to_owned(),
    })
    .await;
    assert_eq!(client.incr("k").await.unwrap(), 1);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64 {
        let client = client.clone();
        calls.spawn(async move { client.incr(format!("k{number}")).await });
    }
    for result in calls.join_all().await {
        assert_eq!(result.unwrap(), 1);
    }
}

#[tokio::test]
async fn moved_to_itself_for_ever_ends() {
    let (server, client) = node(|_, port| format!("-MOVED 7629 127.0.0.1:{port}\r\n")).await;
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.get("k").timeout(SECOND).await.unwrap_err();
    assert_eq!(error.ran(), Ran::NotSent);
    lag.assert_in_time(begin, SECOND).await;
    assert!(server.connections() < 40, "{} connections in a second", server.connections());
}

#[tokio::test]
async fn a_node_that_loads_is_waited_for() {
    let (_server, client) = node(|count, _| match count {
        0..5 => "-LOADING Redis is loading the dataset in memory\r\n",
        _ => VALUE,
    })
    .await;
    is_answered(&client).await;
}

#[tokio::test]
async fn a_node_that_loads_for_ever_is_waited_for_until_the_deadline() {
    let (server, client) = node(|_, _| "-LOADING Redis is loading the dataset in memory\r\n").await;
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.set("k", "v").timeout(SECOND).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("LOADING", Ran::NotSent));
    lag.assert_in_time(begin, SECOND).await;
    let sent = server.commands().iter().filter(|it| *it.words[0] == *b"SET").count();
    assert!((4..20).contains(&sent), "{sent} attempts in a second");
}

#[tokio::test]
async fn a_redirect_to_an_unknown_host_is_a_matter_of_the_map() {
    let (_server, client) = node(|count, _| match count {
        0 => "-MOVED 7629 ?:6379\r\n",
        _ => VALUE,
    })
    .await;
    is_answered(&client).await;
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let other = ScriptedServer::respond(|_: Vec<Bytes>| "").await.unwrap();
    let there = other.port();
    drop(other);
    let (_server, client) = node(move |_, _| format!("-ASK 7629 127.0.0.1:{there}\r\n")).await;
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.get("k").timeout(SECOND).await.unwrap_err();
    println!("{error}");
    lag.assert_in_time(begin, SECOND).await;
}

/// A map whose only other nodes do not answer at all: the refresh takes its time, commands do not.
#[tokio::test]
async fn a_refresh_that_hangs_delays_nobody() {
    let (server, client) = node(|_, _| VALUE).await;
    let silent = ScriptedServer::builder().handshake(Handshake::manual()).respond(|_: Vec<Bytes>| "").await.unwrap();
    is_answered(&client).await;
    // From now on, the map is a matter of nodes that are silent.
    let silent_map =
        cluster_slots(&[(0, 16_383, &[("127.0.0.1", server.port(), "a"), ("127.0.0.1", silent.port(), "b")])]);
    server.set_handshake(Handshake::default().with_cluster_slots(silent_map));
    let begin = Instant::now();
    for _ in 0..1000 {
        is_answered(&client).await;
    }
    assert!(begin.elapsed() < 2 * SECOND, "{:?}", begin.elapsed());
}

/// Two nodes, each of which says that the other has all slots, until they are `settled`.
async fn at_odds(settled: &Arc<AtomicBool>, max_redirects: Option<u32>) -> ([ScriptedServer; 2], Client) {
    let ports: [_; 2] = std::array::from_fn(|_| Arc::new(AtomicU16::new(0)));
    let node = async |other: &Arc<AtomicU16>| {
        let (other, settled) = (Arc::clone(other), Arc::clone(settled));
        let respond = move |_: Vec<Bytes>| match settled.load(Ordering::Relaxed) {
            true => VALUE.to_owned(),
            false => format!("-MOVED 7629 127.0.0.1:{}\r\n", other.load(Ordering::Relaxed)),
        };
        ScriptedServer::respond(respond).await.unwrap()
    };
    let nodes = [node(&ports[1]).await, node(&ports[0]).await];
    for (node, port) in nodes.iter().zip(&ports) {
        port.store(node.port(), Ordering::Relaxed);
    }
    let [first, second] = [0, 1].map(|index: usize| [("127.0.0.1", nodes[index].port(), ["a", "b"][index])]);
    let map = cluster_slots(&[(0, 8_191, &first), (8_192, 16_383, &second)]);
    for node in &nodes {
        node.set_handshake(Handshake::default().with_cluster_slots(map.clone()));
    }
    let mut config = Config::cluster(nodes.iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port())));
    config.cluster.max_redirects = max_redirects.unwrap_or(config.cluster.max_redirects);
    (nodes, Client::new(config).unwrap())
}

fn gets(nodes: &[ScriptedServer]) -> usize {
    nodes.iter().flat_map(ScriptedServer::commands).filter(|it| *it.words[0] == *b"GET").count()
}

#[tokio::test]
async fn a_slot_that_moves_back_and_forth_is_followed_until_it_stays() {
    let settled = Arc::default();
    let (nodes, client) = at_odds(&settled, None).await;
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("k").await })
        })
        .collect();
    tokio::time::sleep(SECOND).await;
    let asked = gets(&nodes);
    assert!((8 * 6..8 * 20).contains(&asked), "{asked} attempts of 8 callers in a second");
    let refreshes = client.stats().topology.unwrap().refreshes;
    assert!((2..=17).contains(&refreshes), "{refreshes} refreshes");
    settled.store(true, Ordering::Relaxed);
    for call in calls {
        let value = within(SECOND, "the value", call).await.unwrap().unwrap();
        assert_eq!(value.as_deref(), Some(&b"v"[..]));
    }
}

#[tokio::test]
async fn nodes_that_never_agree_are_an_error_that_says_so() {
    let (nodes, client) = at_odds(&Arc::default(), None).await;
    let (lag, begin) = (Lag::start(), Instant::now());
    let error = client.set("k", "v").timeout(SECOND).await.unwrap_err();
    lag.assert_in_time(begin, SECOND).await;
    let ErrorKind::Redirects { redirects, last } = error.kind() else { panic!("{error}") };
    assert!((5..20).contains(redirects) && last.code() == "MOVED", "{error}");
    assert_eq!((error.ran(), error.advice()), (Ran::NotSent, Advice::Redirect));
    assert!(error.node().is_some());
    drop(nodes);

    let (nodes, client) = at_odds(&Arc::default(), Some(3)).await;
    let begin = Instant::now();
    let error = client.get("k").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Redirects { redirects: 3, .. }), "{error}");
    assert!(begin.elapsed() < SECOND && gets(&nodes) == 4);
    assert!(begin.elapsed() >= Duration::from_millis(5), "the third comes after a pause");
}
