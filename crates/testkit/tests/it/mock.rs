//! The mock, as a client sees it.

use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::{MockError, MockServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn start() -> (MockServer, Client) {
    let server = MockServer::start().await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    (server, client)
}

#[tokio::test]
async fn answers_come_in_the_order_of_expectations() {
    let (server, client) = start().await;
    server.expect(["GET", "k"]).reply("first");
    server.expect(["get", "k"]).times(2).reply(None::<&str>);
    server.expect_name("HGETALL").reply(["a", "1", "b", "2"]);
    assert_eq!(client.get("k").await.unwrap().unwrap(), "first");
    assert_eq!(client.get("k").await.unwrap(), None);
    assert_eq!(client.get("k").await.unwrap(), None);
    assert_eq!(client.hgetall("h").await.unwrap().len(), 2);
    server.expect(["PING", "anybody"]).any_times().silence();
    server.verify().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_and_what_is_unexpected_is_told() {
    let (server, client) = start().await;
    server.expect(["SET", "k", "v"]).ok();
    server.expect_name("INCR").times(3).reply(1);
    client.incr("n").await.unwrap();
    let error = client.set("k", "other").await.unwrap_err();
    assert_eq!(error.server().unwrap().text(), "ERR the mock does not expect SET k other");
    let error = server.verify().await.unwrap_err();
    let [missing, unexpected] = [["SET k v", "INCR … (2 times)"].as_slice(), &["SET k other"]]
        .map(|texts| texts.iter().map(|&text| text.to_owned()).collect());
    assert_eq!(error, MockError { missing, unexpected, unexpected_count: 1 });
    assert!(error.to_string().contains("did not come: [SET k v, INCR … (2 times)]"), "{error}");
}

#[tokio::test]
async fn errors_delays_and_disconnects() {
    let (server, client) = start().await;
    let delay = Duration::from_millis(30);
    server.expect(["GET", "slow"]).delay(delay).reply("v");
    server.expect(["INCR", "k"]).error("ERR value is not an integer");
    server.expect(["INCR", "lost"]).reset();
    server.expect(["GET", "again"]).disconnect();
    server.expect(["GET", "again"]).reply("v");
    server.expect(["GET", "silent"]).silence();
    let since = Instant::now();
    client.get("slow").await.unwrap();
    assert!(since.elapsed() >= delay);
    client.incr("k").await.unwrap_err();
    assert_eq!(client.incr("lost").await.unwrap_err().ran(), Ran::MaybeExecuted);
    assert_eq!(client.get("again").await.unwrap().unwrap(), "v", "reads are repeated");
    let silent = client.get("silent").timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(silent.kind(), ErrorKind::Timeout(_)), "{silent}");
    server.verify().await.unwrap();
    assert!(server.connections() >= 3);
}

#[tokio::test]
async fn a_client_connects_without_expectations_and_in_memory() {
    let server = MockServer::start().await.unwrap();
    Client::connect(&server.url()).await.unwrap();
    server.verify().await.unwrap();

    let server = MockServer::builder().memory().start().await.unwrap();
    server.expect(["FOO"]).raw("$3\r\nbar\r\n");
    let mut stream = server.dial().unwrap();
    stream.write_all(b"*1\r\n$3\r\nfoo\r\n").await.unwrap();
    let mut reply = [0; 9];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"$3\r\nbar\r\n");
    server.verify().await.unwrap();
}
