//! Byte for byte what `redis-cli` prints, for people and for pipes.

use std::process::Command;

use pilotlight_testkit::Server;

use super::terminal::Terminal;
use super::{Tool, at, finish, with};

/// Commands and all kinds of replies, in an order: later ones see what earlier ones left.
const COMMANDS: &[&[&str]] = &[
    &["PING"],
    &["PING", "hello world"],
    &["SET", "k", "a \"quoted\" \\ value\n\r\t\u{7}\u{8}é"],
    &["GET", "k"],
    &["GET", "nothing"],
    &["SET", "empty", ""],
    &["GET", "empty"],
    &["INCR", "n"],
    &["INCRBYFLOAT", "f", "0.5"],
    &["FOO", "bar"],
    &["LPUSH", "n", "x"],
    &["RPUSH", "l", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"],
    &["LRANGE", "l", "0", "-1"],
    &["LRANGE", "nothing", "0", "-1"],
    &["HSET", "h", "f1", "v1", "f2", "v 2"],
    &["HGETALL", "h"],
    &["HGETALL", "nothing"],
    &["SADD", "s", "one"],
    &["SMEMBERS", "s"],
    &["SMEMBERS", "nothing"],
    &["ZADD", "z", "1.5", "a", "2", "b"],
    &["ZRANGE", "z", "0", "-1", "WITHSCORES"],
    &["ZSCORE", "z", "a"],
    &["XADD", "x", "1-1", "a", "b"],
    &["XADD", "x", "2-1", "c", "d", "e", "f"],
    &["XRANGE", "x", "-", "+"],
    &["XINFO", "STREAM", "x"],
    &["XREAD", "STREAMS", "x", "0"],
    &["MGET", "k", "nothing", "n"],
    &["TYPE", "h"],
    &["CONFIG", "GET", "save"],
    &["COMMAND", "INFO", "get", "nothing"],
    &["COMMAND", "DOCS", "get"],
    &["EVAL", "return {1,{},{2,{3,'x'}},redis.error_reply('BAD x'),redis.status_reply('ST')}", "0"],
    &["EVAL", "redis.setresp(3); return {map={a={map={b={1,2}}}}}", "0"],
    &["EVAL", "redis.setresp(3); return {map={a={map={b=1}}},{set={x=true}}}", "0"],
    &["EVAL", "redis.setresp(3); return {{map={}},{double=1.25},{1,{2,{3,{4}}}}}", "0"],
    &["CLUSTER", "INFO"],
    &["INFO", "replication-of-nothing"],
    &["LOLWUT", "VERSION", "5", "1", "1", "1"],
    &["MEMORY", "DOCTOR"],
    &["LATENCY", "DOCTOR"],
    &["ACL", "GETUSER", "default"],
    &["SELECT", "3"],
    &["SELECT", "99"],
    &["DEBUG", "PROTOCOL", "string"],
    &["DEBUG", "PROTOCOL", "integer"],
    &["DEBUG", "PROTOCOL", "double"],
    &["DEBUG", "PROTOCOL", "null"],
    &["DEBUG", "PROTOCOL", "array"],
    &["DEBUG", "PROTOCOL", "set"],
    &["DEBUG", "PROTOCOL", "map"],
    &["DEBUG", "PROTOCOL", "verbatim"],
    &["DEBUG", "PROTOCOL", "true"],
    &["DEBUG", "PROTOCOL", "false"],
];

fn server() -> Server {
    Server::builder().debug_commands().start().unwrap()
}

/// `redis-cli`, if it is installed.
pub(super) fn redis_cli() -> Option<Command> {
    let is_there = Command::new("redis-cli").arg("--version").output().is_ok();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "redis-cli is not installed");
        eprintln!("not compared: redis-cli is not installed");
    }
    is_there.then(|| Command::new("redis-cli"))
}

#[track_caller]
fn check(ours: &Server, theirs: &Server, flags: &[&str], args: &[&str], input: &[u8]) {
    let tool = Tool::new();
    let Some(mut reference) = redis_cli() else { return };
    let (own, other) = (at(ours), at(theirs));
    reference.args(&other).args(flags).args(args).env_remove("REDISCLI_AUTH");
    let expected = finish(reference, input);
    let got = finish(
        tool.command(&with(&with(&own, flags).iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), args)),
        input,
    );
    assert_eq!(
        String::from_utf8_lossy(&got.stdout),
        String::from_utf8_lossy(&expected.stdout),
        "{flags:?} {args:?}: {}",
        String::from_utf8_lossy(&got.stderr)
    );
    assert_eq!(got.status.code(), expected.status.code(), "{flags:?} {args:?}");
}

/// Each program has a server of its own, so that both see the same data.
#[track_caller]
fn check_all(flags: &[&str], leaves_out: impl Fn(&[&str]) -> bool) {
    let (ours, theirs) = (server(), server());
    for args in COMMANDS.iter().filter(|args| !leaves_out(args)) {
        check(&ours, &theirs, flags, args, b"");
    }
}

/// With RESP3, `redis-cli` prints doubles by the digits that the server sent.
fn has_doubles(args: &[&str]) -> bool {
    matches!(args, ["COMMAND", ..])
}

