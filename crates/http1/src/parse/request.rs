//! The head of a request (RFC 9112 §3).

use super::lines::{fields, incomplete, line_end, version, within};
use crate::bytes_class::{target_length, token_length};
use crate::error::Malformed;
use crate::fields::{FieldTable, Fields};
use crate::framing::{self, BodyLength, Framing};
use crate::head::RequestHead;
use crate::limits::Limits;
use crate::target::Target;
use crate::version::Version;

/// Reads the head of a request from the front of `bytes`; `None` if it is not whole yet.
///
/// # Errors
/// The rule that the bytes break. What is malformed is told as soon as its line is whole.
#[inline]
pub fn parse_request<'b>(
    bytes: &'b [u8],
    table: &'b mut FieldTable,
    limits: &Limits,
) -> Result<Option<RequestHead<'b>>, Malformed> {
    table.clear();
    let (read, bytes) = (bytes, within(bytes, limits.max_head));
    // RFC 9112 §2.2: one empty line before the request line is ignored.
    let begin = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(line) = request_line(bytes, begin)? else { return incomplete(read, limits.max_head) };
    let Some(length) = fields(bytes, line.end, limits.max_fields, table)? else {
        return incomplete(read, limits.max_head);
    };
    let RequestLine { method, target: target_text, version, .. } = line;
    let target = Target::parse(method, target_text)?;
    let framing = framing::read(bytes, version, table)?;
    if framing.is_chunked && framing.length.is_some() {
        return Err(Malformed::LengthAndCoding);
    }
    if framing.is_chunked && version == Version::Http10 {
        return Err(Malformed::CodingInHttp10);
    }
    check_host(&framing, version, table)?;
    let table = &*table;
    // RFC 9112 §3.2: the authority of an absolute target replaces `Host`.
    let authority = match target {
        Target::Absolute { authority, .. } | Target::Authority(authority) => authority,
        Target::Origin(_) | Target::Asterisk if framing.host.is_none() => "",
        Target::Origin(_) | Target::Asterisk => table.host(),
    };
    let body = match framing {
        Framing { is_chunked: true, .. } => BodyLength::Chunked,
        Framing { length: Some(length @ 1..), .. } => BodyLength::Exactly(length),
        _ => BodyLength::Empty,
    };
    Ok(Some(RequestHead {
        method,
        target,
        target_text,
        version,
        authority,
        fields: Fields::new(bytes, table),
        body,
        content_length: framing.length,
        persistence: framing.persistence,
        // RFC 9110 §10.1.1: without a body nothing is waited for; HTTP/1.0 has no interim responses.
        expects_continue: framing.expects_continue && body != BodyLength::Empty && version == Version::Http11,
        upgrade: framing.upgrade,
        length,
    }))
}

/// `method SP target SP version CRLF`, and where it ends.
struct RequestLine<'b> {
    method: &'b str,
    target: &'b str,
    version: Version,
    end: usize,
}

/// Exactly one space each (RFC 9112 §3); `None` if the line is not whole and no mistake is seen yet.
#[inline]
fn request_line(bytes: &[u8], begin: usize) -> Result<Option<RequestLine<'_>>, Malformed> {
    let method_end = begin + token_length(&bytes[begin..]);
    match bytes.get(method_end) {
        None => return Ok(None),
        Some(b' ') if method_end > begin => {}
        Some(b'\r' | b'\n') if method_end > begin => {
            return line_end(bytes, method_end, Malformed::RequestLine)?
                .map_or(Ok(None), |_| Err(Malformed::RequestLine));
        }
        Some(b'\r') if bytes.len() == begin + 1 && begin == 0 => return Ok(None), // an empty line may follow
        Some(_) => return Err(Malformed::Method),
    }
    let target_begin = method_end + 1;
    let target_end = target_begin + target_length(&bytes[target_begin..]);
    let text_end = target_end;
    let target_end = without_fragment(bytes, target_end);
    if text_end == target_begin && target_end > text_end {
        return Err(Malformed::TargetByte); // a fragment of nothing
    }
    match bytes.get(target_end) {
        None => return Ok(None),
        Some(b' ') if text_end > target_begin => {}
        Some(b' ') => return Err(Malformed::RequestLine),
        Some(b'\r' | b'\n') => {
            return line_end(bytes, target_end, Malformed::RequestLine)?
                .map_or(Ok(None), |_| Err(Malformed::RequestLine));
        }
        Some(_) => return Err(Malformed::TargetByte),
    }
    let version_end = target_end + 9;
    let Some(name) = bytes.get(target_end + 1..version_end) else { return short_version(&bytes[target_end + 1..]) };
    let version = version(name)?;
    let Some(end) = line_end(bytes, version_end, Malformed::Version)? else { return Ok(None) };
    let method = match &bytes[begin..method_end] {
        b"GET" => "GET",
        b"POST" => "POST",
        method => std::str::from_utf8(method).map_err(|_| Malformed::Method)?, // a token is ASCII
    };
    // RFC 9112 §3.2. Without it, `DELETE /a/#b` would delete all of `/a/`.
    if text_end != target_end && !matches!(method, "GET" | "HEAD") {
        return Err(Malformed::TargetByte);
    }
    // A target may be UTF-8, which many clients send as it is.
    let target = std::str::from_utf8(&bytes[target_begin..text_end]).map_err(|_| Malformed::TargetByte)?;
    Ok(Some(RequestLine { method, target, version, end }))
}

/// Where a target ends whose text ends at `end`. A fragment is no part of it (RFC 9112 §3.2), and clients that send one
/// with a GET or HEAD mean the target without it.
#[inline]
fn without_fragment(bytes: &[u8], end: usize) -> usize {
    let mut end = end;
    while bytes.get(end) == Some(&b'#') {
        end += 1 + target_length(&bytes[end + 1..]);
    }
    end
}

/// A version of which less than all has come.
#[cold]
fn short_version<T>(bytes: &[u8]) -> Result<Option<T>, Malformed> {
    if memchr::memchr(b'\n', bytes).is_some() { Err(Malformed::Version) } else { Ok(None) }
}

/// RFC 9112 §3.2: `Host` has to be there and valid, whatever the target is.
#[inline]
fn check_host(framing: &Framing<'_>, version: Version, table: &mut FieldTable) -> Result<(), Malformed> {
    match framing.host {
        Some(host) => table.check_host(host),
        None if version == Version::Http10 => Ok(()),
        None => Err(Malformed::NoHost),
    }
}
