//! The end of an answer: as much of HTTP/1.1 as a load needs.

use std::borrow::Cow;
use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;

/// An answer at the front of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Head and body.
    pub(super) length: usize,
}

const VERSION: &[u8] = b"HTTP/1.1 ";
const END: &[u8] = b"\r\n\r\n";
/// The longest head that is understood.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// So much of what is no answer is shown.
const SHOWN_BYTES: usize = 40;
/// Answers without a body, whatever their fields say (RFC 9112 §6.3). The load asks with no HEAD.
const WITHOUT_BODY: [u16; 2] = [204, 304];

impl Answer {
    /// The first answer, if all of it is there.
    ///
    /// # Errors
    /// This is no answer, or one of a kind that the services under measurement do not give.
    pub(super) fn parse(input: &[u8]) -> anyhow::Result<Option<Self>> {
        let begin = input.len().min(VERSION.len());
        if input[..begin] != VERSION[..begin] {
            bail!("no HTTP/1.1 answer: \"{}\"", input[..input.len().min(SHOWN_BYTES)].escape_ascii());
        }
        let Some(end) = memmem::find(input, END) else {
            ensure!(input.len() <= MAX_HEAD_BYTES, "a head of more than {MAX_HEAD_BYTES} bytes");
            return Ok(None);
        };
        let (head, body) = (&input[..end + 2], end + END.len());
        let digits = input.get(VERSION.len()..VERSION.len() + 3).context("no status")?;
        let status =
            number(digits).and_then(|status| u16::try_from(status).ok()).context("a status that is no number")?;
        let length = if WITHOUT_BODY.contains(&status) {
            Some(0)
        } else if let Some(length) = field(head, b"content-length") {
            Some(number(length).context("a length that is no number")?)
        } else if field(head, b"transfer-encoding").is_some() {
            chunks(&input[body..])?
        } else {
            bail!("an answer of status {status} without a length")
        };
        let length = length.map(|length| body.saturating_add(length)).filter(|length| *length <= input.len());
        Ok(length.map(|length| Self { status, length }))
    }

    /// The content of this answer, which is the whole of `input`.
    ///
    /// # Errors
    /// It has no end, which [`Answer::parse`] would have said.
    pub(super) fn body(self, input: &[u8]) -> anyhow::Result<Cow<'_, [u8]>> {
        let end = memmem::find(input, END).context("an answer without an end of its head")?;
        let (head, body) = (&input[..end + 2], &input[end + END.len()..]);
        if field(head, b"content-length").is_some() || body.is_empty() {
            return Ok(Cow::Borrowed(body));
        }
        let (mut rest, mut content) = (body, Vec::new());
        while let Some((size, from)) = chunk(rest)?.filter(|(size, _)| *size > 0) {
            content.extend_from_slice(rest.get(from..from + size).context("a chunk without its end")?);
            rest = &rest[from + size + 2..];
        }
        Ok(Cow::Owned(content))
    }
}

/// The length of the request at the front of what was read, if all of it is there: for a server as bare as this load.
///
/// # Errors
/// Its length is no number.
pub(crate) fn request_length(input: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = memmem::find(input, END) else { return Ok(None) };
    let (head, body) = (&input[..end + 2], end + END.len());
    let length = match field(head, b"content-length") {
        Some(length) => Some(number(length).context("a length that is no number")?),
        None if field(head, b"transfer-encoding").is_some() => chunks(&input[body..])?,
        None => Some(0),
    };
    Ok(length.map(|length| body.saturating_add(length)).filter(|length| *length <= input.len()))
}

/// How an answer looked, to know the next one by it without parsing. Where the head ends, its status and its
/// `content-length` have to be the same, at the same place; dates and other values may differ.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    answer: Answer,
    /// `HTTP/1.1 200`.
    start: [u8; VERSION.len() + 3],
    /// Where the line with the length is, from the line break before it to the one behind it.
    line: Range<usize>,
    length: Vec<u8>,
    /// Where the head's last line break begins.
    end: usize,
}

impl Shape {
    /// Of an answer with a length; `input` is the whole of it.
    pub(super) fn of(answer: Answer, input: &[u8]) -> Option<Self> {
        let end = memmem::find(input, END)?;
        let head = &input[..end + 2];
        let value = field(head, b"content-length")?;
        let at = value.as_ptr().addr() - head.as_ptr().addr(); // the one is a part of the other
        let from = memmem::rfind(&head[..at], b"\r\n")?;
        let line = from..at + memmem::find(&head[at..], b"\r\n")? + 2;
        let start = input.first_chunk()?;
        Some(Self { answer, start: *start, length: head[line.clone()].to_vec(), line, end })
    }

    /// The first answer of `input`, if it is whole and looks the same.
    pub(super) fn find(&self, input: &[u8]) -> Option<Answer> {
        let whole = input.get(..self.answer.length)?;
        let same = whole.starts_with(&self.start)
            && whole[self.line.clone()] == *self.length
            && whole[self.end..].starts_with(END);
        same.then_some(self.answer)
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
        let Some((size, from)) = chunk(&body[at..])? else { return Ok(None) };
        at = at.saturating_add(from).saturating_add(size).saturating_add(2);
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// The size of the first chunk and where it begins, if its line is whole.
fn chunk(body: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(line) = memmem::find(body, b"\r\n") else { return Ok(None) };
    let size = std::str::from_utf8(&body[..line]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
    Ok(Some((size.context("a chunk without a size")?, line + 2)))
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
    fn requests_of_all_kinds() {
        for text in [
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ] {
            let length = |of: &str| request_length(of.as_bytes()).expect("a request");
            assert!((0..text.len()).all(|part| length(&text[..part]).is_none()), "{text}");
            assert_eq!(length(&format!("{text}GET")), Some(text.len()));
        }
        assert!(request_length(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n").is_err());
    }

    #[test]
    fn contents() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n",
        ] {
            let answer = Answer::parse(text.as_bytes()).expect("an answer").expect("whole");
            assert_eq!(*answer.body(text.as_bytes()).expect("a body"), *b"abcdef");
        }
    }

    #[test]
    fn the_next_answer_is_known_by_the_last_unless_its_status_or_length_differs() {
        let text = |status: u16, date: &str, length: &str| {
            format!("HTTP/1.1 {status} OK\r\nage: 3\r\ndate: {date}\r\ncontent-length: {length}\r\nx: y\r\n\r\nabc---")
        };
        let first = text(200, "Mon", "3");
        let answer = Answer::parse(first.as_bytes()).expect("an answer").expect("whole");
        let shape = Shape::of(answer, &first.as_bytes()[..answer.length]).expect("it has a length");
        assert_eq!(shape.find(text(200, "Tue", "3").as_bytes()), Some(answer), "another date");
        for other in [text(200, "Mon", "4"), text(404, "Mon", "3"), text(200, "Monday", "3")] {
            assert_eq!(shape.find(other.as_bytes()), None, "{other}");
        }
        assert_eq!(shape.find(&first.as_bytes()[..answer.length - 1]), None, "not whole");
    }

    #[test]
    fn what_is_no_answer() {
        for text in ["HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "220 mail"] {
            assert!(Answer::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
