//! One real server.

use std::time::Duration;

use pilotlight_redis::config::ProtocolChoice;
use pilotlight_redis::{Client, Commands, Config, ErrorKind, Event, GapReason};
use pilotlight_testkit::Server;
use tokio::time::{Instant, timeout};

use super::{
    LIMIT, assert_message, assert_silent, client, config, gap, message, next, publish, shard_subscribers, subscribers,
    text, until,
};

/// A client of each protocol, with a server for itself: a server hears late that the subscriptions of a client before
/// have gone.
fn both() -> [(Server, Client); 2] {
    [ProtocolChoice::Resp3, ProtocolChoice::Resp2].map(|protocol| {
        let server = Server::start().unwrap();
        let client = Client::new(Config { protocol, ..config(&server.url()) }).unwrap();
        (server, client)
    })
}

#[tokio::test]
async fn channels_patterns_and_shard_channels_in_both_protocols() {
    for (server, client) in both() {
        let mut channels = client.subscribe(["a", "b"]).await.unwrap();
        let mut patterns = client.psubscribe(["b*"]).await.unwrap();
        let mut shard = client.ssubscribe(["a", "c"]).await.unwrap();
        assert!(channels.is_live() && patterns.is_live() && shard.is_live());
        assert_eq!(client.publish("a", "1").await.unwrap(), 1);
        assert_eq!(client.publish("b", "2").await.unwrap(), 2);
        assert_eq!(client.publish("bb", "3").await.unwrap(), 1);
        assert_eq!(client.spublish("a", "4").await.unwrap(), 1);
        assert_message(&next(&mut channels).await, "a", "1");
        assert_message(&next(&mut channels).await, "b", "2");
        for (channel, payload) in [("b", "2"), ("bb", "3")] {
            let event = next(&mut patterns).await;
            assert_message(&event, channel, payload);
            let Event::Message(message) = event else { continue };
            assert_eq!(message.pattern.as_deref(), Some(&b"b*"[..]));
        }
        assert_message(&next(&mut shard).await, "a", "4");
        assert_eq!(connections(&server), 1, "all share one connection");
        client.close(LIMIT).await;
        until("the end of the connection", || connections(&server) == 0).await;
    }
}

fn connections(server: &Server) -> usize {
    server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap().text().lines().count()
}

#[tokio::test]
async fn subscriptions_share_a_channel_and_the_last_one_ends_it() {
    for (server, client) in both() {
        let mut first = client.subscribe("a").await.unwrap();
        let mut second = client.clone().subscribe(["a", "b"]).await.unwrap();
        assert_eq!((subscribers(&server, "a"), publish(&server, "a", "1")), (1, 1));
        assert_eq!(message(&mut first).await, ("a".into(), "1".into()));
        assert_eq!(message(&mut second).await, ("a".into(), "1".into()));
        drop(second);
        until("the end of b", || subscribers(&server, "b") == 0).await;
        assert_eq!(publish(&server, "a", "2"), 1);
        assert_eq!(message(&mut first).await, ("a".into(), "2".into()));
        drop(first);
        until("the end of a", || subscribers(&server, "a") == 0).await;
        // Out of the subscribed state in RESP2, and into it again.
        let mut again = client.subscribe("a").await.unwrap();
        publish(&server, "a", "3");
        assert_eq!(message(&mut again).await, ("a".into(), "3".into()));
    }
}

#[tokio::test]
async fn channels_come_and_go() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    let mut subscription = client.subscribe(()).await.unwrap();
    subscription.add("a").await.unwrap();
    subscription.add(["a", "b"]).await.unwrap();
    publish(&server, "a", "1");
    publish(&server, "b", "2");
    until("both", || subscribers(&server, "b") == 1).await;
    // It is here before the confirmation of what is asked for after it.
    subscription.add("c").await.unwrap();
    subscription.remove("a");
    assert_eq!(message(&mut subscription).await, ("b".into(), "2".into()));
    until("the end of a", || subscribers(&server, "a") == 0).await;
    assert_silent(&mut subscription);
}

