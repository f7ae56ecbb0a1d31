//! Splitting by value, and against a model: parts run on a map give what the whole command would.

use std::collections::HashMap;

use bytes::Bytes;

use super::*;
use crate::command::{Arg, Blocking, Flags};
use crate::error::ServerError;

const fn spec(
    name: &'static str,
    keys: &'static [KeySpec],
    request: RequestPolicy,
    response: ResponsePolicy,
) -> CommandSpec {
    CommandSpec {
        name,
        preamble: b"",
        words: 1,
        arity: -2,
        needs: "",
        flags: Flags::READONLY,
        keys,
        request,
        response,
        blocking: Blocking::No,
    }
}

const fn run(begin: u8, last: i8, step: u8) -> KeySpec {
    KeySpec { begin: BeginSearch::Index(begin), find: FindKeys::Range { last, step, limit: 0 } }
}

const KEYS: &[KeySpec] = &[run(0, -1, 1)];
const PAIRS: &[KeySpec] = &[run(0, -1, 2)];
const COUNTED: &[KeySpec] =
    &[KeySpec { begin: BeginSearch::Index(0), find: FindKeys::KeyNum { number: 0, first: 1, step: 1 } }];

static MGET: CommandSpec = spec("MGET", KEYS, RequestPolicy::MultiShard, ResponsePolicy::Default);
static DEL: CommandSpec = spec("DEL", KEYS, RequestPolicy::MultiShard, ResponsePolicy::AggSum);
static MSET: CommandSpec = spec("MSET", PAIRS, RequestPolicy::MultiShard, ResponsePolicy::AllSucceeded);
static MSETNX: CommandSpec = spec("MSETNX", PAIRS, RequestPolicy::Default, ResponsePolicy::Default);
static JSON_MGET: CommandSpec = spec("JSON.MGET", &[run(0, -2, 1)], RequestPolicy::MultiShard, ResponsePolicy::Default);
static PREFIXED: CommandSpec = spec("PREFIXED", &[run(1, -1, 1)], RequestPolicy::MultiShard, ResponsePolicy::Default);
static COUNTING: CommandSpec = spec("MSETEX", COUNTED, RequestPolicy::MultiShard, ResponsePolicy::AllSucceeded);
static KEYLESS: CommandSpec = spec("DBSIZE", &[], RequestPolicy::AllShards, ResponsePolicy::AggSum);

