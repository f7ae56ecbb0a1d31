//! Everyday types where an argument is: each call compiles, runs, and does what its writer meant. And times: in which
//! unit they are sent, and which are refused.

#![expect(clippy::needless_borrows_for_generic_args, reason = "borrowed forms are what is tested")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::num::{NonZeroU8, NonZeroU32, NonZeroU64, NonZeroUsize};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use pilotlight_redis::command::each;
use pilotlight_redis::commands::options::{GetexOptions, SetOptions, XreadOptions};
use pilotlight_redis::{Client, Commands, Error, ErrorKind, Misuse, Ran, blocking};
use pilotlight_testkit::Server;

/// Runs each call, and counts them.
macro_rules! calls {
    ($($call:expr => $expected:expr),* $(,)?) => {{
        let mut count = 0;
        $(
            assert_eq!($call.unwrap(), $expected, "{}", stringify!($call));
            count += 1;
        )*
        count
    }};
}

#[test]
#[expect(clippy::too_many_lines, reason = "one call a line")]
fn everyday_calls_take_everyday_types() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    let (text, bytes) = ("text".to_owned(), b"text".to_vec());
    let (shared, boxed, counted): (Arc<str>, Box<str>, Rc<str>) = ("text".into(), "text".into(), "text".into());
    let names = vec!["a".to_owned(), "b".to_owned()];
    let tree = BTreeMap::from([("a", 1), ("b", 2)]);
    let hash = HashMap::from([("a".to_owned(), "1".to_owned())]);
    let nested = [("a", 1.5), ("b", 2.5)];
    let ok = || ();

    // One value.
    let values = calls! {
        client.set("k", "text") => ok(),
        client.set("k", &text) => ok(),
        client.set(&text, text.clone()) => ok(),
        client.set("k", &&*text) => ok(),
        client.set("k", &shared) => ok(),
        client.set("k", Arc::clone(&shared)) => ok(),
        client.set("k", &boxed) => ok(),
        client.set("k", boxed.clone()) => ok(),
        client.set("k", Rc::clone(&counted)) => ok(),
        client.set("k", Cow::Borrowed("text")) => ok(),
        client.set("k", String::from_utf8_lossy(&bytes)) => ok(),
        client.set("k", &bytes) => ok(),
        client.set("k", bytes.clone()) => ok(),
        client.set("k", &bytes[..]) => ok(),
        client.set("k", b"text") => ok(),
        client.set("k", [1_u8, 2, 3]) => ok(),
        client.set("k", Bytes::from_static(b"text")) => ok(),
        client.set("k", &Bytes::from_static(b"text")) => ok(),
        client.set("k", BytesMut::from("text")) => ok(),
        client.set("k", 'c') => ok(),
        client.set("k", true) => ok(),
        client.set("k", 7_u8) => ok(),
        client.set("k", &7_u16) => ok(),
        client.set("k", -7_i8) => ok(),
        client.set("k", usize::MAX) => ok(),
        client.set("k", i128::MAX) => ok(),
        client.set("k", NonZeroU64::MIN) => ok(),
        client.set("k", 0.5_f32) => ok(),
        client.set("k", 0.5) => ok(),
        client.set(7, format_args!("{}", 7).to_string()) => ok(),
    };

    // Many values.
    let lists = calls! {
        client.sadd("s", "a") => 1,
        client.sadd("s", ["a", "b"]) => 1,
        client.sadd("s", &["a", "c"]) => 1,
        client.sadd("s", &["a", "d"][..]) => 1,
        client.sadd("s", &names) => 0,
        client.sadd("s", &names[..]) => 0,
        client.sadd("s", names.clone()) => 0,
        client.sadd("s", names.clone().into_boxed_slice()) => 0,
        client.sadd("s", each(names.iter().map(|name| format!("x:{name}")))) => 2,
        client.sadd("s", ('c', 1, true, "e", b"f", 0.5)) => 4,
        client.sadd("s", HashSet::from(["a"])) => 0,
        client.sadd("s", &BTreeSet::from(["a".to_owned()])) => 0,
        client.sadd("s", VecDeque::from([1_u64, 2])) => 1,
        client.sadd("s", vec![Cow::Borrowed("a")]) => 0,
        client.sadd("s", &[Arc::<str>::from("a")]) => 0,
        client.sadd("s", [NonZeroU8::MIN]) => 0,
        client.sadd("s", &vec![vec![1_u8], vec![2]]) => 2,
        client.sadd("s", Some("a")) => 0,
        client.sadd("s", Some(&names[..])) => 0,
        client.del(&names) => 0,
        client.exists(("k", &text, String::new())) => 2,
    };

    // Pairs.
    let pairs = calls! {
        client.hset("h", ("a", 1)) => 1,
        client.hset("h", [("a", 1), ("b", 2)]) => 1,
        client.hset("h", &nested) => 0,
        client.hset("h", &nested[..1]) => 0,
        client.hset("h", nested.to_vec()) => 0,
        client.hset("h", &tree) => 0,
        client.hset("h", tree.clone()) => 0,
        client.hset("h", &hash) => 0,
        client.hset("h", each(&hash)) => 0,
        client.hset("h", each(names.iter().map(|name| (name, name.len())))) => 0,
        client.hset("h", Some(("c", 'c'))) => 1,
        client.mset(&[("a", &text), ("b", &text)]) => ok(),
        client.zadd("z", (1, "ada")) => 1,
        client.zadd("z", each(hash.iter().map(|(name, score)| (score, name)))) => 1,
        client.geoadd("g", &[(13.5, 38.25, "palermo")][..]) => 1,
    };

    // Numbers.
    let numbers = calls! {
        client.incrby("n", 5_u8) => 5,
        client.incrby("n", names.len()) => 7,
        client.incrby("n", -7_i32) => 0,
        client.incrby("n", &NonZeroU32::MIN) => 1,
        client.zincrby("z", 1, "ada") => 2.0,
        client.zincrby("z", 0.5_f32, "ada") => 2.5,
        client.incrbyfloat("n", 2) => 3.0,
        client.lrange("l", 0, names.len()) => Vec::<Bytes>::new(),
        client.lpop_count("l", NonZeroUsize::MIN) => None,
        client.setbit("bits", 7_u32, true) => false,
    };

    // Times.
    let soon = SystemTime::now() + Duration::from_secs(60);
    let times = calls! {
        client.expire("k", 60) => true,
        client.expire("k", Duration::from_secs(60)) => true,
        client.pexpire("k", Duration::from_millis(60_000)) => true,
        client.expireat("k", soon) => true,
        client.pexpireat("k", soon) => true,
        client.setex("k", Duration::from_secs(60), "v") => ok(),
        client.set_with("k", "v", SetOptions::new().px(Duration::from_secs(60))).map(|_| ()) => ok(),
        client.set_with("k", "v", SetOptions::new().exat(soon)).map(|_| ()) => ok(),
        client.getex_with("k", GetexOptions::new().ex(Duration::from_secs(60))) => Some("v".into()),
        client.blpop("none", Duration::from_millis(1)) => None,
        client.blpop(["none"], 0.001) => None,
        client.xread_with(("none", "$"), XreadOptions::new().block(Duration::from_millis(1))) => None,
    };
    assert!(values + lists + pairs + numbers + times >= 88);
}

