//! Replies that go to a writer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::{Script, ScriptedServer};
use tokio::io::AsyncWrite;

use super::{SECOND, cluster, soon, standalone};

fn get(key: &str) -> Command<'_> {
    Command::raw("GET").arg(key)
}

async fn copied(client: &Client, key: &str) -> (Option<u64>, Vec<u8>) {
    let mut written = Vec::new();
    let size = soon(client.copy(get(key), &mut written)).await.unwrap();
    (size, written)
}

#[tokio::test]
async fn strings_of_all_sizes() {
    let (_server, client) = standalone();
    for size in [0, 1, 4095, 4096, 4097, 65_536, 70_000, 9_000_000] {
        let value: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        client.set("k", &value).await.unwrap();
        assert_eq!(copied(&client, "k").await, (Some(size as u64), value));
    }
    assert_eq!(copied(&client, "none").await, (None, Vec::new()));
    // What is no string is written, too, or is the error that it is.
    let mut written = Vec::new();
    assert_eq!(client.copy(Command::raw("INCR").arg("n"), &mut written).await.unwrap(), Some(1));
    assert_eq!(client.copy(Command::raw("TYPE").arg("k"), &mut written).await.unwrap(), Some(6));
    assert_eq!(written, b"1string");
    client.rpush("list", ["a"]).await.unwrap();
    let range = Command::raw("LRANGE").arg("list").arg(0).arg(-1);
    let error = client.copy(range, &mut written).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Reply(_)), "{error}");
    let error = client.copy(get("list"), &mut written).await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    let error = client.copy(Command::raw("SUBSCRIBE").arg("a"), &mut written).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)));
    assert_eq!(client.stats().pool.connects, 1, "one connection did it all");
}

#[tokio::test]
async fn redirects_are_followed() {
    let (cluster, client) = cluster(3);
    client.set("k", "value").await.unwrap();
    let (source, slot) = cluster.node_for_key("k").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    let step = cluster.begin_move(slot, target).unwrap();
    step.migrate_all().unwrap();
    assert_eq!(copied(&client, "k").await, (Some(5), b"value".to_vec()));
    step.finish().unwrap();
    assert_eq!(copied(&client, "k").await, (Some(5), b"value".to_vec()));
    assert!(client.stats().redirects_ask >= 1);
}

#[tokio::test]
async fn pushes_before_it_and_any_chunks_are_no_matter() {
    let reply = b">2\r\n$1\r\na\r\n:1\r\n$10\r\n0123\r\n6789\r\n";
    let script = Script::new().expect(["GET", "k"]).send_each_byte(reply).expect(["GET", "k"]).send(reply);
    let server = ScriptedServer::play(script).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(copied(&client, "k").await, (Some(10), b"0123\r\n6789".to_vec()));
    }
    server.finish().await.unwrap();
}

/// Before it begins, a lost reply is asked for again, as `GET` only reads; later it is not.
#[tokio::test]
async fn what_has_begun_is_not_begun_again() {
    let script = Script::new().expect(["GET", "k"]).close().next_connection();
    let script = script.expect(["GET", "k"]).send("$10\r\n01234").close();
    let server = ScriptedServer::play(script).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    let mut written = Vec::new();
    let error = soon(client.copy(get("k"), &mut written)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connection(_)), "{error}");
    assert_eq!((error.ran(), &*written), (Ran::Executed, &b"01234"[..]));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_reply_that_stands_still_is_given_up() {
    let server = ScriptedServer::respond(|_: Vec<Bytes>| "$10\r\n01234").await.unwrap();
    let config = Config { command_timeout: Some(SECOND / 5), ..Config::from_url(&server.url()).unwrap() };
    let client = Client::new(config).unwrap();
    let error = soon(client.copy(get("k"), &mut Vec::new())).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
}

struct Full;

impl AsyncWrite for Full {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::StorageFull.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_writer_that_fails_is_the_callers() {
    let (_server, client) = standalone();
    client.set("k", vec![b'x'; 1 << 20]).await.unwrap();
    let error = soon(client.copy(get("k"), &mut Full)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Writer(_)), "{error}");
    // The rest of the reply is nobody's.
    assert_eq!(copied(&client, "k").await.0, Some(1 << 20));
}
