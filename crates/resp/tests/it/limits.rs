//! Each limit at it, below it and above it; what is announced too large is refused before it comes.

use bytes::BytesMut;
use pilotlight_resp::DecodeErrorKind::{
    self, BulkTooLong, FrameTooLong, LineTooLong, TooDeep, TooManyElements, UnknownType,
};
use pilotlight_resp::{Attributes, Decoder, Frame, Limits, Value};

use crate::support::{End, decode_every_way};

#[track_caller]
fn allowed(limits: Limits, stream: &[u8]) {
    let end = decode_every_way(stream, limits, Attributes::Keep).end;
    assert_eq!(end, End::Complete, "{}", stream.escape_ascii());
}

#[track_caller]
fn refused(limits: Limits, stream: &[u8], offset: usize, kind: DecodeErrorKind) {
    match decode_every_way(stream, limits, Attributes::Keep).end {
        End::Malformed(error) => assert_eq!((error.offset, error.kind), (offset, kind), "{}", stream.escape_ascii()),
        end => panic!("{} is {end:?}", stream.escape_ascii()),
    }
}

/// A reply that is too deep costs itself, and not the one behind it.
#[track_caller]
fn skipped(limits: Limits, reply: &str) {
    let decoded = decode_every_way(format!("{reply}+next\r\n").as_bytes(), limits, Attributes::Keep);
    let expected = [Frame::Reply(Value::TooDeep), Frame::Reply(Value::Simple("next".into()))];
    assert_eq!((decoded.frames.as_slice(), decoded.end), (&expected[..], End::Complete), "{reply:?}");
}

#[test]
fn bulk_bytes() {
    let limits = Limits { max_bulk_bytes: 5, ..Limits::default() };
    allowed(limits, b"$4\r\nabcd\r\n");
    allowed(limits, b"$5\r\nabcde\r\n");
    allowed(limits, b"!5\r\nabcde\r\n");
    allowed(limits, b"=5\r\ntxt:a\r\n");
    allowed(limits, b"$?\r\n;2\r\nab\r\n;3\r\ncde\r\n;0\r\n");
    refused(limits, b"$6\r\n", 0, BulkTooLong(6));
    refused(limits, b"!6\r\n", 0, BulkTooLong(6));
    refused(limits, b"=6\r\n", 0, BulkTooLong(6));
    refused(limits, b"*1\r\n$6\r\n", 4, BulkTooLong(6));
    refused(limits, b"$?\r\n;2\r\nab\r\n;4\r\n", 12, BulkTooLong(6));
    refused(limits, b"$9999999999999999999\r\n", 0, BulkTooLong(9_999_999_999_999_999_999));
    refused(limits, b"$?\r\n;1\r\na\r\n;9999999999999999999\r\n", 11, BulkTooLong(10_000_000_000_000_000_000));
}

#[test]
fn line_bytes() {
    let limits = Limits { max_line_bytes: 5, ..Limits::default() };
    for kind in ["+", "-", ",", "("] {
        allowed(limits, format!("{kind}1234\r\n").as_bytes());
        allowed(limits, format!("{kind}12345\r\n").as_bytes());
        refused(limits, format!("{kind}123456").as_bytes(), 0, LineTooLong);
        refused(limits, format!("*1\r\n{kind}123456\r\n").as_bytes(), 4, LineTooLong);
    }
}

#[test]
fn depth() {
    let limits = Limits { max_depth: 2, ..Limits::default() };
    allowed(limits, b":1\r\n");
    allowed(limits, b"*1\r\n:1\r\n");
    allowed(limits, b"*1\r\n%1\r\n:1\r\n:1\r\n");
    allowed(limits, b"*1\r\n*0\r\n");
    allowed(limits, b"*1\r\n$?\r\n;0\r\n");
    allowed(limits, b"|0\r\n*1\r\n:1\r\n");
    for inner in
        ["*1\r\n:1\r\n", "*0\r\n", "~1\r\n:1\r\n", "%1\r\n:1\r\n:1\r\n", "|0\r\n:1\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n"]
    {
        skipped(limits, &format!("*1\r\n*1\r\n{inner}"));
        skipped(limits, &format!("*2\r\n*2\r\n{inner}$3\r\nabc\r\n%1\r\n+k\r\n*2\r\n+v\r\n*1\r\n_\r\n"));
        skipped(limits, &format!("%1\r\n*1\r\n{inner}+v\r\n"));
        skipped(limits, &format!("|1\r\n+a\r\n*1\r\n{inner}:1\r\n"));
        skipped(limits, &format!("|0\r\n|0\r\n{inner}"));
    }
    // Pushes are for everybody, and what has no count has no end that could be found by counting.
    for inner in [">1\r\n", "*?\r\n", "$?\r\n"] {
        refused(limits, format!("*1\r\n*1\r\n{inner}").as_bytes(), 8, TooDeep);
        refused(limits, format!("|0\r\n|0\r\n{inner}").as_bytes(), 8, TooDeep);
        refused(limits, format!("*1\r\n*1\r\n*2\r\n:1\r\n{inner}").as_bytes(), 16, TooDeep);
    }
    refused(limits, b">1\r\n*1\r\n*0\r\n", 8, TooDeep);
    refused(limits, b"*?\r\n*1\r\n*0\r\n", 8, TooDeep);
    let limits = Limits { max_depth: 0, ..Limits::default() };
    allowed(limits, b":1\r\n");
    skipped(limits, "*0\r\n");
    skipped(limits, "*1\r\n:1\r\n");
    skipped(limits, "|1\r\n:1\r\n:2\r\n:3\r\n");
}