#[tokio::test]
async fn a_killed_connection_is_one_gap_and_messages_again() {
    for (server, client) in both() {
        let mut subscription = client.subscribe(["a", "b", "c"]).await.unwrap();
        let mut shard = client.ssubscribe("s").await.unwrap();
        for round in ["1", "2", "3"] {
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
            let since = Instant::now();
            assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
            assert_eq!(gap(&mut shard).await, GapReason::ConnectionLost);
            assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
            assert!(subscription.is_live());
            assert_eq!(publish(&server, "b", round), 1);
            assert_eq!(message(&mut subscription).await, ("b".into(), round.into()));
        }
        client.close(LIMIT).await;
        assert_eq!(timeout(LIMIT, subscription.next()).await.unwrap(), None);
        assert!(matches!(client.subscribe("x").await.unwrap_err().kind(), ErrorKind::Closed));
    }
}

#[tokio::test]
async fn a_server_that_restarts() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    let mut subscription = client.subscribe("a").await.unwrap();
    publish(&server, "a", "before");
    // The publisher may be answered before the message is written; the next command is not.
    server.command(&["PING"]).unwrap();
    server.kill().unwrap();
    until("the loss", || !subscription.is_live()).await;
    // What had come is not lost, and the gap is told when it is over.
    assert_eq!(message(&mut subscription).await, ("a".into(), "before".into()));
    assert_silent(&mut subscription);
    server.restart().unwrap();
    assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    publish(&server, "a", "after");
    assert_eq!(message(&mut subscription).await, ("a".into(), "after".into()));
}

const BURST: &str = "for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do redis.call('PUBLISH', ARGV[1], i) end";

fn burst(server: &Server, channel: &str, first: usize, last: usize) {
    server.command(&["EVAL", BURST, "0", channel, &first.to_string(), &last.to_string()]).unwrap();
}

#[tokio::test]
async fn ten_thousand_messages_in_order() {
    for (server, client) in both() {
        let mut subscription = client.subscribe("a").await.unwrap();
        for thousand in 0..10 {
            burst(&server, "a", thousand * 1000, thousand * 1000 + 999);
        }
        for number in 0..10_000 {
            assert_eq!(message(&mut subscription).await.1, number.to_string());
        }
        assert_eq!(subscription.dropped(), 0);
    }
}

#[tokio::test]
async fn a_slow_subscriber_loses_the_oldest_and_holds_up_nobody() {
    let server = Server::start().unwrap();
    let client = client(&format!("{}?subscription_max_messages=100", server.url()));
    let mut slow = client.subscribe("a").await.unwrap();
    let mut fast = client.subscribe("a").await.unwrap();
    for fifty in 0..20 {
        burst(&server, "a", fifty * 50, fifty * 50 + 49);
        for number in fifty * 50..fifty * 50 + 50 {
            assert_eq!(message(&mut fast).await.1, number.to_string());
        }
    }
    assert_eq!(next(&mut slow).await, Event::Dropped { count: 900 });
    for number in 900..1000 {
        assert_eq!(message(&mut slow).await.1, number.to_string());
    }
    assert_silent(&mut slow);
    assert_eq!((slow.dropped(), fast.dropped()), (900, 0));
}

#[tokio::test]
async fn a_forbidden_channel_is_refused_and_the_others_are_not() {
    let server = Server::builder().user("some on >secret ~* resetchannels &ok* +@all").start().unwrap();
    let url = format!("redis://some:secret@{}", server.addr());
    for protocol in [ProtocolChoice::Resp3, ProtocolChoice::Resp2] {
        let client = Client::new(Config { protocol, ..config(&url) }).unwrap();
        let (ok, mixed, forbidden) =
            tokio::join!(client.subscribe(["ok1", "ok2"]), client.subscribe(["ok3", "no"]), client.ssubscribe("no"));
        let mut ok = ok.unwrap();
        for refused in [mixed.unwrap_err(), forbidden.unwrap_err()] {
            assert_eq!(refused.server().unwrap().code(), "NOPERM", "{refused}");
        }
        until("the end of what was not to be", || subscribers(&server, "ok3") == 0).await;
        assert!(ok.add(["ok4", "no"]).await.is_err());
        assert_eq!(publish(&server, "ok1", "1"), 1);
        assert_eq!(message(&mut ok).await, ("ok1".into(), "1".into()));
        assert!(ok.is_live());
    }
}

