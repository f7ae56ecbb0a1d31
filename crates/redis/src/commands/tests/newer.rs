//! Typed commands against servers that are newer than the system's, and those of modules: what
//! `scripts/redis-servers.sh` installs.

use bytes::Bytes;
use pilotlight_testkit::{Reply, Server};

use super::live::Live;
use super::servers::start;
use crate::Value;
use crate::command::Flags;
use crate::commands::options::*;
use crate::commands::words::*;
use crate::commands::{Commands, lookup};

/// A server in both protocols. Where there is no program for the machine, the test is left out.
pub(super) fn with(program: &str, test: fn(&Live)) {
    let Some(server) = start(program) else { return };
    for protocol in [2, 3] {
        test(&Live::new(&server, protocol));
    }
}

pub(super) fn b(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn hashes(live: &Live) {
    live.hset("h", [("f", "1"), ("g", "2")]).unwrap();
    assert_eq!(live.hexpire("h", 100, ["f", "none"]).unwrap(), [1, -2]);
    assert_eq!(live.hexpire_with("h", 50, ["f"], ExpireCondition::Gt).unwrap(), [0]);
    assert!(live.httl("h", ["f"]).unwrap()[0] > 90 && live.hpttl("h", ["f"]).unwrap()[0] > 90_000);
    assert!(live.hexpiretime("h", ["f"]).unwrap()[0] > 1_600_000_000);
    assert_eq!(live.hpersist("h", ["f", "g"]).unwrap(), [1, -1]);
    assert_eq!(live.hgetex_with("h", ["f", "z"], HgetexOptions::new().ex(9)).unwrap(), [Some(b("1")), None]);
    assert!(live.hsetex_with("h", [("f", "3")], HsetexOptions::new().fxx().px(9000)).unwrap());
    assert_eq!(live.hgetdel("h", ["f", "g"]).unwrap(), [Some(b("3")), Some(b("2"))]);
}

#[test]
fn live_redis_8() {
    with("redis-8", |live| {
        hashes(live);
        live.xadd("s", "1-1", ("f", "v")).unwrap();
        live.xadd_with("s", "1-2", ("f", "v"), XaddOptions::new().keepref().maxlen(9)).unwrap();
        live.xgroup_create("s", "g", "0").unwrap();
        live.xreadgroup("g", "c", [("s", ">")]).unwrap();
        assert_eq!(live.xackdel("s", "g", ["1-1"]).unwrap(), [1]);
        assert_eq!(live.xdelex_with("s", ["1-2"], ReferencePolicy::Acked).unwrap(), [2]);
        live.mset([("a", "ab"), ("b", "b")]).unwrap();
        assert_eq!(live.bitop(BitOperation::Diff, "d", ["a", "b"]).unwrap(), 2);
    });
}

#[test]
fn live_valkey_9() {
    with("valkey-9", |live| {
        hashes(live);
        live.set("k", "old").unwrap();
        assert!(!live.set_with("k", "new", SetOptions::new().ifeq("other")).unwrap());
        assert!(live.set_with("k", "new", SetOptions::new().ifeq("old")).unwrap());
        assert!(!live.delifeq("k", "old").unwrap() && live.delifeq("k", "new").unwrap());
        assert!(live.msetex_with([("a", 1), ("b", 2)], MsetexOptions::new().nx().ex(9)).unwrap());
        assert!(live.commandlog_get(-1, CommandLog::Slow).unwrap().len() < 1000);
        assert!(live.commandlog_len(CommandLog::LargeReply).unwrap() >= 0);
        live.commandlog_reset(CommandLog::LargeRequest).unwrap();
        let own = ClientListOptions::new().not_type(ClientType::Pubsub).flags("N");
        assert!(live.client_list_with(own).unwrap().contains("id="));
        assert_eq!(live.client_kill(ClientKillOptions::new().name("nobody")).unwrap(), 0);
    });
}

/// Where our table differs on purpose: what has no key in it changes nothing, or is not for a replica.
const OTHER_FLAGS: &[&str] =
    &["FT.ALIASADD", "FT.ALIASDEL", "FT.ALIASUPDATE", "FT.CONFIG", "FT.CURSOR", "FT.DICTADD", "FT.DICTDEL"];

/// What the servers say about each command, against the table.
#[test]
fn live_the_table_is_the_servers() {
    for program in ["redis-8", "valkey-9"] {
        let Some(server) = start(program) else { return };
        let Reply::Array(rows) = server.command(&["COMMAND"]).unwrap() else { panic!("no rows") };
        let differences: Vec<String> = rows.iter().filter_map(difference).collect();
        assert!(differences.is_empty(), "{program}: {differences:#?}");
    }
}

fn difference(row: &Reply) -> Option<String> {
    let Reply::Array(facts) = row else { return None };
    let name = facts[0].text().to_uppercase();
    let spec = lookup(&name).filter(|spec| !OTHER_FLAGS.contains(&spec.name))?;
    let Reply::Array(flags) = &facts[2] else { return None };
    let has = |flag: &str| flags.iter().any(|known| known.text() == flag);
    for (flag, ours) in [("readonly", Flags::READONLY), ("write", Flags::WRITE), ("blocking", Flags::BLOCKING)] {
        if has(flag) && !spec.flags.has(ours) {
            return Some(format!("{name}: {flag}"));
        }
    }
    None
}

#[test]
fn live_nothing_is_missing() {
    // What is the servers' own business, or a module's that no client needs.
    let internal = |name: &str| {
        ["FT.", "JSON.", "BF.", "CF.", "TIMESERIES.", "TOPK.", "SEARCH.", "_FT"].iter().any(|it| name.starts_with(it))
    };
    for program in ["redis-8", "valkey-9"] {
        let Some(server) = start(program) else { return };
        let Reply::Array(rows) = server.command(&["COMMAND", "LIST"]).unwrap() else { panic!("no rows") };
        let names = rows.iter().map(|name| name.text().to_uppercase().replace('|', " "));
        let missing: Vec<_> = names.filter(|name| lookup(name).is_none() && !internal(name)).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
}

/// What a server says that does not know a command.
#[test]
fn live_an_old_server_is_told_by_its_error() {
    let server = Server::start().unwrap();
    let live = Live::new(&server, 3);
    let answer = live.answer(&crate::Command::raw("HGETEX").args(["h", "FIELDS", "1", "f"]));
    let Value::Error(text) = answer else { panic!("{answer:?}") };
    let error = crate::Error::answered(lookup("HGETEX").unwrap(), crate::ServerError::parse(&text));
    assert_eq!(error.needs(), Some("Redis 8.0.0 or Valkey 9.0.0"));
    assert!(error.to_string().ends_with("; HGETEX needs Redis 8.0.0 or Valkey 9.0.0"), "{error}");
}
