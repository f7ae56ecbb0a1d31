//! Fields and their line ends, in one pass: each byte is judged where it is passed, and nothing is searched for
//! beforehand.

use crate::bytes_class::{token_length, value_length};
use crate::error::Malformed;
use crate::fields::FieldTable;
use crate::version::Version;

/// Reads fields from `at` on, up to and including the empty line; where that ends, or `None` if it is not there yet.
#[inline]
pub(super) fn fields(
    bytes: &[u8],
    mut at: usize,
    max_fields: usize,
    table: &mut FieldTable,
) -> Result<Option<usize>, Malformed> {
    loop {
        let name = token_length(&bytes[at..]);
        let colon = at + name;
        if bytes.get(colon) != Some(&b':') || name == 0 {
            return without_name(bytes, at, colon);
        }
        let mut begin = colon + 1;
        while matches!(bytes.get(begin), Some(b' ' | b'\t')) {
            begin += 1;
        }
        let mut end = begin + value_length(&bytes[begin..]);
        let Some(next) = line_end(bytes, end, Malformed::ValueByte)? else { return Ok(None) };
        while end > begin && matches!(bytes[end - 1], b' ' | b'\t') {
            end -= 1;
        }
        if table.len() == max_fields {
            return Err(Malformed::TooManyFields);
        }
        table.push(bytes, at..colon, begin..end);
        at = next;
    }
}

/// What stands where a field's name should: the empty line, the end of what has come, or a mistake. `at` is where the
/// line begins, `end` the first byte that no name has.
#[inline]
fn without_name(bytes: &[u8], at: usize, end: usize) -> Result<Option<usize>, Malformed> {
    match bytes.get(end) {
        None => Ok(None),
        Some(b'\r' | b'\n') if at == end => line_end(bytes, end, Malformed::NoColon),
        Some(b'\r' | b'\n') => match line_end(bytes, end, Malformed::NoColon)? {
            None => Ok(None),
            Some(_) => Err(Malformed::NoColon),
        },
        Some(b' ' | b'\t') if at == end => Err(Malformed::Folded),
        Some(b' ' | b'\t') => Err(Malformed::SpaceBeforeColon),
        Some(_) => Err(Malformed::FieldName),
    }
}

/// Where the next line begins, if CRLF stands at `at`; `None` if that has not come whole. What stands there instead is
/// `otherwise`.
#[inline]
pub(super) fn line_end(bytes: &[u8], at: usize, otherwise: Malformed) -> Result<Option<usize>, Malformed> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(Some(at + 2)),
        (None, _) | (Some(b'\r'), None) => Ok(None),
        (Some(b'\r'), _) => Err(Malformed::BareCr),
        (Some(b'\n'), _) => Err(Malformed::BareLf),
        _ => Err(otherwise),
    }
}

/// RFC 9112 §2.3: `HTTP/`, a digit, a dot, a digit.
#[inline]
pub(super) fn version(bytes: &[u8]) -> Result<Version, Malformed> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        // RFC 9110 §2.5: a higher minor version is taken as the highest one that is known.
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(Malformed::MajorVersion),
        _ => Err(Malformed::Version),
    }
}

/// As much as a section of at most `max` bytes may have. What stands behind is not judged: else the rule that a section
/// breaks would depend on how much of it had come when its size was looked at.
#[inline]
pub(super) fn within(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

/// Whether a head that is not whole has more than `max` bytes already.
#[inline]
pub(super) fn incomplete<T>(bytes: &[u8], max: usize) -> Result<Option<T>, Malformed> {
    if bytes.len() > max { Err(Malformed::HeadTooLarge) } else { Ok(None) }
}
