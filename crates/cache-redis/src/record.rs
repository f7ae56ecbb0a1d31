//! What is kept in Redis under one key: a stored response, or the fields that a target's responses vary on, or a
//! tombstone. The bytes are specified in docs/spec/cache-record.md; the numbers (R-…) are those of its rules.
//!
//! ```text
//! "PLR" version kind generation(8) crc32(4) │ key status freshness position selection fields body
//!                                           └ of all other bytes
//! ```
//!
//! It refuses to know sockets, keys of Redis and the time.

mod error;
mod wire;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pilotlight_cache::{Freshness, Key, LifetimeSource, Parts, Selection, Timestamp};

pub use self::error::RecordError;
use self::wire::{Reader, Writer};

/// R-1: the first bytes, with the version of the format.
const MAGIC: &[u8; 4] = b"PLR\x01";
/// R-2: where the generation is, for whoever compares it without reading the rest.
pub(crate) const GENERATION_AT: std::ops::Range<usize> = 5..13;
const CRC_AT: std::ops::Range<usize> = 13..17;
const PAYLOAD_AT: usize = 17;

/// R-7: fields of a response; a record with more is refused.
const MAX_FIELDS: usize = 1024;

/// Names one life of what is stored for a target. An invalidation begins another one; what was made in an earlier one
/// is neither read nor written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation(pub [u8; 8]);

impl Generation {
    /// One that nobody else has, as far as 64 random bits go.
    pub(crate) fn random() -> Self {
        Self(fastrand::u64(1..).to_le_bytes())
    }

    /// That of a record, which need not be readable otherwise.
    pub(crate) fn of(record: &[u8]) -> Option<Self> {
        record.get(GENERATION_AT)?.try_into().ok().map(Self)
    }
}

/// A record, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The life of the target that it belongs to.
    pub generation: Generation,
    /// What it says.
    pub content: Content,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A response.
    Response(Box<Response>),
    /// There are several responses, each under a key of its own, by these fields of the request.
    Variants(Vec<HeaderName>),
    /// The target was invalidated.
    Tombstone,
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Everything but the body, if that is apart.
    pub parts: Parts,
    /// Where the body is, unless it is in `parts`.
    pub apart: Option<Apart>,
    /// The number in the log of purges that was current when its fetch began.
    pub position: u64,
}

/// A body under a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apart {
    /// Ties it to its head: no other body was ever stored under it.
    pub id: u64,
    /// Its length.
    pub length: u64,
    /// Its checksum.
    pub crc: u32,
}

impl Apart {
    /// For a body that is to be stored apart.
    #[must_use]
    pub fn new(body: &[u8]) -> Self {
        Self { id: fastrand::u64(..), length: body.len() as u64, crc: crc32fast::hash(body) }
    }

    /// Whether this is that body.
    #[must_use]
    pub fn is(&self, body: &[u8]) -> bool {
        self.length == body.len() as u64 && self.crc == crc32fast::hash(body)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Whole = 1,
    Apart = 2,
    Variants = 3,
    Tombstone = 4,
}

/// Writes a response. With `apart`, its body is not in it.
#[must_use]
pub fn encode_response(generation: Generation, key: &Key<'_>, response: &Response) -> Vec<u8> {
    let Response { parts, apart, position } = response;
    let kind = if apart.is_some() { Kind::Apart } else { Kind::Whole };
    let fields: usize = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut to = begin(kind, generation, 96 + key.target.len() + key.authority.len() + fields + parts.body.len());
    for part in [key.scheme, key.authority, key.target, key.extra] {
        to.bytes(part.as_bytes());
    }
    to.number(u64::from(parts.status.as_u16()));
    freshness(&mut to, &parts.freshness);
    to.number(*position);
    to.number(parts.selection.fields().len() as u64);
    for (name, value) in parts.selection.fields() {
        to.bytes(name.as_str().as_bytes());
        // R-6: the length of the value and one, or nothing where there was no field.
        to.number(value.map_or(0, |value| value.len() as u64 + 1));
        to.raw(value.unwrap_or_default());
    }
    to.number(parts.headers.len() as u64);
    for (name, value) in &parts.headers {
        to.bytes(name.as_str().as_bytes());
        to.bytes(value.as_bytes());
    }
    match apart {
        None => to.raw(&parts.body),
        Some(Apart { id, length, crc }) => {
            to.raw(&id.to_le_bytes());
            to.raw(&crc.to_le_bytes());
            to.number(*length);
        }
    }
    finish(to)
}

/// Writes the fields that a target's responses vary on.
#[must_use]
pub fn encode_variants<'a>(generation: Generation, names: impl ExactSizeIterator<Item = &'a HeaderName>) -> Vec<u8> {
    let mut to = begin(Kind::Variants, generation, 64);
    to.number(names.len() as u64);
    names.for_each(|name| to.bytes(name.as_str().as_bytes()));
    finish(to)
}

