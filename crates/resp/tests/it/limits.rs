//! Each limit at it, below it and above it; what is announced too large is refused before it comes.

use bytes::BytesMut;
use pilotlight_resp::DecodeErrorKind::{
    self, BulkTooLong, FrameTooLong, LineEnd, LineTooLong, TooDeep, TooManyElements, UnknownType,
};
use pilotlight_resp::{Attributes, Decoder, Frame, Limits, Value};

use crate::support::{End, decode_every_way};

#[track_caller]
fn allowed(limits: Limits, stream: &[u8]) {
    let end = decode_every_way(stream, limits, Attributes::Keep).end;
    assert_eq!(end, End::Complete, "{}", stream.escape_ascii());
}

/// The stream ends; a reply that exceeds a limit is told of before.
#[track_caller]
fn refused(limits: Limits, stream: &[u8], offset: usize, kind: DecodeErrorKind) {
    match decode_every_way(stream, limits, Attributes::Keep).end {
        End::Malformed(error) => assert_eq!((error.offset, error.kind), (offset, kind), "{}", stream.escape_ascii()),
        end => panic!("{} is {end:?}", stream.escape_ascii()),
    }
}

/// A reply that exceeds a limit costs itself, and not the one behind it.
#[track_caller]
fn over(limits: Limits, reply: &str, limit: DecodeErrorKind) {
    let decoded = decode_every_way(format!("{reply}+next\r\n").as_bytes(), limits, Attributes::Keep);
    let expected = [Frame::Reply(Value::Skipped(limit)), Frame::Reply(Value::Simple("next".into()))];
    assert_eq!((decoded.frames.as_slice(), decoded.end), (&expected[..], End::Complete), "{reply:?}");
}

/// The end of the reply cannot be found: it is told of, and the stream ends.
#[track_caller]
fn endless(limits: Limits, stream: &[u8], offset: usize, kind: DecodeErrorKind) {
    refused(limits, stream, offset, kind);
    let frames = decode_every_way(stream, limits, Attributes::Keep).frames;
    assert_eq!(frames, [Frame::Reply(Value::Skipped(kind))], "{}", stream.escape_ascii());
}

#[track_caller]
fn skipped(limits: Limits, reply: &str) {
    over(limits, reply, TooDeep);
}

#[test]
fn bulk_bytes() {
    let limits = Limits { max_bulk_bytes: 5, ..Limits::default() };
    allowed(limits, b"$4\r\nabcd\r\n");
    allowed(limits, b"$5\r\nabcde\r\n");
    allowed(limits, b"!5\r\nabcde\r\n");
    allowed(limits, b"=5\r\ntxt:a\r\n");
    allowed(limits, b"$?\r\n;2\r\nab\r\n;3\r\ncde\r\n;0\r\n");
    for reply in [
        "$6\r\nabcdef\r\n",
        "$6\r\n\r\n\r\n\r\n\r\n",
        "!6\r\nabcdef\r\n",
        "=6\r\ntxt:ab\r\n",
        "*1\r\n$6\r\nabcdef\r\n",
        "*3\r\n:1\r\n*2\r\n$6\r\nabcdef\r\n*0\r\n%1\r\n$6\r\nabcdef\r\n*-1\r\n",
        "%2\r\n+a\r\n$6\r\nabcdef\r\n|1\r\n+x\r\n+y\r\n+b\r\n_\r\n",
        "|1\r\n+k\r\n$6\r\nabcdef\r\n*1\r\n:1\r\n",
        "|1\r\n+k\r\n+v\r\n$6\r\nabcdef\r\n",
    ] {
        over(limits, reply, BulkTooLong(6));
    }
    endless(limits, b"$?\r\n;2\r\nab\r\n;4\r\n", 12, BulkTooLong(6));
    endless(limits, b"*?\r\n$6\r\n", 4, BulkTooLong(6));
    endless(limits, b"$9999999999999999999\r\n", 0, BulkTooLong(9_999_999_999_999_999_999));
    endless(limits, b"$?\r\n;1\r\na\r\n;9999999999999999999\r\n", 11, BulkTooLong(10_000_000_000_000_000_000));
    // A push answers nobody: its loss is not to go unnoticed.
    refused(limits, b">1\r\n$6\r\n", 4, BulkTooLong(6));
    refused(limits, b"*1\r\n>1\r\n$6\r\n", 8, BulkTooLong(6));
    endless(limits, b"*2\r\n$6\r\nabcdef\r\n>1\r\n", 16, BulkTooLong(6));
    endless(limits, b"*2\r\n$6\r\nabcdef\r\n*1\r\n>1\r\n", 20, BulkTooLong(6));
}

