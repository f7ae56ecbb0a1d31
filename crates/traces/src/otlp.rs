//! Spans in the binary form of OTLP 1 (`opentelemetry/proto/trace/v1/trace.proto`): Protocol Buffers, written field by
//! field. Field numbers stand beside each write.

use crate::context::{Flags, SpanId, TraceId};

/// Bytes of a text value; the rest is cut off at a character's end.
pub const MAX_VALUE_BYTES: usize = 1024;

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Something within this process.
    Internal = 1,
    /// A request that was answered.
    Server = 2,
    /// A request that was sent.
    Client = 3,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// Nothing to say, which is right unless there was an error.
    Unset,
    /// An error.
    Error,
}

/// Where the parent of a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentOrigin {
    /// In this process, or nowhere.
    Local,
    /// In another process.
    Remote,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A text, cut to [`MAX_VALUE_BYTES`].
    Text(&'a str),
    /// A number.
    Number(i64),
}

/// An attribute: its name of the semantic conventions, and its value.
pub type Attribute<'a> = (&'a str, Value<'a>);

/// Who made spans: the instrumentation scope.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// A span that is over.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Its trace.
    pub trace_id: TraceId,
    /// Itself.
    pub span_id: SpanId,
    /// The span that it is a part of, if it is no root.
    pub parent: Option<SpanId>,
    /// Where that is.
    pub parent_origin: ParentOrigin,
    /// The flags of its context.
    pub flags: Flags,
    /// `tracestate`, or empty.
    pub trace_state: &'a str,
    /// Its name, of low cardinality.
    pub name: &'a str,
    /// What it is of.
    pub kind: SpanKind,
    /// When it began, nanoseconds since 1970.
    pub start_ns: u64,
    /// When it ended, nanoseconds since 1970.
    pub end_ns: u64,
    /// What else is known of it.
    pub attributes: &'a [Attribute<'a>],
    /// What became of it.
    pub status: SpanStatus,
}

impl Span<'_> {
    /// Appends it as an element of `ScopeSpans.spans`, so that spans that follow each other are a list.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        nested(out, 2, |out| {
            bytes(out, 1, &self.trace_id.0);
            bytes(out, 2, &self.span_id.0);
            if !self.trace_state.is_empty() {
                bytes(out, 3, self.trace_state.as_bytes());
            }
            if let Some(parent) = &self.parent {
                bytes(out, 4, &parent.0);
            }
            bytes(out, 5, cut(self.name).as_bytes());
            number(out, 6, self.kind as u64);
            fixed64(out, 7, self.start_ns);
            fixed64(out, 8, self.end_ns.max(self.start_ns));
            self.attributes.iter().for_each(|attribute| put_attribute(out, 9, attribute));
            if self.status == SpanStatus::Error {
                nested(out, 15, |out| number(out, 3, 2)); // Status.code = STATUS_CODE_ERROR
            }
            // SpanFlags: the low byte is that of the context, then whether it is known where the parent is, and where.
            let origin = if self.parent_origin == ParentOrigin::Remote { 0x300 } else { 0x100 };
            fixed32(out, 16, u32::from(self.flags.bits()) | origin);
        });
    }
}

/// An `ExportTraceServiceRequest` with these spans, as [`Span::append_to`] has written them.
#[must_use]
pub fn export_request(resource: &[(String, String)], scope: Scope<'_>, spans: &[u8]) -> Vec<u8> {
    let (mut described, mut scoped) = (Vec::new(), Vec::new());
    // ResourceSpans.resource
    nested(&mut described, 1, |out| {
        for (name, value) in resource {
            put_attribute(out, 1, &(name.as_str(), Value::Text(value)));
        }
    });
    // ScopeSpans.scope
    nested(&mut scoped, 1, |out| {
        bytes(out, 1, scope.name.as_bytes());
        bytes(out, 2, scope.version.as_bytes());
    });
    let scope_spans = scoped.len() + spans.len();
    let resource_spans = described.len() + 1 + with_length(scope_spans);
    let mut out = Vec::with_capacity(1 + with_length(resource_spans));
    tag(&mut out, 1, LENGTH);
    varint(&mut out, resource_spans as u64);
    out.extend_from_slice(&described);
    tag(&mut out, 2, LENGTH);
    varint(&mut out, scope_spans as u64);
    out.extend_from_slice(&scoped);
    out.extend_from_slice(spans);
    out
}

/// How many spans the answer says were rejected: `ExportTraceServiceResponse.partial_success.rejected_spans`. What
/// cannot be read says nothing.
#[must_use]
pub fn rejected(answer: &[u8]) -> u64 {
    let partial_success = Fields(answer).find_map(|(number, value)| match value {
        Wire::Bytes(bytes) if number == 1 => Some(bytes),
        _ => None,
    });
    let rejected = Fields(partial_success.unwrap_or_default()).find_map(|(number, value)| match value {
        Wire::Varint(count) if number == 1 => Some(count),
        _ => None,
    });
    rejected.unwrap_or_default()
}

fn put_attribute(out: &mut Vec<u8>, field: u32, attribute: &Attribute<'_>) {
    let (name, value) = attribute;
    match value {
        Value::Text(text) => {
            let text = cut(text);
            put_key(out, field, name, 1 + with_length(text.len()));
            bytes(out, 1, text.as_bytes());
        }
        Value::Number(value) => {
            put_key(out, field, name, 1 + varint_bytes(*value as u64));
            number(out, 3, *value as u64);
        }
    }
}

