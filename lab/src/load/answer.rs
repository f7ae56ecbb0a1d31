//! The end of an answer: as much of HTTP/1.1 as a load needs.

use anyhow::{Context as _, bail};
use memchr::memmem;

/// An answer at the front of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Head and body.
    pub(super) length: usize,
}

const VERSION: &[u8] = b"HTTP/1.1 ";
/// Answers without a body, whatever their fields say (RFC 9112 §6.3). The load asks with no HEAD.
const WITHOUT_BODY: [u16; 2] = [204, 304];

impl Answer {
    /// The first answer, if all of it is there.
    ///
    /// # Errors
    /// This is no answer, or one of a kind that the services under measurement do not give.
    pub(super) fn parse(input: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(end) = memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
        let (head, body) = (&input[..end + 2], end + 4);
        let digits = head.strip_prefix(VERSION).and_then(|rest| rest.get(..3)).context("no HTTP/1.1 answer")?;
        let status = number(digits).and_then(|status| u16::try_from(status).ok()).context("no status")?;
        let length = if WITHOUT_BODY.contains(&status) {
            Some(0)
        } else if let Some(length) = field(head, b"content-length") {
            Some(number(length).context("a length that is no number")?)
        } else if field(head, b"transfer-encoding").is_some() {
            chunks(&input[body..])?
        } else {
            bail!("an answer of status {status} without a length")
        };
        let length = length.map(|length| body + length).filter(|length| *length <= input.len());
        Ok(length.map(|length| Self { status, length }))
    }
}

/// The value of a field; `head` ends with a line break.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let (key, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":").filter(|_| key.eq_ignore_ascii_case(name))?;
        Some(value.trim_ascii())
    })
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The length of a chunked body with its framing, if all of it is there. No trailers.
fn chunks(body: &[u8]) -> anyhow::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let Some(line) = memmem::find(&body[at..], b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&body[at..at + line]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let size = size.context("a chunk without a size")?;
        at += line + 2 + size + 2;
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, status: u16) {
        let input = format!("{text}HTTP/1.1 ");
        let whole = Answer { status, length: text.len() };
        for length in 0..text.len() {
            assert_eq!(Answer::parse(&input.as_bytes()[..length]).expect("a part"), None, "{length}");
        }
        assert_eq!(Answer::parse(input.as_bytes()).expect("whole"), Some(whole));
    }

    #[test]
    fn bodies_of_all_kinds() {
        check("HTTP/1.1 200 OK\r\nContent-Type: a\r\ncontent-length: 3\r\n\r\nabc", 200);
        check("HTTP/1.1 204 No Content\r\n\r\n", 204);
        check(
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n",
            404,
        );
    }

    #[test]
    fn what_is_no_answer() {
        for text in ["HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            assert!(Answer::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