#[tokio::test]
async fn a_time_is_sent_in_the_unit_of_its_command_and_rounded_up() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    client.set_with("k", "v", SetOptions::new().ex(Duration::from_millis(99_001))).await.unwrap();
    let ttl = client.pttl("k").await.unwrap();
    assert!((99_001..=100_000).contains(&ttl), "{ttl}");
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(99_999_999_999_001);
    client.expireat("k", at).await.unwrap();
    assert_eq!(client.pexpiretime("k").await.unwrap(), 100_000_000_000_000);
    client.pexpireat("k", at).await.unwrap();
    assert_eq!(client.pexpiretime("k").await.unwrap(), 99_999_999_999_001);
}

#[tokio::test]
async fn a_time_of_zero_is_not_sent_anywhere() {
    #[track_caller]
    fn check<T: std::fmt::Debug>(result: Result<T, Error>, command: &str) {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Argument(why)) if why.contains("zero")), "{error}");
        assert_eq!((error.ran(), error.command()), (Ran::NotSent, command));
    }
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    client.set("k", "v").await.unwrap();
    let zero = Duration::ZERO;
    check(client.expire("k", zero).await, "EXPIRE");
    check(client.set_with("k", "w", SetOptions::new().px(zero)).await, "SET");
    check(client.blpop(["l"], zero).await, "BLPOP");
    check(client.hexpire("k", zero, ["f", "g"]).await, "HEXPIRE");

    let mut pipeline = client.pipeline();
    let (before, refused, after) = (pipeline.incr("n"), pipeline.pexpire("k", zero), pipeline.incr("n"));
    let mut replies = pipeline.run().await.unwrap();
    assert_eq!((replies.take(before).unwrap(), replies.take(after).unwrap()), (1, 2));
    check(replies.take(refused), "PEXPIRE");

    let mut transaction = client.transaction();
    let _ = transaction.incr("n");
    let _ = transaction.expire("k", zero);
    check(transaction.run().await.map(|_| ()), "EXPIRE");
    let mut connection = client.dedicated().await.unwrap();
    check(connection.wait(1, zero).await, "WAIT");
    check(connection.xread_with(("s", "$"), XreadOptions::new().block(zero)).await, "XREAD");
    assert_eq!(client.get("n").await.unwrap().unwrap(), "2");
    assert_eq!(client.get("k").await.unwrap().unwrap(), "v");
    assert_eq!(client.ttl("k").await.unwrap(), -1);
}
