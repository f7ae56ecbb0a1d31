//! What the typed methods send, word for word.

use crate::FromReply;
use crate::command::{Arg, Command};
use crate::commands::Commands;
use crate::commands::options::*;
use crate::commands::words::*;

/// Gives the command as text instead of running it.
pub(super) struct Words;

impl<'a> Commands<'a> for &'a Words {
    type Out<T: FromReply> = String;

    fn run<T: FromReply>(self, command: Command<'a>) -> String {
        let spec = command.spec();
        let count = i32::try_from(usize::from(spec.words) + command.arguments().len()).unwrap();
        let least = i32::from(spec.arity);
        assert!(
            if least < 0 { count >= -least } else { count == least },
            "{}: {count} words, arity {least}",
            spec.name
        );
        let words = command.arguments().iter().map(|arg| String::from_utf8(arg.to_bytes().into_owned()).unwrap());
        std::iter::once(spec.name.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "rows are shorter")]
pub(super) fn check(words: String, expected: &str) {
    assert_eq!(words, expected);
}

#[test]
fn strings() {
    check(Words.get("k"), "GET k");
    check(Words.set("k", "v"), "SET k v");
    check(Words.set_with("k", "v", SetOptions::new().ex(60).nx()), "SET k v NX EX 60");
    check(Words.set_get_with("k", "v", SetOptions::new().nx().ex(60)), "SET k v NX GET EX 60");
    check(Words.set_get("k", "v"), "SET k v GET");
    check(Words.set_with("k", "v", SetOptions::new().ifeq("old").keepttl()), "SET k v IFEQ old KEEPTTL");
    check(Words.getex_with("k", GetexOptions::new().persist()), "GETEX k PERSIST");
    check(Words.mset([("a", 1), ("b", 2)]), "MSET a 1 b 2");
    check(Words.msetex_with([("a", 1), ("b", 2)], MsetexOptions::new().px(5).xx()), "MSETEX 2 a 1 b 2 XX PX 5");
    check(
        Words.lcs_idx("a", "b", LcsOptions::new().withmatchlen().minmatchlen(4)),
        "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
    );
    check(Words.lcs_len("a", "b"), "LCS a b LEN");
    check(Words.incrbyfloat("k", 0.1), "INCRBYFLOAT k 0.1");
    check(Words.delex_with("k", DelexOptions::new().ifne("v")), "DELEX k IFNE v");
}

#[test]
fn exclusive_options_replace_one_another() {
    check(Words.set_with("k", "v", SetOptions::new().nx().xx()), "SET k v XX");
    check(Words.set_with("k", "v", SetOptions::new().ex(1).px(2).keepttl().exat(3)), "SET k v EXAT 3");
    check(Words.set_with("k", "v", SetOptions::new().ifeq("old").nx()), "SET k v NX");
    check(Words.zadd_with("k", (1, "m"), ZaddOptions::new().gt().lt()), "ZADD k LT 1 m");
    check(Words.xadd_with("k", "*", ("f", "v"), XaddOptions::new().maxlen(5).minid("7-0")), "XADD k MINID 7-0 * f v");
    check(
        Words.xtrim_with("k", TrimStrategy::Maxlen, 5, XtrimOptions::new().exactly().approximately()),
        "XTRIM k MAXLEN ~ 5",
    );
    check(Words.scan_with(0, ScanOptions::new().count(1).count(2)), "SCAN 0 COUNT 2");
}

#[test]
fn bitmaps() {
    check(Words.bitcount("k"), "BITCOUNT k");
    check(Words.bitcount_with("k", BitcountOptions::new().bit().end(5).start(0)), "BITCOUNT k 0 5 BIT");
    check(Words.bitpos_with("k", 1, BitposOptions::new().start(2)), "BITPOS k 1 2");
    check(Words.bitop(BitOperation::Xor, "d", ["a", "b"]), "BITOP XOR d a b");
    let operations = BitfieldOptions::new()
        .get("u4", "#1")
        .overflow(Overflow::Sat)
        .set("u8", 0, 7)
        .get("u8", 0)
        .incrby("i5", 100, 1);
    check(Words.bitfield("k", operations), "BITFIELD k GET u4 #1 OVERFLOW SAT SET u8 0 7 GET u8 0 INCRBY i5 100 1");
    check(
        Words.bitfield_ro("k", BitfieldRoOptions::new().get("u8", 0).get("u8", 8)),
        "BITFIELD_RO k GET u8 0 GET u8 8",
    );
}

