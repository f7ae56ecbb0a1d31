//! Typed methods against a real server, in both protocols: whether their reply types are what it sends, and with RESP3,
//! whether what it sends is what its own description says (`reply_schema`).

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Decoder, Frame, Limits};
use pilotlight_testkit::Server;

use super::schema;
use crate::command::Command;
use crate::commands::options::*;
use crate::commands::words::*;
use crate::commands::{Commands, spec};
use crate::out::{Cursor, Out};
use crate::reply::{FromReply, StreamEntry};
use crate::{ReplyError, Value};

/// One blocking connection.
pub(super) struct Live {
    connection: RefCell<(TcpStream, BytesMut)>,
    protocol: i64,
}

impl Live {
    /// Connected with an empty database, speaking this version of the protocol.
    pub(super) fn new(server: &Server, protocol: i64) -> Self {
        let stream = TcpStream::connect(server.addr()).unwrap();
        let live = Self { connection: RefCell::new((stream, BytesMut::new())), protocol };
        let hello = live.run::<Value>(Command::new(&spec::HELLO).arg(protocol)).unwrap();
        assert_eq!(matches!(hello, Value::Map(_)), protocol == 3, "{hello:?}");
        live.flushall().unwrap();
        live
    }

    /// Sends a command; its reply as it is.
    pub(super) fn answer(&self, command: &Command<'_>) -> Value {
        let (stream, input) = &mut *self.connection.borrow_mut();
        let mut out = Out::contiguous_only();
        command.encode(&mut out);
        stream.write_all(out.contiguous(Cursor::default()).unwrap()).unwrap();
        let mut decoder = Decoder::new(Limits::default());
        loop {
            if let Some(Frame::Reply(value)) = decoder.decode(input).unwrap() {
                return value;
            }
            let mut chunk = [0; 4096];
            let length = stream.read(&mut chunk).unwrap();
            assert!(length > 0, "{command:?}: closed");
            input.extend_from_slice(&chunk[..length]);
        }
    }
}

impl<'a> Commands<'a> for &'a Live {
    type Out<T: FromReply> = Result<T, ReplyError>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Result<T, ReplyError> {
        let value = self.answer(&command);
        if self.protocol == 3 && !matches!(value, Value::Error(_)) {
            schema::check(command.spec().name, &value);
        }
        T::from_reply(value)
    }
}

fn in_both_protocols(test: fn(&Live)) {
    let server = Server::start().unwrap();
    for protocol in [2, 3] {
        test(&Live::new(&server, protocol));
    }
}

