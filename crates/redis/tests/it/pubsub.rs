//! Subscriptions.

mod cluster;
mod scripted;
mod standalone;

use std::time::Duration;

use pilotlight_redis::{Client, Config, Event, GapReason, Message, Subscription};
use pilotlight_testkit::Server;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(15);

/// A client of `url`, with pauses between attempts so short that tests need not wait for them.
fn client(url: &str) -> Client {
    Client::new(config(url)).unwrap()
}

fn config(url: &str) -> Config {
    let mut config = Config::from_url(url).unwrap();
    config.reconnect.max = Duration::from_millis(100);
    config
}

async fn next(subscription: &mut Subscription) -> Event {
    timeout(LIMIT, subscription.next()).await.unwrap().unwrap()
}

/// Channel and payload of the next event, which is a message.
async fn message(subscription: &mut Subscription) -> (String, String) {
    match next(subscription).await {
        Event::Message(Message { channel, payload, .. }) => (text(&channel), text(&payload)),
        other => panic!("{other:?} instead of a message"),
    }
}

#[track_caller]
fn assert_message(event: &Event, channel: &str, payload: &str) {
    let Event::Message(message) = event else { panic!("{event:?} instead of a message") };
    assert_eq!((text(&message.channel), text(&message.payload)), (channel.to_owned(), payload.to_owned()));
}

async fn gap(subscription: &mut Subscription) -> GapReason {
    match next(subscription).await {
        Event::Gap { reason } => reason,
        other => panic!("{other:?} instead of a gap"),
    }
}

/// Nothing has come. What was to come would be there: the server has answered something later on the same connection.
#[track_caller]
fn assert_silent(subscription: &mut Subscription) {
    assert_eq!(subscription.try_next(), None);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many connections got it.
fn publish(server: &Server, channel: &str, payload: &str) -> i64 {
    server.command(&["PUBLISH", channel, payload]).unwrap().integer().unwrap()
}

/// Subscribers of a channel.
fn subscribers(server: &Server, channel: &str) -> i64 {
    server.command(&["PUBSUB", "NUMSUB", channel]).unwrap().array()[1].integer().unwrap()
}

fn shard_subscribers(server: &Server, channel: &str) -> i64 {
    server.command(&["PUBSUB", "SHARDNUMSUB", channel]).unwrap().array()[1].integer().unwrap()
}

/// Waits until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
