//! The head of a response (RFC 9112 §4).

use super::lines::{fields, incomplete, line_end, version, within};
use crate::bytes_class::value_length;
use crate::error::Malformed;
use crate::fields::{FieldTable, Fields};
use crate::framing::{self, BodyLength, Framing, Persistence};
use crate::head::ResponseHead;
use crate::limits::Limits;
use crate::version::Version;

/// Reads the head of the response to a request with `method` from the front of `bytes`; `None` if it is not whole yet.
///
/// # Errors
/// The rule that the bytes break.
#[inline]
pub fn parse_response<'b>(
    bytes: &'b [u8],
    method: &str,
    table: &'b mut FieldTable,
    limits: &Limits,
) -> Result<Option<ResponseHead<'b>>, Malformed> {
    table.clear();
    let (read, bytes) = (bytes, within(bytes, limits.max_head));
    let Some(line) = status_line(bytes)? else { return incomplete(read, limits.max_head) };
    let StatusLine { version, status, end } = line;
    let Some(length) = fields(bytes, end, limits.max_fields, table)? else {
        return incomplete(read, limits.max_head);
    };
    let mut framing = framing::read(bytes, version, table)?;
    let body = body(method, status, &framing)?;
    // RFC 9112 §6.1: HTTP/1.0 has no chunks; what sends them there is not trusted with another message.
    if body == BodyLength::UntilClose || framing.is_chunked && version == Version::Http10 {
        framing.persistence = Persistence::Close;
    }
    Ok(Some(ResponseHead {
        status,
        version,
        fields: Fields::new(bytes, table),
        body,
        content_length: framing.length.filter(|_| !framing.is_chunked && !matches!(status, 100..=199 | 204)),
        persistence: framing.persistence,
        upgrade: framing.upgrade.filter(|_| status == 101),
        length,
    }))
}

/// RFC 9112 §6.3, in its order.
fn body(method: &str, status: u16, framing: &Framing<'_>) -> Result<BodyLength, Malformed> {
    Ok(match framing {
        _ if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) => BodyLength::Empty,
        _ if method == "CONNECT" && matches!(status, 200..=299) => BodyLength::Empty,
        // An intermediary before this one may have taken either.
        Framing { is_chunked: true, length: Some(_), .. } => return Err(Malformed::LengthAndCoding),
        Framing { is_chunked: true, .. } => BodyLength::Chunked,
        Framing { length: Some(0), .. } => BodyLength::Empty,
        Framing { length: Some(length), .. } => BodyLength::Exactly(*length),
        _ => BodyLength::UntilClose,
    })
}

/// `version SP status SP [reason] CRLF`, and where it ends.
struct StatusLine {
    version: Version,
    status: u16,
    end: usize,
}

/// The space after the status may be missing when there is no reason. `None` if the line is not whole and no mistake is
/// seen yet.
#[inline]
fn status_line(bytes: &[u8]) -> Result<Option<StatusLine>, Malformed> {
    let Some(name) = bytes.get(..8) else { return short(bytes) };
    if !name.starts_with(b"HTTP/") {
        return Err(Malformed::StatusLine);
    }
    let version = version(name)?;
    match bytes.get(8) {
        Some(b' ') => {}
        Some(_) => return Err(Malformed::StatusLine),
        None => return Ok(None),
    }
    let Some(digits) = bytes.get(9..12) else {
        return if memchr::memchr(b'\n', bytes).is_some() { Err(Malformed::Status) } else { Ok(None) };
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Status);
    }
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    if !(100..=599).contains(&status) {
        return Err(Malformed::Status);
    }
    let reason = if bytes.get(12) == Some(&b' ') { value_length(&bytes[12..]) } else { 0 };
    let end = line_end(bytes, 12 + reason, Malformed::StatusLine)?;
    Ok(end.map(|end| StatusLine { version, status, end }))
}

/// Less than a version: a line that is too short, or that has only begun.
#[cold]
fn short<T>(bytes: &[u8]) -> Result<Option<T>, Malformed> {
    let length = bytes.len().min(5);
    if bytes[..length] != b"HTTP/"[..length] {
        return Err(Malformed::StatusLine);
    }
    if memchr::memchr(b'\n', bytes).is_some() { Err(Malformed::Version) } else { Ok(None) }
}
