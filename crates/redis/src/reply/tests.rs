//! Each type in the forms of both protocols; the behaviours of the ancestor's `FromRespSpec` under their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Decoder, Frame, Limits};

use super::{
    AutoClaimed, FromReply, GeoFound, GeoPosition, PendingEntry, PendingSummary, ScanReply, StreamEntry, Value,
};
use crate::error::{ReplyError, ServerError};

/// The reply on the wire, with `|` for CR LF.
fn read<T: FromReply>(wire: &str) -> Result<T, ReplyError> {
    let mut input = BytesMut::from(wire.replace('|', "\r\n").as_bytes());
    match Decoder::new(Limits::default()).decode(&mut input) {
        Ok(Some(Frame::Reply(value))) if input.is_empty() => T::from_reply(value),
        other => panic!("{wire}: {other:?}, {} bytes left", input.len()),
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "rows are shorter")]
fn check<T: FromReply + PartialEq + Debug>(wires: &[&str], expected: T) {
    for wire in wires {
        match read::<T>(wire) {
            Ok(value) => assert_eq!(value, expected, "{wire}"),
            Err(error) => panic!("{wire}: {error}"),
        }
    }
}

#[track_caller]
fn check_fails<T: FromReply + Debug>(wires: &[&str]) {
    for wire in wires {
        if let Ok(value) = read::<T>(wire) {
            panic!("{wire} was read as {value:?}");
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// What every type but `Value` and `Result` does with an error.
#[track_caller]
fn check_error<T: FromReply + Debug>() {
    for wire in ["-WRONGTYPE not that|", "!18|WRONGTYPE not that|"] {
        let error = read::<T>(wire).expect_err(std::any::type_name::<T>());
        assert_eq!(error.server.as_ref().map(ServerError::code), Some("WRONGTYPE"));
        assert_eq!(error.found, "an error");
    }
}

#[test]
fn an_error_is_never_a_value() {
    check_error::<()>();
    check_error::<Bytes>();
    check_error::<Option<Bytes>>();
    check_error::<Option<()>>();
    check_error::<String>();
    check_error::<bool>();
    check_error::<i64>();
    check_error::<f64>();
    check_error::<Vec<Bytes>>();
    check_error::<Vec<u8>>();
    check_error::<Vec<Value>>();
    check_error::<HashMap<Bytes, Bytes>>();
    check_error::<HashSet<Bytes>>();
    check_error::<(Bytes, i64)>();
    check_error::<ScanReply<Bytes>>();
    check_error::<StreamEntry>();
    check_error::<GeoFound>();
}

mod from_resp_spec {
    //! The ancestor's behaviours.
    use super::*;

    #[test]
    fn identity() {
        check(&["+OK|"], Value::Simple(bytes("OK")));
        check(&["-ERR x|"], Value::Error(bytes("ERR x")));
        check(&["$-1|", "_|", "*-1|"], Value::Null);
    }

    #[test]
    fn byte_string() {
        check(&["$2|hi|", "+hi|", "=6|txt:hi|"], bytes("hi"));
        check(&[":7|", "$1|7|", "(7|"], bytes("7"));
        check(&["$0||"], Bytes::new());
        check_fails::<Bytes>(&["_|", "$-1|", "*0|", "%0|", "#t|"]);
    }

    #[test]
    fn maybe_byte_string() {
        check(&["$2|hi|", "+hi|"], Some(bytes("hi")));
        check(&["$-1|", "*-1|", "_|"], None::<Bytes>);
        check_fails::<Option<Bytes>>(&["*0|"]);
    }

    #[test]
    fn integer() {
        check(&[":-7|", "$2|-7|", "+-7|", ",-7|", "(-7|"], -7_i64);
        check_fails::<i64>(&["$1|x|", "_|", "*0|", ",1.5|", "$0||", "(9223372036854775808|"]);
    }

    #[test]
    fn boolean() {
        check(&["#t|", ":1|", "+OK|", "$1|1|"], true);
        check(&["#f|", ":0|", "_|", "$-1|", "$1|0|"], false);
        check_fails::<bool>(&[":2|", "+QUEUED|", "$1|x|", "*0|"]);
    }

    #[test]
    fn byte_strings() {
        check(&["*2|$1|a|$1|b|", "~2|$1|a|$1|b|", "*2|+a|+b|"], vec![bytes("a"), bytes("b")]);
        check(&["*0|", "~0|"], Vec::<Bytes>::new());
        check_fails::<Vec<Bytes>>(&["*2|$1|a|$-1|", "$1|a|", "_|", "*-1|", ":1|"]);
    }

    #[test]
    fn replies() {
        check(&["*2|:1|$-1|"], vec![Value::Integer(1), Value::Null]);
    }

    #[test]
    fn unit() {
        check(&["+OK|", ":1|", "$-1|", "*0|"], ());
        check_fails::<()>(&["-ERR no|"]);
    }

    #[test]
    fn text() {
        check(&["$3|h\u{e9}|", "+h\u{e9}|"], String::from("h\u{e9}"));
        check(&["$2|hi|"], Box::<str>::from("hi"));
        let not_utf8 = Value::Bulk(Bytes::from_static(b"\xff"));
        assert_eq!(String::from_reply(not_utf8).unwrap_err().found, "bytes that are not UTF-8");
    }

    #[test]
    fn maybe_text() {
        check(&["$2|hi|"], Some(String::from("hi")));
        check(&["$-1|", "_|"], None::<String>);
    }
}

#[test]
fn integers_of_all_sizes() {
    check(&[":255|"], 255_u8);
    check_fails::<u8>(&[":256|", ":-1|"]);
    check(&[":-128|"], -128_i8);
    check(&["$20|18446744073709551615|", "(18446744073709551615|"], u64::MAX);
    check_fails::<u64>(&[":-1|"]);
    check(&["(170141183460469231731687303715884105727|"], i128::MAX);
    check(&[":9223372036854775807|"], i64::MAX);
    check(&[":6|"], 6_usize);
    check_fails::<i64>(&[",1e300|", ",nan|", ",inf|"]);
}

#[test]
fn doubles() {
    check(&[",1.5|", "$3|1.5|", "+1.5|"], 1.5_f64);
    check(&[",3|", ":3|", "$1|3|"], 3_f64);
    check(&[",inf|", "$3|inf|"], f64::INFINITY);
    check(&[",-inf|", "$4|-inf|"], f64::NEG_INFINITY);
    assert!(read::<f64>(",nan|").unwrap().is_nan());
    assert!(read::<f64>("$3|nan|").unwrap().is_nan());
    check(&[",0.5|"], 0.5_f32);
    check(&["*2|,1.5|_|", "*2|$3|1.5|$-1|"], vec![Some(1.5), None::<f64>]);
    check_fails::<f64>(&["$1|x|", "_|"]);
}

#[test]
fn bytes_are_a_string_and_numbers_are_a_list() {
    check(&["$2|hi|", "+hi|", "=6|txt:hi|"], b"hi".to_vec());
    check(&["*2|:1|:2|"], vec![1_u8, 2]);
    check(&["*2|:1|:2|"], vec![1_i64, 2]);
    check(&["*2|#t|#f|", "*2|:1|:0|"], vec![true, false]);
}

#[test]
fn maps() {
    let wires = ["%2|$1|a|$1|1|$1|b|$1|2|", "*4|$1|a|$1|1|$1|b|$1|2|", "*2|*2|$1|a|$1|1|*2|$1|b|$1|2|"];
    check(&wires, HashMap::from([(bytes("a"), bytes("1")), (bytes("b"), bytes("2"))]));
    check(&wires, BTreeMap::from([(String::from("a"), 1), (String::from("b"), 2)]));
    check(&wires, vec![(bytes("a"), 1_i64), (bytes("b"), 2)]);
    check(&["%0|", "*0|"], HashMap::<Bytes, Bytes>::new());
    check_fails::<HashMap<Bytes, Bytes>>(&["*3|$1|a|$1|1|$1|b|", "$1|a|", "_|"]);
}

#[test]
fn sets() {
    check(&["~2|$1|a|$1|b|", "*2|$1|a|$1|b|"], HashSet::from([bytes("a"), bytes("b")]));
    check(&["~2|:2|:1|", "*2|:2|:1|"], BTreeSet::from([1, 2]));
}

#[test]
fn members_with_scores() {
    let wires = ["*4|$1|a|$1|1|$1|b|$3|2.5|", "*2|*2|$1|a|,1|*2|$1|b|,2.5|"];
    check(&wires, vec![(bytes("a"), 1.0), (bytes("b"), 2.5)]);
    check(&["*0|"], Vec::<(Bytes, f64)>::new());
    check(&["*2|$1|a|$1|1|", "*2|$1|a|,1|", "*1|*2|$1|a|,1|"], vec![(bytes("a"), 1.0)]);
    check_fails::<Vec<(Bytes, f64)>>(&["*3|$1|a|$1|1|$1|b|", "*1|*3|$1|a|,1|:0|"]);
}

#[test]
fn tuples() {
    check(&["*2|$1|k|$1|v|"], Some((bytes("k"), bytes("v"))));
    check(&["*-1|", "_|"], None::<(Bytes, Bytes)>);
    check(&["*3|$1|k|$1|m|,1.5|", "*3|$1|k|$1|m|$3|1.5|"], (bytes("k"), bytes("m"), 1.5));
    check(&["*6|:1|:2|:3|:4|:5|:6|"], (1, 2, 3, 4, 5, 6));
    check(
        &["*2|$1|k|*2|*2|$1|a|,1|*2|$1|b|,2|", "*2|$1|k|*4|$1|a|$1|1|$1|b|$1|2|"],
        (bytes("k"), vec![(bytes("a"), 1.0), (bytes("b"), 2.0)]),
    );
    check_fails::<(i64, i64)>(&["*1|:1|", "*3|:1|:2|:3|", ":1|"]);
}

#[test]
fn errors_as_values() {
    let replies: Vec<Result<i64, ServerError>> = read("*2|:1|-ERR no|").unwrap();
    assert_eq!(replies, [Ok(1), Err(ServerError::parse(b"ERR no"))]);
    check_fails::<Vec<i64>>(&["*2|:1|-ERR no|"]);
}

#[test]
fn attributes_are_looked_through() {
    fn attributed(value: Value) -> Value {
        Value::Attributed(Box::new(pilotlight_resp::Attributed { attributes: Vec::new(), value }))
    }
    assert_eq!(i64::from_reply(attributed(Value::Integer(1))), Ok(1));
    assert_eq!(Bytes::from_reply(attributed(Value::Bulk(bytes("a")))), Ok(bytes("a")));
    assert_eq!(bool::from_reply(attributed(Value::Boolean(true))), Ok(true));
    assert_eq!(Option::<i64>::from_reply(attributed(Value::Null)), Ok(None));
    assert_eq!(Vec::<i64>::from_reply(attributed(Value::Array(vec![Value::Integer(1)]))), Ok(vec![1]));
    assert!(<()>::from_reply(attributed(Value::Error(bytes("ERR x")))).is_err());
}

#[test]
fn scans() {
    let step: ScanReply<Bytes> = read("*2|$2|17|*2|$1|a|$1|b|").unwrap();
    assert_eq!((step.cursor, step.items.len(), step.is_complete()), (17, 2, false));
    check(&["*2|$1|0|*0|"], ScanReply { cursor: 0, items: Vec::<Bytes>::new() });
    check(
        &["*2|$20|18446744073709551615|*2|$1|a|$1|1|"],
        ScanReply { cursor: u64::MAX, items: vec![(bytes("a"), 1.0)] },
    );
}

fn entry(id: &str, field: &str, value: &str) -> StreamEntry {
    StreamEntry { id: bytes(id), fields: vec![(bytes(field), bytes(value))] }
}

#[test]
fn stream_entries() {
    check(&["*1|*2|$3|1-0|*2|$1|f|$1|v|"], vec![entry("1-0", "f", "v")]);
    check(
        &["*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|f|$1|v|", "%1|$1|s|*1|*2|$3|1-0|*2|$1|f|$1|v|"],
        Some(vec![(bytes("s"), vec![entry("1-0", "f", "v")])]),
    );
    check(&["_|", "*-1|"], None::<Vec<(Bytes, Vec<StreamEntry>)>>);
    check(&["*2|$3|1-0|*-1|", "*2|$3|1-0|_|"], StreamEntry { id: bytes("1-0"), fields: Vec::new() });
    check(&["*2|_|*2|$3|2-0|*2|$1|f|$1|v|"], vec![entry("2-0", "f", "v")]);
    assert_eq!(entry("1-0", "f", "v").get("f"), Some(&bytes("v")));
    assert_eq!(entry("1-0", "f", "v").get("g"), None);
}

#[test]
fn claims() {
    let entries = vec![entry("1-0", "f", "v")];
    check(
        &["*3|$3|0-0|*1|*2|$3|1-0|*2|$1|f|$1|v|*1|$3|2-0|"],
        AutoClaimed { cursor: bytes("0-0"), entries, deleted: vec![bytes("2-0")] },
    );
    check(
        &["*2|$3|0-0|*1|$3|1-0|"],
        AutoClaimed { cursor: bytes("0-0"), entries: vec![bytes("1-0")], deleted: Vec::new() },
    );
    check_fails::<AutoClaimed<Bytes>>(&["*1|$3|0-0|"]);
}

#[test]
fn pending_entries() {
    check(
        &["*4|:1|$3|1-0|$3|1-0|*1|*2|$1|c|$1|1|"],
        PendingSummary {
            count: 1,
            lowest: Some(bytes("1-0")),
            highest: Some(bytes("1-0")),
            consumers: vec![(bytes("c"), 1)],
        },
    );
    check(
        &["*4|:0|$-1|$-1|*-1|", "*4|:0|_|_|_|"],
        PendingSummary { count: 0, lowest: None, highest: None, consumers: Vec::new() },
    );
    let pending = PendingEntry { id: bytes("1-0"), consumer: bytes("c"), idle_ms: 74, deliveries: 2 };
    check(&["*1|*4|$3|1-0|$1|c|:74|:2|"], vec![pending]);
}

#[test]
fn geo() {
    let palermo = GeoPosition { longitude: 13.5, latitude: 38.25 };
    check(&["*2|*2|$4|13.5|$5|38.25|*-1|", "*2|*2|,13.5|,38.25|_|"], vec![Some(palermo), None]);
    let found = |distance, hash, position| GeoFound { member: bytes("m"), distance, hash, position };
    check(&["*1|$1|m|", "*1|*1|$1|m|"], vec![found(None, None, None)]);
    check(&["*1|*2|$1|m|$3|1.5|", "*1|*2|$1|m|,1.5|"], vec![found(Some(1.5), None, None)]);
    check(&["*1|*4|$1|m|$3|1.5|:7|*2|$4|13.5|$5|38.25|"], vec![found(Some(1.5), Some(7), Some(palermo))]);
    check(&["*1|*2|$1|m|:7|"], vec![found(None, Some(7), None)]);
}
