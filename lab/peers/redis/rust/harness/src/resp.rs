//! The little of RESP that the floors need: two commands, two kinds of reply.
use crate::Kind;
use std::io::Write;

const MISSING: &[u8] = b"$-1\r\n";

/// A complete reply.
#[derive(Clone, Copy)]
pub enum Reply<'a> {
    Bulk(&'a [u8]),
    Simple(&'a [u8]),
    /// No value.
    Missing,
}

impl<'a> Reply<'a> {
    pub fn payload(self) -> &'a [u8] {
        match self {
            Self::Bulk(payload) | Self::Simple(payload) => payload,
            Self::Missing => &[],
        }
    }

    /// Whether this answers a GET of a workload with a value of the length that is wanted, or a SET with OK.
    #[inline]
    pub fn is_right(self, kind: Kind, wanted: usize) -> bool {
        match self {
            Self::Bulk(value) => value.len() == wanted,
            Self::Missing => kind.is_right(0, wanted),
            Self::Simple(text) => text == b"OK",
        }
    }
}

pub fn push_get(output: &mut Vec<u8>, key: &[u8]) {
    output.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    push_bulk(output, key);
}

pub fn push_set(output: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    output.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    push_bulk(output, key);
    push_bulk(output, value);
}

#[inline]
fn push_bulk(output: &mut Vec<u8>, data: &[u8]) {
    output.push(b'$');
    push_number(output, data.len());
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(data);
    output.extend_from_slice(b"\r\n");
}

#[inline]
fn push_number(output: &mut Vec<u8>, number: usize) {
    match number {
        0..10 => output.push(b'0' + number as u8),
        10..100 => output.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]),
        _ => write!(output, "{number}").expect("a vector takes everything"),
    }
}

/// The complete reply at the head of `input` and its length, or `None` if there is more to come.
///
/// # Panics
/// At an error or any other kind of reply.
#[inline]
pub fn scan(input: &[u8]) -> Option<(Reply<'_>, usize)> {
    match *input.first()? {
        b'$' if input.get(1) == Some(&b'-') => {
            (input.len() >= MISSING.len()).then_some((Reply::Missing, MISSING.len()))
        }
        b'$' => {
            let (length, begin) = scan_length(input)?;
            let end = begin + length;
            (input.len() >= end + 2).then(|| (Reply::Bulk(&input[begin..end]), end + 2))
        }
        b'+' => {
            let end = input.iter().position(|&byte| byte == b'\r')?;
            (input.len() >= end + 2).then(|| (Reply::Simple(&input[1..end]), end + 2))
        }
        _ => panic!("the server answered {}", String::from_utf8_lossy(&input[..input.len().min(80)])),
    }
}

/// The length of a bulk and where it begins.
#[inline]
fn scan_length(input: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    let mut index = 1;
    loop {
        match *input.get(index)? {
            digit @ b'0'..=b'9' => length = length * 10 + usize::from(digit - b'0'),
            b'\r' => return Some((length, index + 2)),
            _ => panic!("a bulk without a length"),
        }
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], payload: &[u8]) {
        let (reply, length) = scan(input).unwrap();
        assert_eq!((reply.payload(), length), (payload, input.len()));
        for end in 0..input.len() {
            assert!(scan(&input[..end]).is_none(), "complete after {end} bytes");
        }
    }

    #[test]
    fn replies_are_complete_with_their_last_byte() {
        check(b"+OK\r\n", b"OK");
        check(b"$0\r\n\r\n", b"");
        check(b"$-1\r\n", b"");
        check(b"$11\r\nhello\r\nworl\r\n", b"hello\r\nworl");
    }

    #[test]
    fn commands() {
        let mut output = Vec::new();
        push_get(&mut output, b"k");
        push_set(&mut output, b"0123456789", &[b'x'; 100]);
        let value = "x".repeat(100);
        let wanted =
            format!("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$100\r\n{value}\r\n");
        assert_eq!(output, wanted.as_bytes());
    }
}