/// A `KeyValue` up to its value, which is a message of so many bytes.
fn put_key(out: &mut Vec<u8>, field: u32, name: &str, value_bytes: usize) {
    tag(out, field, LENGTH);
    varint(out, (1 + with_length(name.len()) + 1 + with_length(value_bytes)) as u64);
    bytes(out, 1, name.as_bytes());
    tag(out, 2, LENGTH);
    varint(out, value_bytes as u64);
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_VALUE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

/// Bytes of a number.
fn varint_bytes(value: u64) -> usize {
    ((value | 1).ilog2() / 7) as usize + 1
}

/// Bytes of something with its length before it.
fn with_length(bytes: usize) -> usize {
    varint_bytes(bytes as u64) + bytes
}

#[inline]
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn tag(out: &mut Vec<u8>, field: u32, wire: u32) {
    varint(out, u64::from(field << 3 | wire));
}

fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, VARINT);
    varint(out, value);
}

fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    tag(out, field, FIXED32);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message within a message, whose length is known when it is written. Until then it has two bytes: right for those
/// of 128 bytes to 16 KiB.
fn nested(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, LENGTH);
    let begin = out.len();
    out.extend_from_slice(&[0; 2]);
    write(out);
    let length = out.len() - begin - 2;
    match varint_bytes(length as u64) {
        1 => {
            out[begin] = length as u8;
            out.copy_within(begin + 2.., begin + 1);
            out.pop();
        }
        2 => out[begin..begin + 2].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]),
        _ => {
            let mut prefix = Vec::new();
            varint(&mut prefix, length as u64);
            out.splice(begin..begin + 2, prefix);
        }
    }
}

/// A field of a message that is read.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message; it ends where it cannot be read on.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Wire<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let value = match (key & 7) as u32 {
            VARINT => Wire::Varint(self.varint()?),
            FIXED64 => self.take(8).map(|_| Wire::Other)?,
            LENGTH => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            FIXED32 => self.take(4).map(|_| Wire::Other)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span<'a>(name: &'a str, attributes: &'a [Attribute<'a>]) -> Span<'a> {
        Span {
            trace_id: TraceId([1; 16]),
            span_id: SpanId([2; 8]),
            parent: Some(SpanId([3; 8])),
            parent_origin: ParentOrigin::Remote,
            flags: Flags::SAMPLED,
            trace_state: "a=1",
            name,
            kind: SpanKind::Server,
            start_ns: 1,
            end_ns: 2,
            attributes,
            status: SpanStatus::Error,
        }
    }

    /// Byte by byte, as `protoc --encode` writes it.
    #[test]
    fn a_span_to_the_byte() {
        let mut out = Vec::new();
        span("x", &[("n", Value::Number(300)), ("t", Value::Text("v"))]).append_to(&mut out);
        let mut expected = vec![0x0a, 16];
        expected.extend([1; 16]);
        expected.extend([0x12, 8, 2, 2, 2, 2, 2, 2, 2, 2]);
        expected.extend(*b"\x1a\x03a=1");
        expected.extend([0x22, 8, 3, 3, 3, 3, 3, 3, 3, 3]);
        expected.extend(*b"\x2a\x01x\x30\x02");
        expected.extend([0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x41, 2, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(*b"\x4a\x08\x0a\x01n\x12\x03\x18\xac\x02");
        expected.extend(*b"\x4a\x08\x0a\x01t\x12\x03\x0a\x01v");
        expected.extend([0x7a, 2, 0x18, 2]);
        expected.extend([0x85, 1, 1, 3, 0, 0]);
        expected.splice(0..0, [0x12, expected.len() as u8]);
        assert_eq!(out, expected);
    }

    #[test]
    fn what_was_rejected() {
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"\x0a\x00"), 0);
        assert_eq!(rejected(b"\x0a\x05\x08\xac\x02\x12\x00"), 300);
        assert_eq!(rejected(b"{\"partialSuccess\":{}}"), 0);
        assert_eq!(rejected(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0);
    }

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_152] {
            let content = vec![7; length];
            let mut out = vec![1];
            nested(&mut out, 2, |out| out.extend_from_slice(&content));
            let mut expected = vec![1, 0x12];
            varint(&mut expected, length as u64);
            assert_eq!(expected.len(), 2 + varint_bytes(length as u64));
            expected.extend(content);
            assert!(out == expected, "{length}");
        }
        assert_eq!(varint_bytes(u64::MAX), 10);
    }

    #[test]
    fn long_texts_end_at_a_character() {
        let text = "ä".repeat(MAX_VALUE_BYTES);
        assert_eq!(cut(&text).len(), MAX_VALUE_BYTES);
        assert_eq!(cut(&format!("x{text}")).len(), MAX_VALUE_BYTES - 1);
    }

    proptest! {
        #[test]
        fn every_field_is_read_again(name in ".{0,300}", values in prop::collection::vec((".{0,20}", any::<i64>()), 0..9)) {
            let attributes: Vec<Attribute<'_>> = values.iter().map(|(k, v)| (k.as_str(), Value::Number(*v))).collect();
            let mut spans = Vec::new();
            span(&name, &attributes).append_to(&mut spans);
            let request = export_request(&[], Scope { name: "scope", version: "1" }, &spans);
            let inner = |bytes: &[u8], wanted: u64| -> Vec<Vec<u8>> {
                Fields(bytes).filter_map(|(number, value)| match value {
                    Wire::Bytes(bytes) if number == wanted => Some(bytes.to_vec()),
                    _ => None,
                }).collect()
            };
            let scope_spans = inner(&inner(&request, 1)[0], 2);
            let read = inner(&scope_spans[0], 2);
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(inner(&read[0], 5), vec![cut(&name).as_bytes().to_vec()]);
            prop_assert_eq!(inner(&read[0], 9).len(), attributes.len());
        }

        #[test]
        fn no_answer_is_too_strange(answer in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = rejected(&answer);
        }
    }
}
