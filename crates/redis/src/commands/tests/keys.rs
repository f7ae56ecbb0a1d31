//! Positions of keys, also of the awkward commands. `live` asks a server for the same rows.

use pilotlight_testkit::{Reply, Server};

use crate::command::{Command, CommandSpec};
use crate::commands::lookup;

/// A command line and its keys; `!` before it: servers see no keys there (channels), but the slot is theirs.
const ROWS: &[(&str, &str)] = &[
    ("GET k", "k"),
    ("SET k v EX 1 NX", "k"),
    ("MGET a b c", "a b c"),
    ("MSET a 1 b 2", "a b"),
    ("MSETNX a 1 b 2 c 3", "a b c"),
    ("DEL a", "a"),
    ("EXISTS a b", "a b"),
    ("RENAME a b", "a b"),
    ("COPY a b DB 1 REPLACE", "a b"),
    ("LCS a b IDX", "a b"),
    ("BITOP AND d a b", "d a b"),
    ("BITOP NOT d a", "d a"),
    ("BITFIELD k GET u8 0 INCRBY u8 0 1", "k"),
    ("BITFIELD_RO k GET u8 0", "k"),
    ("OBJECT ENCODING k", "k"),
    ("OBJECT FREQ k", "k"),
    ("MEMORY USAGE k SAMPLES 5", "k"),
    ("SORT k", "k"),
    ("SORT k BY w_* LIMIT 0 5 GET # STORE d", "k d"),
    ("SORT_RO k ALPHA", "k"),
    ("MIGRATE h 6379 k 0 100", "k"),
    ("MIGRATE h 6379 k 0 100 COPY REPLACE AUTH2 u p", "k"),
    ("MIGRATE h 6379 '' 0 100 KEYS a b c", "a b c"),
    ("MIGRATE h 6379 '' 0 100 AUTH p KEYS a", "a"),
    ("BLPOP a b 0", "a b"),
    ("BRPOP a 0", "a"),
    ("BLMPOP 0 2 a b LEFT COUNT 3", "a b"),
    ("LMPOP 1 a RIGHT", "a"),
    ("BLMOVE a b LEFT RIGHT 0", "a b"),
    ("BRPOPLPUSH a b 0", "a b"),
    ("BZPOPMIN a b 0", "a b"),
    ("BZMPOP 0 2 a b MIN", "a b"),
    ("ZMPOP 2 a b MAX COUNT 1", "a b"),
    ("SMOVE a b m", "a b"),
    ("SINTERCARD 2 a b LIMIT 1", "a b"),
    ("SINTERSTORE d a b", "d a b"),
    ("SDIFF a b", "a b"),
    ("PFCOUNT a b", "a b"),
    ("PFMERGE d a b", "d a b"),
    // The server's own reading refuses this valid command.
    ("!PFMERGE d", "d"),
    ("ZUNION 2 a b WEIGHTS 1 2 WITHSCORES", "a b"),
    ("ZINTER 1 a", "a"),
    ("ZDIFF 3 a b c", "a b c"),
    ("ZINTERCARD 2 a b", "a b"),
    ("ZUNIONSTORE d 2 a b AGGREGATE MAX", "d a b"),
    ("ZINTERSTORE d 1 a WEIGHTS 2", "d a"),
    ("ZDIFFSTORE d 2 a b", "d a b"),
    ("ZRANGESTORE d s 0 -1", "d s"),
    ("GEORADIUS k 1 2 3 km", "k"),
    ("GEORADIUS k 1 2 3 km WITHDIST COUNT 5 STORE d", "k d"),
    ("GEORADIUS k 1 2 3 km STOREDIST d", "k d"),
    ("GEORADIUSBYMEMBER k m 3 km STORE d", "k d"),
    ("GEORADIUS_RO k 1 2 3 km", "k"),
    ("GEOSEARCHSTORE d s FROMMEMBER m BYRADIUS 1 km", "d s"),
    ("XADD k MAXLEN ~ 5 * f v", "k"),
    ("XREAD STREAMS a b 0 0", "a b"),
    ("XREAD COUNT 1 BLOCK 5 STREAMS a $", "a"),
    ("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a b > >", "a b"),
    ("XREADGROUP GROUP streams c STREAMS a >", "a"),
    ("XGROUP CREATE k g $", "k"),
    ("XINFO STREAM k FULL", "k"),
    ("XAUTOCLAIM k g c 5 0", "k"),
    ("EVAL s 0 a b", ""),
    ("EVAL s 2 a b x y", "a b"),
    ("EVALSHA s 1 a", "a"),
    ("EVAL_RO s 1 a x", "a"),
    ("FCALL f 2 a b x", "a b"),
    ("FCALL_RO f 0", ""),
    ("WATCH a b", "a b"),
    ("DUMP k", "k"),
    ("RESTORE k 0 data REPLACE", "k"),
    ("!SPUBLISH c m", "c"),
    ("!SSUBSCRIBE c d", "c d"),
    ("!SUNSUBSCRIBE", ""),
    ("!PUBLISH c m", ""),
    ("!SCAN 0 MATCH k", ""),
    ("!KEYS k*", ""),
    ("!CLUSTER KEYSLOT k", ""),
    ("!CONFIG GET k", ""),
    ("!SCRIPT LOAD s", ""),
    ("!WAIT 1 0", ""),
    // Newer than the server that the rows are checked against.
    ("!MSETEX 2 a 1 b 2 NX EX 5", "a b"),
    ("!HSETEX k FNX FIELDS 1 f v", "k"),
    ("!DELIFEQ k v", "k"),
    ("!XACKDEL k g ACKED IDS 1 1-1", "k"),
    // A subcommand as an argument.
    ("!OBJECT|ENCODING k", "k"),
    ("!XGROUP|CREATE k g $", "k"),
    ("!MEMORY|USAGE k", "k"),
    ("!CLIENT|INFO", ""),
];

