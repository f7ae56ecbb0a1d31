//! The head of a response (RFC 3875 §6): lines until an empty one, of which `Status` and `Location` mean something
//! to the gateway. It is rewritten as a head of HTTP/1.1, which whoever reads HTTP reads and checks.
//!
//! Programs for SCGI and uwsgi, and those that "parse no header", begin with a status line instead.

use bytes::{BufMut, BytesMut};
use memchr::memchr;

/// Most bytes of a head.
pub const MAX_HEAD: usize = 64 * 1024;

/// Why this is no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It does not end.
    #[error("the head of its answer has more than {MAX_HEAD} bytes")]
    TooLarge,
    /// RFC 3875 §6.2: a head has one field at least.
    #[error("its answer has no head")]
    Empty,
    /// A line that is no field.
    #[error("a line in the head of its answer has no colon")]
    NoColon,
    /// `Status` is no status of a final response, or there are two.
    #[error("the status of its answer is not one number from 200 to 599")]
    Status,
    /// RFC 3875 §6.3.4: fields that frame a message belong to the gateway.
    #[error("its answer has a Transfer-Encoding, which a program for CGI cannot have")]
    TransferEncoding,
}

/// Looks for a head at the front of what a program writes.
#[derive(Debug, Default)]
pub struct HeadReader {
    /// Bytes in which there is no end of it.
    looked: usize,
}

impl HeadReader {
    /// Nothing has been looked at.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the head at the front of `buf` to `out` as one of HTTP/1.1, and returns how many bytes of `buf` it had;
    /// `None` when it is not whole yet. `buf` grows at its end between calls.
    ///
    /// # Errors
    /// It is none.
    pub fn read(&mut self, buf: &[u8], out: &mut BytesMut) -> Result<Option<usize>, HeadError> {
        let Some(length) = self.end(buf) else {
            return if buf.len() > MAX_HEAD { Err(HeadError::TooLarge) } else { Ok(None) };
        };
        if length > MAX_HEAD {
            return Err(HeadError::TooLarge);
        }
        rewrite(&buf[..length], out)?;
        Ok(Some(length))
    }

    /// The length of the head, its empty line included.
    fn end(&mut self, buf: &[u8]) -> Option<usize> {
        // At the beginning of a line.
        while let Some(end) = memchr(b'\n', &buf[self.looked..]) {
            let line = &buf[self.looked..self.looked + end];
            self.looked += end + 1;
            if line.is_empty() || line == b"\r" {
                return Some(self.looked);
            }
        }
        None
    }
}

fn rewrite(head: &[u8], out: &mut BytesMut) -> Result<(), HeadError> {
    let mut lines = lines(head).peekable();
    let mut status = match lines.peek() {
        None => return Err(HeadError::Empty),
        Some(first) if first.starts_with(b"HTTP/") => {
            let first = lines.next().unwrap_or_default();
            let space = memchr(b' ', first).ok_or(HeadError::Status)?;
            Some(checked(&first[space + 1..])?)
        }
        Some(_) => None,
    };
    let (begin, mut has_location) = (out.len(), false);
    let mut fields = BytesMut::with_capacity(head.len() + 32);
    for line in lines {
        // RFC 9112 §5.2: the continuation of a line, which whoever reads this refuses.
        let is_folded = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if !is_folded {
            let name = &line[..memchr(b':', line).ok_or(HeadError::NoColon)?];
            let value = line[name.len() + 1..].trim_ascii();
            if name.eq_ignore_ascii_case(b"status") {
                if status.replace(checked(value)?).is_some() {
                    return Err(HeadError::Status);
                }
                continue;
            }
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                return Err(HeadError::TransferEncoding);
            }
            has_location |= name.eq_ignore_ascii_case(b"location");
        }
        fields.put_slice(line);
        fields.put_slice(b"\r\n");
    }
    // RFC 3875 §6.2.3: `Location` alone is a redirect. (§6.2.2 has the server answer a local one by itself; it is sent
    // to the client as well, for whom it means the same.)
    let status = status.unwrap_or(if has_location { *b"302" } else { *b"200" });
    debug_assert_eq!(out.len(), begin, "nothing is written of what is refused");
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(&status);
    out.put_slice(b" \r\n");
    out.put_slice(&fields);
    out.put_slice(b"\r\n");
    Ok(())
}

