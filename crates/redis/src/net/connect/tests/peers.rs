//! Peers that are no Redis server, or that a proxy speaks for; they also are connectors.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use pilotlight_resp::Protocol;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinSet;

use super::*;
use crate::config::{BoxFuture, ByteStream, Connector};

/// One connection: what is expected and what is answered, in turn. Then the peer closes.
type Dialogue = Vec<(&'static str, &'static str)>;

/// Plays one dialogue after the other, one for each connection.
#[derive(Clone)]
struct Peer {
    dialogues: Arc<Mutex<VecDeque<Dialogue>>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Peer {
    fn new(dialogues: &[&[(&'static str, &'static str)]]) -> Self {
        let dialogues = dialogues.iter().map(|dialogue| dialogue.to_vec()).collect();
        Self { dialogues: Arc::new(Mutex::new(dialogues)), tasks: Arc::default() }
    }

    fn config(&self, options: &str) -> Config {
        Config { connector: Some(Arc::new(self.clone())), ..Config::from_url(&format!("redis://{options}")).unwrap() }
    }

    /// Waits for the dialogues to end, and fails if one of them did not go as written.
    async fn finish(self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        while let Some(outcome) = tasks.join_next().await {
            outcome.unwrap();
        }
        assert!(self.dialogues.lock().unwrap().is_empty(), "a connection was not made");
    }
}

impl Connector for Peer {
    fn connect<'a>(&'a self, _: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let dialogue = self.dialogues.lock().unwrap().pop_front();
        Box::pin(async move {
            let dialogue = dialogue.ok_or_else(|| io::Error::other("no more connections"))?;
            let (ours, theirs) = duplex(64);
            self.tasks.lock().unwrap().spawn(play(theirs, dialogue));
            Ok(Box::new(ours) as Box<dyn ByteStream>)
        })
    }
}

async fn play(mut stream: DuplexStream, dialogue: Dialogue) {
    for (expected, answer) in dialogue {
        let expected = expected.replace('|', "\r\n");
        let mut read = vec![0; expected.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&read), expected);
        // One byte at a time: the handshake resumes anywhere.
        for byte in answer.replace('|', "\r\n").bytes() {
            stream.write_all(&[byte]).await.unwrap();
        }
    }
}

const HELLO: &str = "*2|$5|HELLO|$1|3|";
const PING: &str = "*1|$4|PING|";
const RESP3: &str = "%2|$6|server|$5|redis|$5|proto|:3|";

#[tokio::test]
async fn a_proxy_that_closes_on_hello_gets_nothing_optional() {
    let peer = Peer::new(&[&[(HELLO, "")], &[("*2|$6|SELECT|$1|1|*1|$4|PING|", "+OK|+PONG|")]]);
    let connection = open_with(&peer.config("/1")).await.unwrap();
    assert!(matches!(connection.transport, Transport::Custom(_)));
    assert_eq!(connection.server.protocol, Protocol::Resp2);
    peer.finish().await;
}

#[tokio::test]
async fn a_proxy_that_closes_on_anything_is_given_up() {
    let peer = Peer::new(&[&[(HELLO, "")], &[(PING, "")]]);
    let kind = failure(&peer.config("")).await;
    assert!(matches!(kind, ConnectErrorKind::Closed { silent: true }), "{kind:?}");
    peer.finish().await;
    // Who demands a protocol gets it or nothing.
    let peer = Peer::new(&[&[(HELLO, "")]]);
    let kind = failure(&peer.config("?protocol=resp3")).await;
    assert!(matches!(kind, ConnectErrorKind::Closed { silent: true }), "{kind:?}");
    peer.finish().await;
}

#[tokio::test]
async fn a_proxy_that_refuses_hello_and_closes_on_client() {
    let client = "*4|$6|CLIENT|$7|SETINFO|";
    let peer = Peer::new(&[&[(HELLO, "-ERR unsupported command 'hello'|"), (client, "")], &[(PING, "+PONG|")]]);
    let connection = open_with(&peer.config("")).await.unwrap();
    assert_eq!(connection.server.protocol, Protocol::Resp2);
    peer.finish().await;
}

#[tokio::test]
async fn a_connection_lost_after_hello_is_not_tried_as_resp2() {
    let peer = Peer::new(&[&[(HELLO, RESP3)]]);
    let kind = failure(&peer.config("")).await;
    assert!(matches!(kind, ConnectErrorKind::Closed { silent: false }), "{kind:?}");
    peer.finish().await;
}

#[tokio::test]
async fn pushes_during_the_handshake_are_kept() {
    let setup = "*4|$6|CLIENT|$7|SETINFO|$8|LIB-NAME|$16|pilotlight-redis|";
    let push = "+OK|>2|$10|invalidate|*1|$1|a|+OK|>1|$4|late|";
    let peer = Peer::new(&[&[(HELLO, RESP3), (setup, push)]]);
    let config = peer.config("");
    let connection = connect(&config, &config.servers[0], Purpose::Management).await.unwrap();
    assert_eq!(connection.pushes.len(), 1, "{connection:?}");
}

#[tokio::test]
async fn other_servers_are_recognised() {
    for (answer, expected) in [
        ("HTTP/1.1 400 Bad Request||", "this is no Redis server: it answers in HTTP"),
        ("SSH-2.0-OpenSSH_9.2|", "this is no Redis server: it answers in SSH"),
        (
            "\x15\x03\x01\x00\x02\x02\x46",
            "this is no Redis server: it answers in TLS; use rediss:// or a TLS configuration",
        ),
        (
            "220 mail.example ESMTP|",
            "the server broke the protocol: malformed reply at byte 0 of its frame: unknown type byte 0x32",
        ),
        ("+OK|", "HELLO was answered with simple string"),
    ] {
        let peer = Peer::new(&[&[(HELLO, answer)]]);
        assert_eq!(failure(&peer.config("")).await.to_string(), expected);
    }
}

#[tokio::test]
async fn a_reply_beyond_the_limits_ends_the_attempt() {
    let long = format!("$9999|{}|", "x".repeat(9999)).leak();
    let peer = Peer::new(&[&[(HELLO, &*long)]]);
    let kind = failure(&peer.config("?max_bulk_bytes=1KiB")).await;
    assert_eq!(kind.to_string(), "HELLO was answered with reply that exceeds a limit");
}

#[tokio::test]
async fn a_silent_peer_is_left_at_the_connect_timeout() {
    struct Silent;
    impl Connector for Silent {
        fn connect<'a>(&'a self, _: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
            let (ours, theirs) = duplex(64);
            // The other end stays open for ever.
            std::mem::forget(theirs);
            Box::pin(std::future::ready(Ok(Box::new(ours) as Box<dyn ByteStream>)))
        }
    }
    let config =
        Config { connector: Some(Arc::new(Silent)), ..Config::from_url("redis://?connect_timeout=50ms").unwrap() };
    let started = Instant::now();
    let kind = failure(&config).await;
    assert!(matches!(kind, ConnectErrorKind::Timeout { stage: ConnectStage::Handshake, .. }), "{kind:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_failing_connector() {
    let kind = failure(&Peer::new(&[]).config("")).await;
    assert_eq!(kind.to_string(), "the connector failed: no more connections");
}