fn command<'a>(spec: &'static CommandSpec, arguments: &[&'a str]) -> Command<'a> {
    arguments.iter().fold(Command::new(spec), |command, argument| command.arg(*argument))
}

fn words(command: &Command<'_>) -> Vec<String> {
    command.arguments().iter().map(|arg| String::from_utf8(arg.to_bytes().into_owned()).unwrap()).collect()
}

fn split<'a>(spec: &'static CommandSpec, arguments: &[&'a str]) -> Split<'a> {
    match route(&command(spec, arguments)) {
        Ok(Route::Split(split)) => split,
        other => panic!("{other:?}"),
    }
}

/// The parts, with tags that put them into slots of this order: `{b}` 3300 < `{c}` 7365 < `{a}` 15495.
#[track_caller]
fn check_parts(spec: &'static CommandSpec, arguments: &[&str], expected: &[&[&str]]) {
    let parts = split(spec, arguments).parts;
    for part in &parts {
        assert!(part.command.key_positions().all(|at| Command::slot_of(&part.command.arguments()[at]) == part.slot));
    }
    assert_eq!(parts.iter().map(|part| words(&part.command)).collect::<Vec<_>>(), expected);
}

fn int(number: i64) -> Value {
    Value::Integer(number)
}

fn array<const N: usize>(items: [i64; N]) -> Value {
    Value::Array(items.map(int).into())
}

fn ok() -> Value {
    Value::Simple(Bytes::from_static(b"OK"))
}

#[test]
fn keys_are_grouped_by_slot_in_their_order() {
    check_parts(&MGET, &["{a}1", "{b}1", "{a}2", "{c}1", "{b}2"], &[&["{b}1", "{b}2"], &["{c}1"], &["{a}1", "{a}2"]]);
}

#[test]
fn values_go_with_their_keys() {
    check_parts(&MSET, &["{a}1", "x", "{b}1", "y", "{a}1", "z"], &[&["{b}1", "y"], &["{a}1", "x", "{a}1", "z"]]);
}

#[test]
fn other_arguments_go_to_each_part() {
    check_parts(&JSON_MGET, &["{a}1", "{b}1", "$.path"], &[&["{b}1", "$.path"], &["{a}1", "$.path"]]);
    check_parts(&PREFIXED, &["option", "{a}1", "{b}1"], &[&["option", "{b}1"], &["option", "{a}1"]]);
}

#[test]
fn one_slot_is_not_split() {
    assert!(matches!(route(&command(&MGET, &["{a}1", "{a}2"])), Ok(Route::Slot(slot)) if slot == Slot::of(b"a")));
    assert!(matches!(route(&command(&MSETNX, &["{a}1", "x", "{a}2", "y"])), Ok(Route::Slot(_))));
    assert!(matches!(route(&command(&COUNTING, &["2", "{a}1", "{a}2"])), Ok(Route::Slot(_))));
    assert!(matches!(route(&command(&KEYLESS, &[])), Ok(Route::Keyless)));
    assert!(matches!(route(&command(&MGET, &[])), Ok(Route::Keyless)));
}

#[test]
fn what_cannot_be_split_is_refused_with_both_slots() {
    let expected = Misuse::CrossSlot { first: Slot::of(b"a").number(), second: Slot::of(b"b").number() };
    assert_eq!(route(&command(&MSETNX, &["{a}1", "x", "{b}1", "y"])).unwrap_err(), expected);
    assert_eq!(route(&command(&COUNTING, &["2", "{a}1", "{b}1"])).unwrap_err(), expected);
    assert_eq!(route(&command(&MSET, &["{a}1", "x", "{b}1"])).unwrap_err(), expected);
}

#[test]
fn arguments_are_not_copied() {
    let (first, second) = (String::from("{a}1"), Bytes::from_static(b"{b}1"));
    let whole = Command::new(&MGET).arg(&first).arg(&second);
    let Ok(Route::Split(split)) = route(&whole) else { panic!() };
    let [Arg::Shared(of_b)] = split.parts[0].command.arguments() else { panic!() };
    let [Arg::Borrowed(of_a)] = split.parts[1].command.arguments() else { panic!() };
    assert_eq!((of_a.as_ptr(), of_b.as_ptr()), (first.as_ptr(), second.as_ptr()));
}

#[test]
fn elements_come_back_in_the_order_of_the_keys() {
    let join = split(&MGET, &["{a}1", "{b}1", "{a}2", "{b}2"]).join;
    let replies: Vec<Result<Value, ()>> = vec![Ok(array([10, 20])), Ok(array([1, 2]))];
    assert_eq!(join.join(replies), Ok(array([1, 10, 2, 20])));
}

#[test]
fn numbers_are_added_and_statuses_united() {
    let join = split(&DEL, &["{a}1", "{b}1"]).join;
    assert_eq!(join.join::<()>(vec![Ok(int(1)), Ok(int(2))]), Ok(int(3)));
    let join = split(&MSET, &["{a}1", "x", "{b}1", "y"]).join;
    assert_eq!(join.join::<()>(vec![Ok(ok()), Ok(ok())]), Ok(ok()));
}

#[test]
fn each_key_keeps_its_own_outcome() {
    let join = split(&MGET, &["{a}1", "{b}1", "{a}2"]).join;
    let partial = join.join(vec![Err("lost"), Ok(array([1, 2]))]).unwrap_err();
    assert_eq!(partial.len(), 3);
    assert_eq!(partial.key(0), Some(Ok(&int(1))));
    assert_eq!(partial.key(1), Some(Err(&Cause::Failed("lost"))));
    assert_eq!(partial.key(2), Some(Ok(&int(2))));
    assert_eq!(partial.key(3), None);
    assert_eq!(partial.failures().collect::<Vec<_>>(), [(0, &Cause::Failed("lost"))]);
    assert_eq!(partial.into_first(), Some((0, Cause::Failed("lost"))));
}

#[test]
fn a_servers_error_is_of_the_keys_of_its_part() {
    let join = split(&DEL, &["{a}1", "{b}1", "{a}2"]).join;
    let denied = Value::Error(Bytes::from_static(b"NOPERM no"));
    let partial = join.join::<()>(vec![Ok(int(1)), Ok(denied)]).unwrap_err();
    let error = Cause::Server(ServerError::parse(b"NOPERM no"));
    assert_eq!([0, 1, 2].map(|key| partial.key(key).unwrap()), [Err(&error), Ok(&int(1)), Err(&error)]);
}

#[test]
fn a_reply_of_another_shape_is_a_failure_of_its_part() {
    let shape = |expected, found| Cause::<()>::Shape { expected, found };
    let first = |spec, arguments: &[&str], replies| {
        split(spec, arguments).join.join(replies).unwrap_err().into_first().unwrap()
    };
    let elements = "an array with an element for each key";
    assert_eq!(first(&MGET, &["{a}1", "{b}1"], vec![Ok(array([1])), Ok(array([1, 2]))]), (1, shape(elements, "array")));
    assert_eq!(first(&MGET, &["{a}1", "{b}1"], vec![Ok(int(1)), Ok(array([1]))]), (0, shape(elements, "integer")));
    assert_eq!(first(&MGET, &["{a}1", "{b}1"], vec![Ok(array([1]))]), (1, shape("a reply", "nothing")));
    assert_eq!(first(&DEL, &["{a}1", "{b}1"], vec![Ok(int(1)), Ok(ok())]), (1, shape("an integer", "simple string")));
}

proptest::proptest! {
    #[test]
    fn parts_together_do_what_the_whole_would(keys in proptest::collection::vec("[a-c]{1,2}|\\{[a-c]\\}[a-c]?", 2..24)) {
        let store: HashMap<&str, i64> = keys.iter().map(String::as_str).zip(0..).collect();
        let arguments: Vec<&str> = keys.iter().map(String::as_str).collect();
        let whole = Value::Array(arguments.iter().map(|key| int(store[key])).collect());
        if let Route::Split(split) = route(&command(&MGET, &arguments)).unwrap() {
            let run = |part: &Part<'_>| Ok::<_, ()>(Value::Array(words(&part.command).iter().map(|key| int(store[key.as_str()])).collect()));
            let replies = split.parts.iter().map(run).collect();
            proptest::prop_assert!(split.parts.is_sorted_by(|a, b| a.slot < b.slot));
            proptest::prop_assert_eq!(split.join.join(replies), Ok(whole));
        }
    }
}
