//! HTTP/1.1 messages to and from services: [`pilotlight_http1`] in the types that the gateway uses.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pilotlight_http1::{
    BodyDecoder, BodyPiece, FieldLines, FieldTable, Fields, Known, Limits, MessageWriter, Persistence,
};
pub(crate) use pilotlight_http1::{BodyEncoder, BodyLength, Malformed};

use super::{MAX_GATHERED, MIN_PIECE};
use crate::fields;
use crate::outbound::Outbound;
use crate::response::ResponseFields;

/// How much of a service's response is taken.
pub(crate) const LIMITS: Limits = Limits::RESPONSE;

/// The end of a chunk, with the last one and its end: nothing that is worth a copy follows.
const MIN_FURTHER: usize = 7;

/// A parsed response head; fields that belong to the connection are left out, but `Upgrade` of a 101.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) fields: ResponseFields,
    pub(crate) body: BodyLength,
    pub(crate) keep_alive: bool,
}

/// In which form the fields of a response are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// To be passed on as they are.
    Lines,
    /// To be looked at.
    Map,
}

/// Room for what the gateway adds: `Cache-Status`, `X-Request-Id`.
const MORE_BYTES: usize = 128;

/// Takes one response head off the front of `buf`, or `None` when it is not whole yet. `table` is used again for each.
pub(crate) fn parse_response_head(
    buf: &mut BytesMut,
    method: &Method,
    keep: Keep,
    table: &mut FieldTable,
) -> Result<Option<ResponseHead>, Malformed> {
    let Some(head) = pilotlight_http1::parse_response(buf, method.as_str(), table, &LIMITS)? else { return Ok(None) };
    let (length, body, content_length) = (head.length, head.body, head.content_length);
    let status = StatusCode::from_u16(head.status).map_err(|_| Malformed::Status)?;
    let keep_alive = head.persistence == Persistence::KeepAlive;
    if keep == Keep::Lines && !status.is_informational() {
        let mut lines = FieldLines::with_capacity(length + MORE_BYTES);
        head.fields.copy_to(&mut lines, |field| field.known != Known::ContentLength);
        buf.advance(length);
        let fields = ResponseFields::lines(lines, content_length);
        return Ok(Some(ResponseHead { status, fields, body, keep_alive }));
    }
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
    Ok(Some(ResponseHead { status, fields: headers.into(), body, keep_alive }))
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
pub(crate) fn encode_request_head(out: &mut BytesMut, outbound: &Outbound, chunked: bool) {
    let authority = if outbound.host().is_empty() { "localhost" } else { outbound.host() };
    let target = outbound.target();
    let mut writer = MessageWriter::request(out, outbound.head.method.as_str(), target.as_bytes(), authority);
    match outbound.received_lines() {
        Some(lines) => {
            writer.lines(lines);
        }
        None => outbound.received_fields(&mut |name, value| {
            writer.field(name, value);
        }),
    }
    outbound.write_own_fields(writer.out());
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

/// Takes a body off a buffer. Small pieces are gathered over as many reads as have something: each costs a turn of
/// everything behind, however small it is.
#[derive(Debug)]
pub(crate) struct Decoder {
    body: BodyDecoder,
    is_until_close: bool,
    gathered: BytesMut,
}

impl Decoder {
    pub(crate) fn new(length: BodyLength) -> Self {
        let is_until_close = length == BodyLength::UntilClose;
        Self { body: BodyDecoder::new(length), is_until_close, gathered: BytesMut::new() }
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

    /// What was gathered; to be asked for when there is nothing to read, as nothing is waited for.
    pub(crate) fn take_gathered(&mut self) -> Option<Bytes> {
        (!self.gathered.is_empty()).then(|| std::mem::take(&mut self.gathered).freeze())
    }

    /// Takes the next piece off the front of `buf`. `table` is used again for each trailer section.
    pub(crate) fn decode(&mut self, buf: &mut BytesMut, table: &mut FieldTable) -> Result<Decoded, Malformed> {
        loop {
            let piece = self.body.decode(buf, &LIMITS);
            if let Ok(BodyPiece::Data { skip, .. } | BodyPiece::Trailers { skip } | BodyPiece::Incomplete { skip }) =
                piece
            {
                buf.advance(skip);
            }
            // The end, or what is wrong, is told after what came before it.
            if !matches!(piece, Ok(BodyPiece::Data { .. } | BodyPiece::Incomplete { .. }))
                && let Some(data) = self.take_gathered()
            {
                return Ok(Decoded::Data(data));
            }
            match piece? {
                BodyPiece::End => return Ok(Decoded::End),
                BodyPiece::Incomplete { .. } => return Ok(Decoded::More),
                BodyPiece::Data { .. } if self.is_until_close => return Ok(Decoded::Data(buf.split().freeze())),
                BodyPiece::Data { length, .. } => {
                    let is_worth_a_copy = length < MIN_PIECE && buf.len() > length + MIN_FURTHER;
                    if self.gathered.is_empty() && !is_worth_a_copy {
                        return Ok(Decoded::Data(buf.split_to(length).freeze()));
                    }
                    self.gather(buf, length);
                    if self.gathered.len() >= MAX_GATHERED
                        && let Some(data) = self.take_gathered()
                    {
                        return Ok(Decoded::Data(data));
                    }
                }
                BodyPiece::Trailers { .. } => return self.trailers(buf, table),
            }
        }
    }

    /// Takes these data and the chunks behind them.
    fn gather(&mut self, buf: &mut BytesMut, length: usize) {
        if self.gathered.is_empty() {
            self.gathered.reserve(MAX_GATHERED.min(buf.len()));
        }
        self.gathered.extend_from_slice(&buf[..length]);
        buf.advance(length);
        let taken = self.body.gather(buf, &LIMITS, &mut self.gathered, MAX_GATHERED);
        buf.advance(taken);
    }

    fn trailers(&mut self, buf: &mut BytesMut, table: &mut FieldTable) -> Result<Decoded, Malformed> {
        let Some((_, length)) = pilotlight_http1::parse_trailers(buf, table, &LIMITS)? else {
            return Ok(Decoded::More);
        };
        self.body.trailers_read();
        let bytes = buf.split_to(length).freeze();
        let trailers = end_to_end(&bytes, table.fields(&bytes))?;
        Ok(if trailers.is_empty() { Decoded::End } else { Decoded::Trailers(trailers) })
    }
}

#[cfg(test)]
#[path = "http1/tests.rs"]
mod tests;
