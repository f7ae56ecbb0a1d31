//! What is not RESP: which error, and where, however the stream is cut.

use pilotlight_resp::DecodeErrorKind::{
    self, BigNumber, Boolean, Chunk, Double, End as Marker, Integer, Length, LineEnd, UnknownType, Verbatim,
};
use pilotlight_resp::{Attributes, Limits};

use crate::reference::{self, Stop};
use crate::support::*;

#[track_caller]
fn check(stream: &[u8], offset: usize, kind: DecodeErrorKind) {
    let shown = stream.escape_ascii();
    match decode_every_way(stream, Limits::default(), Attributes::Discard).end {
        End::Malformed(error) => assert_eq!((error.offset, error.kind), (offset, kind), "{shown}"),
        end => panic!("{shown} is {end:?}"),
    }
    assert_eq!(reference::parse(stream).1, Err(Stop::Malformed), "the reference on {shown}");
}

#[test]
fn types() {
    check(b"hello\r\n", 0, UnknownType(b'h'));
    check(b"\r\n", 0, UnknownType(b'\r'));
    check(b"\0", 0, UnknownType(0));
    check(b"+OK\r\n;1\r\n", 0, UnknownType(b';'));
    check(b"*2\r\n:1\r\nGET\r\n", 8, UnknownType(b'G'));
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0, UnknownType(b'H'));
}

#[test]
fn line_ends() {
    check(b"+a\nb\r\n", 2, LineEnd);
    check(b"+a\rb\r\n", 2, LineEnd);
    check(b"+OK\n\r\n", 3, LineEnd);
    check(b":1\rx", 2, LineEnd);
    check(b":1\n\r\n", 2, Integer);
    check(b"_x\r\n", 1, LineEnd);
    check(b"#tt\r\n", 2, LineEnd);
    check(b"$3\r\nabcd\r\n", 7, LineEnd);
    check(b"$3\r\nabc\n\r", 7, LineEnd);
    check(b"$0\r\nab", 4, LineEnd);
    check(b"$-1x\r\n", 3, LineEnd);
    check(b"$-12\r\n", 3, LineEnd);
    check(b"$?x\r\n", 2, LineEnd);
    check(b"*?\r\n.x\r\n", 5, LineEnd);
    check(b"*-1\n\r\n", 3, LineEnd);
}

#[test]
fn numbers() {
    check(b":\r\n", 1, Integer);
    check(b":-\r\n", 2, Integer);
    check(b":+-1\r\n", 2, Integer);
    check(b":1a\r\n", 2, Integer);
    check(b":1.0\r\n", 2, Integer);
    check(b": 1\r\n", 1, Integer);
    check(b":9223372036854775808\r\n", 1, Integer);
    check(b":-9223372036854775809\r\n", 2, Integer);
    check(b":00000000000000000000\r\n", 1, Integer);
    check(b"#x\r\n", 1, Boolean);
    check(b"#\r\n", 1, Boolean);
    for text in ["", ".", "e5", "1.2.3", "1e", "infinity", "Inf", "NaN", "0x1", "1_0", " 1", "--1"] {
        check(format!(",{text}\r\n").as_bytes(), 1, Double);
    }
    for text in ["", "-", "+", "1a", "1.0", "--1"] {
        check(format!("({text}\r\n").as_bytes(), 1, BigNumber);
    }
}

#[test]
fn lengths() {
    for kind in ["$", "!", "=", "*", "~", "%", "|", ">"] {
        check(format!("{kind}\r\n").as_bytes(), 1, Length);
        check(format!("{kind}x\r\n").as_bytes(), 1, Length);
        check(format!("{kind}+1\r\n").as_bytes(), 1, Length);
        check(format!("{kind}1x\r\n").as_bytes(), 2, Length);
        check(format!("{kind}-2\r\n").as_bytes(), 1, Length);
        check(format!("{kind}-0\r\n").as_bytes(), 1, Length);
        check(format!("{kind}00000000000000000001\r\n").as_bytes(), 1, Length);
    }
    for kind in ["!", "=", "~", "%", "|", ">"] {
        check(format!("{kind}-1\r\n").as_bytes(), 1, Length);
    }
    for kind in ["!", "=", "|", ">"] {
        check(format!("{kind}?\r\n").as_bytes(), 1, Length);
    }
}

#[test]
fn verbatim_strings() {
    check(b"=3\r\ntxt\r\n", 1, Verbatim);
    check(b"=0\r\n\r\n", 1, Verbatim);
    check(b"=5\r\ntxt-x\r\n", 0, Verbatim);
    check(b"*1\r\n=5\r\ntext:\r\n", 4, Verbatim);
}

#[test]
fn streams() {
    check(b".\r\n", 0, Marker);
    check(b"*1\r\n.\r\n", 4, Marker);
    check(b"*?\r\n*1\r\n.\r\n", 8, Marker);
    check(b"%?\r\n:1\r\n.\r\n", 8, Marker);
    check(b"*?\r\n|0\r\n.\r\n", 8, Marker);
    check(b">1\r\n.\r\n", 4, Marker);
    check(b"$?\r\n:1\r\n", 4, Chunk);
    check(b"$?\r\n.\r\n", 4, Chunk);
    check(b"$?\r\n>1\r\n:1\r\n;0\r\n", 4, Chunk);
    check(b"$?\r\n;1\r\na\r\n$1\r\nb\r\n", 11, Chunk);
    check(b"$?\r\n;-1\r\n", 5, Length);
    check(b"$?\r\n;?\r\n", 5, Length);
    check(b"$?\r\n;1\r\nab\r\n", 9, LineEnd);
}

/// What came before an error is delivered.
#[test]
fn frames_before_an_error() {
    let decoded = decode(b"+OK\r\n*2\r\n>1\r\n:7\r\nx");
    assert_eq!(decoded.frames, [pilotlight_resp::Frame::Reply(simple("OK")), push([int(7)])]);
    assert!(matches!(decoded.end, End::Malformed(_)));
}
