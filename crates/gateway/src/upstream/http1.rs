//! HTTP/1.1 messages to and from services, as bytes (RFC 9112); no I/O.
//!
//! Strict where laxness lets two readers disagree about where a message ends (RFC 9112 §6.3, §11.2): a response with
//! both `Content-Length` and `Transfer-Encoding`, with different lengths, with a length that is no number, or with a coding other than `chunked` is an
//! error, never a guess.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use smallvec::SmallVec;

use super::length::{self, LengthError};
use crate::fields::{self, FieldList};

/// Largest response head taken from a service.
pub(crate) const MAX_RESPONSE_HEAD: usize = 128 * 1024;
/// Most header fields taken from a service.
pub(crate) const MAX_RESPONSE_FIELDS: usize = 256;
/// Most of them for which nothing is allocated while the head is parsed.
const COMMON_FIELDS: usize = 64;
/// Longest line of a chunk's size with its extensions.
const MAX_CHUNK_LINE: usize = 1024;
/// Largest trailer section.
const MAX_TRAILERS: usize = 16 * 1024;

/// What is wrong with a service's bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ParseError {
    #[error("the answer does not begin as an HTTP/1 response: {0}")]
    Head(httparse::Error),
    #[error("the answer's header fields are larger than {MAX_RESPONSE_HEAD} bytes")]
    HeadTooLarge,
    #[error("the answer has more than {MAX_RESPONSE_FIELDS} header fields")]
    TooManyFields,
    #[error("the answer's length is ambiguous: {0}")]
    Length(#[from] LengthError),
    #[error("the answer's length is ambiguous: {0}")]
    Framing(&'static str),
    #[error("the answer's chunked body is malformed: {0}")]
    Chunk(&'static str),
}

/// How the end of a response body is known (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// A parsed response head; fields that belong to the connection are left out, but `Upgrade` of a 101.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
}

/// Takes one response head off the front of `buf`, or `None` when it is not whole yet.
pub(crate) fn parse_response_head(buf: &mut BytesMut, method: &Method) -> Result<Option<ResponseHead>, ParseError> {
    // Names and values are found as ranges, so that the fields can share the buffer instead of being copied.
    let mut ranges = SmallVec::<[(u32, u32, u32, u32); COMMON_FIELDS]>::new();
    understand_version(buf);
    let base = buf.as_ptr() as usize;
    let (length, status, minor) = {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_RESPONSE_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        match httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, buf, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length > MAX_RESPONSE_HEAD => {
                return Err(ParseError::HeadTooLarge);
            }
            Ok(httparse::Status::Complete(length)) => {
                let start = |s: &[u8]| (s.as_ptr() as usize - base) as u32;
                ranges.extend(response.headers.iter().map(|field| {
                    let (name, value) = (field.name.as_bytes(), field.value);
                    (start(name), name.len() as u32, start(value), value.len() as u32)
                }));
                (length, response.code.unwrap_or(0), response.version.unwrap_or(1))
            }
            Ok(httparse::Status::Partial) if buf.len() > MAX_RESPONSE_HEAD => return Err(ParseError::HeadTooLarge),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(ParseError::TooManyFields),
            Err(e) => return Err(ParseError::Head(e)),
        }
    };
    let status = StatusCode::from_u16(status).map_err(|_| ParseError::Head(httparse::Error::Status))?;
    let head = buf.split_to(length).freeze();
    let mut headers = HeaderMap::with_capacity(ranges.len() + 4);
    for (name, name_len, value, value_len) in &ranges {
        let (name, value) = (*name as usize..(name + name_len) as usize, *value as usize..(value + value_len) as usize);
        let name = HeaderName::from_bytes(&head[name]).map_err(|_| ParseError::Head(httparse::Error::HeaderName))?;
        let value = if value.is_empty() { Bytes::new() } else { head.slice(value) };
        let value =
            HeaderValue::from_maybe_shared(value).map_err(|_| ParseError::Head(httparse::Error::HeaderValue))?;
        headers.append(name, value);
    }
    let framing = framing_of(method, status, &mut headers)?;
    // RFC 9112 §6.1: the framing of HTTP/1.0 with a transfer coding is taken for faulty.
    let faulty = minor == 0 && headers.contains_key(TRANSFER_ENCODING);
    let persistent = !faulty
        && match fields::FieldList::connection(&headers) {
            list if list.contains("close") => false,
            list => minor == 1 || list.contains("keep-alive"),
        };
    let keep_alive = persistent && framing != Framing::UntilClose;
    let protocol = headers.get(UPGRADE).filter(|_| status == StatusCode::SWITCHING_PROTOCOLS).cloned();
    fields::strip_hop_by_hop(&mut headers);
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    Ok(Some(ResponseHead { status, headers, framing, keep_alive }))
}