/// Writes a tombstone.
#[must_use]
pub fn encode_tombstone(generation: Generation) -> Vec<u8> {
    finish(begin(Kind::Tombstone, generation, 0))
}

/// Reads a record of the target `key`. The response's values and body share one copy of `record`, which may be a part
/// of a larger buffer.
///
/// # Errors
/// The record is of no use.
pub fn decode(record: &[u8], key: &Key<'_>) -> Result<Record, RecordError> {
    // R-1
    if record.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(RecordError::Unknown);
    }
    let (Some(generation), Some(crc), Some(payload)) =
        (Generation::of(record), record.get(CRC_AT), record.get(PAYLOAD_AT..))
    else {
        return Err(RecordError::Damaged);
    };
    // R-3
    if crc != checksum(record, payload).to_le_bytes() {
        return Err(RecordError::Damaged);
    }
    let content = match record.get(MAGIC.len()) {
        Some(&kind) if kind == Kind::Whole as u8 => response(Kind::Whole, payload, key)?,
        Some(&kind) if kind == Kind::Apart as u8 => response(Kind::Apart, payload, key)?,
        Some(&kind) if kind == Kind::Variants as u8 => Content::Variants(variants(payload)?),
        Some(&kind) if kind == Kind::Tombstone as u8 && payload.is_empty() => Content::Tombstone,
        _ => return Err(RecordError::Unknown),
    };
    Ok(Record { generation, content })
}

/// Gives a record the checksum that belongs to it, for tools and tests. `false`: it is too short to be one.
pub fn repair(record: &mut [u8]) -> bool {
    let crc = checksum(record, record.get(PAYLOAD_AT..).unwrap_or_default()).to_le_bytes();
    let place = record.get_mut(CRC_AT);
    let is_long_enough = place.is_some();
    if let Some(place) = place {
        place.copy_from_slice(&crc);
    }
    is_long_enough
}

fn begin(kind: Kind, generation: Generation, capacity: usize) -> Writer {
    let mut to = Writer::with_capacity(PAYLOAD_AT + capacity);
    to.raw(MAGIC);
    to.raw(&[kind as u8]);
    to.raw(&generation.0);
    to.raw(&[0; 4]);
    to
}

fn finish(to: Writer) -> Vec<u8> {
    let mut record = to.finish();
    repair(&mut record);
    record
}

fn checksum(record: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(record.get(..CRC_AT.start).unwrap_or_default());
    crc.update(payload);
    crc.finalize()
}

/// R-5: what a response demands, and which windows follow.
const MUST_REVALIDATE: u64 = 2;
const NO_CACHE: u64 = 4;
const WHILE_REVALIDATE: u64 = 32;
const IF_ERROR: u64 = 64;

/// R-5: where a lifetime comes from.
const SOURCES: [(LifetimeSource, u64); 4] = [
    (LifetimeSource::Response, 0),
    (LifetimeSource::Route, 1),
    (LifetimeSource::Heuristic, 8),
    (LifetimeSource::Targeted, 16),
];

/// R-5: times in milliseconds, and what the response demands.
fn freshness(to: &mut Writer, freshness: &Freshness) {
    to.number(freshness.received.0);
    to.number(freshness.initial_age_ms);
    to.number(freshness.lifetime_ms);
    let source = SOURCES.iter().find(|(source, _)| *source == freshness.source).map_or(0, |(_, bit)| *bit);
    let when = |is: bool, bit: u64| if is { bit } else { 0 };
    let (revalidate_ms, error_ms) = (freshness.while_revalidate_ms, freshness.if_error_ms);
    to.number(
        source
            | when(freshness.must_revalidate, MUST_REVALIDATE)
            | when(freshness.no_cache, NO_CACHE)
            | when(revalidate_ms > 0, WHILE_REVALIDATE)
            | when(error_ms > 0, IF_ERROR),
    );
    [revalidate_ms, error_ms].into_iter().filter(|window| *window > 0).for_each(|window| to.number(window));
}