/// The lines without their ends, up to the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty())
}

/// The number of a status, with or without a reason behind it.
fn checked(text: &[u8]) -> Result<[u8; 3], HeadError> {
    match text {
        [first @ b'2'..=b'5', second, third, rest @ ..]
            if second.is_ascii_digit() && third.is_ascii_digit() && rest.first().is_none_or(|byte| *byte == b' ') =>
        {
            Ok([*first, *second, *third])
        }
        _ => Err(HeadError::Status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(String, usize)>, HeadError> {
        let mut out = BytesMut::new();
        let length = HeadReader::new().read(text.as_bytes(), &mut out)?;
        Ok(length.map(|length| (String::from_utf8(out.to_vec()).unwrap(), length)))
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (head, length) = read(&format!("{text}body")).unwrap().unwrap();
        assert_eq!((head.as_str(), length), (expected, text.len()), "{text:?}");
        // Whatever the chunks.
        let (mut reader, mut out) = (HeadReader::new(), BytesMut::new());
        for end in 0..text.len() {
            assert_eq!(reader.read(&text.as_bytes()[..end], &mut out), Ok(None), "{end}");
        }
        assert_eq!(reader.read(text.as_bytes(), &mut out), Ok(Some(text.len())));
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn heads() {
        check("Content-Type: text/html\r\n\r\n", "HTTP/1.1 200 \r\nContent-Type: text/html\r\n\r\n");
        check("A: b\n\n", "HTTP/1.1 200 \r\nA: b\r\n\r\n");
        check("A: b\r\n\n", "HTTP/1.1 200 \r\nA: b\r\n\r\n");
        check("Status: 404 Not Found\r\nA: b\r\n\r\n", "HTTP/1.1 404 \r\nA: b\r\n\r\n");
        check("A: b\r\nstatus:503\r\n\r\n", "HTTP/1.1 503 \r\nA: b\r\n\r\n");
        check("HTTP/1.0 201 Created\r\nA: b\r\n\r\n", "HTTP/1.1 201 \r\nA: b\r\n\r\n");
        check("HTTP/1.1 204\r\n\r\n", "HTTP/1.1 204 \r\n\r\n");
    }

    /// RFC 3875 §6.2.3 and §6.2.4.
    #[test]
    fn a_location_is_a_redirect_unless_the_status_says_otherwise() {
        check("Location: /next\r\n\r\n", "HTTP/1.1 302 \r\nLocation: /next\r\n\r\n");
        check("Location: http://a/\n\n", "HTTP/1.1 302 \r\nLocation: http://a/\r\n\r\n");
        check("Status: 201\r\nLocation: /new\r\n\r\n", "HTTP/1.1 201 \r\nLocation: /new\r\n\r\n");
    }

    #[track_caller]
    fn refused(text: &str, why: HeadError) {
        assert_eq!(read(text), Err(why), "{text:?}");
    }

    #[test]
    fn what_is_no_head() {
        refused("\r\nbody", HeadError::Empty);
        refused("no field\r\n\r\n", HeadError::NoColon);
        for status in ["", "99", "20", "2000", "abc", "100 Continue", "101", "600", "-200", "200OK"] {
            refused(&format!("Status: {status}\r\n\r\n"), HeadError::Status);
        }
        refused("Status: 200\r\nStatus: 200\r\n\r\n", HeadError::Status);
        refused("HTTP/1.1 200 OK\r\nStatus: 200\r\n\r\n", HeadError::Status);
        refused("HTTP/1.1\r\n\r\n", HeadError::Status);
        refused("A: b\r\nTransfer-Encoding: chunked\r\n\r\n", HeadError::TransferEncoding);
        refused(&format!("A: {}", "x".repeat(MAX_HEAD)), HeadError::TooLarge);
        refused(&format!("A: {}\r\n\r\n", "x".repeat(MAX_HEAD)), HeadError::TooLarge);
    }
}
