//! The client without a runtime.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pilotlight_redis::{Commands, Config, ErrorKind, Event, Ran, Route, blocking};
use pilotlight_testkit::Server;

#[test]
fn many_threads_share_a_client() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let client = client.clone();
            scope.spawn(move || {
                for number in 1..=200_i64 {
                    let key = format!("count:{thread}");
                    assert_eq!(client.incr(&key).unwrap(), number);
                    assert_eq!(client.get(&key).unwrap().unwrap(), number.to_string());
                }
            });
        }
    });
    assert_eq!(client.stats().lanes[0].snapshot.counters.connects, 1);
    client.close(Duration::from_secs(5));
    assert!(matches!(client.ping().unwrap_err().kind(), ErrorKind::Closed));
}

#[test]
fn what_the_asynchronous_client_has_is_waited_for() {
    let server = Server::start().unwrap();
    let client = blocking::Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    let redis = client.asynchronous();
    let name: Option<String> = client.wait(redis.get("name").read_as()).unwrap();
    assert_eq!(name, None);
    let mut pipeline = redis.pipeline();
    let (first, second) = (pipeline.incr("a"), pipeline.incr("a"));
    let mut replies = client.wait(pipeline.run()).unwrap();
    assert_eq!((replies.take(first).unwrap(), replies.take(second).unwrap()), (1, 2));
    let pages = client.wait(async {
        let (mut scan, mut keys) = (redis.scan(), HashSet::new());
        while let Some(page) = scan.next().await {
            keys.extend(page.unwrap());
        }
        keys
    });
    assert_eq!(pages.len(), 1);

    let mut subscription = client.wait(redis.subscribe("news")).unwrap();
    client.publish("news", "here").unwrap();
    let Some(Event::Message(message)) = client.wait(subscription.next()) else { panic!() };
    assert_eq!(message.payload, "here");

    // A deadline, a blocking command, a connection of its own.
    let begin = Instant::now();
    let error = client.wait(redis.blpop(["none"], 0.0).timeout(Duration::from_millis(100))).unwrap_err();
    assert_eq!(error.ran(), Ran::MaybeExecuted);
    assert!(begin.elapsed() < Duration::from_secs(2));
    let mut connection = client.wait(redis.dedicated_on(Route::Any)).unwrap();
    client.wait(connection.set("k", "v")).unwrap();
}

#[test]
fn nothing_is_left_when_the_last_clone_goes() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&format!("{}?client_name=sync", server.url())).unwrap();
    let other = client.clone();
    drop(client);
    other.set("k", "v").unwrap();
    let clients =
        || server.command(&["CLIENT", "LIST"]).unwrap().text().lines().filter(|it| it.contains("name=sync")).count();
    assert_eq!(clients(), 1);
    drop(other);
    let begin = Instant::now();
    while clients() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(5), "the connection stays open");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(blocking::Client::connect("redis://127.0.0.1:1?command_timeout=100ms").is_err());
}

/// It holds up the runtime, but is no deadlock: the connections are on another thread.
#[tokio::test]
async fn it_works_within_another_runtime() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    client.set("k", "v").unwrap();
    assert_eq!(client.get("k").unwrap().unwrap(), "v");
}
