//! Commands and values as bytes, appended to a caller's buffer.
//!
//! A command is an [`array_header`] and that many bulks. What never changes of it is written once by [`preamble`].

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::DecodeErrorKind;
use crate::value::{Protocol, Value};

/// Appends `*n\r\n`.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::array_header(&mut out, 2);
/// assert_eq!(out, b"*2\r\n");
/// ```
#[inline]
pub fn array_header(out: &mut Vec<u8>, n: usize) {
    header(out, b'*', n);
}

/// Appends `$len\r\n`; the data and CR LF have to follow.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::bulk_header(&mut out, 5);
/// assert_eq!(out, b"$5\r\n");
/// ```
#[inline]
pub fn bulk_header(out: &mut Vec<u8>, len: usize) {
    header(out, b'$', len);
}

/// Appends `data` as a bulk string.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::bulk(&mut out, b"value");
/// assert_eq!(out, b"$5\r\nvalue\r\n");
/// ```
#[inline]
pub fn bulk(out: &mut Vec<u8>, data: &[u8]) {
    out.reserve(data.len() + MAX_HEADER + 2);
    bulk_header(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the decimal digits of `n` as a bulk string.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::integer_bulk(&mut out, -12);
/// assert_eq!(out, b"$3\r\n-12\r\n");
/// ```
#[inline]
pub fn integer_bulk(out: &mut Vec<u8>, n: i64) {
    bulk(out, itoa::Buffer::new().format(n).as_bytes());
}

/// Appends the shortest text that reads back as `n` as a bulk string: `3`, `0.1`, `1e300`, `inf`, `-inf`, `nan`.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::double_bulk(&mut out, 0.1);
/// assert_eq!(out, b"$3\r\n0.1\r\n");
/// ```
#[inline]
pub fn double_bulk(out: &mut Vec<u8>, n: f64) {
    bulk(out, format_double(&mut ryu::Buffer::new(), n).as_bytes());
}

/// The shortest text that reads back as `n`, as [`double_bulk`] writes it.
///
/// ```
/// assert_eq!(pilotlight_resp::encode::double_text(3.0), "3");
/// ```
#[must_use]
pub fn double_text(n: f64) -> String {
    format_double(&mut ryu::Buffer::new(), n).to_owned()
}

/// Appends a whole command: its name and arguments.
///
/// ```
/// # use pilotlight_resp::encode;
/// let mut out = Vec::new();
/// encode::command(&mut out, &[b"GET", b"key"]);
/// assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    array_header(out, words.len());
    for word in words {
        bulk(out, word);
    }
}

/// The constant start of a command of `count` words in all, the first of which are `words`: computed once, it is copied
/// before the arguments of each command.
///
/// ```
/// # use pilotlight_resp::encode;
/// assert_eq!(encode::preamble(3, &["CONFIG", "GET"]), b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n");
/// ```
#[must_use]
pub fn preamble(count: usize, words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    array_header(&mut out, count);
    for word in words {
        bulk(&mut out, word.as_bytes());
    }
    out
}

/// Appends a value, as a server writes it.
///
/// RESP3 is written without loss, except that CR and LF in a simple string become spaces. RESP2 lacks types, and
/// servers write the nearest one: null is `$-1`, booleans are `:1` and `:0`, doubles, big numbers and verbatim strings
/// are bulks, sets and pushes are arrays, maps are flat arrays, attributes are left out, CR and LF in an error become
/// spaces.
///
/// ```
/// use pilotlight_resp::{Protocol, Value, encode};
///
/// let (mut old, mut new) = (Vec::new(), Vec::new());
/// encode::value(&mut old, &Value::Boolean(true), Protocol::Resp2);
/// encode::value(&mut new, &Value::Boolean(true), Protocol::Resp3);
/// assert_eq!((&old[..], &new[..]), (&b":1\r\n"[..], &b"#t\r\n"[..]));
/// ```
pub fn value(out: &mut Vec<u8>, value: &Value, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => value_resp2(out, value),
        Protocol::Resp3 => value_resp3(out, value),
    }
}

