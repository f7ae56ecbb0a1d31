//! Heads to bytes.

use super::hop::{Crossing, named_by_connection};
use crate::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME, flags};
use bytes::{BufMut, BytesMut};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, StatusCode};

/// Bytes before the strings of a head.
const FIXED: usize = 8;

/// What REQUEST says before the body. A zero byte in one of the strings would end it on the wire, so what follows a
/// zero byte is not sent; strings from the `http` crate's types have none.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// As received.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The client's `host`.
    pub authority: &'a str,
    /// Path and query, exactly as received.
    pub target: &'a str,
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// `address:port` of the client, or empty.
    pub peer: &'a str,
    /// The request id.
    pub request_id: &'a str,
    /// The time left in milliseconds, 0 for none (P-28).
    pub deadline_ms: u32,
    /// The fields; those that belong to the hop are left out (P-9).
    pub headers: &'a HeaderMap,
}

/// A head, or a head and a body, that do not fit one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes do not fit one frame of {MAX_FRAME}")]
pub struct TooLarge {
    /// The payload's size in bytes.
    pub size: usize,
}

/// Appends a REQUEST. With UPGRADE among the flags, `upgrade` is among the fields that cross (P-38).
///
/// # Errors
/// The payload is above [`MAX_FRAME`]; `out` is as before. With a body the head alone may still fit.
pub fn encode_request(
    out: &mut BytesMut,
    exchange: u16,
    flags: u8,
    head: &RequestHead<'_>,
    body: &[u8],
) -> Result<(), TooLarge> {
    if body.len() > MAX_FRAME {
        return Err(TooLarge { size: FIXED + body.len() });
    }
    let start = begin(out, FIXED);
    for text in [head.method, head.scheme, head.authority, head.target, head.protocol, head.peer, head.request_id] {
        put_string(out, text.as_bytes());
    }
    put_fields(out, head.headers, crossing(flags));
    put_fixed(out, start, head.deadline_ms);
    out.put_slice(body);
    finish(out, start, FrameType::REQUEST, flags, exchange)
}

/// Appends a RESPONSE. With UPGRADE among the flags, `upgrade` is among the fields that cross (P-40).
///
/// # Errors
/// As [`encode_request`].
pub fn encode_response(
    out: &mut BytesMut,
    exchange: u16,
    flags: u8,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), TooLarge> {
    response(out, FrameType::RESPONSE, exchange, flags, status, headers, body)
}

/// Appends an INFO: a head with a status from 100 to 199 and no body.
///
/// # Errors
/// As [`encode_request`].
pub fn encode_info(out: &mut BytesMut, exchange: u16, status: StatusCode, headers: &HeaderMap) -> Result<(), TooLarge> {
    response(out, FrameType::INFO, exchange, flags::NONE, status, headers, &[])
}

/// Appends TRAILERS, which end their direction (so END is set as well).
///
/// # Errors
/// As [`encode_request`].
pub fn encode_fields(out: &mut BytesMut, exchange: u16, fields: &HeaderMap) -> Result<(), TooLarge> {
    let start = begin(out, 0);
    put_fields(out, fields, Crossing::Ordinary);
    finish(out, start, FrameType::TRAILERS, flags::END, exchange)
}

fn response(
    out: &mut BytesMut,
    kind: u8,
    exchange: u16,
    flags: u8,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), TooLarge> {
    if body.len() > MAX_FRAME {
        return Err(TooLarge { size: FIXED + body.len() });
    }
    let start = begin(out, FIXED);
    put_fields(out, headers, crossing(flags));
    put_fixed(out, start, u32::from(status.as_u16()));
    out.put_slice(body);
    finish(out, start, kind, flags, exchange)
}

/// Leaves room for the frame header and the fixed part, which are known last.
fn begin(out: &mut BytesMut, fixed: usize) -> usize {
    let start = out.len();
    out.put_bytes(0, HEADER_LEN + fixed);
    start
}

fn put_fixed(out: &mut BytesMut, start: usize, second: u32) {
    let strings = start + HEADER_LEN + FIXED;
    let head_length = (out.len() - strings) as u32;
    out[strings - 8..strings - 4].copy_from_slice(&head_length.to_le_bytes());
    out[strings - 4..strings].copy_from_slice(&second.to_le_bytes());
}

fn finish(out: &mut BytesMut, start: usize, kind: u8, flags: u8, exchange: u16) -> Result<(), TooLarge> {
    let size = out.len() - start - HEADER_LEN;
    if size > MAX_FRAME {
        out.truncate(start);
        return Err(TooLarge { size });
    }
    let header = FrameHeader { length: size as u32, kind, flags, exchange };
    out[start..start + HEADER_LEN].copy_from_slice(&header.encode());
    Ok(())
}

/// With UPGRADE the field `upgrade` crosses, too.
fn crossing(flags: u8) -> Crossing {
    if flags & flags::UPGRADE == 0 { Crossing::Ordinary } else { Crossing::Upgrade }
}

fn put_fields(out: &mut BytesMut, headers: &HeaderMap, crossing: Crossing) {
    let has_connection = headers.contains_key(CONNECTION);
    for (name, value) in headers {
        let is_named = || has_connection && name != UPGRADE && named_by_connection(headers, name);
        if crossing.lets(name) && !is_named() {
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            out.reserve(name.len() + value.len() + 2);
            out.extend_from_slice(name);
            out.put_u8(0);
            out.extend_from_slice(value);
            out.put_u8(0);
        }
    }
}

fn put_string(out: &mut BytesMut, text: &[u8]) {
    let text = memchr::memchr(0, text).map_or(text, |end| &text[..end]);
    out.extend_from_slice(text);
    out.put_u8(0);
}