#[test]
fn keys_of_any_type() {
    check(Words.del("a"), "DEL a");
    check(Words.del(["a", "b"]), "DEL a b");
    check(Words.expire_with("k", 10, ExpireCondition::Gt), "EXPIRE k 10 GT");
    check(Words.copy_with("a", "b", CopyOptions::new().replace().db(2)), "COPY a b DB 2 REPLACE");
    check(Words.scan_with(7, ScanOptions::new().key_type("hash").matching("a*")), "SCAN 7 MATCH a* TYPE hash");
    let options = SortOptions::new().alpha().get("#").get("w_*->f").desc().limit(0, 5).by("w_*");
    check(Words.sort_with("k", options.clone()), "SORT k BY w_* LIMIT 0 5 GET # GET w_*->f DESC ALPHA");
    check(Words.sort_store_with("k", "d", options), "SORT k BY w_* LIMIT 0 5 GET # GET w_*->f DESC ALPHA STORE d");
    check(Words.migrate("h", 6379, "k", 0, 100), "MIGRATE h 6379 k 0 100");
    let options = MigrateOptions::new().keys(["a", "b"]).auth2("u", "p").replace();
    check(Words.migrate_with("h", 6379, "", 0, 100, options), "MIGRATE h 6379  0 100 REPLACE AUTH2 u p KEYS a b");
    check(Words.restore_with("k", 0, "x", RestoreOptions::new().freq(3).replace()), "RESTORE k 0 x REPLACE FREQ 3");
    check(Words.key_type("k"), "TYPE k");
    check(Words.move_key("k", 1), "MOVE k 1");
}

#[test]
fn lists_and_sets() {
    check(Words.lpop("k"), "LPOP k");
    check(Words.lpop_count("k", 2), "LPOP k 2");
    check(Words.lpos_with("k", "e", LposOptions::new().maxlen(9).rank(-1)), "LPOS k e RANK -1 MAXLEN 9");
    check(Words.lpos_count_with("k", "e", 0, LposOptions::new().maxlen(9).rank(1)), "LPOS k e RANK 1 COUNT 0 MAXLEN 9");
    check(Words.lmpop_count(["a", "b"], Side::Left, 3), "LMPOP 2 a b LEFT COUNT 3");
    check(Words.blmpop(0.5, "a", Side::Right), "BLMPOP 0.5 1 a RIGHT");
    check(Words.blmove("a", "b", Side::Left, Side::Right, 0.0), "BLMOVE a b LEFT RIGHT 0");
    check(Words.linsert("k", Place::Before, "p", "e"), "LINSERT k BEFORE p e");
    check(Words.sintercard_limit(["a", "b"], 5), "SINTERCARD 2 a b LIMIT 5");
    check(Words.spop_count("k", 2), "SPOP k 2");
}

#[test]
fn sorted_sets() {
    check(Words.zadd("k", [(1.5, "a"), (f64::INFINITY, "b")]), "ZADD k 1.5 a inf b");
    check(Words.zadd_with("k", (1, "m"), ZaddOptions::new().ch().gt().xx()), "ZADD k XX GT CH 1 m");
    check(Words.zadd_incr_with("k", (1, "m"), ZaddOptions::new().ch().nx()), "ZADD k NX CH INCR 1 m");
    check(Words.zrange("k", 0, -1), "ZRANGE k 0 -1");
    let options = ZrangeOptions::new().limit(0, 10).rev().byscore();
    check(Words.zrange_with("k", "+inf", "(1", options.clone()), "ZRANGE k +inf (1 BYSCORE REV LIMIT 0 10");
    check(
        Words.zrange_withscores_with("k", "+inf", "(1", options),
        "ZRANGE k +inf (1 BYSCORE REV LIMIT 0 10 WITHSCORES",
    );
    check(
        Words.zrangebyscore_withscores_with("k", 1, 2, ZrangebyscoreOptions::new().limit(0, 1)),
        "ZRANGEBYSCORE k 1 2 WITHSCORES LIMIT 0 1",
    );
    check(Words.zrangebylex_limit("k", "-", "[c", 0, 2), "ZRANGEBYLEX k - [c LIMIT 0 2");
    let options = ZunionOptions::new().aggregate(Aggregate::Max).weights([2.0, 0.5]);
    check(Words.zunion_withscores_with(["a", "b"], options), "ZUNION 2 a b WEIGHTS 2 0.5 AGGREGATE MAX WITHSCORES");
    check(Words.zunionstore("d", ["a", "b"]), "ZUNIONSTORE d 2 a b");
    check(Words.zrandmember_count_withscores("k", -2), "ZRANDMEMBER k -2 WITHSCORES");
    check(Words.zrank_withscore("k", "m"), "ZRANK k m WITHSCORE");
    check(Words.zmpop_count("k", Extreme::Min, 2), "ZMPOP 1 k MIN COUNT 2");
    check(Words.zcount("k", "-inf", "(5"), "ZCOUNT k -inf (5");
}

