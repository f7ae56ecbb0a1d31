//! The client without a runtime.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::task::Poll;
use std::time::{Duration, Instant};

use pilotlight_redis::command::each;
use pilotlight_redis::raw::RawReply;
use pilotlight_redis::{CacheConfig, Command, Commands, Config, ErrorKind, Event, Ran, Route, Script, blocking};
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
fn calls_have_options() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    client.set("n", 7).unwrap();
    assert_eq!(client.read_as::<u8>().get("n").unwrap(), 7);
    assert_eq!(client.timeout(Duration::from_secs(9)).retryable().on(Route::Any).incr("n").unwrap(), 8);
    assert_eq!(client.on(Route::Any).read_as::<String>().get("n").unwrap(), "8");
    let error = client.timeout(Duration::from_millis(50)).blpop("none", 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
}

#[test]
fn batches_and_connections_of_ones_own() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    let mut pipeline = client.pipeline().with(|pipeline| pipeline.timeout(Duration::from_secs(9)));
    let (first, second) = (pipeline.incr("n"), pipeline.incr("n"));
    assert_eq!(pipeline.len(), 2);
    let mut replies = pipeline.run().unwrap();
    assert_eq!((replies.take(first).unwrap(), replies.take(second).unwrap()), (1, 2));
    let mut transaction = client.transaction();
    let third = transaction.incr("n");
    assert_eq!(transaction.run().unwrap().take(third).unwrap(), 3);

    let mut connection = client.dedicated().unwrap();
    connection.watch("n").unwrap();
    client.set("n", 9).unwrap();
    let mut transaction = connection.transaction();
    transaction.incr("n");
    assert!(matches!(transaction.run().unwrap_err().kind(), ErrorKind::Aborted(_)));
    assert_eq!(connection.get("n").unwrap().unwrap(), "9");
    drop(client.dedicated_on(Route::Any).unwrap());
    let mut attempts = 0;
    let doubled = client.watch("n", |connection| {
        attempts += 1;
        let n: i64 = connection.run(Command::raw("GET").arg("n"))?;
        if attempts == 1 {
            client.incr("n")?;
        }
        let mut transaction = connection.transaction();
        transaction.set("n", 2 * n);
        transaction.run()?;
        Ok(2 * n)
    });
    assert_eq!((doubled.unwrap(), attempts), (20, 2));

    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    assert_eq!(client.script::<i64>(&script).key("n").arg(5).run().unwrap(), 25);
    client.load(&script).unwrap();
    assert_eq!(client.script::<i64>(&script).key("n").arg(5).run().unwrap(), 30);
}

#[test]
fn what_comes_one_after_the_other_is_an_iterator() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    client.mset(each((0..50).map(|id| (format!("k:{id}"), id)))).unwrap();
    client.set("other", 1).unwrap();
    let keys: HashSet<_> = client.scan().with(|scan| scan.pattern("k:*").count(7)).flat_map(Result::unwrap).collect();
    assert_eq!(keys.len(), 50);
    client.hset("h", [("a", 1), ("b", 2)]).unwrap();
    client.sadd("s", ["a", "b"]).unwrap();
    client.zadd("z", (1, "a")).unwrap();
    assert_eq!(client.scan_hash("h").flat_map(Result::unwrap).count(), 2);
    assert_eq!(client.scan_set("s").flat_map(Result::unwrap).count(), 2);
    assert_eq!(client.scan_sorted_set("z").flat_map(Result::unwrap).collect::<Vec<_>>(), [("a".into(), 1.0)]);

    let mut subscription = client.subscribe("news").unwrap();
    subscription.add("weather").unwrap();
    assert!(subscription.next_within(Duration::from_millis(1)).is_pending());
    client.publish("weather", "rain").unwrap();
    let Some(Event::Message(message)) = subscription.next() else { panic!() };
    assert_eq!(message.payload, "rain");
    let mut patterns = client.psubscribe("n*").unwrap();
    client.publish("news", "here").unwrap();
    let Poll::Ready(Some(Event::Message(_))) = patterns.next_within(Duration::from_secs(9)) else { panic!() };
    assert!(subscription.is_live());

    let mut monitor = client.monitor(Route::Any).unwrap();
    client.get("seen").unwrap();
    assert!(monitor.any(|command| command.unwrap().words.iter().any(|word| word == "seen")));
}

#[test]
fn caches_copies_streams_and_raw_replies() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    client.set("k", "value").unwrap();
    let cached = client.cached(CacheConfig::default()).unwrap();
    for _ in 0..2 {
        assert_eq!(cached.get("k").unwrap().unwrap(), "value");
    }
    assert_eq!(cached.stats().hits, 1);
    cached.close(Duration::from_secs(1));

    let mut copied = Vec::new();
    assert_eq!(client.copy(Command::raw("GET").arg("k"), &mut copied).unwrap(), Some(5));
    assert_eq!(copied, b"value");
    assert_eq!(client.on_all(Route::AllNodes, Command::raw("DBSIZE")).unwrap().len(), 1);

    let mut stream = client.stream(Route::Any).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    stream.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");

    let raw = blocking::Blocking::raw(Config::from_url(&server.url()).unwrap()).unwrap();
    assert_eq!(raw.run(Command::raw("GET").arg("k"), None).unwrap(), "$5\r\nvalue\r\n");
    let get = Command::raw("GET").arg("k");
    let encoded = raw.encoded(&get, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").unwrap();
    assert_eq!(raw.batch(&[encoded])[0].as_ref().unwrap(), "$5\r\nvalue\r\n");
    let mut connection = raw.dedicated(Route::Any).unwrap();
    assert_eq!(connection.exchange(b"PING\r\n", 1, None).unwrap(), [RawReply::Frame("+PONG\r\n".into())]);
    raw.close(Duration::from_secs(1));
}

/// What was made by a client outlives it.
#[test]
fn a_connection_lives_on_without_its_client() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    let (mut connection, mut subscription) = (client.dedicated().unwrap(), client.subscribe("news").unwrap());
    drop(client);
    connection.set("k", "v").unwrap();
    connection.publish("news", "here").unwrap();
    assert!(matches!(subscription.next(), Some(Event::Message(_))));
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
