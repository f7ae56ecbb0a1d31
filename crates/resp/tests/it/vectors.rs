//! Bytes and the frames that they are, in one piece and in any two, against the expected and the reference.

use pilotlight_resp::{Attributes, Frame, Limits, Value};

use crate::reference::{self, Stop};
use crate::support::*;

#[track_caller]
fn check(stream: &[u8], expected: &[Frame]) {
    let decoded = decode_every_way(stream, Limits::default(), Attributes::Keep);
    same(&decoded.frames, &expected.to_vec(), stream.escape_ascii());
    assert_eq!(decoded.end, End::Complete, "{}", stream.escape_ascii());
    same(&reference::parse(stream), &(expected.to_vec(), Ok::<(), Stop>(())), "the reference");
    for len in 0..stream.len() {
        let part = decode(&stream[..len]);
        let (frames, end) = reference::parse(&stream[..len]);
        same(&part.frames, &frames, format_args!("the first {len} bytes"));
        assert_eq!(part.end == End::Complete, end.is_ok(), "the first {len} bytes of {}", stream.escape_ascii());
        assert!(!matches!(part.end, End::Malformed(_)), "{part:?}");
    }
}

#[track_caller]
fn reply(stream: &[u8], expected: Value) {
    check(stream, &[Frame::Reply(expected)]);
}

#[test]
fn nulls() {
    reply(b"_\r\n", Value::Null);
    reply(b"$-1\r\n", Value::Null);
    reply(b"*-1\r\n", Value::Null);
    reply(b"*3\r\n$-1\r\n*-1\r\n_\r\n", array([Value::Null, Value::Null, Value::Null]));
}

#[test]
fn integers() {
    reply(b":0\r\n", int(0));
    reply(b":+5\r\n", int(5));
    reply(b":-0\r\n", int(0));
    reply(b":007\r\n", int(7));
    reply(b":-42\r\n", int(-42));
    reply(b":9223372036854775807\r\n", int(i64::MAX));
    reply(b":-9223372036854775808\r\n", int(i64::MIN));
}

#[test]
fn booleans() {
    reply(b"#t\r\n", Value::Boolean(true));
    reply(b"#f\r\n", Value::Boolean(false));
}

#[test]
fn doubles() {
    for (stream, expected) in [
        (&b",1.5\r\n"[..], 1.5),
        (b",10\r\n", 10.0),
        (b",-0\r\n", -0.0),
        (b",+1.25\r\n", 1.25),
        (b",1e3\r\n", 1000.0),
        (b",-2.5E-3\r\n", -0.0025),
        (b",1e+2\r\n", 100.0),
        (b",1.7976931348623157e308\r\n", f64::MAX),
        (b",inf\r\n", f64::INFINITY),
        (b",+inf\r\n", f64::INFINITY),
        (b",-inf\r\n", f64::NEG_INFINITY),
        (b",nan\r\n", f64::NAN),
        (b",-nan\r\n", f64::NAN),
    ] {
        let decoded = decode_every_way(stream, Limits::default(), Attributes::Keep);
        same(&decoded.frames, &vec![Frame::Reply(Value::Double(expected))], stream.escape_ascii());
    }
    reply(b",0.1\r\n", Value::Double(0.1));
}

#[test]
fn big_numbers() {
    reply(b"(3492890328409238509324850943850943825024385\r\n", big("3492890328409238509324850943850943825024385"));
    reply(b"(-1\r\n", big("-1"));
    reply(b"(+1\r\n", big("+1"));
}

#[test]
fn lines() {
    reply(b"+OK\r\n", simple("OK"));
    reply(b"+QUEUED\r\n", simple("QUEUED"));
    reply(b"+PONG\r\n", simple("PONG"));
    reply(b"+O\r\n", simple("O"));
    reply(b"+OKAY\r\n", simple("OKAY"));
    reply(b"+\r\n", simple(""));
    reply("+grüße\r\n".as_bytes(), simple("grüße"));
    reply(b"-ERR unknown command\r\n", error("ERR unknown command"));
    reply(b"-MOVED 3999 127.0.0.1:6381\r\n", error("MOVED 3999 127.0.0.1:6381"));
    reply(b"-\r\n", error(""));
}