/// The other limits hold for what is skipped, too.
#[test]
fn what_is_too_deep_is_bounded() {
    let limits = Limits { max_depth: 1, max_elements: 4, max_frame_bytes: 40, ..Limits::default() };
    skipped(limits, "*1\r\n*2\r\n:1\r\n:2\r\n");
    refused(limits, b"*1\r\n*2\r\n*2\r\n", 8, TooManyElements(2));
    refused(limits, b"*1\r\n*1\r\n+12345678901234567890123456789012", 8, FrameTooLong);
    refused(limits, b"*1\r\n*1\r\nx", 8, UnknownType(b'x'));
}

/// Neither decoding nor dropping a value recurses deeper than the default allows.
#[test]
fn default_depth() {
    allowed(Limits::default(), &[b"*1\r\n".repeat(128), b":1\r\n".to_vec()].concat());
    skipped(Limits::default(), &("*1\r\n".repeat(129) + ":1\r\n"));
    skipped(Limits::default(), &("|0\r\n".repeat(129) + ":1\r\n"));
    skipped(Limits::default(), &("*2\r\n".repeat(200) + ":1\r\n" + &"+a\r\n".repeat(200)));
}

#[test]
fn elements() {
    let limits = Limits { max_elements: 4, ..Limits::default() };
    allowed(limits, b"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n");
    allowed(limits, b"*2\r\n:1\r\n*2\r\n:2\r\n:3\r\n");
    allowed(limits, b"%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n");
    allowed(limits, b"*?\r\n:1\r\n:2\r\n:3\r\n*0\r\n.\r\n");
    refused(limits, b"*5\r\n", 0, TooManyElements(5));
    refused(limits, b"~5\r\n", 0, TooManyElements(5));
    refused(limits, b">5\r\n", 0, TooManyElements(5));
    refused(limits, b"%3\r\n", 0, TooManyElements(6));
    refused(limits, b"|3\r\n", 0, TooManyElements(6));
    refused(limits, b"*2\r\n:1\r\n*3\r\n", 8, TooManyElements(3));
    refused(limits, b"*?\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", 20, TooManyElements(1));
    refused(limits, b"*9999999999999999999\r\n", 0, TooManyElements(9_999_999_999_999_999_999));
    refused(limits, b"%9999999999999999999\r\n", 0, TooManyElements(u64::MAX));
}

#[test]
fn frame_bytes() {
    let limits = Limits { max_frame_bytes: 12, ..Limits::default() };
    allowed(limits, b"$6\r\nabcdef\r\n+OK\r\n$6\r\nabcdef\r\n");
    allowed(limits, b"*2\r\n:1\r\n:2\r\n");
    allowed(limits, b"+123456789\r\n");
    refused(limits, b"$7\r\n", 0, FrameTooLong);
    refused(limits, b"+1234567890", 0, FrameTooLong);
    refused(limits, b"*1\r\n$3\r\n", 4, FrameTooLong);
    refused(limits, b"*2\r\n:1\r\n:12\r\n", 8, FrameTooLong);
    refused(limits, b"*2\r\n:1\r\n+1234", 8, FrameTooLong);
    refused(limits, b"*3\r\n", 0, FrameTooLong);
    refused(limits, b"%2\r\n", 0, FrameTooLong);
    refused(limits, b"*?\r\n:1\r\n_\r\n.\r\n", 11, FrameTooLong);
}

/// No arithmetic on what is announced wraps, whatever the limits are.
#[test]
fn no_limits() {
    let limits = Limits {
        max_bulk_bytes: usize::MAX,
        max_line_bytes: usize::MAX,
        max_depth: usize::MAX,
        max_elements: usize::MAX,
        max_frame_bytes: usize::MAX,
    };
    allowed(limits, b"*2\r\n+a\r\n$1\r\nb\r\n");
    for kind in ["$", "!", "=", "*", "~", "%", "|", ">", "$?\r\n;"] {
        let stream = format!("{kind}9999999999999999999\r\n");
        let end = decode_every_way(stream.as_bytes(), limits, Attributes::Keep).end;
        assert_ne!(end, End::Complete, "{stream}");
    }
}

#[test]
fn wanted_bytes() {
    let mut decoder = Decoder::new(Limits::default());
    let mut input = BytesMut::new();
    let mut wanted = |piece: &[u8]| {
        input.extend_from_slice(piece);
        while decoder.decode(&mut input).unwrap().is_some() {}
        decoder.wanted()
    };
    assert_eq!(wanted(b"$100"), 0);
    assert_eq!(wanted(b"0\r\nab"), 1000);
    assert_eq!(wanted(&[b'x'; 998]), 2);
    assert_eq!(wanted(b"\r"), 1);
    assert_eq!(wanted(b"\n"), 0);
    assert_eq!(wanted(b"*2\r\n:1\r\n$5\r\n"), 7);
    assert_eq!(wanted(b"hello\r\n"), 0);
    assert_eq!(wanted(b"*1000000\r\n"), 0);
    assert_eq!(wanted(b"$?\r\n;4\r\nab"), 4);
}
