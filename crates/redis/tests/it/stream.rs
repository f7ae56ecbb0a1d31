//! A connection as a stream of bytes.

use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Config, ErrorKind, Route};
use pilotlight_resp::encode;
use pilotlight_testkit::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bed::{Bed, slot_of};

/// Sends a command and reads a reply of one line.
async fn line(client: &Client, route: Route, words: &[&[u8]]) -> (String, String) {
    let mut stream = client.stream(route).await.unwrap();
    let mut out = Vec::new();
    encode::command(&mut out, words);
    stream.write_all(&out).await.unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n") {
        assert_ne!(stream.read_buf(&mut reply).await.unwrap(), 0);
    }
    (stream.node().to_string(), String::from_utf8(reply).unwrap())
}

#[tokio::test]
async fn the_handshake_is_done_and_nothing_else() {
    let server = Server::start().unwrap();
    let config = Config { database: 3, ..Config::from_url(&server.url()).unwrap() };
    let client = Client::new(config).unwrap();
    assert_eq!(line(&client, Route::Any, &[b"SET", b"a", b"1"]).await.1, "+OK\r\n");
    assert_eq!(line(&client, Route::Any, &[b"DBSIZE"]).await.1, ":1\r\n");
    assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(0));
    assert!(matches!(client.stream(Route::AllNodes).await.unwrap_err().kind(), ErrorKind::Misuse(_)));
}

#[tokio::test]
async fn nobody_there_is_told_after_one_attempt() {
    let server = Server::start().unwrap();
    server.kill().unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    let start = Instant::now();
    assert!(matches!(client.stream(Route::Any).await.unwrap_err().kind(), ErrorKind::Connect(_)));
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn in_a_cluster_it_leads_to_the_node_of_a_key() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    for key in ["a", "b", "c"] {
        let (node, reply) = line(&client, Route::primary_of(key), &[b"SET", key.as_bytes(), b"1"]).await;
        let owner = bed.node_for_slot(slot_of(key.as_bytes())).unwrap().port();
        assert_eq!((node, reply), (format!("127.0.0.1:{owner}"), "+OK\r\n".to_owned()));
    }
}