#[test]
fn strings() {
    reply(b"$5\r\nhello\r\n", bulk("hello"));
    reply(b"$0\r\n\r\n", bulk(""));
    reply(b"$2\r\n\r\n\r\n", bulk("\r\n"));
    reply(b"$007\r\n$3\r\nab\r\r\n", bulk("$3\r\nab\r"));
    reply(b"!22\r\nSYNTAX invalid\r\nsyntax\r\n", error("SYNTAX invalid\r\nsyntax"));
    reply(b"!0\r\n\r\n", error(""));
    reply(b"=15\r\ntxt:Some string\r\n", verbatim(b"txt", "Some string"));
    reply(b"=4\r\nmkd:\r\n", verbatim(b"mkd", ""));
}

#[test]
fn streamed_strings() {
    reply(b"$?\r\n;4\r\nHell\r\n;6\r\no worl\r\n;1\r\nd\r\n;0\r\n", bulk("Hello world"));
    reply(b"$?\r\n;0\r\n", bulk(""));
    reply(b"*2\r\n$?\r\n;2\r\n\r\n\r\n;0\r\n:1\r\n", array([bulk("\r\n"), int(1)]));
    reply(b"%1\r\n$?\r\n;1\r\nk\r\n;0\r\n$?\r\n;1\r\nv\r\n;00\r\n", map([(bulk("k"), bulk("v"))]));
}

