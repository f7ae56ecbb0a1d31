//! Redirects between two scripted nodes of a cluster: callers that leave on the way, pairs that are cut apart.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::{Backoff, NodeAddress, Probe};
use pilotlight_redis::{Client, Commands, Config, Error, Ran};
use pilotlight_testkit::{Answer, Handshake, Script, ScriptedServer, Signal, cluster_slots};
use tokio::task::JoinSet;

use super::scenario::{Kind, PATIENCE, ScriptExt, calm, own};

/// The owner of all slots by the map, and the node that it redirects to.
struct Nodes {
    owner: ScriptedServer,
    other: ScriptedServer,
}

impl Nodes {
    /// The owner's script is made when the other's port is known; the map is asked for on connections of their own,
    /// which are not in the scripts.
    async fn play(owner: impl FnOnce(u16) -> Script, other: Script) -> Self {
        let other = ScriptedServer::play(other).await.unwrap();
        let owner = ScriptedServer::play(owner(other.port())).await.unwrap();
        Self { owner, other }
    }

    fn client(&self, map: &ScriptedServer) -> Client {
        Client::new(Config {
            reconnect: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(20), factor: 2.0 },
            probe: Probe { idle_ping: None, stall: None },
            ..Config::cluster([NodeAddress::tcp("127.0.0.1", map.port())])
        })
        .unwrap()
    }

    /// A node that only tells the map.
    async fn map(&self) -> ScriptedServer {
        let slots = cluster_slots(&[(0, 16_383, &[("127.0.0.1", self.owner.port(), "owner")])]);
        let handshake = Handshake::default().with_cluster_slots(slots);
        for server in [&self.owner, &self.other] {
            server.set_handshake(handshake.clone());
        }
        ScriptedServer::builder().handshake(handshake).respond(|_| Vec::new()).await.unwrap()
    }

    async fn finish(self) {
        self.owner.finish().await.unwrap();
        self.other.finish().await.unwrap();
    }
}

async fn taken(client: &Client, key: &str) -> Result<Option<Bytes>, Error> {
    tokio::time::timeout(PATIENCE, client.getdel(key)).await.expect("it ends")
}

#[track_caller]
fn is_own(outcome: Result<Option<Bytes>, Error>, key: &str) {
    assert_eq!(outcome.unwrap().unwrap(), format!("value-of-{key}"));
}

#[track_caller]
fn has_failed(outcome: Result<Option<Bytes>, Error>, ran: Ran, kind: Kind) {
    let error = outcome.unwrap_err();
    assert_eq!((error.ran(), Kind::from(error.kind())), (ran, kind), "{error}");
}

fn ask(port: u16) -> String {
    format!("-ASK 1 127.0.0.1:{port}\r\n")
}

#[tokio::test]
async fn the_pair_of_asking_and_its_command_is_followed() {
    let other = Script::new().expect(["ASKING"]).takes("a").send("+OK\r\n").gives("a");
    let nodes = Nodes::play(|port| Script::new().takes("a").send(ask(port)).answers("b"), other).await;
    let map = nodes.map().await;
    let client = nodes.client(&map);
    is_own(taken(&client, "a").await, "a");
    is_own(taken(&client, "b").await, "b");
    calm(&client).await;
    nodes.finish().await;
}

#[tokio::test]
async fn asking_is_refused_and_the_command_is_answered() {
    let other = Script::new()
        .expect(["ASKING"])
        .takes("a")
        .send("-ERR This instance has cluster support disabled\r\n")
        .gives("a")
        .expect(["ASKING"])
        .takes("b")
        .send("+OK\r\n")
        .gives("b");
    let nodes = Nodes::play(|port| Script::new().takes("a").send(ask(port)).takes("b").send(ask(port)), other).await;
    let map = nodes.map().await;
    let client = nodes.client(&map);
    is_own(taken(&client, "a").await, "a");
    is_own(taken(&client, "b").await, "b");
    calm(&client).await;
    nodes.finish().await;
}

/// The caller leaves at each step of the way; the pair's replies are nobody's, and the next caller's are his own.
#[tokio::test]
async fn a_redirected_caller_leaves_with_the_pair_in_flight() {
    let (seen, go) = (Signal::new(), Signal::new());
    let other = Script::new().expect(["ASKING"]).takes("a").raise(&seen).pause_until(&go).send("+OK\r\n").gives("a");
    let other = other.expect(["ASKING"]).takes("b").send("+OK\r\n").gives("b");
    let nodes = Nodes::play(|port| Script::new().takes("a").send(ask(port)).takes("b").send(ask(port)), other).await;
    let map = nodes.map().await;
    let client = nodes.client(&map);
    {
        let mut call = pin!(taken(&client, "a"));
        let mut seen = pin!(seen.wait());
        poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending());
            seen.as_mut().poll(cx)
        })
        .await;
    }
    let next = taken(&client, "b");
    go.raise();
    is_own(next.await, "b");
    calm(&client).await;
    nodes.finish().await;
}

