//! The scanner beside `serde_json`, on random documents in random pieces.

use proptest::prelude::*;
use serde_json::Value;

use crate::{Found, Invalid, MAX_VALUE, Progress, Scanner};

/// What a scanner finds of `model` and `stream` in a document that comes in pieces of so many bytes.
fn scanned(document: &[u8], pieces: &[usize]) -> (Result<Progress, Invalid>, Option<Found>, Option<Found>) {
    let mut scanner = Scanner::new(["model", "stream"]);
    let (mut rest, mut sizes) = (document, pieces.iter().copied().cycle());
    let mut progress = Ok(Progress::More);
    while !rest.is_empty() && progress == Ok(Progress::More) {
        let (piece, left) = rest.split_at(sizes.next().unwrap_or(rest.len()).clamp(1, rest.len()));
        progress = scanner.feed(piece);
        rest = left;
    }
    (progress, scanner.found("model").cloned(), scanner.found("stream").cloned())
}

#[track_caller]
fn check(document: &str, progress: Result<Progress, Invalid>, model: Option<&str>) {
    for pieces in [&[usize::MAX][..], &[1], &[2, 3]] {
        let (got, found, _) = scanned(document.as_bytes(), pieces);
        let text = match &found {
            Some(Found::Text(text)) => Some(text.as_str()),
            Some(Found::Other) => Some("(other)"),
            None => None,
        };
        assert_eq!((got, text), (progress, model), "{document}");
    }
}

#[test]
fn documents() {
    const DONE: Result<Progress, Invalid> = Ok(Progress::Done);
    const MORE: Result<Progress, Invalid> = Ok(Progress::More);
    const WRONG: Result<Progress, Invalid> = Err(Invalid);
    check(r#" {"model":"a","x":1}"#, DONE, Some("a"));
    check(r#"{"messages":[{"model":"no"},"]}\"",{}],"model" : "a\u00e9\n\ud83d\ude00"}"#, DONE, Some("aé\n😀"));
    check(r#"{"mod\u0065l":"a","stream":true"#, DONE, Some("a"));
    check(r#"{"model":"a","model":"b"}"#, DONE, Some("a"));
    check(r#"{"model":7}"#, DONE, Some("(other)"));
    check(r#"{"model":{"model":"x"}}"#, DONE, Some("(other)"));
    check(r#"{"models":"a","mode":"b","":1}"#, DONE, None);
    check("{}", DONE, None);
    check("\u{feff}{\"model\":\"a\"}", DONE, Some("a"));
    check(" \u{feff}{}", WRONG, None);
    check("\u{feff}\u{feff}{}", WRONG, None);
    check(r#"{"model":"a"#, MORE, None);
    check(r#"{"model":"a""#, MORE, Some("a"));
    check("", MORE, None);
    for wrong in [
        "[]",
        "x",
        "{,}",
        "{1:2}",
        r#"{"a" 1}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":[}"#,
        r#"{"a":[1}]"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        "{\"a\":\"\n\"}",
        r#"{"model":"\ud83d"}"#,
        r#"{"model":"\ud83dx"}"#,
        r#"{"model":"\ude00"}"#,
        r#"{"a":"b" "c":1}"#,
    ] {
        check(wrong, WRONG, None);
    }
    let long = format!(r#"{{"model":"{}","stream":1}}"#, "x".repeat(MAX_VALUE + 1));
    check(&long, DONE, Some("(other)"));
    let deep = |depth| format!(r#"{{"a":{}{},"model":"x","stream":1}}"#, "[".repeat(depth), "]".repeat(depth));
    check(&deep(127), DONE, Some("x"));
    check(&deep(128), WRONG, None);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\\\\\"/\u{0}-\u{1f}é😀]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any_name(), inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![Just("model".to_owned()), Just("stream".to_owned()), any::<String>(), "[a-z\"\\\\]{0,9}"]
}

fn expected(value: Option<&Value>) -> Option<Found> {
    value.map(|value| match value.as_str() {
        Some(text) if text.len() <= MAX_VALUE => Found::Text(text.to_owned()),
        _ => Found::Other,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever an object holds, however it is written and cut: the fields are those that a whole parser finds.
    #[test]
    fn as_a_whole_parser(
        fields in prop::collection::vec((any_name(), any_value()), 0..8),
        pretty in any::<bool>(),
        pieces in prop::collection::vec(1_usize..20, 1..5),
    ) {
        let map: serde_json::Map<String, Value> = fields.into_iter().collect();
        let value = Value::from(map);
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let (progress, model, stream) = scanned(text.as_bytes(), &pieces);
        prop_assert_eq!(progress, Ok(Progress::Done));
        prop_assert_eq!(model, expected(value.get("model")));
        prop_assert_eq!(stream, expected(value.get("stream")));
    }

    /// A damaged document is never read as more than it is, and how it is cut changes nothing.
    #[test]
    fn damaged(
        fields in prop::collection::vec((any_name(), any_value()), 1..6),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        pieces in prop::collection::vec(1_usize..20, 1..5),
    ) {
        let map: serde_json::Map<String, Value> = fields.into_iter().collect();
        let mut bytes = serde_json::to_vec(&Value::from(map)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let whole = scanned(&bytes, &[usize::MAX]);
        prop_assert_eq!(&whole, &scanned(&bytes, &pieces));
        // What a whole parser takes, this takes too, unless fields are there twice: then the first counts here.
        if let Ok(Value::Object(map)) = serde_json::from_slice(&bytes) {
            prop_assert_eq!(whole.0, Ok(Progress::Done));
            let model = whole.1.clone();
            let is_twice = bytes.windows(5).filter(|window| *window == b"model").count() > 1;
            prop_assert!(is_twice || model == expected(map.get("model")), "{:?}", whole);
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = scanned(&bytes, &[3]);
    }
}