fn read_freshness(from: &mut Reader<'_>) -> Result<Freshness, RecordError> {
    let (received, initial_age_ms, lifetime_ms) = (Timestamp(from.number()?), from.number()?, from.number()?);
    let demands = from.number()?;
    let source = demands & !(MUST_REVALIDATE | NO_CACHE | WHILE_REVALIDATE | IF_ERROR);
    // Of a demand that is not known here nobody knows what it forbids.
    let source = SOURCES.iter().find(|(_, bit)| *bit == source).ok_or(RecordError::Unknown)?.0;
    let mut window = |bit: u64| if demands & bit == 0 { Ok(0) } else { from.number() };
    let (while_revalidate_ms, if_error_ms) = (window(WHILE_REVALIDATE)?, window(IF_ERROR)?);
    Ok(Freshness {
        received,
        initial_age_ms,
        lifetime_ms,
        source,
        must_revalidate: demands & MUST_REVALIDATE != 0,
        no_cache: demands & NO_CACHE != 0,
        while_revalidate_ms,
        if_error_ms,
    })
}

fn response(kind: Kind, payload: &[u8], key: &Key<'_>) -> Result<Content, RecordError> {
    let mut from = Reader::new(payload);
    // R-4: the hash of a key is no proof.
    for part in [key.scheme, key.authority, key.target, key.extra] {
        if from.bytes()? != part.as_bytes() {
            return Err(RecordError::OtherTarget);
        }
    }
    let status = u16::try_from(from.number()?).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or(RecordError::Damaged)?;
    let freshness = read_freshness(&mut from)?;
    let position = from.number()?;
    let mut selection = Vec::new();
    for _ in 0..from.count(MAX_FIELDS)? {
        let name = name(from.bytes()?)?;
        let value = match from.number()?.checked_sub(1) {
            Some(length) => Some(from.raw(length)?.into()),
            None => None,
        };
        selection.push((name, value));
    }
    // One copy that all values share: the reply may be a part of a large read buffer, which they would keep.
    let rest = Bytes::copy_from_slice(from.rest());
    let mut from = Reader::new(&rest);
    let headers = headers(&mut from, &rest)?;
    let (apart, body) = match kind {
        Kind::Apart => {
            let id = u64::from_le_bytes(from.array()?);
            let crc = u32::from_le_bytes(from.array()?);
            let length = from.number()?;
            if !from.rest().is_empty() {
                return Err(RecordError::Damaged);
            }
            (Some(Apart { id, length, crc }), Bytes::new())
        }
        _ => (None, rest.slice_ref(from.rest())),
    };
    let parts = Parts { status, headers, body, selection: Selection::from_fields(selection), freshness };
    Ok(Content::Response(Box::new(Response { parts, apart, position })))
}

fn headers(from: &mut Reader<'_>, shared: &Bytes) -> Result<HeaderMap, RecordError> {
    let count = from.count(MAX_FIELDS)?;
    // Two more are added to each response, and a table that is full grows by twice its size.
    let mut headers = HeaderMap::with_capacity(count + 2);
    for _ in 0..count {
        let name = name(from.bytes()?)?;
        let value = HeaderValue::from_maybe_shared(shared.slice_ref(from.bytes()?));
        headers.append(name, value.map_err(|_| RecordError::Damaged)?);
    }
    Ok(headers)
}

fn variants(payload: &[u8]) -> Result<Vec<HeaderName>, RecordError> {
    let mut from = Reader::new(payload);
    let mut names = Vec::new();
    for _ in 0..from.count(MAX_FIELDS)? {
        names.push(name(from.bytes()?)?);
    }
    if from.rest().is_empty() { Ok(names) } else { Err(RecordError::Damaged) }
}

fn name(bytes: &[u8]) -> Result<HeaderName, RecordError> {
    HeaderName::from_bytes(bytes).map_err(|_| RecordError::Damaged)
}

#[cfg(test)]
mod tests;