/// Writes an error in the place of a reply that was skipped.
fn skipped(out: &mut Vec<u8>, limit: DecodeErrorKind) {
    line(out, b'-', format!("ERR the reply was not kept: {limit}").as_bytes());
}

/// Bytes of the longest header: a type byte, 20 digits, CR LF.
const MAX_HEADER: usize = 23;

fn value_resp2(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"$-1\r\n"),
        Value::Integer(n) => integer(out, *n),
        Value::Boolean(yes) => integer(out, i64::from(*yes)),
        Value::Double(n) => double_bulk(out, *n),
        Value::Simple(text) => line(out, b'+', text),
        Value::Error(text) => line(out, b'-', text),
        Value::Bulk(data) | Value::BigNumber(data) | Value::Verbatim { text: data, .. } => bulk(out, data),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            array_header(out, items.len());
            items.iter().for_each(|item| value_resp2(out, item));
        }
        Value::Map(pairs) => {
            array_header(out, pairs.len() * 2);
            for (key, item) in pairs {
                value_resp2(out, key);
                value_resp2(out, item);
            }
        }
        Value::Attributed(attributed) => value_resp2(out, &attributed.value),
        Value::Skipped(limit) => skipped(out, *limit),
    }
}

fn value_resp3(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"_\r\n"),
        Value::Integer(n) => integer(out, *n),
        Value::Boolean(yes) => out.extend_from_slice(if *yes { b"#t\r\n" } else { b"#f\r\n" }),
        Value::Double(n) => line(out, b',', format_double(&mut ryu::Buffer::new(), *n).as_bytes()),
        Value::BigNumber(digits) => line(out, b'(', digits),
        Value::Simple(text) => line(out, b'+', text),
        Value::Bulk(data) => bulk(out, data),
        Value::Verbatim { format, text } => {
            header(out, b'=', text.len() + 4);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Value::Error(text) if text.iter().any(|byte| is_line_break(*byte)) => {
            header(out, b'!', text.len());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Value::Error(text) => line(out, b'-', text),
        Value::Array(items) => items_resp3(out, b'*', items),
        Value::Set(items) => items_resp3(out, b'~', items),
        Value::Push(items) => items_resp3(out, b'>', items),
        Value::Map(pairs) => pairs_resp3(out, b'%', pairs),
        Value::Attributed(attributed) => {
            pairs_resp3(out, b'|', &attributed.attributes);
            value_resp3(out, &attributed.value);
        }
        Value::Skipped(limit) => skipped(out, *limit),
    }
}

fn items_resp3(out: &mut Vec<u8>, kind: u8, items: &[Value]) {
    header(out, kind, items.len());
    items.iter().for_each(|item| value_resp3(out, item));
}

fn pairs_resp3(out: &mut Vec<u8>, kind: u8, pairs: &[(Value, Value)]) {
    header(out, kind, pairs.len());
    for (key, item) in pairs {
        value_resp3(out, key);
        value_resp3(out, item);
    }
}

fn integer(out: &mut Vec<u8>, n: i64) {
    line(out, b':', itoa::Buffer::new().format(n).as_bytes());
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().map(|byte| if is_line_break(*byte) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[inline]
fn header(out: &mut Vec<u8>, kind: u8, n: usize) {
    // Short headers are nearly all of them: one append of a constant size each.
    match n {
        0..10 => out.extend_from_slice(&[kind, digit(n), b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[kind, digit(n / 10), digit(n % 10), b'\r', b'\n']),
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[inline]
fn digit(n: usize) -> u8 {
    b'0' + n as u8
}

fn format_double(buffer: &mut ryu::Buffer, n: f64) -> &str {
    if n.is_nan() {
        return "nan";
    }
    let text = buffer.format(n);
    text.strip_suffix(".0").unwrap_or(text)
}