#[tokio::test]
async fn what_is_forbidden_later_is_told() {
    let server = Server::builder().user("some on >secret ~* resetchannels &ok* +@all").start().unwrap();
    let client = client(&format!("redis://some:secret@{}", server.addr()));
    let mut subscription = client.subscribe(["ok1", "ok2"]).await.unwrap();
    // The server closes the connection of a user who may not have what he has.
    server.command(&["ACL", "SETUSER", "some", "resetchannels", "&ok1"]).unwrap();
    match next(&mut subscription).await {
        Event::Refused { channel, error } => assert_eq!((text(&channel), error.code()), ("ok2".into(), "NOPERM")),
        other => panic!("{other:?}"),
    }
    publish(&server, "ok1", "1");
    assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    assert_eq!(message(&mut subscription).await, ("ok1".into(), "1".into()));
    assert!(!subscription.is_live());
    server.command(&["ACL", "SETUSER", "some", "&ok2"]).unwrap();
    assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    publish(&server, "ok2", "2");
    assert_eq!(message(&mut subscription).await, ("ok2".into(), "2".into()));
}

#[tokio::test]
async fn nobody_there_is_an_error_in_time() {
    let server = Server::start().unwrap();
    server.kill().unwrap();
    let waiting = client(&format!("{}?command_timeout=200ms", server.url()));
    let error = waiting.subscribe("a").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect(_)), "{error}");
    let failing = client(&format!("{}?when_down=fail_fast&command_timeout=1h", server.url()));
    let error = timeout(LIMIT, failing.subscribe("a")).await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect(_)), "{error}");
    server.restart().unwrap();
    let mut subscription = waiting.subscribe("a").await.unwrap();
    publish(&server, "a", "1");
    assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
}

#[tokio::test]
async fn a_wrong_password_is_told_at_once() {
    let server = Server::builder().requirepass("right").start().unwrap();
    let client = client(&format!("redis://:wrong@{}?command_timeout=1h", server.addr()));
    let error = timeout(LIMIT, client.subscribe("a")).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("rejects the credentials"), "{error}");
}

#[tokio::test]
async fn a_dropped_future_unsubscribes() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    let keep = client.ssubscribe("keep").await.unwrap();
    for _ in 0..50 {
        let mut subscribing = Box::pin(client.ssubscribe(["a", "b"]));
        // Once: asked for, not confirmed.
        let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(subscribing.as_mut().poll(cx))).await;
        drop(subscribing);
        tokio::task::yield_now().await;
    }
    until("the end of all", || shard_subscribers(&server, "a") + shard_subscribers(&server, "b") == 0).await;
    assert_eq!(shard_subscribers(&server, "keep"), 1);
    drop(keep);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_subscription_outlives_its_runtime() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    let first = runtime();
    let mut subscription = first.block_on(client.subscribe("a")).unwrap();
    drop(first);
    assert!(!subscription.is_live());
    runtime().block_on(async {
        assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
        assert_eq!(publish(&server, "a", "1"), 1);
        assert_eq!(message(&mut subscription).await, ("a".into(), "1".into()));
    });
    runtime().block_on(async {
        // Asking for more is enough, too.
        subscription.add("b").await.unwrap();
        assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
    });
    drop(subscription);
    runtime().block_on(client.close(LIMIT));
}

/// Pauses grow with failures only, and a connection that was lost soon after it was of use is none.
#[tokio::test]
async fn subscriptions_are_back_soon_after_many_quick_losses() {
    let server = Server::start().unwrap();
    let mut config = Config::from_url(&server.url()).unwrap();
    // The second pause would end no sooner than the test.
    config.reconnect.max = Duration::from_secs(1_000_000);
    config.reconnect.factor = 1e9;
    let client = Client::new(config).unwrap();
    let mut subscription = client.subscribe("a").await.unwrap();
    for _ in 0..10 {
        server.client_kill_all().unwrap();
        assert_eq!(gap(&mut subscription).await, GapReason::ConnectionLost);
        assert_eq!(publish(&server, "a", "back"), 1);
        assert_eq!(message(&mut subscription).await, ("a".into(), "back".into()));
    }
}