fn b(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn live_strings() {
    in_both_protocols(|live| {
        live.set("k", "v").unwrap();
        assert_eq!(live.get("k").unwrap(), Some(b("v")));
        assert!(!live.set_with("k", "w", SetOptions::new().nx()).unwrap());
        assert!(live.set_with("k", "w", SetOptions::new().xx().px(50_000)).unwrap());
        assert_eq!(live.set_get("k", "x").unwrap(), Some(b("w")));
        assert_eq!(live.set_get_with("n", "x", SetOptions::new().ex(5)).unwrap(), None);
        assert_eq!(live.mget(["k", "none"]).unwrap(), [Some(b("x")), None]);
        assert!(!live.msetnx([("k", 1), ("m", 2)]).unwrap());
        assert!(live.setnx("new", 1).unwrap());
        assert_eq!(live.incrbyfloat("f", 1.5).unwrap(), 1.5);
        assert_eq!(live.getrange("k", 0, -1).unwrap(), b("x"));
        assert_eq!(live.strlen("k").unwrap(), 1);
        live.mset([("a", "ohmytext"), ("b", "mynewtext")]).unwrap();
        assert_eq!(live.lcs("a", "b").unwrap(), b("mytext"));
        assert_eq!(live.lcs_len("a", "b").unwrap(), 6);
        assert!(live.lcs_idx("a", "b", LcsOptions::new().withmatchlen()).unwrap().contains_key(&b("matches")));
        assert_eq!(live.getdel("k").unwrap(), Some(b("x")));
        assert_eq!(live.getex_with("a", GetexOptions::new().ex(9)).unwrap(), Some(b("ohmytext")));
        assert!(!live.setbit("bits", 7, 1).unwrap());
        assert!(live.getbit("bits", 7).unwrap());
        assert_eq!(live.bitcount_with("bits", BitcountOptions::new().start(0).end(7).bit()).unwrap(), 1);
        let operations = BitfieldOptions::new().overflow(Overflow::Fail).incrby("u2", 100, 3).incrby("u2", 100, 1);
        assert_eq!(live.bitfield("bits", operations).unwrap(), [Some(3), None]);
        assert_eq!(live.bitfield_ro("bits", BitfieldRoOptions::new().get("u8", 0)).unwrap(), [1]);
        assert!(live.pfadd("hll", ["a", "b"]).unwrap());
        assert_eq!(live.pfcount("hll").unwrap(), 2);
    });
}

#[test]
fn live_keys() {
    in_both_protocols(|live| {
        live.set("k", 1).unwrap();
        assert!(live.expire("k", 100).unwrap());
        assert!(!live.expire_with("k", 50, ExpireCondition::Gt).unwrap());
        assert!(live.ttl("k").unwrap() > 90 && live.expiretime("k").unwrap() > 1_600_000_000);
        assert!(live.persist("k").unwrap());
        assert!(live.copy("k", "c").unwrap() && !live.copy_with("k", "c", CopyOptions::new().db(0)).unwrap());
        assert_eq!(live.key_type("k").unwrap(), "string");
        assert_eq!(live.key_type("none").unwrap(), "none");
        assert_eq!(live.object_encoding("k").unwrap().as_deref(), Some("int"));
        assert_eq!(live.object_encoding("none").unwrap(), None);
        assert!(live.object_idletime("k").unwrap().is_some() && live.object_refcount("none").unwrap().is_none());
        assert!(live.memory_usage("k").unwrap().is_some());
        assert!(live.randomkey().unwrap().is_some());
        let dump = live.dump("k").unwrap().unwrap();
        live.restore_with("r", 0, dump, RestoreOptions::new().replace()).unwrap();
        assert!(!live.renamenx("k", "c").unwrap());
        assert_eq!(live.exists(["k", "c", "none"]).unwrap(), 2);
        assert_eq!(live.scan_with(0, ScanOptions::new().count(100).matching("k")).unwrap().items, [b("k")]);
        live.rpush("list", [3, 1, 2]).unwrap();
        assert_eq!(live.sort("list").unwrap(), [Some(b("1")), Some(b("2")), Some(b("3"))]);
        assert_eq!(live.sort_with("list", SortOptions::new().by("x").get("none*")).unwrap(), [None, None, None]);
        assert_eq!(live.sort_store("list", "sorted").unwrap(), 3);
        assert_eq!(live.keys("so*").unwrap(), [b("sorted")]);
        assert_eq!(live.del(["list", "none"]).unwrap() + live.unlink("sorted").unwrap() + live.touch("k").unwrap(), 3);
        assert!(live.move_key("k", 1).unwrap());
        assert_eq!(live.dump("none").unwrap(), None);
    });
}

#[test]
fn live_lists_and_sets() {
    in_both_protocols(|live| {
        live.rpush("l", ["a", "b", "c", "a"]).unwrap();
        assert_eq!(live.lpos("l", "a").unwrap(), Some(0));
        assert_eq!(live.lpos("l", "z").unwrap(), None);
        assert_eq!(live.lpos_count("l", "a", 0).unwrap(), [0, 3]);
        assert_eq!(live.lpop("none").unwrap(), None);
        assert_eq!(live.lpop_count("none", 2).unwrap(), None);
        assert_eq!(live.lpop_count("l", 2).unwrap(), Some(vec![b("a"), b("b")]));
        assert_eq!(live.lmpop(["none", "l"], Side::Left).unwrap(), Some((b("l"), vec![b("c")])));
        assert_eq!(live.lmpop("none", Side::Left).unwrap(), None);
        assert_eq!(live.blpop(["none", "l"], 0.01).unwrap(), Some((b("l"), b("a"))));
        assert_eq!(live.blpop("none", 0.01).unwrap(), None);
        assert_eq!(live.blmove("none", "l", Side::Left, Side::Left, 0.01).unwrap(), None);
        assert_eq!(live.lmove("none", "l", Side::Left, Side::Left).unwrap(), None);
        assert_eq!(live.blmpop(0.01, "none", Side::Left).unwrap(), None);
        live.rpush("l", "x").unwrap();
        assert_eq!(live.linsert("l", Place::Before, "x", "w").unwrap(), 2);
        assert_eq!((live.lindex("l", 0).unwrap(), live.lindex("l", 9).unwrap()), (Some(b("w")), None));
        assert_eq!(live.lrange("l", 0, -1).unwrap(), [b("w"), b("x")]);

        live.sadd("s", ["a", "b"]).unwrap();
        assert!(live.sismember("s", "a").unwrap());
        assert_eq!(live.smismember("s", ["a", "z"]).unwrap(), [true, false]);
        assert_eq!(live.smembers("s").unwrap().len(), 2);
        assert_eq!(live.sunion(["s", "none"]).unwrap().len(), 2);
        assert_eq!(live.sintercard_limit(["s", "s"], 1).unwrap(), 1);
        assert_eq!(live.srandmember_count("s", -3).unwrap().len(), 3);
        assert!(live.srandmember("s").unwrap().is_some() && live.srandmember("none").unwrap().is_none());
        assert_eq!(live.sscan("s", 0).unwrap().items.len(), 2);
        assert_eq!(live.spop_count("s", 5).unwrap().len(), 2);
        assert_eq!(live.spop("s").unwrap(), None);
    });
}

#[test]
fn live_hashes() {
    in_both_protocols(|live| {
        assert_eq!(live.hset("h", [("f", "1"), ("g", "2")]).unwrap(), 2);
        assert_eq!(live.hgetall("h").unwrap().get(&b("f")), Some(&b("1")));
        assert!(live.hgetall("none").unwrap().is_empty());
        assert_eq!(live.hmget("h", ["f", "z"]).unwrap(), [Some(b("1")), None]);
        assert!(live.hexists("h", "f").unwrap() && !live.hsetnx("h", "f", 1).unwrap());
        assert_eq!(live.hincrbyfloat("h", "f", 0.5).unwrap(), 1.5);
        assert_eq!(live.hrandfield("none").unwrap(), None);
        assert_eq!(live.hrandfield_count("h", 5).unwrap().len(), 2);
        assert!(live.hrandfield_count_withvalues("h", 5).unwrap().contains(&(b("g"), b("2"))));
        assert_eq!(live.hrandfield_count("none", 5).unwrap().len(), 0);
        assert!(live.hscan("h", 0).unwrap().items.contains(&(b("g"), b("2"))));
        assert_eq!(live.hkeys("h").unwrap().len() + live.hvals("h").unwrap().len(), 4);
    });
}

#[test]
fn live_sorted_sets() {
    in_both_protocols(|live| {
        assert_eq!(live.zadd("z", [(1.0, "a"), (2.5, "b")]).unwrap(), 2);
        let all = vec![(b("a"), 1.0), (b("b"), 2.5)];
        assert_eq!(live.zrange("z", 0, -1).unwrap(), [b("a"), b("b")]);
        assert_eq!(live.zrange_withscores("z", 0, -1).unwrap(), all);
        assert_eq!(live.zrangebyscore_withscores("z", "-inf", "(2.5").unwrap(), all[..1]);
        assert_eq!(live.zrevrange_withscores("z", 0, 0).unwrap(), all[1..]);
        assert_eq!(live.zdiff_withscores(["z", "none"]).unwrap(), all);
        assert_eq!(live.zunion_withscores_with("z", ZunionOptions::new().weights(2)).unwrap()[1].1, 5.0);
        assert_eq!(live.zrandmember_count_withscores("z", 5).unwrap().len(), 2);
        assert!(live.zrandmember("z").unwrap().is_some() && live.zrandmember("none").unwrap().is_none());
        assert_eq!((live.zscore("z", "b").unwrap(), live.zscore("z", "q").unwrap()), (Some(2.5), None));
        assert_eq!(live.zmscore("z", ["b", "q"]).unwrap(), [Some(2.5), None]);
        assert_eq!(live.zincrby("z", 0.5, "b").unwrap(), 3.0);
        assert_eq!(live.zadd_incr("z", (1, "b")).unwrap(), Some(4.0));
        assert_eq!(live.zadd_incr_with("z", (1, "b"), ZaddOptions::new().nx()).unwrap(), None);
        assert_eq!((live.zrank("z", "b").unwrap(), live.zrank("z", "q").unwrap()), (Some(1), None));
        assert_eq!(live.zscan("z", 0).unwrap().items, [(b("a"), 1.0), (b("b"), 4.0)]);
        assert_eq!(live.zmpop("z", Extreme::Min).unwrap(), Some((b("z"), vec![(b("a"), 1.0)])));
        assert_eq!(live.zmpop("none", Extreme::Min).unwrap(), None);
        assert_eq!(live.bzpopmin(["none", "z"], 0.01).unwrap(), Some((b("z"), b("b"), 4.0)));
        assert_eq!(live.bzpopmin("none", 0.01).unwrap(), None);
        assert_eq!(live.bzmpop(0.01, "none", Extreme::Max).unwrap(), None);
        live.zadd("z", [(1.0, "a"), (2.5, "b")]).unwrap();
        assert_eq!(live.zpopmin("z").unwrap(), [(b("a"), 1.0)]);
        assert_eq!(live.zpopmax_count("z", 5).unwrap(), [(b("b"), 2.5)]);
        assert_eq!(live.zpopmin("z").unwrap(), []);
    });
}

#[test]
fn live_geo() {
    in_both_protocols(|live| {
        live.geoadd("g", [(13.361_389, 38.115_556, "Palermo"), (15.087_269, 37.502_669, "Catania")]).unwrap();
        assert!(live.geodist_with("g", "Palermo", "Catania", GeoUnit::Kilometres).unwrap().unwrap() > 166.0);
        assert_eq!(live.geodist("g", "Palermo", "none").unwrap(), None);
        assert_eq!(live.geohash("g", ["Palermo", "none"]).unwrap()[1], None);
        let positions = live.geopos("g", ["Palermo", "none"]).unwrap();
        assert!(positions[0].unwrap().longitude > 13.0 && positions[1].is_none());
        let (origin, area) = (GeoOrigin::member("Palermo"), GeoArea::radius(200.0, GeoUnit::Kilometres));
        assert_eq!(live.geosearch("g", origin.clone(), area.clone()).unwrap().len(), 2);
        let options = GeosearchOptions::new().asc().withcoord().withdist().withhash();
        let found = live.geosearch_with("g", origin.clone(), area.clone(), options).unwrap();
        assert!(found[1].distance.unwrap() > 166.0 && found[1].hash.is_some() && found[1].position.is_some());
        let found = live.geosearch_with("g", origin, area, GeosearchOptions::new().asc()).unwrap();
        assert_eq!((&found[0].member, found[0].distance), (&b("Palermo"), None));
        assert_eq!(live.georadius_store("g", 15.0, 37.0, 200.0, GeoUnit::Kilometres, "near").unwrap(), 2);
    });
}

#[test]
fn live_streams() {
    in_both_protocols(|live| {
        assert_eq!(live.xadd("s", "1-1", [("f", "v")]).unwrap(), b("1-1"));
        assert_eq!(live.xadd_with("none", "*", ("f", "v"), XaddOptions::new().nomkstream()).unwrap(), None);
        let entry = StreamEntry { id: b("1-1"), fields: vec![(b("f"), b("v"))] };
        assert_eq!(live.xrange("s", "-", "+").unwrap(), std::slice::from_ref(&entry));
        assert_eq!(live.xread([("s", "0")]).unwrap(), Some(vec![(b("s"), vec![entry.clone()])]));
        assert_eq!(live.xread_with([("s", "$")], XreadOptions::new().block(5)).unwrap(), None);
        live.xgroup_create_with("s", "g", "0", XgroupCreateOptions::new().mkstream()).unwrap();
        assert!(live.xgroup_createconsumer("s", "g", "d").unwrap());
        assert_eq!(live.xpending("s", "g").unwrap().count, 0);
        assert_eq!(live.xreadgroup("g", "c", [("s", ">")]).unwrap(), Some(vec![(b("s"), vec![entry.clone()])]));
        assert_eq!(live.xreadgroup("g", "c", [("s", ">")]).unwrap(), None);
        let pending = live.xpending("s", "g").unwrap();
        assert_eq!((pending.count, pending.lowest, pending.consumers), (1, Some(b("1-1")), vec![(b("c"), 1)]));
        let pending = live.xpending_with("s", "g", XpendingOptions::new().range("-", "+", 10)).unwrap();
        assert_eq!((&pending[0].id, pending[0].deliveries), (&b("1-1"), 1));
        assert_eq!(live.xclaim("s", "g", "d", 0, "1-1").unwrap(), std::slice::from_ref(&entry));
        assert_eq!(live.xclaim_justid("s", "g", "d", 0, "1-1").unwrap(), [b("1-1")]);
        assert_eq!(live.xautoclaim("s", "g", "c", 0, "0").unwrap().entries, [entry]);
        assert_eq!(live.xautoclaim_justid("s", "g", "d", 0, "0").unwrap().entries, [b("1-1")]);
        live.xdel("s", "1-1").unwrap();
        assert_eq!(live.xreadgroup("g", "d", [("s", "0")]).unwrap().unwrap()[0].1[0].fields, []);
        assert_eq!(live.xautoclaim("s", "g", "c", 0, "0").unwrap().deleted, [b("1-1")]);
        assert!(live.xinfo_stream("s").unwrap().contains_key(&b("length")));
        assert!(live.xinfo_stream_with("s", XinfoStreamOptions::new().full()).unwrap().contains_key(&b("groups")));
        assert_eq!(live.xinfo_groups("s").unwrap().len() + live.xinfo_consumers("s", "g").unwrap().len(), 3);
        assert!(live.xgroup_destroy("s", "g").unwrap());
        assert_eq!(live.xtrim("s", TrimStrategy::Maxlen, 0).unwrap(), 0);
    });
}

#[test]
fn live_servers() {
    in_both_protocols(|live| {
        assert_eq!(live.ping().unwrap(), b("PONG"));
        assert_eq!(live.echo("x").unwrap(), b("x"));
        assert!(live.info().unwrap().contains("redis_version"));
        assert!(live.info_of(["server", "memory"]).unwrap().contains("used_memory"));
        assert_eq!(live.config_get("maxmemory").unwrap().get(&b("maxmemory")), Some(&b("0")));
        assert!(live.time().unwrap().0 > 1_600_000_000 && live.dbsize().unwrap() == 0 && live.lastsave().unwrap() > 0);
        assert!(live.client_id().unwrap() > 0 && live.client_info().unwrap().contains("id="));
        assert_eq!(live.client_getname().unwrap(), None);
        assert!(
            live.client_list_with(ClientListOptions::new().client_type(ClientType::Normal)).unwrap().contains("id=")
        );
        assert!(live.client_trackinginfo().unwrap().contains_key(&b("flags")));
        assert_eq!(live.client_kill(ClientKillOptions::new().id(999_999)).unwrap(), 0);
        assert!(live.command_count().unwrap() > 200 && live.command().unwrap().len() > 200);
        assert!(live.command_docs_of("get").unwrap().contains_key(&b("get")));
        assert!(live.command_info_of(["get", "none"]).unwrap()[1].is_none());
        assert_eq!(live.command_getkeys("MSET", ["a", "1"]).unwrap(), [b("a")]);
        assert_eq!(live.command_getkeysandflags("SET", ["a", "1"]).unwrap()[0].0, b("a"));
        assert!(!live.command_list().unwrap().is_empty());
        assert_eq!(live.acl_whoami().unwrap(), "default");
        assert!(live.acl_getuser("default").unwrap().is_some() && live.acl_getuser("none").unwrap().is_none());
        assert!(!live.acl_cat().unwrap().is_empty() && !live.acl_list().unwrap().is_empty());
        live.acl_log().unwrap();
        live.acl_log_reset().unwrap();
        live.slowlog_get().unwrap();
        live.slowlog_reset().unwrap();
        assert!(live.latency_latest().unwrap().is_empty() && live.latency_history("x").unwrap().is_empty());
        assert!(live.latency_histogram_of("ping").unwrap().contains_key(&b("ping")));
        assert!(live.memory_stats().unwrap().contains_key(&b("peak.allocated")));
        assert!(live.memory_doctor().unwrap().len() > 5 && live.module_list().unwrap().is_empty());
        assert!(live.role().unwrap().len() > 2 && live.lolwut().unwrap().contains("ver"));
        assert_eq!(live.pubsub_numsub(["a"]).unwrap().get(&b("a")), Some(&0));
        assert_eq!(live.publish("a", "m").unwrap(), 0);
        assert_eq!(live.wait(0, 1).unwrap(), 0);
        let sha = live.script_load("return ARGV[1]").unwrap();
        assert_eq!(live.script_exists([sha.as_str(), "none"]).unwrap(), [true, false]);
        assert_eq!(live.evalsha(&sha, (), "x").unwrap(), Value::Bulk(b("x")));
        let library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return args[1] end)";
        assert_eq!(live.function_load_replace(library).unwrap(), "lib");
        assert_eq!(live.fcall("f", (), 7).unwrap(), Value::Bulk(b("7")));
        assert_eq!(live.function_list_with(FunctionListOptions::new().withcode()).unwrap().len(), 1);
        assert!(live.function_stats().unwrap().contains_key(&b("engines")));
        live.function_flush_with(FlushMode::Sync).unwrap();
    });
}