#[tokio::test]
async fn a_caller_leaves_when_it_is_told_to_go_elsewhere() {
    let (seen, go) = (Signal::new(), Signal::new());
    let owner = |port| Script::new().takes("a").raise(&seen).pause_until(&go).send(ask(port)).answers("b");
    let nodes = Nodes::play(owner, Script::new()).await;
    let map = nodes.map().await;
    let client = nodes.client(&map);
    {
        let mut call = pin!(taken(&client, "a"));
        let mut seen = pin!(seen.wait());
        poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending());
            seen.as_mut().poll(cx)
        })
        .await;
        go.raise();
    }
    is_own(taken(&client, "b").await, "b");
    assert_eq!(nodes.other.commands().len(), 0, "nobody went there");
    calm(&client).await;
}

/// Nodes that answer by the command, whatever connection it comes on: the client asks for the map on connections of its
/// own at any time.
async fn answering<A: Into<Answer>>(
    sends_on: fn(&str) -> Option<&'static str>,
    other: impl Fn(&str, &str) -> A + Send + Sync + 'static,
) -> (Nodes, ScriptedServer, Client) {
    let word = |words: &[Bytes], at: usize| {
        words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default()
    };
    let other = ScriptedServer::respond(move |words| other(&word(&words, 0), &word(&words, 1))).await.unwrap();
    let port = other.port();
    let owner = ScriptedServer::respond(move |words| {
        let key = word(&words, 1);
        sends_on(&key).map_or_else(|| own(&key), |how| format!("-{how} 1 127.0.0.1:{port}\r\n").into_bytes())
    });
    let nodes = Nodes { owner: owner.await.unwrap(), other };
    let map = nodes.map().await;
    let client = nodes.client(&map);
    (nodes, map, client)
}

#[tokio::test]
async fn the_pair_of_asking_and_its_command_is_cut_between_the_replies() {
    let asked = AtomicUsize::new(0);
    let (nodes, _map, client) = answering(
        |_| Some("ASK"),
        move |name, key| match (name, asked.fetch_add(1, Ordering::Relaxed)) {
            ("ASKING", 0) => Answer::SendAndClose(b"+OK\r\n".to_vec()),
            ("ASKING", _) => Answer::from("+OK\r\n"),
            _ => Answer::from(own(key)),
        },
    )
    .await;
    has_failed(taken(&client, "a").await, Ran::MaybeExecuted, Kind::Connection);
    is_own(taken(&client, "b").await, "b");
    calm(&client).await;
    drop(nodes);
}

#[tokio::test]
async fn pairs_of_many_callers_keep_together() {
    let last = Mutex::new(String::new());
    // The command behind each ASKING is a GETDEL, and before each GETDEL is an ASKING.
    let (_nodes, _map, client) = answering(
        |key| (key != "k0").then_some("ASK"),
        move |name, key| {
            let before = std::mem::replace(&mut *last.lock().unwrap(), name.to_owned());
            match (before.as_str(), name) {
                (_, "ASKING") => b"+OK\r\n".to_vec(),
                ("ASKING", "GETDEL") => own(key),
                _ => b"-ERR torn apart\r\n".to_vec(),
            }
        },
    )
    .await;
    let keys: Vec<String> = (0..200).map(|key| format!("k{key}")).collect();
    let mut tasks = JoinSet::new();
    for key in keys {
        let client = client.clone();
        tasks.spawn(async move { is_own(taken(&client, &key).await, &key) });
    }
    tasks.join_all().await;
    calm(&client).await;
}

#[tokio::test]
async fn moved_and_cut_and_moved_again() {
    let moved = AtomicUsize::new(0);
    let (_nodes, _map, client) = answering(
        |_| Some("MOVED"),
        move |_, key| match moved.fetch_add(1, Ordering::Relaxed) {
            0 => Answer::SendAndClose(Vec::new()),
            _ => Answer::from(own(key)),
        },
    )
    .await;
    has_failed(taken(&client, "a").await, Ran::MaybeExecuted, Kind::Connection);
    is_own(taken(&client, "b").await, "b");
    calm(&client).await;
}

/// Each command of a pipeline goes where it is sent, one by one, and its reply comes to its place.
#[tokio::test]
async fn a_pipeline_is_redirected_in_parts() {
    let sends_on = |key: &str| ["b", "d"].contains(&key).then_some("ASK");
    let (_nodes, _map, client) =
        answering(sends_on, |name, key| if name == "ASKING" { b"+OK\r\n".to_vec() } else { own(key) }).await;
    for _ in 0..2 {
        let mut pipeline = client.pipeline();
        let queued = ["a", "b", "c", "d"].map(|key| (key, pipeline.getdel(key)));
        let mut replies = tokio::time::timeout(PATIENCE, pipeline.run()).await.unwrap().unwrap();
        for (key, queued) in queued {
            is_own(replies.take(queued), key);
        }
    }
    calm(&client).await;
}
