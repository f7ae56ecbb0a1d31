//! What the encoder writes, byte by byte.

use pilotlight_resp::{Protocol, Value, encode};

use crate::support::*;

#[track_caller]
fn check(write: impl FnOnce(&mut Vec<u8>), expected: &[u8]) {
    let mut out = b"before".to_vec();
    write(&mut out);
    assert_eq!(out.escape_ascii().to_string(), [b"before", expected].concat().escape_ascii().to_string());
}

#[track_caller]
fn value(value: &Value, resp2: &[u8], resp3: &[u8]) {
    check(|out| encode::value(out, value, Protocol::Resp2), resp2);
    check(|out| encode::value(out, value, Protocol::Resp3), resp3);
}

#[test]
fn headers() {
    for n in [0, 1, 9, 10, 11, 99, 100, 101, 12345, usize::MAX] {
        check(|out| encode::array_header(out, n), format!("*{n}\r\n").as_bytes());
        check(|out| encode::bulk_header(out, n), format!("${n}\r\n").as_bytes());
    }
}

#[test]
fn arguments() {
    check(|out| encode::bulk(out, b""), b"$0\r\n\r\n");
    check(|out| encode::bulk(out, b"a\r\n"), b"$3\r\na\r\n\r\n");
    check(|out| encode::integer_bulk(out, i64::MIN), b"$20\r\n-9223372036854775808\r\n");
    check(|out| encode::integer_bulk(out, 7), b"$1\r\n7\r\n");
    for (n, text) in [
        (3.0, "3"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e300, "1e300"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        (-f64::NAN, "nan"),
    ] {
        check(|out| encode::double_bulk(out, n), format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
}

#[test]
fn commands() {
    check(|out| encode::command(out, &[b"SET", b"k", b""]), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
    let mut out = encode::preamble(2, &["GET"]);
    encode::bulk(&mut out, b"k");
    assert_eq!(decode(&out).frames, [array([bulk("GET"), bulk("k")]).into()]);
}

#[test]
fn values() {
    value(&Value::Null, b"$-1\r\n", b"_\r\n");
    value(&int(-5), b":-5\r\n", b":-5\r\n");
    value(&Value::Boolean(true), b":1\r\n", b"#t\r\n");
    value(&Value::Boolean(false), b":0\r\n", b"#f\r\n");
    value(&Value::Double(1.5), b"$3\r\n1.5\r\n", b",1.5\r\n");
    value(&Value::Double(f64::INFINITY), b"$3\r\ninf\r\n", b",inf\r\n");
    value(&big("-12"), b"$3\r\n-12\r\n", b"(-12\r\n");
    value(&simple("OK"), b"+OK\r\n", b"+OK\r\n");
    value(&simple("a\r\nb"), b"+a  b\r\n", b"+a  b\r\n");
    value(&bulk("x"), b"$1\r\nx\r\n", b"$1\r\nx\r\n");
    value(&verbatim(b"txt", "x"), b"$1\r\nx\r\n", b"=5\r\ntxt:x\r\n");
    value(&error("ERR x"), b"-ERR x\r\n", b"-ERR x\r\n");
    value(&error("ERR\nx"), b"-ERR x\r\n", b"!5\r\nERR\nx\r\n");
    value(&array([int(1), set([])]), b"*2\r\n:1\r\n*0\r\n", b"*2\r\n:1\r\n~0\r\n");
    value(&map([(int(1), Value::Null)]), b"*2\r\n:1\r\n$-1\r\n", b"%1\r\n:1\r\n_\r\n");
    value(&Value::Push(vec![int(1)]), b"*1\r\n:1\r\n", b">1\r\n:1\r\n");
    value(&attributed([(int(1), int(2))], int(3)), b":3\r\n", b"|1\r\n:1\r\n:2\r\n:3\r\n");
}
