//! The table as a whole.

use crate::command::{BeginSearch, Blocking, Flags, RequestPolicy, ResponsePolicy};
use crate::commands::{lookup, spec};

#[test]
fn names_are_sorted_and_found_in_any_case() {
    assert!(spec::ALL.is_sorted_by(|a, b| a.name < b.name));
    for spec in spec::ALL {
        let mixed: String =
            spec.name.char_indices().map(|(at, c)| if at % 2 == 0 { c.to_ascii_lowercase() } else { c }).collect();
        for name in [spec.name, &spec.name.to_lowercase(), &mixed] {
            let found = lookup(name).unwrap_or_else(|| panic!("{name} is not found"));
            assert!(std::ptr::eq(found, *spec), "{name}");
        }
    }
}

#[test]
fn unknown_names_are_not_found() {
    for name in ["", "GE", "GETT", "FT.NONE", "CLIENT  INFO", "CLIENT NOSUCH", "zzz", " GET"] {
        assert!(lookup(name).is_none(), "{name}");
    }
}

#[test]
fn preambles_say_the_name() {
    for spec in spec::ALL {
        let expected: String = spec.name.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        assert_eq!(spec.preamble, expected.as_bytes(), "{}", spec.name);
        assert_eq!(usize::from(spec.words), spec.name.split(' ').count(), "{}", spec.name);
        assert!(spec.arity.unsigned_abs() >= spec.words, "{}: arity {}", spec.name, spec.arity);
    }
}

#[test]
fn what_blocks_says_for_how_long() {
    for spec in spec::ALL {
        assert_eq!(spec.flags.has(Flags::BLOCKING), spec.blocking != Blocking::No, "{}", spec.name);
    }
    assert_eq!(spec::BLPOP.blocking, Blocking::Seconds(-1));
    assert_eq!(spec::BLMPOP.blocking, Blocking::Seconds(0));
    assert_eq!(spec::WAIT.blocking, Blocking::Milliseconds(1));
    assert_eq!(spec::XREADGROUP.blocking, Blocking::MillisecondsAfter("BLOCK"));
}

#[test]
fn nothing_both_reads_only_and_writes() {
    for spec in spec::ALL {
        assert!(!spec.flags.has(Flags::READONLY.and(Flags::WRITE)), "{}", spec.name);
        assert!(!spec.flags.has(Flags::READONLY.and(Flags::CONNECTION_STATE)), "{}", spec.name);
    }
}

#[test]
fn what_changes_its_connection_is_marked() {
    for spec in
        [&spec::SUBSCRIBE, &spec::MULTI, &spec::WATCH, &spec::SELECT, &spec::CLIENT_REPLY, &spec::CLIENT, &spec::HELLO]
    {
        assert!(spec.flags.has(Flags::CONNECTION_STATE), "{}", spec.name);
    }
    for spec in [&spec::GET, &spec::CLIENT_INFO, &spec::PUBLISH, &spec::SPUBLISH, &spec::SCRIPT_LOAD, &spec::COMMAND] {
        assert!(!spec.flags.has(Flags::CONNECTION_STATE), "{}", spec.name);
    }
}

#[test]
fn policies_are_the_servers() {
    assert_eq!((spec::GET.request, spec::GET.response), (RequestPolicy::Default, ResponsePolicy::Default));
    assert_eq!((spec::MGET.request, spec::MGET.response), (RequestPolicy::MultiShard, ResponsePolicy::Default));
    assert_eq!((spec::DEL.request, spec::DEL.response), (RequestPolicy::MultiShard, ResponsePolicy::AggSum));
    assert_eq!((spec::MSET.request, spec::MSET.response), (RequestPolicy::MultiShard, ResponsePolicy::AllSucceeded));
    assert_eq!((spec::DBSIZE.request, spec::DBSIZE.response), (RequestPolicy::AllShards, ResponsePolicy::AggSum));
    assert_eq!((spec::WAIT.request, spec::WAIT.response), (RequestPolicy::AllShards, ResponsePolicy::AggMin));
    assert_eq!(spec::CONFIG_SET.request, RequestPolicy::AllNodes);
    assert_eq!(spec::SCAN.request, RequestPolicy::Special);
    assert_eq!(spec::SCRIPT_EXISTS.response, ResponsePolicy::AggLogicalAnd);
    assert_eq!(spec::FUNCTION_KILL.response, ResponsePolicy::OneSucceeded);
}

#[test]
fn what_is_split_by_slot_has_its_keys_first() {
    for spec in spec::ALL.iter().filter(|spec| spec.request == RequestPolicy::MultiShard) {
        assert_eq!(spec.keys.len(), 1, "{}", spec.name);
        assert_eq!(spec.keys[0].begin, BeginSearch::Index(0), "{}", spec.name);
    }
}
