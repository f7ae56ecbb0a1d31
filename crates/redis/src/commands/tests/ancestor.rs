//! The ancestor's cases of `Spec` (how commands are encoded, byte by byte) and of `E2E` (what a server answers to
//! each), by their names.

use bytes::Bytes;
use pilotlight_testkit::Server;

use super::live::Live;
use crate::Value;
use crate::command::Command;
use crate::commands::options::*;
use crate::commands::words::*;
use crate::commands::{Commands, spec};
use crate::out::{Cursor, Out};
use crate::reply::FromReply;

/// Gives the command's bytes instead of running it.
struct Encoded;

impl<'a> Commands<'a> for &'a Encoded {
    type Out<T: FromReply> = Vec<u8>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Vec<u8> {
        let mut out = Out::contiguous_only();
        command.encode(&mut out);
        out.contiguous(Cursor::default()).unwrap().to_vec()
    }
}

/// A row: the name, what is sent, and the words that it has to be.
type Row = (&'static str, Vec<u8>, &'static [&'static str]);

#[test]
fn redis_command_encoding() {
    let e = &Encoded;
    let unit = GeoUnit::Kilometres;
    let rows: Vec<Row> = vec![
        ("MGET", e.mget(["k1", "k2"]), &["MGET", "k1", "k2"]),
        ("ZADD", e.zadd("z", [(1, "a"), (2, "b")]), &["ZADD", "z", "1", "a", "2", "b"]),
        ("ZRANGE WITHSCORES", e.zrange_withscores("z", 0, -1), &["ZRANGE", "z", "0", "-1", "WITHSCORES"]),
        ("DECR", e.decr("n"), &["DECR", "n"]),
        ("PSETEX", e.psetex("k", 1500, "v"), &["PSETEX", "k", "1500", "v"]),
        ("HMGET", e.hmget("h", ["f", "g"]), &["HMGET", "h", "f", "g"]),
        ("HEXISTS", e.hexists("h", "f"), &["HEXISTS", "h", "f"]),
        ("SCARD", e.scard("s"), &["SCARD", "s"]),
        ("SISMEMBER", e.sismember("s", "m"), &["SISMEMBER", "s", "m"]),
        ("GEOADD", e.geoadd("g", (13.5, 38.25, "P")), &["GEOADD", "g", "13.5", "38.25", "P"]),
        ("GEOHASH", e.geohash("g", ["P", "C"]), &["GEOHASH", "g", "P", "C"]),
        (
            "GEOSEARCH",
            e.geosearch_with("g", GeoOrigin::member("P"), GeoArea::radius(2.5, unit), GeosearchOptions::new().asc()),
            &["GEOSEARCH", "g", "FROMMEMBER", "P", "BYRADIUS", "2.5", "km", "ASC"],
        ),
        ("GEODIST", e.geodist_with("g", "P", "C", unit), &["GEODIST", "g", "P", "C", "km"]),
        ("GEOPOS", e.geopos("g", ["P", "C"]), &["GEOPOS", "g", "P", "C"]),
        (
            "GEORADIUS with flags",
            e.georadius_with("g", 15.0, 37.0, 200.0, unit, GeoradiusOptions::new().withdist().asc()),
            &["GEORADIUS", "g", "15", "37", "200", "km", "WITHDIST", "ASC"],
        ),
        (
            "GEORADIUS_RO with flags",
            e.georadius_ro_with("g", 15.0, 37.0, 200.0, unit, GeoradiusRoOptions::new().withcoord().desc()),
            &["GEORADIUS_RO", "g", "15", "37", "200", "km", "WITHCOORD", "DESC"],
        ),
        (
            "GEORADIUSBYMEMBER",
            e.georadiusbymember("g", "P", 200.0, unit),
            &["GEORADIUSBYMEMBER", "g", "P", "200", "km"],
        ),
        (
            "GEORADIUSBYMEMBER_RO",
            e.georadiusbymember_ro("g", "P", 200.0, unit),
            &["GEORADIUSBYMEMBER_RO", "g", "P", "200", "km"],
        ),
        (
            "GEOSEARCHSTORE with STOREDIST",
            e.geosearchstore_with(
                "d",
                "g",
                GeoOrigin::member("P"),
                GeoArea::radius(9.0, unit),
                GeosearchstoreOptions::new().storedist(),
            ),
            &["GEOSEARCHSTORE", "d", "g", "FROMMEMBER", "P", "BYRADIUS", "9", "km", "STOREDIST"],
        ),
        (
            "CLIENT SETINFO",
            e.run::<()>(Command::new(&spec::CLIENT_SETINFO).arg("LIB-NAME").arg("x")),
            &["CLIENT", "SETINFO", "LIB-NAME", "x"],
        ),
    ];
    assert_eq!(rows.len(), 20);
    for (name, sent, words) in rows {
        let mut expected = format!("*{}\r\n", words.len());
        for word in words {
            expected += &format!("${}\r\n{word}\r\n", word.len());
        }
        assert_eq!(String::from_utf8(sent).unwrap(), expected, "{name}");
    }
}

fn b(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Each case begins with an empty database.
type Case = (&'static str, fn(&Live));

#[test]
fn basic_operations_on_a_server() {
    let cases: &[Case] = &[
        ("get and set", |live| {
            live.set("k", "v").unwrap();
            assert_eq!(live.get("k").unwrap(), Some(b("v")));
        }),
        ("ping returns pong", |live| assert_eq!(live.ping().unwrap(), b("PONG"))),
        ("bulkSet and subsequent gets", |live| {
            live.mset([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
            assert_eq!((live.get("a").unwrap(), live.get("c").unwrap()), (Some(b("1")), Some(b("3"))));
        }),
        ("mget returns multiple values", |live| {
            live.mset([("a", "1"), ("b", "2")]).unwrap();
            assert_eq!(live.mget(["a", "none", "b"]).unwrap(), [Some(b("1")), None, Some(b("2"))]);
        }),
        ("del deletes the key", |live| {
            live.set("k", "v").unwrap();
            assert_eq!((live.del("k").unwrap(), live.del("k").unwrap(), live.get("k").unwrap()), (1, 0, None));
        }),
        ("exists", |live| {
            live.set("k", "v").unwrap();
            assert_eq!((live.exists("k").unwrap(), live.exists("none").unwrap()), (1, 0));
        }),
        ("dbsize reflects the number of keys", |live| {
            live.mset([("a", "1"), ("b", "2")]).unwrap();
            assert_eq!(live.dbsize().unwrap(), 2);
        }),
        ("incr", |live| assert_eq!((live.incr("n").unwrap(), live.incr("n").unwrap()), (1, 2))),
        ("decr", |live| assert_eq!((live.decr("n").unwrap(), live.decr("n").unwrap()), (-1, -2))),
        ("psetex sets value with expiry", |live| {
            live.psetex("k", 50_000, "v").unwrap();
            assert_eq!(live.get("k").unwrap(), Some(b("v")));
            assert!((1..=50_000).contains(&live.pttl("k").unwrap()));
        }),
        ("setnx only sets when a key is missing", |live| {
            assert!(live.setnx("k", "first").unwrap() && !live.setnx("k", "second").unwrap());
            assert_eq!(live.get("k").unwrap(), Some(b("first")));
        }),
        ("clientSetInfo updates client metadata", |live| {
            match live.answer(&Command::new(&spec::CLIENT_SETINFO).arg("LIB-NAME").arg("pilot")) {
                Value::Simple(_) => assert!(live.client_info().unwrap().contains("lib-name=pilot")),
                // Before Redis 7.2.
                Value::Error(text) => assert!(text.starts_with(b"ERR unknown subcommand"), "{text:?}"),
                other => panic!("{other:?}"),
            }
        }),
        ("hset and hget", |live| {
            assert_eq!(live.hset("h", ("f", "v")).unwrap(), 1);
            assert_eq!((live.hget("h", "f").unwrap(), live.hget("h", "none").unwrap()), (Some(b("v")), None));
        }),
        ("hmget returns multiple hash fields", |live| {
            live.hset("h", [("f", "1"), ("g", "2")]).unwrap();
            assert_eq!(live.hmget("h", ["f", "none", "g"]).unwrap(), [Some(b("1")), None, Some(b("2"))]);
        }),
        ("hexists", |live| {
            live.hset("h", ("f", "v")).unwrap();
            assert!(live.hexists("h", "f").unwrap() && !live.hexists("h", "none").unwrap());
        }),
        ("lpush and lrange", |live| {
            assert_eq!(live.lpush("l", ["a", "b"]).unwrap(), 2);
            assert_eq!(live.lrange("l", 0, -1).unwrap(), [b("b"), b("a")]);
        }),
        ("expire and ttl", |live| {
            live.set("k", "v").unwrap();
            assert_eq!((live.ttl("k").unwrap(), live.ttl("none").unwrap()), (-1, -2));
            assert!(live.expire("k", 100).unwrap());
            assert!((1..=100).contains(&live.ttl("k").unwrap()));
        }),
        ("TTL decrements over time", |live| {
            live.psetex("k", 50_000, "v").unwrap();
            let before = live.pttl("k").unwrap();
            // The server's own clock says when time has passed.
            while live.pttl("k").unwrap() == before {}
            assert!(live.pttl("k").unwrap() < before);
        }),
        ("rpush and lpop", |live| {
            assert_eq!(live.rpush("l", ["a", "b"]).unwrap(), 2);
            assert_eq!(live.lpop("l").unwrap(), Some(b("a")));
        }),
        ("rpop", |live| {
            live.rpush("l", ["a", "b"]).unwrap();
            assert_eq!(live.rpop("l").unwrap(), Some(b("b")));
        }),
        ("sadd and smembers", |live| {
            assert_eq!(live.sadd("s", ["a", "b", "a"]).unwrap(), 2);
            let mut members = live.smembers("s").unwrap();
            members.sort();
            assert_eq!(members, [b("a"), b("b")]);
        }),
        ("scard returns the set cardinality", |live| {
            live.sadd("s", ["a", "b"]).unwrap();
            assert_eq!((live.scard("s").unwrap(), live.scard("none").unwrap()), (2, 0));
        }),
        ("sismember detects membership", |live| {
            live.sadd("s", "a").unwrap();
            assert!(live.sismember("s", "a").unwrap() && !live.sismember("s", "b").unwrap());
        }),
        ("hdel", |live| {
            live.hset("h", [("f", "1"), ("g", "2")]).unwrap();
            assert_eq!((live.hdel("h", ["f", "none"]).unwrap(), live.hget("h", "f").unwrap()), (1, None));
        }),
        ("hkeys", |live| {
            live.hset("h", [("f", "1"), ("g", "2")]).unwrap();
            assert_eq!(live.hkeys("h").unwrap(), [b("f"), b("g")]);
        }),
        ("hvals", |live| {
            live.hset("h", [("f", "1"), ("g", "2")]).unwrap();
            assert_eq!(live.hvals("h").unwrap(), [b("1"), b("2")]);
        }),
        ("llen", |live| {
            live.rpush("l", ["a", "b"]).unwrap();
            assert_eq!((live.llen("l").unwrap(), live.llen("none").unwrap()), (2, 0));
        }),
        ("lindex", |live| {
            live.rpush("l", ["a", "b"]).unwrap();
            assert_eq!((live.lindex("l", -1).unwrap(), live.lindex("l", 2).unwrap()), (Some(b("b")), None));
        }),
        ("zadd and zrange", |live| {
            assert_eq!(live.zadd("z", [(2, "b"), (1, "a")]).unwrap(), 2);
            assert_eq!(live.zrange("z", 0, -1).unwrap(), [b("a"), b("b")]);
            assert_eq!(live.zrange_withscores("z", 0, -1).unwrap(), [(b("a"), 1.0), (b("b"), 2.0)]);
        }),
        ("geoadd and geodist", |live| {
            sicily(live);
            let distance = live.geodist_with("g", "Palermo", "Catania", GeoUnit::Kilometres).unwrap().unwrap();
            assert!((166.0..167.0).contains(&distance), "{distance}");
        }),
        ("geohash returns geohash strings for members", |live| {
            sicily(live);
            assert_eq!(live.geohash("g", ["Palermo", "none"]).unwrap(), [Some(b("sqc8b49rny0")), None]);
        }),
        ("geopos returns longitudes and latitudes", |live| {
            sicily(live);
            let positions = live.geopos("g", ["Palermo", "none"]).unwrap();
            let palermo = positions[0].unwrap();
            assert!((palermo.longitude - 13.361).abs() < 0.01 && (palermo.latitude - 38.115).abs() < 0.01);
            assert_eq!(positions[1], None);
        }),
        ("georadius returns members ordered with distances", |live| {
            sicily(live);
            let options = GeoradiusOptions::new().withdist().asc();
            near(&live.georadius_with("g", 15.0, 37.0, 200.0, GeoUnit::Kilometres, options).unwrap(), 56.0, 190.0);
        }),
        ("georadiusRo reads data with distance flags", |live| {
            sicily(live);
            let options = GeoradiusRoOptions::new().withdist().asc();
            near(&live.georadius_ro_with("g", 15.0, 37.0, 200.0, GeoUnit::Kilometres, options).unwrap(), 56.0, 190.0);
        }),
        ("georadiusByMember returns nearby members", |live| {
            sicily(live);
            let options = GeoradiusbymemberOptions::new().withdist().asc();
            near(
                &live.georadiusbymember_with("g", "Catania", 200.0, GeoUnit::Kilometres, options).unwrap(),
                0.0,
                166.0,
            );
        }),
        ("georadiusByMemberRo reads without mutating state", |live| {
            sicily(live);
            let options = GeoradiusbymemberRoOptions::new().withdist().asc();
            let found = live.georadiusbymember_ro_with("g", "Catania", 200.0, GeoUnit::Kilometres, options).unwrap();
            near(&found, 0.0, 166.0);
            assert_eq!(live.dbsize().unwrap(), 1);
        }),
        ("geosearch and geosearchstore integrate with sorted sets", |live| {
            sicily(live);
            let (origin, area) = (GeoOrigin::lonlat(15.0, 37.0), GeoArea::radius(100.0, GeoUnit::Kilometres));
            assert_eq!(live.geosearch("g", origin.clone(), area.clone()).unwrap(), [b("Catania")]);
            assert_eq!(live.geosearchstore("near", "g", origin, area).unwrap(), 1);
            assert_eq!(live.zrange("near", 0, -1).unwrap(), [b("Catania")]);
        }),
        ("GET on non-existent key", |live| assert_eq!(live.get("none").unwrap(), None)),
    ];
    let server = Server::start().unwrap();
    for protocol in [2, 3] {
        for (name, case) in cases {
            eprintln!("{name}, RESP{protocol}");
            case(&Live::new(&server, protocol));
        }
    }
}

#[test]
fn returns_error_when_using_wrong_command_for_key_type() {
    let server = Server::start().unwrap();
    for protocol in [2, 3] {
        let live = &Live::new(&server, protocol);
        live.lpush("l", "a").unwrap();
        let (code, text) = match live.answer(&Command::new(&spec::GET).arg("l")) {
            Value::Error(text) => (text.slice(..9), text),
            other => panic!("{other:?}"),
        };
        assert_eq!(&code[..], b"WRONGTYPE", "{text:?}");
        assert_eq!(live.ping().unwrap(), b("PONG"), "the connection is as before");
    }
}

fn sicily(live: &Live) {
    let places = [(13.361_389, 38.115_556, "Palermo"), (15.087_269, 37.502_669, "Catania")];
    assert_eq!(live.geoadd("g", places).unwrap(), 2);
}

/// Catania, then Palermo, at least so far away.
#[track_caller]
fn near(found: &[crate::reply::GeoFound], catania: f64, palermo: f64) {
    let found: Vec<_> = found.iter().map(|it| (it.member.clone(), it.distance.unwrap())).collect();
    let is_so =
        |at: usize, name: &str, least: f64| found[at].0 == b(name) && (least..least + 1.0).contains(&found[at].1);
    assert!(found.len() == 2 && is_so(0, "Catania", catania) && is_so(1, "Palermo", palermo), "{found:?}");
}
