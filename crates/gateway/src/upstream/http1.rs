//! HTTP/1.1 messages to and from services: [`pilotlight_http1`] in the types that the gateway uses.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pilotlight_http1::{BodyDecoder, BodyPiece, FieldTable, Fields, Known, Limits, MessageWriter, Persistence};
pub(crate) use pilotlight_http1::{BodyEncoder, BodyLength, Malformed};

use crate::fields;

/// How much of a service's answer is taken.
pub(crate) const LIMITS: Limits = Limits::RESPONSE;

/// A piece below this size is passed on with what follows it in the buffer.
const SMALL_PIECE: usize = 4 * 1024;
/// The end of a chunk, with the last one and its end: nothing that is worth a copy follows.
const MIN_FURTHER: usize = 7;
/// A gathered piece is not made larger than this, but for the last one that is added.
const MAX_GATHERED: usize = 16 * 1024;

/// A parsed response head; fields that belong to the connection are left out, but `Upgrade` of a 101.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BodyLength,
    pub(crate) keep_alive: bool,
}

/// Takes one response head off the front of `buf`, or `None` when it is not whole yet. `table` is used again for each.
pub(crate) fn parse_response_head(
    buf: &mut BytesMut,
    method: &Method,
    table: &mut FieldTable,
) -> Result<Option<ResponseHead>, Malformed> {
    let Some(head) = pilotlight_http1::parse_response(buf, method.as_str(), table, &LIMITS)? else { return Ok(None) };
    let (length, body, content_length) = (head.length, head.body, head.content_length);
    let status = StatusCode::from_u16(head.status).map_err(|_| Malformed::Status)?;
    let keep_alive = head.persistence == Persistence::KeepAlive;
    let protocol = head.upgrade.and_then(|protocol| HeaderValue::from_bytes(protocol).ok());
    // The fields share the bytes instead of being copied.
    let bytes = buf.split_to(length).freeze();
    let mut headers = end_to_end(&bytes, table.fields(&bytes))?;
    if let Some(length) = content_length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    Ok(Some(ResponseHead { status, headers, body, keep_alive }))
}

/// What is passed on of the fields, `Content-Length` apart.
fn end_to_end(bytes: &Bytes, fields: Fields<'_>) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::with_capacity(fields.len() + 4);
    for field in fields.end_to_end().filter(|field| field.known != Known::ContentLength) {
        let name = HeaderName::from_bytes(field.name).map_err(|_| Malformed::FieldName)?;
        let value = if field.value.is_empty() { Bytes::new() } else { bytes.slice_ref(field.value) };
        headers.append(name, HeaderValue::from_maybe_shared(value).map_err(|_| Malformed::ValueByte)?);
    }
    Ok(headers)
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
    let mut writer = MessageWriter::request(out, method.as_str(), target.as_bytes(), authority);
    fields(&mut |name, value| {
        writer.field(name, value);
    });
    if chunked {
        writer.framing(BodyLength::Chunked);
    }
    writer.end();
}

/// Writes the last chunk and the trailers.
pub(crate) fn encode_last_chunk(out: &mut BytesMut, trailers: Option<&HeaderMap>) {
    let mut writer = MessageWriter::trailers(out);
    for (name, value) in trailers.into_iter().flatten() {
        if !fields::is_hop_by_hop(name) {
            writer.field(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    writer.end();
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

/// Takes a body off a buffer.
#[derive(Debug)]
pub(crate) struct Decoder {
    body: BodyDecoder,
    is_until_close: bool,
}

impl Decoder {
    pub(crate) fn new(length: BodyLength) -> Self {
        Self { body: BodyDecoder::new(length), is_until_close: length == BodyLength::UntilClose }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.body.is_ended()
    }

    /// Bytes that are still to come, if that is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// The service closed the connection: the end of a body that lasts until then.
    pub(crate) fn closed(&mut self) -> Result<(), Malformed> {
        self.body.closed()
    }

    /// Takes the next piece off the front of `buf`. `table` is used again for each trailer section.
    pub(crate) fn decode(&mut self, buf: &mut BytesMut, table: &mut FieldTable) -> Result<Decoded, Malformed> {
        match self.body.decode(buf, &LIMITS)? {
            BodyPiece::End => Ok(Decoded::End),
            BodyPiece::Incomplete { skip } => {
                buf.advance(skip);
                Ok(Decoded::More)
            }
            BodyPiece::Data { .. } if self.is_until_close => Ok(Decoded::Data(buf.split().freeze())),
            BodyPiece::Data { skip, length } => {
                buf.advance(skip);
                let first = buf.split_to(length).freeze();
                if length >= SMALL_PIECE || buf.len() <= MIN_FURTHER {
                    return Ok(Decoded::Data(first));
                }
                // Each piece costs a turn of everything behind, however small it is. Nothing is waited for.
                let mut all = BytesMut::with_capacity(MAX_GATHERED.min(length + buf.len()));
                all.extend_from_slice(&first);
                let taken = self.body.gather(buf, &LIMITS, &mut all, MAX_GATHERED);
                buf.advance(taken);
                Ok(Decoded::Data(all.freeze()))
            }
            BodyPiece::Trailers { skip } => {
                buf.advance(skip);
                let Some((_, length)) = pilotlight_http1::parse_trailers(buf, table, &LIMITS)? else {
                    return Ok(Decoded::More);
                };
                self.body.trailers_read();
                let bytes = buf.split_to(length).freeze();
                let trailers = end_to_end(&bytes, table.fields(&bytes))?;
                Ok(if trailers.is_empty() { Decoded::End } else { Decoded::Trailers(trailers) })
            }
        }
    }
}

#[cfg(test)]
#[path = "http1/tests.rs"]
mod tests;
