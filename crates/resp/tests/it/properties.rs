//! decode(encode(x)) = x, and decode(any chunking) = decode(whole) = the reference.

use bytes::Bytes;
use pilotlight_resp::{Attributed, Attributes, Frame, Limits, Protocol, Value, encode};
use proptest::prelude::*;

use crate::reference::{self, Stop};
use crate::support::{End, decode, decode_pieces, same};

/// Values without pushes, which are no values when they are decoded.
fn values() -> impl Strategy<Value = Value> {
    let text = || "[^\r\n]{0,12}".prop_map(Bytes::from);
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let scalars = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        any::<bool>().prop_map(Value::Boolean),
        any::<f64>().prop_map(Value::Double),
        proptest::num::f64::ANY.prop_map(Value::Double),
        "[+-]?[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into())),
        prop_oneof![text(), Just("OK".into()), Just("QUEUED".into())].prop_map(Value::Simple),
        bytes().prop_map(Value::Bulk),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| Value::Verbatim { format, text }),
        prop_oneof![text(), bytes()].prop_map(Value::Error),
    ];
    scalars.prop_recursive(4, 64, 6, |inner| {
        let pairs = || proptest::collection::vec((inner.clone(), inner.clone()), 0..4);
        let items = || proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            items().prop_map(Value::Array),
            items().prop_map(Value::Set),
            pairs().prop_map(Value::Map),
            (pairs(), inner.clone())
                .prop_map(|(attributes, value)| Value::Attributed(Box::new(Attributed { attributes, value }))),
        ]
    })
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let push = proptest::collection::vec(values(), 0..4).prop_map(Frame::Push);
    proptest::collection::vec(prop_oneof![4 => values().prop_map(Frame::Reply), 1 => push], 0..6)
}

fn encode_frames(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        match frame {
            Frame::Reply(value) => encode::value(&mut out, value, Protocol::Resp3),
            Frame::Push(items) => encode::value(&mut out, &Value::Push(items.clone()), Protocol::Resp3),
        }
    }
    out
}

/// Cuts a stream at the given places.
fn cut<'a>(mut stream: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in lens.iter().cycle().take(if lens.is_empty() { 0 } else { stream.len() }) {
        let (piece, rest) = stream.split_at((*len).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}

/// Streams made of the pieces that RESP is made of, so that many of them are nearly right.
fn junk() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        "[$*~%|>!=:;]-?[0-9?]{0,2}\r\n",
        "[-+_#,(.][a-z0-9+.-]{0,4}\r\n",
        "[a-z]{0,4}\r\n",
        "[$*:+.;\r\n0-9-]",
        Just("$1\r\na\r\n".to_owned()),
        Just(":1\r\n".to_owned()),
        Just(".\r\n".to_owned()),
        Just("_\r\n".to_owned()),
    ];
    let tokens = proptest::collection::vec(token.prop_map(String::into_bytes), 0..12);
    prop_oneof![8 => tokens.prop_map(|tokens| tokens.concat()), 1 => proptest::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(frames in frames(), lens in proptest::collection::vec(1usize..30, 0..8)) {
        let stream = encode_frames(&frames);
        let decoded = decode_pieces(cut(&stream, &lens), Limits::default(), Attributes::Keep);
        same(&decoded.frames, &frames, stream.escape_ascii());
        prop_assert_eq!(decoded.end, End::Complete);
    }

    #[test]
    fn the_reference_agrees(stream in junk()) {
        let decoded = decode(&stream);
        let (frames, end) = reference::parse(&stream);
        same(&decoded.frames, &frames, stream.escape_ascii());
        match end {
            Ok(()) => prop_assert_eq!(decoded.end, End::Complete),
            Err(Stop::Malformed) => prop_assert!(matches!(decoded.end, End::Malformed(_)), "{:?}", decoded),
            // The reference looks at whole lines and has no limits: the decoder may know better.
            Err(Stop::Incomplete) => prop_assert_ne!(decoded.end, End::Complete),
        }
    }

    #[test]
    fn cutting_changes_nothing(stream in junk(), lens in proptest::collection::vec(1usize..8, 1..6)) {
        let limits = Limits { max_bulk_bytes: 30, max_line_bytes: 4, max_depth: 3, max_elements: 12, max_frame_bytes: 60 };
        for limits in [Limits::default(), limits] {
            let whole = decode_pieces([&stream[..]], limits, Attributes::Keep);
            let pieces = decode_pieces(cut(&stream, &lens), limits, Attributes::Keep);
            same(&pieces, &whole, stream.escape_ascii());
        }
    }

    #[test]
    fn what_is_too_deep_costs_itself(value in values(), max_depth in 0usize..4, lens in proptest::collection::vec(1usize..8, 1..6)) {
        let mut out = Vec::new();
        encode::value(&mut out, &value, Protocol::Resp3);
        let limits = Limits { max_depth, ..Limits::default() };
        let alone = decode_pieces([&out[..]], Limits::default(), Attributes::Keep).frames;
        out.extend_from_slice(b"+next\r\n");
        let decoded = decode_pieces(cut(&out, &lens), limits, Attributes::Keep);
        prop_assert_eq!(decoded.end, End::Complete);
        prop_assert_eq!(decoded.frames.len(), alone.len() + 1);
        same(&decoded.frames[alone.len()..].to_vec(), &vec![Frame::Reply(Value::Simple("next".into()))], out.escape_ascii());
        if !matches!(decoded.frames[0], Frame::Reply(Value::Skipped(_))) {
            same(&decoded.frames[..alone.len()].to_vec(), &alone, out.escape_ascii());
        }
    }

    #[test]
    fn resp2_is_read_as_what_it_can_say(value in values()) {
        let mut out = Vec::new();
        encode::value(&mut out, &value, Protocol::Resp2);
        let decoded = decode(&out);
        prop_assert_eq!(decoded.end, End::Complete);
        same(&decoded.frames, &vec![Frame::Reply(downgrade(value))], out.escape_ascii());
    }
}

/// What is left of a value in RESP2.
fn downgrade(value: Value) -> Value {
    match value {
        Value::Boolean(yes) => Value::Integer(yes.into()),
        Value::Double(n) if n.is_nan() => Value::Bulk("nan".into()),
        Value::Double(n) => {
            let text = ryu::Buffer::new().format(n).to_owned();
            Value::Bulk(text.strip_suffix(".0").unwrap_or(&text).to_owned().into())
        }
        Value::BigNumber(text) | Value::Verbatim { text, .. } => Value::Bulk(text),
        Value::Error(text) => {
            let clean = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
            Value::Error(text.iter().map(clean).collect())
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            Value::Array(items.into_iter().map(downgrade).collect())
        }
        Value::Map(pairs) => {
            Value::Array(pairs.into_iter().flat_map(|(key, item)| [downgrade(key), downgrade(item)]).collect())
        }
        Value::Attributed(attributed) => downgrade(attributed.value),
        other => other,
    }
}