#[test]
fn geo() {
    check(Words.geoadd("k", (13.361, 38.115, "Palermo")), "GEOADD k 13.361 38.115 Palermo");
    let two = [(1.0, 2.0, "a"), (3.0, 4.0, "b")];
    check(Words.geoadd_with("k", two, GeoaddOptions::new().ch().nx()), "GEOADD k NX CH 1 2 a 3 4 b");
    check(
        Words.geosearch("k", GeoOrigin::member("m"), GeoArea::radius(5.0, GeoUnit::Kilometres)),
        "GEOSEARCH k FROMMEMBER m BYRADIUS 5 km",
    );
    let (origin, area) = (GeoOrigin::lonlat(1.5, 2.5), GeoArea::rectangle(4.0, 3.0, GeoUnit::Miles));
    let options = GeosearchOptions::new().withdist().withcoord().any().count(3).desc();
    check(
        Words.geosearch_with("k", origin.clone(), area.clone(), options),
        "GEOSEARCH k FROMLONLAT 1.5 2.5 BYBOX 4 3 mi DESC COUNT 3 ANY WITHCOORD WITHDIST",
    );
    check(
        Words.geosearchstore_with("d", "s", origin, area, GeosearchstoreOptions::new().storedist().asc()),
        "GEOSEARCHSTORE d s FROMLONLAT 1.5 2.5 BYBOX 4 3 mi ASC STOREDIST",
    );
    check(Words.georadius_store("k", 1.0, 2.0, 3.0, GeoUnit::Feet, "d"), "GEORADIUS k 1 2 3 ft STORE d");
    check(Words.geodist_with("k", "a", "b", GeoUnit::Metres), "GEODIST k a b m");
}

#[test]
fn streams() {
    let options = XaddOptions::new().limit(100).approximately().maxlen(1000).nomkstream();
    check(
        Words.xadd_with("k", "*", [("f", "v"), ("g", "w")], options),
        "XADD k NOMKSTREAM MAXLEN ~ 1000 LIMIT 100 * f v g w",
    );
    check(Words.xtrim("k", TrimStrategy::Minid, "5-0"), "XTRIM k MINID 5-0");
    check(Words.xread([("a", "0"), ("b", "$")]), "XREAD STREAMS a b 0 $");
    let options = XreadgroupOptions::new().noack().block(500).count(10);
    check(
        Words.xreadgroup_with("g", "c", [("a", ">"), ("b", "0")], options),
        "XREADGROUP GROUP g c COUNT 10 BLOCK 500 NOACK STREAMS a b > 0",
    );
    check(Words.xpending("k", "g"), "XPENDING k g");
    let options = XpendingOptions::new().consumer("c").range("-", "+", 10).idle(9000);
    check(Words.xpending_with("k", "g", options), "XPENDING k g IDLE 9000 - + 10 c");
    check(
        Words.xclaim_justid_with("k", "g", "c", 5, ["1-0", "2-0"], XclaimOptions::new().force().idle(1)),
        "XCLAIM k g c 5 1-0 2-0 IDLE 1 FORCE JUSTID",
    );
    check(
        Words.xautoclaim_with("k", "g", "c", 5, "0", XautoclaimOptions::new().count(2)),
        "XAUTOCLAIM k g c 5 0 COUNT 2",
    );
    check(
        Words.xgroup_create_with("k", "g", "$", XgroupCreateOptions::new().mkstream()),
        "XGROUP CREATE k g $ MKSTREAM",
    );
    check(Words.xinfo_stream_with("k", XinfoStreamOptions::new().count(2).full()), "XINFO STREAM k FULL COUNT 2");
    check(Words.xackdel_with("k", "g", ["1-0", "2-0"], ReferencePolicy::Acked), "XACKDEL k g ACKED IDS 2 1-0 2-0");
}