/// RFC 9110 §2.5: a higher minor version is read as the highest that is known here.
fn understand_version(buf: &mut BytesMut) {
    if matches!(buf.get(..8), Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'])) {
        buf[7] = b'1';
    }
}

/// RFC 9112 §6.3, in its order. What is left of `Content-Length` may be sent on.
fn framing_of(method: &Method, status: StatusCode, headers: &mut HeaderMap) -> Result<Framing, ParseError> {
    let length = length::settle(headers)?;
    let is_coded = headers.contains_key(TRANSFER_ENCODING);
    // RFC 9110 §8.6: these never have a body, and no length either.
    let never = status.is_informational() || status == StatusCode::NO_CONTENT;
    if never || *method == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        if length.is_some() && (never || is_coded) {
            headers.remove(CONTENT_LENGTH); // of a coded body, it would be that of the coding
        }
        return Ok(Framing::None);
    }
    if !is_coded {
        return Ok(length.map_or(Framing::UntilClose, Framing::Length));
    }
    if length.is_some() {
        return Err(ParseError::Framing("both Content-Length and Transfer-Encoding"));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = codings.next().is_some_and(|c| c.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"));
    if !is_chunked || codings.next().is_some() {
        return Err(ParseError::Framing("a Transfer-Encoding other than chunked"));
    }
    Ok(Framing::Chunked)
}

/// Writes a request head. `chunked` adds `Transfer-Encoding`; a known length is among the fields already.
pub(crate) fn encode_request_head(
    out: &mut BytesMut,
    method: &Method,
    target: &str,
    authority: &str,
    chunked: bool,
    fields: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
) {
    out.reserve(512);
    out.extend_from_slice(method.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(authority.as_bytes());
    out.extend_from_slice(b"\r\n");
    fields(&mut |name, value| {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    });
    if chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes one chunk (RFC 9112 §7.1); an empty one would end the body and is not written.
pub(crate) fn encode_chunk(out: &mut BytesMut, data: &[u8]) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the last chunk and the trailers.
pub(crate) fn encode_last_chunk(out: &mut BytesMut, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    let hop = FieldList::default();
    for (name, value) in trailers.into_iter().flatten() {
        if !fields::is_hop_by_hop(name, &hop) {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// What [`Decoder::decode`] found at the front of a buffer.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    Data(Bytes),
    Trailers(HeaderMap),
    /// The body is complete.
    End,
    /// More bytes are needed.
    More,
}

/// Takes a body apart by its framing; resumable at any byte.
#[derive(Debug)]
pub(crate) enum Decoder {
    Length(u64),
    UntilClose,
    Chunked(Chunk),
    Ended,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
}

impl Decoder {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None | Framing::Length(0) => Self::Ended,
            Framing::Length(n) => Self::Length(n),
            Framing::Chunked => Self::Chunked(Chunk::Size),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self, Self::Ended)
    }

    /// Takes the next piece off the front of `buf`.
    pub(crate) fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, ParseError> {
        match self {
            Self::Ended => Ok(Decoded::End),
            _ if buf.is_empty() => Ok(Decoded::More),
            Self::UntilClose => Ok(Decoded::Data(buf.split().freeze())),
            Self::Length(left) => {
                let data = take(buf, left);
                if *left == 0 {
                    *self = Self::Ended;
                }
                Ok(Decoded::Data(data))
            }
            Self::Chunked(_) => self.decode_chunked(buf),
        }
    }

    fn decode_chunked(&mut self, buf: &mut BytesMut) -> Result<Decoded, ParseError> {
        loop {
            let Self::Chunked(state) = self else { return Ok(Decoded::End) };
            match state {
                // It takes a line without a size for the last chunk.
                Chunk::Size if buf.first().is_some_and(|first| !first.is_ascii_hexdigit()) => {
                    return Err(ParseError::Chunk("a chunk has no size"));
                }
                Chunk::Size => match httparse::parse_chunk_size(buf) {
                    Ok(httparse::Status::Complete((used, size))) => {
                        buf.advance(used);
                        *state = if size == 0 { Chunk::Trailers } else { Chunk::Data(size) };
                    }
                    Ok(httparse::Status::Partial) if buf.len() > MAX_CHUNK_LINE => {
                        return Err(ParseError::Chunk("the line with a chunk's size is too long"));
                    }
                    Ok(httparse::Status::Partial) => return Ok(Decoded::More),
                    Err(_) => return Err(ParseError::Chunk("a chunk's size is not a hexadecimal number")),
                },
                Chunk::Data(left) => {
                    if buf.is_empty() {
                        return Ok(Decoded::More);
                    }
                    let data = take(buf, left);
                    if *left == 0 {
                        *state = Chunk::DataEnd;
                    }
                    return Ok(Decoded::Data(data));
                }
                Chunk::DataEnd => match buf.get(..2) {
                    None => return Ok(Decoded::More),
                    Some(b"\r\n") => {
                        buf.advance(2);
                        *state = Chunk::Size;
                    }
                    Some(_) => return Err(ParseError::Chunk("a chunk is longer than its size says")),
                },
                Chunk::Trailers => {
                    let trailers = parse_trailers(buf)?;
                    let Some(trailers) = trailers else { return Ok(Decoded::More) };
                    *self = Self::Ended;
                    return Ok(if trailers.is_empty() { Decoded::End } else { Decoded::Trailers(trailers) });
                }
            }
        }
    }
}

fn take(buf: &mut BytesMut, left: &mut u64) -> Bytes {
    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(buf.len());
    *left -= n as u64;
    buf.split_to(n).freeze()
}

fn parse_trailers(buf: &mut BytesMut) -> Result<Option<HeaderMap>, ParseError> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    match httparse::parse_headers(buf, &mut fields) {
        // RFC 9112 §2.2 allows a line feed alone; two readers that disagree about it disagree about where the answer ends.
        Ok(httparse::Status::Complete((used, _))) if has_bare_line_feed(&buf[..used]) => {
            Err(ParseError::Chunk("a line of the trailers does not end with CR LF"))
        }
        Ok(httparse::Status::Complete((used, found))) => {
            let mut map = HeaderMap::new();
            for field in found {
                let name = HeaderName::from_bytes(field.name.as_bytes());
                let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) else {
                    return Err(ParseError::Chunk("a trailer field is malformed"));
                };
                map.append(name, value);
            }
            buf.advance(used);
            Ok(Some(map))
        }
        Ok(httparse::Status::Partial) if buf.len() > MAX_TRAILERS => {
            Err(ParseError::Chunk("the trailers are too long"))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(ParseError::Chunk("the trailers are malformed")),
    }
}

fn has_bare_line_feed(lines: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', lines).any(|at| at == 0 || lines[at - 1] != b'\r')
}

#[cfg(test)]
#[path = "http1/tests.rs"]
mod tests;
