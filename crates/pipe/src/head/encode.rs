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
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, HeaderValue, header::ACCEPT};
/// use pilotlight_pipe::frame::{FrameType, MAX_FRAME, flags, split_frame};
/// use pilotlight_pipe::head::{RequestHead, encode_request};
///
/// let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/plain"))]);
/// let head = RequestHead {
///     method: "GET",
///     scheme: "https",
///     authority: "example.org",
///     target: "/users?page=2",
///     protocol: "HTTP/1.1",
///     peer: "192.0.2.7:50000",
///     request_id: "01H7",
///     deadline_ms: 3000,
///     headers: &headers,
/// };
/// let mut wire = BytesMut::new();
/// encode_request(&mut wire, 7, flags::END, &head, b"")?;
/// let (header, _) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!((header.kind, header.exchange), (FrameType::REQUEST, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, StatusCode};
/// use pilotlight_pipe::frame::{MAX_FRAME, flags, split_frame};
/// use pilotlight_pipe::head::{decode_response, encode_response};
///
/// let mut wire = BytesMut::new();
/// encode_response(&mut wire, 7, flags::END, StatusCode::NOT_FOUND, &HeaderMap::new(), b"no such note")?;
/// let (header, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert!(header.is_end());
/// let (status, _, body) = decode_response(payload)?;
/// assert_eq!((status, &body[..]), (StatusCode::NOT_FOUND, &b"no such note"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, HeaderValue, StatusCode, header::LINK};
/// use pilotlight_pipe::frame::{MAX_FRAME, split_frame};
/// use pilotlight_pipe::head::{decode_info, encode_info};
///
/// let hints = HeaderMap::from_iter([(LINK, HeaderValue::from_static("</a.css>; rel=preload"))]);
/// let mut wire = BytesMut::new();
/// encode_info(&mut wire, 7, StatusCode::EARLY_HINTS, &hints)?;
/// let (_, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!(decode_info(payload)?, (StatusCode::EARLY_HINTS, hints));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`encode_request`].
pub fn encode_info(out: &mut BytesMut, exchange: u16, status: StatusCode, headers: &HeaderMap) -> Result<(), TooLarge> {
    response(out, FrameType::INFO, exchange, flags::NONE, status, headers, &[])
}

/// Appends TRAILERS, which end their direction (so END is set as well).
///
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, HeaderName, HeaderValue};
/// use pilotlight_pipe::frame::{MAX_FRAME, split_frame};
/// use pilotlight_pipe::head::{decode_fields, encode_fields};
///
/// let checksum = (HeaderName::from_static("x-checksum"), HeaderValue::from_static("abc"));
/// let fields = HeaderMap::from_iter([checksum]);
/// let mut wire = BytesMut::new();
/// encode_fields(&mut wire, 7, &fields)?;
/// let (header, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert!(header.is_end());
/// assert_eq!(decode_fields(&payload)?, fields);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
