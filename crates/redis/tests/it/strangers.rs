//! Servers of another kind than the URL says, and servers that lack commands.

use bytes::Bytes;
use pilotlight_redis::config::{NodeAddress, ProtocolChoice};
use pilotlight_redis::{Client, Commands, Config, Misuse};
use pilotlight_redis::{ErrorKind, Ran};
use pilotlight_testkit::{Handshake, ScriptedServer, Server};

use crate::bed::Bed;
use crate::spare::Kind;

/// A Sentinel knows few commands.
#[tokio::test]
async fn a_sentinel_is_named() {
    let hello = "%2\r\n+mode\r\n+sentinel\r\n+proto\r\n:3\r\n";
    let respond = move |words: Vec<Bytes>| match &words[0][..] {
        b"HELLO" => hello.as_bytes().to_vec(),
        b"PING" => b"+PONG\r\n".to_vec(),
        b"CLIENT" => b"+OK\r\n".to_vec(),
        _ => b"-ERR unknown command 'GET', with args beginning with: 'k' \r\n".to_vec(),
    };
    let server = ScriptedServer::builder().handshake(Handshake::manual()).respond(respond).await.unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let error = client.get("k").await.unwrap_err().to_string();
    assert!(error.contains("redis+sentinel://") && !error.contains("Redis 1.0.0"), "{error}");
    let mut own = client.dedicated().await.unwrap();
    let error = own.get("k").await.unwrap_err().to_string();
    assert!(error.contains("redis+sentinel://"), "{error}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_named() {
    let bed = Bed::start(3, 0).await;
    let client = Client::connect(&bed.nodes()[0].server().url()).await.unwrap();
    let (mut named, mut answered) = (0, 0);
    for number in 0..30 {
        match client.get(format!("k{number}")).await {
            Ok(_) => answered += 1,
            Err(error) => {
                assert!(error.to_string().contains("connect with redis+cluster://"), "{error}");
                assert_eq!((error.server().unwrap().code(), error.ran()), ("MOVED", Ran::NotSent));
                named += 1;
            }
        }
    }
    assert!(named > 0 && answered > 0, "{named}, {answered}");
}

/// `PING` is enough, and not even that is needed.
#[tokio::test]
async fn a_user_with_few_rights_is_connected() {
    let rules = ["pinger on >s3cret ~* +ping +get", "reader on >s3cret ~* +get"];
    let server = rules.iter().fold(Server::builder(), |builder, rule| builder.user(rule)).start().unwrap();
    for user in ["pinger", "reader"] {
        for protocol in ["", "?protocol=resp2"] {
            let url = format!("redis://{user}:s3cret@127.0.0.1:{}{protocol}", server.port());
            let client = Client::connect(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(client.get("k").await.unwrap(), None, "{url}");
        }
    }
}

/// A proxy that closes the connection at what it does not know.
#[tokio::test]
async fn a_proxy_that_knows_few_commands_is_spoken_to_plainly() {
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Resp2] {
        let server = ScriptedServer::builder().handshake(Handshake::manual());
        let server = server.play(proxy()).await.unwrap();
        let config = Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()));
        let client = Client::new(Config { protocol, ..config }).unwrap();
        assert_eq!(client.get("k").await.unwrap().unwrap(), "v", "{protocol:?}");
    }
}

/// The first connection is closed at its first command.
fn proxy() -> pilotlight_testkit::Script {
    let script = pilotlight_testkit::Script::new().expect_any().close().next_connection();
    script.expect(["PING"]).send("+PONG\r\n").expect(["GET", "k"]).send("$1\r\nv\r\n")
}

#[tokio::test]
async fn keyspace_events_of_a_cluster_are_not_subscribed_to_at_one_node() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    for error in [
        client.subscribe("__keyevent@0__:expired").await.unwrap_err(),
        client.psubscribe("__keyspace@0__:*").await.unwrap_err(),
        client.psubscribe(["news.*", "__key*__:*"]).await.unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Unroutable { .. })), "{error}");
        assert!(error.to_string().contains("each primary"), "{error}");
    }
    drop(client.subscribe("__key").await.unwrap());
}

#[tokio::test]
async fn a_script_is_loaded_while_a_replica_is_away() {
    let cluster = tokio::task::spawn_blocking(|| Kind::of(3, 1).start()).await.unwrap();
    let client = Client::new(Config::cluster([crate::bed::address(&cluster.nodes()[0])])).unwrap();
    client.script_load("return 1").await.unwrap();
    cluster.nodes()[3].server().kill().unwrap();
    let known = client.script_load("return 2").await.unwrap();
    let load = |node: &pilotlight_testkit::Node| {
        node.server().command(&["SCRIPT", "EXISTS", &String::from_utf8_lossy(known.as_ref())]).unwrap()
    };
    let present = cluster.nodes().iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, node)| load(node));
    assert!(present.into_iter().all(|exists| exists.array()[0].integer() == Some(1)));
    // Without a primary it fails.
    cluster.nodes()[0].server().kill().unwrap();
    client.script_load("return 3").timeout(std::time::Duration::from_secs(1)).await.unwrap_err();
}
