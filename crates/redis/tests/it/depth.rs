//! Replies that are nested deeper than the client reads: each costs its own caller an error, and nobody the connection.

use pilotlight_redis::raw::RawClient;
use pilotlight_redis::{Advice, Client, Command, Commands, Config, Error, ErrorKind, Ran, Value};
use pilotlight_testkit::Server;

const NESTED: &str = "redis.call('INCR', KEYS[1]); local t = 7; for i = 1, ARGV[1] do t = {t, 'x'} end; return t";

fn nested<'a>(depth: u32) -> Command<'a> {
    Command::raw("EVAL").arg(NESTED).arg(1).arg("count").arg(depth)
}

async fn start() -> (Server, Config) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let config = Config::from_url(&format!("{}?max_depth=20", server.url())).unwrap();
    (server, config)
}

#[track_caller]
fn assert_is_too_deep(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Reply(_)), "{error}");
    assert_eq!((error.ran(), error.advice()), (Ran::Executed, Advice::Never), "{error}");
    assert!(error.to_string().contains("max_depth"), "{error}");
}

#[tokio::test]
async fn a_reply_that_is_too_deep_costs_its_caller_only() {
    let (_server, config) = start().await;
    let client = Client::new(config).unwrap();
    client.run::<Value>(nested(20)).await.unwrap();
    for depth in [21, 40, 90] {
        let (deep, other) = tokio::join!(client.run::<Value>(nested(depth)), client.set("k", "v"));
        assert_is_too_deep(&deep.unwrap_err());
        other.unwrap();
        assert_is_too_deep(&client.run::<()>(nested(depth)).await.unwrap_err());
    }
    let mut pipeline = client.pipeline();
    let (before, deep, after) = (pipeline.get("k"), pipeline.queue::<Value>(nested(40)), pipeline.get("k"));
    let mut replies = pipeline.run().await.unwrap();
    assert_eq!(replies.take(before).unwrap().unwrap(), "v");
    assert_is_too_deep(&replies.take(deep).unwrap_err());
    assert_eq!(replies.take(after).unwrap().unwrap(), "v");
    // Each was run once, on the one connection.
    assert_eq!(client.get("count").await.unwrap().unwrap(), "8");
    assert_eq!(client.stats().lanes[0].snapshot.counters.connects, 1);

    let mut own = client.dedicated().await.unwrap();
    assert_is_too_deep(&own.run::<Value>(nested(40)).await.unwrap_err());
    own.ping().await.unwrap();
}

/// Who does not read replies passes them on, however deep they are.
#[tokio::test]
async fn what_is_passed_on_may_be_deep() {
    let (_server, config) = start().await;
    let client = RawClient::new(config).unwrap();
    let reply = client.run(nested(90), None).await.unwrap();
    assert_eq!(reply.iter().filter(|byte| **byte == b'*').count(), 90);
}