/// The specification of a line and its arguments; `OBJECT|FREQ` is the command `OBJECT` with an argument.
fn parse(line: &str) -> (&'static CommandSpec, Vec<&str>) {
    let line = line.trim_start_matches('!');
    let words: Vec<&str> = line.split([' ', '|']).map(|word| if word == "''" { "" } else { word }).collect();
    if !line.contains('|')
        && let [first, second, rest @ ..] = words.as_slice()
        && let Some(spec) = lookup(&format!("{first} {second}"))
    {
        return (spec, rest.to_vec());
    }
    (lookup(words[0]).unwrap_or_else(|| panic!("{line}: unknown")), words[1..].to_vec())
}

#[track_caller]
fn check(line: &str, expected: &str) {
    let (spec, args) = parse(line);
    let command = Command::new(spec).args(args.clone());
    let keys: Vec<&str> = command.key_positions().map(|at| args[at]).collect();
    assert_eq!(keys.join(" "), expected, "{line}");
    assert_eq!(command.slot().is_some(), !keys.is_empty(), "{line}");
    let first = keys.first().map(|key| crate::proto::slot::Slot::of(key.as_bytes()));
    assert_eq!(command.slot(), first, "{line}");
}

#[test]
fn keys_are_where_the_specification_says() {
    for (line, keys) in ROWS {
        check(line, keys);
    }
}

#[test]
fn arguments_that_do_not_fit_yield_no_keys() {
    check("EVAL s 3 a", "");
    check("EVAL s x a", "");
    check("EVAL s", "");
    check("GET", "");
    check("XREAD COUNT 1", "");
    check("XREAD STREAMS", "");
    check("ZUNION 18446744073709551615 a", "");
    check("MIGRATE h 6379", "");
    check("MSETEX 2 a", "");
}

/// The rows as a server sees them.
#[test]
fn live_a_server_agrees() {
    let server = Server::start().unwrap();
    let mut differences = Vec::new();
    for (line, keys) in ROWS.iter().filter(|(line, _)| !line.starts_with('!')) {
        let words = line.split(' ').map(|word| if word == "''" { "" } else { word });
        let words: Vec<&str> = ["COMMAND", "GETKEYS"].into_iter().chain(words).collect();
        let reply = match server.command(&words) {
            Err(error) if error.to_string().contains("The command has no key arguments") => String::new(),
            Ok(Reply::Array(keys)) => keys.iter().map(Reply::text).collect::<Vec<_>>().join(" "),
            other => format!("{other:?}"),
        };
        if reply != *keys {
            differences.push(format!("{line}: we say {keys:?}, the server {reply:?}"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