#[test]
fn line_bytes() {
    let limits = Limits { max_line_bytes: 5, ..Limits::default() };
    for kind in ["+", "-", ",", "("] {
        allowed(limits, format!("{kind}1234\r\n").as_bytes());
        allowed(limits, format!("{kind}12345\r\n").as_bytes());
        over(limits, &format!("{kind}123456\r\n"), LineTooLong);
        over(limits, &format!("*2\r\n{kind}1234567890\r\n{kind}123456\r\n"), LineTooLong);
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

/// A reply that exceeds one limit is read over, also where it exceeds others, and read for mistakes.
#[test]
fn the_first_limit_that_a_reply_exceeds_is_told() {
    let limits = Limits { max_depth: 1, max_elements: 4, max_frame_bytes: 40, ..Limits::default() };
    skipped(limits, "*1\r\n*2\r\n:1\r\n:2\r\n");
    skipped(limits, "*1\r\n*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n");
    skipped(limits, "*1\r\n*1\r\n+12345678901234567890123456789012\r\n");
    refused(limits, b"*1\r\n*1\r\nx", 8, UnknownType(b'x'));
    refused(limits, b"*1\r\n*1\r\n*1a\r\n", 8, TooDeep);
    refused(limits, b"*1\r\n*1\r\n$1\r\nab\r\n", 14, LineEnd);
}

/// Of the rest of a reply, 4 GiB are read over, and no more.
#[test]
fn reading_over_a_reply_is_bounded() {
    let limits = Limits { max_bulk_bytes: 5, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    let mut input = BytesMut::from(&b"$4294967280\r\n"[..]);
    assert_eq!((decoder.decode(&mut input), decoder.is_idle(), decoder.wanted()), (Ok(None), false, 0));
    endless(limits, b"$4294967296\r\n", 0, BulkTooLong(4_294_967_296));
    endless(limits, b"*2\r\n$6\r\nabcdef\r\n$4294967286\r\n", 4, BulkTooLong(6));
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
    let five = ":1\r\n:2\r\n$1\r\nx\r\n:4\r\n:5\r\n";
    over(limits, &format!("*5\r\n{five}"), TooManyElements(5));
    over(limits, &format!("~5\r\n{five}"), TooManyElements(5));
    over(limits, &format!("%3\r\n{five}+6\r\n"), TooManyElements(6));
    over(limits, &format!("|3\r\n{five}+6\r\n+OK\r\n"), TooManyElements(6));
    over(limits, "*2\r\n:1\r\n*3\r\n:1\r\n:2\r\n:3\r\n", TooManyElements(3));
    refused(limits, b">5\r\n", 0, TooManyElements(5));
    endless(limits, b"*?\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", 20, TooManyElements(1));
    // Nothing is sized by it.
    refused(limits, b"*9999999999999999999\r\nx", 22, UnknownType(b'x'));
    endless(limits, b"%9999999999999999999\r\n%9999999999999999999\r\n", 22, TooManyElements(u64::MAX));
}

#[test]
fn frame_bytes() {
    let limits = Limits { max_frame_bytes: 12, ..Limits::default() };
    allowed(limits, b"$6\r\nabcdef\r\n+OK\r\n$6\r\nabcdef\r\n");
    allowed(limits, b"*2\r\n:1\r\n:2\r\n");
    allowed(limits, b"+123456789\r\n");
    over(limits, "$7\r\nabcdefg\r\n", FrameTooLong);
    over(limits, "+1234567890\r\n", FrameTooLong);
    over(limits, "*1\r\n$3\r\nabc\r\n", FrameTooLong);
    over(limits, "*2\r\n:1\r\n:12\r\n", FrameTooLong);
    over(limits, "*2\r\n:1\r\n+1234\r\n", FrameTooLong);
    over(limits, "*3\r\n:1\r\n:2\r\n:3\r\n", FrameTooLong);
    over(limits, "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", FrameTooLong);
    endless(limits, b"*?\r\n:1\r\n_\r\n.\r\n", 11, FrameTooLong);
    refused(limits, b">3\r\n", 0, FrameTooLong);
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
