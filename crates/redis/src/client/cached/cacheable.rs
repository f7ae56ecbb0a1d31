//! What is to be done with a command: looked up, passed through, refused.

use crate::command::{Arg, Command, Flags};
use crate::error::Misuse;

/// See the module.
pub(super) enum Way<'c, 'a> {
    /// Its reply changes only when this key does.
    Cached(&'c Arg<'a>),
    /// It reads, but the server would not tell when its reply changes.
    Through,
    /// It does not only read.
    Refused(Misuse),
}

pub(super) fn way<'c, 'a>(command: &'c Command<'a>) -> Way<'c, 'a> {
    if let Some(why) = command.refusal() {
        return Way::Refused(Misuse::Argument(why));
    }
    let spec = command.spec();
    if !spec.flags.has(Flags::READONLY) || spec.flags.has(Flags::CONNECTION_STATE) {
        let text = format!("{}: a cache serves commands that only read; use the client for others", spec.name);
        return Way::Refused(Misuse::Arguments(text));
    }
    if spec.flags.has(Flags::BLOCKING) || is_fickle(spec.name) {
        return Way::Through;
    }
    let mut keys = command.key_positions();
    match (keys.next().and_then(|at| command.arguments().get(at)), keys.next()) {
        (Some(key), None) => Way::Cached(key),
        _ => Way::Through,
    }
}

/// Whether two replies may differ though the key has not changed: they depend on time, on chance, on other keys, or on
/// who has read.
fn is_fickle(name: &str) -> bool {
    matches!(
        name,
        "TTL"
            | "PTTL"
            | "HTTL"
            | "HPTTL"
            | "RANDOMKEY"
            | "SRANDMEMBER"
            | "HRANDFIELD"
            | "ZRANDMEMBER"
            | "VRANDMEMBER"
            | "SCAN"
            | "SSCAN"
            | "HSCAN"
            | "ZSCAN"
            | "TOUCH"
            | "OBJECT ENCODING"
            | "OBJECT FREQ"
            | "OBJECT IDLETIME"
            | "OBJECT REFCOUNT"
            | "MEMORY USAGE"
            | "SORT_RO"
            | "XREAD"
            | "XPENDING"
            | "XINFO STREAM"
            | "XINFO GROUPS"
            | "XINFO CONSUMERS"
            | "EVAL_RO"
            | "EVALSHA_RO"
            | "FCALL_RO"
            | "JSON.DEBUG MEMORY"
            | "TS.INFO"
            | "TDIGEST.INFO"
            | "FT.SUGGET"
            | "FT.SUGLEN"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &'static str, expected: &str) {
        let mut words = line.split(' ');
        let name = words.next().unwrap().replace('_', " ");
        let name = if crate::commands::lookup(&name).is_some() { name } else { name.replace(' ', "_") };
        let command = words.fold(Command::raw(&name), Command::arg);
        let found = match way(&command) {
            Way::Cached(key) => format!("key {}", String::from_utf8_lossy(&key.to_bytes())),
            Way::Through => "through".to_owned(),
            Way::Refused(_) => "refused".to_owned(),
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn reads_of_one_key_are_cached() {
        check("GET k", "key k");
        check("HGETALL k", "key k");
        check("ZRANGE k 0 -1", "key k");
        check("EXISTS k", "key k");
        check("MGET k", "key k");
        check("JSON.GET k $.a", "key k");
        check("TS.RANGE k - +", "key k");
        check("BF.EXISTS k x", "key k");
        check("VSIM k ELE e", "key k");
    }

    #[test]
    fn fickle_reads_and_those_of_several_keys_pass_through() {
        check("TTL k", "through");
        check("SRANDMEMBER k", "through");
        check("OBJECT_IDLETIME k", "through");
        check("MGET a b", "through");
        check("DBSIZE", "through");
        check("SINTER a b", "through");
        check("JSON.MGET a b $", "through");
        check("FT.SEARCH index words", "through");
        check("VRANDMEMBER k", "through");
    }

    #[test]
    fn what_writes_or_is_not_known_is_refused() {
        check("SET k v", "refused");
        check("GETEX k", "refused");
        check("SUBSCRIBE c", "refused");
        check("NEW.COMMAND k", "refused");
    }

    #[test]
    fn every_fickle_name_is_a_command() {
        let source = include_str!("cacheable.rs");
        let list = &source[source.find("matches!(").unwrap()..source.find("#[cfg(test)]").unwrap()];
        let names: Vec<_> = list.split('"').skip(1).step_by(2).collect();
        assert!(names.len() > 20);
        for name in names {
            assert!(crate::commands::lookup(name).is_some(), "{name}");
        }
    }
}
