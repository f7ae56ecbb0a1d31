//! Replies that pass unread.

use pilotlight_redis::config::{Config, ProtocolChoice};
use pilotlight_redis::raw::{NodeKind, NodeStream, RawClient, RawReply};
use pilotlight_redis::{Command, Ran, Route};
use pilotlight_resp::encode;
use pilotlight_testkit::{Cluster, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::spare::Kind;

fn encoded(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::command(&mut out, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    out
}

fn command<'a>(words: &[&str]) -> Command<'a> {
    words[1..].iter().fold(Command::raw(words[0]), |command, word| command.arg((*word).to_owned()))
}

#[tokio::test]
async fn frames_come_as_the_server_wrote_them() {
    let server = Server::start().unwrap();
    for (protocol, map) in [
        (ProtocolChoice::Resp2, "*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        (ProtocolChoice::Resp3, "%1\r\n$1\r\na\r\n$1\r\n1\r\n"),
    ] {
        let client = RawClient::new(Config { protocol, ..Config::from_url(&server.url()).unwrap() }).unwrap();
        let all = [&["SET", "k", "v"][..], &["HSET", "h", "a", "1"], &["HGETALL", "h"], &["INCR", "h"], &["GET", "k"]];
        let bytes: Vec<_> = all.iter().map(|words| encoded(words)).collect();
        let commands: Vec<_> =
            all.iter().zip(&bytes).map(|(words, bytes)| client.encoded(&command(words), bytes).unwrap()).collect();
        let replies = client.batch(&commands).await;
        let text = |at: usize| String::from_utf8(replies[at].as_ref().unwrap().to_vec()).unwrap();
        assert_eq!(text(0), "+OK\r\n");
        assert_eq!(text(2), map);
        let error = replies[3].as_ref().unwrap_err();
        assert_eq!((error.server().unwrap().code(), error.ran()), ("WRONGTYPE", Ran::Executed));
        assert_eq!(text(4), "$1\r\nv\r\n");
        server.command(&["FLUSHALL"]).unwrap();
        assert!(client.encoded(&command(&["BLPOP", "l", "1"]), b"").is_none());
        let popped = client.run(command(&["BLPOP", "l", "0.01"]), None).await.unwrap();
        assert_eq!(&popped[..], if protocol == ProtocolChoice::Resp2 { &b"*-1\r\n"[..] } else { b"_\r\n" });
        let mut own = client.dedicated(Route::Any).await.unwrap();
        let both = [encoded(&["NOSUCH"]), encoded(&["PING"])].concat();
        let replies = own.exchange(&both, 2, None).await.unwrap();
        assert!(matches!(&replies[0], RawReply::Error(text) if text.starts_with(b"ERR unknown")));
        assert_eq!(replies[1], RawReply::Frame("+PONG\r\n".into()));
    }
}

#[tokio::test]
async fn a_cluster_is_followed() {
    let cluster = Kind::of(3, 0).start();
    let client = RawClient::new(Config { ..Config::from_url(&cluster_url(&cluster)).unwrap() }).unwrap();
    let (from, slot) = cluster.node_for_key("k").unwrap();
    let to = cluster.nodes().iter().find(|node| node.id() != from.id()).unwrap();
    let set = encoded(&["SET", "k", "v"]);
    for target in [to, from] {
        let set = client.encoded(&command(&["SET", "k", "v"]), &set).unwrap();
        assert_eq!(&client.batch(&[set]).await[0].as_ref().unwrap()[..], b"+OK\r\n");
        cluster.move_slot(slot, target).unwrap();
    }
    assert_eq!(client.primaries().len(), 3);
    let set = encoded(&["SET", "k", "v"]);
    let set = client.encoded(&command(&["SET", "k", "v"]), &set).unwrap();
    assert!(client.batch(&[set]).await[0].is_ok());
}

fn cluster_url(cluster: &Cluster) -> String {
    format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[0].port())
}

#[tokio::test]
async fn a_nodes_stream_is_logged_in_and_speaks_resp2() {
    let server = Server::builder().requirepass("pw").start().unwrap();
    let mut config = Config::from_url(&server.url()).unwrap();
    config.database = 3;
    let mut stream = NodeStream::open(&config, &config.servers[0], NodeKind::Server).await.unwrap();
    stream.write_all(&[encoded(&["SET", "k", "v"]), encoded(&["HGETALL", "none"])].concat()).await.unwrap();
    let mut reply = [0; 9];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"+OK\r\n*0\r\n");
    assert_eq!(server.info("db3").unwrap().split(',').next(), Some("keys=1"));
}