#[test]
fn aggregates() {
    reply(b"*0\r\n", array([]));
    reply(b"~0\r\n", set([]));
    reply(b"%0\r\n", map([]));
    reply(b"*3\r\n:1\r\n$2\r\nab\r\n+OK\r\n", array([int(1), bulk("ab"), simple("OK")]));
    reply(b"~2\r\n:1\r\n:1\r\n", set([int(1), int(1)]));
    reply(b"%2\r\n+a\r\n:1\r\n+a\r\n*0\r\n", map([(simple("a"), int(1)), (simple("a"), array([]))]));
    reply(b"*1\r\n*1\r\n*1\r\n*0\r\n", array([array([array([array([])])])]));
    reply(
        b"*2\r\n*2\r\n:1\r\n~1\r\n:2\r\n%1\r\n*1\r\n:3\r\n%1\r\n:4\r\n_\r\n",
        array([array([int(1), set([int(2)])]), map([(array([int(3)]), map([(int(4), Value::Null)]))])]),
    );
    reply(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", array([bulk("SET"), bulk("k"), bulk("v")]));
}

#[test]
fn streamed_aggregates() {
    reply(b"*?\r\n.\r\n", array([]));
    reply(b"*?\r\n:1\r\n:2\r\n.\r\n", array([int(1), int(2)]));
    reply(b"~?\r\n+a\r\n.\r\n", set([simple("a")]));
    reply(b"%?\r\n+a\r\n:1\r\n+b\r\n:2\r\n.\r\n", map([(simple("a"), int(1)), (simple("b"), int(2))]));
    reply(b"*?\r\n*?\r\n.\r\n*1\r\n%?\r\n.\r\n.\r\n", array([array([]), array([map([])])]));
    reply(b"*1\r\n*?\r\n*0\r\n.\r\n", array([array([array([])])]));
}

#[test]
fn pushes_between_replies() {
    let message = || push([bulk("message"), bulk("c"), bulk("m")]);
    check(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", &[message()]);
    check(
        b"+OK\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n",
        &[Frame::Reply(simple("OK")), message(), Frame::Reply(int(1))],
    );
    check(b">0\r\n>1\r\n*0\r\n", &[push([]), push([array([])])]);
}

/// A push before each element of each aggregate (redis#8935).
#[test]
fn pushes_inside_replies() {
    const PUSH: &[u8] = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
    let out_of_band = || push([simple("invalidate"), array([bulk("k")])]);
    let streams: [(&[&[u8]], Value); 7] = [
        (&[b"*2\r\n", b":1\r\n", b":2\r\n"], array([int(1), int(2)])),
        (&[b"~2\r\n", b":1\r\n", b"*0\r\n"], set([int(1), array([])])),
        (&[b"%1\r\n", b":1\r\n", b":2\r\n"], map([(int(1), int(2))])),
        (&[b"*?\r\n", b":1\r\n", b".\r\n"], array([int(1)])),
        (&[b"%?\r\n", b":1\r\n", b":2\r\n", b".\r\n"], map([(int(1), int(2))])),
        (&[b"*2\r\n", b"*1\r\n", b":1\r\n", b"*1\r\n", b":2\r\n"], array([array([int(1)]), array([int(2)])])),
        (&[b"|1\r\n", b"+a\r\n", b"+b\r\n", b":1\r\n"], attributed([(simple("a"), simple("b"))], int(1))),
    ];
    for (tokens, value) in streams {
        for at in 0..=tokens.len() {
            let (before, after) = tokens.split_at(at);
            let stream = [&before.concat()[..], PUSH, &after.concat()].concat();
            let reply = Frame::Reply(value.clone());
            check(&stream, &if after.is_empty() { [reply, out_of_band()] } else { [out_of_band(), reply] });
        }
        let everywhere: Vec<u8> = tokens.iter().flat_map(|token| [PUSH, token].concat()).collect();
        let decoded = decode_every_way(&everywhere, Limits::default(), Attributes::Keep);
        let mut expected = vec![out_of_band(); tokens.len()];
        expected.push(Frame::Reply(value));
        same(&decoded.frames, &expected, everywhere.escape_ascii());
    }
    check(b">2\r\n+a\r\n>1\r\n+b\r\n+c\r\n", &[push([simple("b")]), push([simple("a"), simple("c")])]);
}

/// Attributes before each value of each aggregate, kept and discarded.
#[test]
fn attributes() {
    const ATTRIBUTES: &[u8] = b"|1\r\n+ttl\r\n:5\r\n";
    let described = |value| attributed([(simple("ttl"), int(5))], value);
    let streams: [(&[u8], &[u8], Value, Value); 8] = [
        (b"", b":1\r\n", int(1), described(int(1))),
        (b"", b"*1\r\n:1\r\n", array([int(1)]), described(array([int(1)]))),
        (b"*2\r\n", b":1\r\n:2\r\n", array([int(1), int(2)]), array([described(int(1)), int(2)])),
        (b"*2\r\n:1\r\n", b":2\r\n", array([int(1), int(2)]), array([int(1), described(int(2))])),
        (b"%1\r\n", b":1\r\n:2\r\n", map([(int(1), int(2))]), map([(described(int(1)), int(2))])),
        (b"%1\r\n:1\r\n", b":2\r\n", map([(int(1), int(2))]), map([(int(1), described(int(2)))])),
        (b"*?\r\n", b":1\r\n.\r\n", array([int(1)]), array([described(int(1))])),
        (b"*1\r\n", b"$?\r\n;1\r\nx\r\n;0\r\n", array([bulk("x")]), array([described(bulk("x"))])),
    ];
    for (before, after, plain, kept) in streams {
        let stream = [before, ATTRIBUTES, after].concat();
        reply(&stream, kept);
        let discarded = decode_every_way(&stream, Limits::default(), Attributes::Discard);
        same(&discarded.frames, &vec![Frame::Reply(plain)], stream.escape_ascii());
    }
    reply(b"|0\r\n:1\r\n", attributed([], int(1)));
    reply(b"|0\r\n|1\r\n+a\r\n|0\r\n+b\r\n:1\r\n", {
        attributed([], attributed([(simple("a"), attributed([], simple("b")))], int(1)))
    });
    check(b">1\r\n|0\r\n:1\r\n", &[push([attributed([], int(1))])]);
}

#[test]
fn nothing() {
    check(b"", &[]);
}