#[test]
fn replies_for_people() {
    check_all(&["--no-raw"], |_| false);
}

/// The same at a pseudo-terminal, where both programs choose by themselves how to print.
#[test]
fn replies_at_a_terminal() {
    if redis_cli().is_none() {
        return;
    }
    let (tool, ours, theirs) = (Tool::new(), server(), server());
    for args in COMMANDS {
        let (own, other) = (at(&ours), at(&theirs));
        let expected = Terminal::run(&tool, "redis-cli", &with(&other, args), &[]).rest();
        let got = Terminal::start_with(&tool, &with(&own, args), &[]).rest();
        assert_eq!(got, expected, "{args:?}");
    }
}

#[test]
fn replies_for_people_with_resp3() {
    check_all(&["-3", "--no-raw"], |_| false);
}

#[test]
fn replies_for_pipes() {
    check_all(&[], |_| false);
    check_all(&["-3", "--raw"], has_doubles);
}

#[test]
fn replies_as_csv() {
    // Reports are strings here; redis-cli prints them bare.
    let is_report = |args: &[&str]| matches!(args, ["CLUSTER" | "MEMORY" | "LATENCY" | "INFO" | "LOLWUT", ..]);
    check_all(&["--csv"], is_report);
}

#[test]
fn replies_as_json() {
    // redis-cli writes errors, reports and quotes within quoted strings as what is no JSON.
    let differs = |args: &[&str]| {
        matches!(args, ["CLUSTER" | "MEMORY" | "LATENCY" | "INFO" | "LOLWUT" | "FOO" | "LPUSH", ..] | ["SELECT", "99"])
            || args.get(1).is_some_and(|script| script.contains("error_reply"))
    };
    check_all(&["--json"], differs);
    check_all(&["--quoted-json"], |args| differs(args) || matches!(args, ["GET" | "MGET", "k", ..]));
}

#[test]
fn lines_of_the_standard_input() {
    let input = b"PING\nFOO\nset a \"x y\\n\"\n get a \nset b \"un\nGET\n\n  \n3 INCR n\nMULTI\nINCR n\nEXEC\nMULTI\nDISCARD\nselect 1\nget a\nget 'it''s'\nset \"\\x41\\xff\" '\\n'\nkeys *\nquit\nPING\n";
    for flags in [&[][..], &["--no-raw"], &["--csv"], &["-3", "--no-raw"]] {
        check(&server(), &server(), flags, &[], input);
    }
    for flags in [&[][..], &["--no-raw"]] {
        check(&server(), &server(), flags, &[], b"unsubscribe\npunsubscribe a\nunsubscribe\n");
    }
}

#[test]
fn options_of_one_command() {
    let (ours, theirs) = (server(), server());
    let same = |flags: &[&str], args: &[&str], input: &str| check(&ours, &theirs, flags, args, input.as_bytes());
    same(&[], &["RPUSH", "l", "a", "b"], "");
    same(&["-d", ";"], &["LRANGE", "l", "0", "-1"], "");
    same(&["-D", "Z"], &["LRANGE", "l", "0", "-1"], "");
    same(&["-D", "Z", "--no-raw"], &["LRANGE", "l", "0", "-1"], "");
    same(&["-r", "3"], &["INCR", "n"], "");
    same(&["-r", "2", "-i", "0.01"], &["INCR", "n"], "");
    same(&["-x"], &["SET", "x"], "line 1\nline 2\n");
    same(&["-X", "TAG"], &["SET", "TAG", "v"], "a key");
    same(&["--no-raw"], &["KEYS", "a*"], "");
    same(&["--quoted-input"], &["SET", "\"k\\x41\"", "'v w'"], "");
    same(&["--no-raw"], &["GET", "kA"], "");
    same(&["-n", "5"], &["SET", "in5", "1"], "");
    same(&["-n", "5"], &["KEYS", "*"], "");
    same(&["-n", "5", "--scan"], &[], "");
    same(&["-n", "5", "--scan", "--no-raw"], &[], "");
    same(&["-n", "5", "--scan", "--pattern", "x*"], &[], "");
    same(&["-e"], &["PING"], "");
    same(&["-e"], &["FOO"], "");
    same(&[], &["FOO"], "");
}

#[test]
fn scripts_with_keys_and_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.lua");
    std::fs::write(&file, "return {KEYS[1] or 'none', ARGV[1] or 'none', #ARGV}").unwrap();
    let file = file.to_str().unwrap();
    let (ours, theirs) = (server(), server());
    for args in [&["k1", "k2", ",", "a1", "a2"][..], &["k", ","], &[",", "a"], &[]] {
        check(&ours, &theirs, &["--no-raw", "--eval", file], args, b"");
    }
}

#[test]
fn bytes_through_the_pipe() {
    let (ours, theirs) = (server(), server());
    let input = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\xff\n\r\nSET b 1\r\n*1\r\n$4\r\nPING\r\n";
    check(&ours, &theirs, &["--pipe"], &[], input);
    check(&ours, &theirs, &["--pipe"], &[], b"SET a b\r\nNONSENSE x\r\nGET a");
    check(&ours, &theirs, &["--no-raw"], &["GET", "a"], b"");
    check(&ours, &theirs, &["--pipe"], &[], b"");
}
