//! What servers say in odd orders, byte by byte.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::Slot;
use pilotlight_redis::config::ProtocolChoice;
use pilotlight_redis::{Client, Config, GapReason};
use pilotlight_testkit::{Handshake, Script, ScriptedServer, Signal, cluster_slots};

use super::{assert_silent, config, gap, message};

/// A push of RESP3, or the array of RESP2 in its place.
fn said(mark: char, words: &[&str]) -> String {
    let mut text = format!("{mark}{}\r\n", words.len());
    for word in words {
        text += &match word.strip_prefix(':') {
            Some(_) => format!("{word}\r\n"),
            None => format!("${}\r\n{word}\r\n", word.len()),
        };
    }
    text
}

fn push(words: &[&str]) -> String {
    said('>', words)
}

fn client(server: &ScriptedServer, protocol: ProtocolChoice) -> Client {
    Client::new(Config { protocol, ..config(&server.url()) }).unwrap()
}

#[tokio::test]
async fn confirmations_split_at_every_byte_with_messages_between_them() {
    let confirmations = [
        push(&["subscribe", "a", ":1"]),
        push(&["message", "a", "between"]),
        push(&["invalidate", "x"]),
        push(&["subscribe", "b", ":2"]),
        push(&["message", "b", "after"]),
    ]
    .concat();
    let script = Script::new()
        .expect(["SUBSCRIBE", "a", "b"])
        .send_each_byte(confirmations)
        .expect(["PING"])
        .send_each_byte("+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let mut subscription = client(&server, ProtocolChoice::Resp3).subscribe(["b", "a"]).await.unwrap();
    assert_eq!(message(&mut subscription).await, ("a".into(), "between".into()));
    assert_eq!(message(&mut subscription).await, ("b".into(), "after".into()));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_forms_of_resp2() {
    let confirmations = [
        said('*', &["subscribe", "a", ":1"]),
        said('*', &["message", "a", "1"]),
        said('*', &["subscribe", "b", ":2"]),
        said('*', &["pong", ""]),
        said('*', &["message", "b", "2"]),
    ]
    .concat();
    let ended =
        [said('*', &["unsubscribe", "a", ":1"]), said('*', &["message", "b", "3"]), said('*', &["pong", ""])].concat();
    let end = [said('*', &["unsubscribe", "b", ":0"]), "+PONG\r\n".into()].concat();
    let script = Script::new()
        .expect(["SUBSCRIBE", "a", "b"])
        .expect(["PING"])
        .send_each_byte(confirmations)
        .expect(["UNSUBSCRIBE", "a"])
        .expect(["PING"])
        .send_each_byte(ended)
        .expect(["UNSUBSCRIBE", "b"])
        .expect(["PING"])
        .send_each_byte(end);
    let server = ScriptedServer::builder().handshake(Handshake::resp2_only()).play(script).await.unwrap();
    let client = client(&server, ProtocolChoice::Auto);
    let mut subscription = client.subscribe(["a", "b"]).await.unwrap();
    assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
    assert_eq!(message(&mut subscription).await, ("b".into(), "2".into()));
    subscription.remove("a");
    assert_eq!(message(&mut subscription).await, ("b".into(), "3".into()));
    drop(subscription);
    server.finish().await.unwrap();
}

/// Wanted again while it is being ended: it is ended, then subscribed again.
#[tokio::test]
async fn unsubscribing_does_not_race_with_subscribing() {
    let (ending, wanted) = (Signal::new(), Signal::new());
    let script = Script::new()
        .expect(["SUBSCRIBE", "a"])
        .send(push(&["subscribe", "a", ":1"]))
        .expect(["PING"])
        .send("+PONG\r\n")
        .expect(["UNSUBSCRIBE", "a"])
        .expect(["PING"])
        .raise(&ending)
        .pause_until(&wanted)
        .send(push(&["message", "a", "before the end"]))
        .send(push(&["unsubscribe", "a", ":0"]))
        .send("+PONG\r\n")
        .expect(["SUBSCRIBE", "a"])
        .send(push(&["subscribe", "a", ":1"]) + &push(&["message", "a", "new"]))
        .expect(["PING"])
        .send("+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let client = client(&server, ProtocolChoice::Resp3);
    drop(client.subscribe("a").await.unwrap());
    ending.wait().await;
    let (subscription, ()) = tokio::join!(client.subscribe("a"), async { wanted.raise() });
    assert_eq!(message(&mut subscription.unwrap()).await, ("a".into(), "new".into()));
    server.finish().await.unwrap();
}

/// The server ends a shard channel by itself, and refuses to end it again (valkey-io/valkey#1066).
#[tokio::test]
async fn the_server_ends_what_is_being_ended() {
    let ending = Signal::new();
    let script = Script::new()
        .expect(["SSUBSCRIBE", "a"])
        .send(push(&["ssubscribe", "a", ":1"]))
        .expect(["PING"])
        .send("+PONG\r\n")
        .expect(["SUNSUBSCRIBE", "a"])
        .raise(&ending)
        .expect(["PING"])
        .send(push(&["sunsubscribe", "a", ":0"]) + "-MOVED 15495 127.0.0.1:1\r\n+PONG\r\n")
        .expect(["SSUBSCRIBE", "b"])
        .send(push(&["ssubscribe", "b", ":1"]) + &push(&["smessage", "b", "1"]))
        .expect(["PING"])
        .send("+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let client = client(&server, ProtocolChoice::Resp3);
    drop(client.ssubscribe("a").await.unwrap());
    ending.wait().await;
    let mut subscription = client.ssubscribe("b").await.unwrap();
    assert_eq!(message(&mut subscription).await, ("b".into(), "1".into()));
    server.finish().await.unwrap();
}

/// One error for a command with two channels: each is asked for by itself then.
#[tokio::test]
async fn an_error_for_one_channel_of_two() {
    let script = Script::new()
        .expect(["SUBSCRIBE", "bad", "good"])
        .expect(["PING"])
        .send("-NOPERM no\r\n+PONG\r\n")
        .expect(["SUBSCRIBE", "bad"])
        .expect(["SUBSCRIBE", "good"])
        .expect(["PING"])
        .send(format!("-NOPERM no\r\n{}+PONG\r\n", push(&["subscribe", "good", ":1"])))
        .expect(["UNSUBSCRIBE", "good"])
        .expect(["PING"])
        .send(push(&["unsubscribe", "good", ":0"]) + "+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let client = client(&server, ProtocolChoice::Resp3);
    let error = client.subscribe(["bad", "good"]).await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "NOPERM");
    server.finish().await.unwrap();
}

/// A node of a cluster that confirms everything and publishes once to each shard channel.
async fn generous() -> ScriptedServer {
    let respond = |words: Vec<Bytes>| match &words[0][..] {
        b"SSUBSCRIBE" => {
            let channel = String::from_utf8_lossy(&words[1]).into_owned();
            assert_eq!(words.len(), 2, "two slots in one command");
            push(&["ssubscribe", &channel, ":1"]) + &push(&["smessage", &channel, "1"])
        }
        _ => String::new(),
    };
    ScriptedServer::respond(respond).await.unwrap()
}

fn all_at(server: &ScriptedServer) -> Handshake {
    let node = ("127.0.0.1", server.port(), "0123456789012345678901234567890123456789");
    Handshake::default().with_cluster_slots(cluster_slots(&[(0, 16_383, &[node])]))
}

#[tokio::test]
async fn a_redirect_of_ssubscribe_is_followed() {
    let right = generous().await;
    let port = right.port();
    let respond = move |words: Vec<Bytes>| match &words[0][..] {
        b"SSUBSCRIBE" => format!("-MOVED {} 127.0.0.1:{port}\r\n", Slot::of(&words[1])),
        _ => String::new(),
    };
    let wrong = ScriptedServer::respond(respond).await.unwrap();
    wrong.set_handshake(all_at(&wrong));
    right.set_handshake(all_at(&right));
    let client = Client::new(config(&format!("redis+cluster://127.0.0.1:{}", wrong.port()))).unwrap();
    // The first map names the wrong node; from the redirect on, all say the right one.
    let (subscription, ()) = tokio::join!(client.ssubscribe(["a", "b"]), async {
        assert!(wrong.wait_for_connections(2).await);
        wrong.set_handshake(all_at(&right));
    });
    let mut subscription = subscription.unwrap();
    let mut channels = [message(&mut subscription).await.0, message(&mut subscription).await.0];
    channels.sort();
    assert_eq!(channels, ["a", "b"]);
}

/// The owner of a slot has lost touch with its cluster and does not know that the slot is another's now: the map is
/// believed, after a while.
#[tokio::test]
async fn a_map_that_insists_is_believed() {
    let (old, new) = (generous().await, generous().await);
    old.set_handshake(all_at(&old));
    new.set_handshake(all_at(&new));
    let mut config = config(&format!("redis+cluster://127.0.0.1:{}", old.port()));
    config.cluster.refresh_interval = Some(Duration::from_millis(50));
    config.cluster.refresh_min_interval = Duration::from_millis(50);
    let mut subscription = Client::new(config).unwrap().ssubscribe("a").await.unwrap();
    assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
    old.set_handshake(all_at(&new));
    assert_eq!(gap(&mut subscription).await, GapReason::Moved);
    assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
}

/// A reply that nothing was sent for: the stream is not to be trusted.
#[tokio::test]
async fn a_desync_ends_the_connection() {
    for nonsense in ["+PONG\r\n", ":1\r\n", "*1\r\n$3\r\nwhy\r\n", "?\r\n"] {
        let script = Script::new()
            .expect(["SUBSCRIBE", "a"])
            .send(push(&["subscribe", "a", ":1"]))
            .expect(["PING"])
            .send(format!("+PONG\r\n{nonsense}"))
            .next_connection()
            .expect(["SUBSCRIBE", "a"])
            .send(push(&["subscribe", "a", ":1"]) + &push(&["message", "a", "1"]))
            .expect(["PING"])
            .send("+PONG\r\n");
        let server = ScriptedServer::play(script).await.unwrap();
        let mut subscription = client(&server, ProtocolChoice::Resp3).subscribe("a").await.unwrap();
        assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
        assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
        assert_silent(&mut subscription);
    }
}

/// An idle connection is asked for a sign of life, and given up without one.
#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let script = Script::new()
        .expect(["SUBSCRIBE", "a"])
        .send(push(&["subscribe", "a", ":1"]))
        .expect(["PING"])
        .send("+PONG\r\n")
        .expect(["PING"])
        .send("+PONG\r\n")
        .expect(["PING"])
        // The probe, by a connection of its own.
        .next_connection()
        .next_connection()
        .expect(["SUBSCRIBE", "a"])
        .send(push(&["subscribe", "a", ":1"]))
        .expect(["PING"])
        .send("+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let mut config = config(&server.url());
    config.probe.idle_ping = Some(Duration::from_millis(30));
    config.probe.stall = Some(Duration::from_millis(50));
    let mut subscription = Client::new(config).unwrap().subscribe("a").await.unwrap();
    assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    server.finish().await.unwrap();
}