#[test]
fn hashes() {
    check(Words.hset("k", [("f", "v"), ("g", "w")]), "HSET k f v g w");
    check(Words.hrandfield_count_withvalues("k", 2), "HRANDFIELD k 2 WITHVALUES");
    check(Words.hexpire_with("k", 10, ["f", "g"], ExpireCondition::Nx), "HEXPIRE k 10 NX FIELDS 2 f g");
    check(Words.hgetex_with("k", "f", HgetexOptions::new().ex(5)), "HGETEX k EX 5 FIELDS 1 f");
    check(
        Words.hsetex_with("k", [("f", 1), ("g", 2)], HsetexOptions::new().keepttl().fnx()),
        "HSETEX k FNX KEEPTTL FIELDS 2 f 1 g 2",
    );
    check(Words.hscan_novalues_with("k", 0, HscanOptions::new().matching("*")), "HSCAN k 0 MATCH * NOVALUES");
}

#[test]
fn scripts_and_servers() {
    check(Words.eval("return 1", (), ()), "EVAL return 1 0");
    check(Words.evalsha("abc", ["a", "b"], [1, 2]), "EVALSHA abc 2 a b 1 2");
    check(Words.fcall("f", "a", "x"), "FCALL f 1 a x");
    check(Words.function_load_replace("#!lua"), "FUNCTION LOAD REPLACE #!lua");
    check(Words.flushall_with(FlushMode::Async), "FLUSHALL ASYNC");
    check(Words.info(), "INFO");
    check(Words.info_of(["server", "memory"]), "INFO server memory");
    check(Words.config_set([("a", "1"), ("b", "2")]), "CONFIG SET a 1 b 2");
    check(
        Words.client_kill(ClientKillOptions::new().skipme(Decision::No).client_type(ClientType::Pubsub)),
        "CLIENT KILL TYPE pubsub SKIPME NO",
    );
    check(Words.client_list_with(ClientListOptions::new().id([1, 2])), "CLIENT LIST ID 1 2");
    check(Words.cluster_setslot(5, SlotState::importing("n")), "CLUSTER SETSLOT 5 IMPORTING n");
    check(Words.cluster_setslot(5, SlotState::stable()), "CLUSTER SETSLOT 5 STABLE");
    let filter = SlotStatsFilter::orderby("key-count").desc().limit(3);
    check(Words.cluster_slot_stats(filter), "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3 DESC");
    check(
        Words.module_loadex_with("m", ModuleLoadexOptions::new().args(["x", "y"]).config("a", 1).config("b", 2)),
        "MODULE LOADEX m CONFIG a 1 CONFIG b 2 ARGS x y",
    );
    check(Words.failover_with(FailoverOptions::new().force().to("h", 1).timeout(5)), "FAILOVER TO h 1 FORCE TIMEOUT 5");
    check(Words.shutdown_with(ShutdownOptions::new().force().nosave()), "SHUTDOWN NOSAVE FORCE");
    check(Words.replicaof("NO", "ONE"), "REPLICAOF NO ONE");
    check(Words.command_list_with(CommandListOptions::new().pattern("x*")), "COMMAND LIST FILTERBY PATTERN x*");
    check(Words.acl_log_reset(), "ACL LOG RESET");
    check(Words.pubsub_numsub(()), "PUBSUB NUMSUB");
}

#[test]
fn arguments_of_all_kinds() {
    let owned = String::from("k");
    check(Words.get(&owned), "GET k");
    check(Words.get(b"k"), "GET k");
    check(Words.del(b"k"), "DEL k");
    check(Words.del(vec![b'a', b'b']), "DEL ab");
    check(Words.del(vec![b"a".to_vec(), b"b".to_vec()]), "DEL a b");
    check(Words.del(&["a", "b"][..]), "DEL a b");
    check(Words.set("k", vec![b'a', b'b']), "SET k ab");
    check(Words.set("k", bytes::Bytes::from_static(b"v")), "SET k v");
    check(Words.set(7_u64, u64::MAX), "SET 7 18446744073709551615");
    check(Words.mget(vec![Arg::from("a"), Arg::from(1)]), "MGET a 1");
}

#[test]
fn options_do_not_print_their_words() {
    assert_eq!(format!("{:?}", MigrateOptions::new().auth("secret")), "MigrateOptions(2 words)");
}
