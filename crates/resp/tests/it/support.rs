//! Values in few words, and decoding in any pieces.

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Attributed, Attributes, DecodeError, Decoder, Frame, Limits, Value};

/// What became of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It ends between two frames.
    Complete,
    /// It ends within a frame.
    Incomplete,
    Malformed(DecodeError),
}

/// Equal as text, because NaN is not equal to itself.
#[track_caller]
pub(crate) fn same<T: std::fmt::Debug>(left: &T, right: &T, what: impl std::fmt::Display) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"), "{what}");
}

pub(crate) fn decode_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
    attributes: Attributes,
) -> Decoded {
    let mut decoder = Decoder::new(limits).with_attributes(attributes);
    let (mut input, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.decode(&mut input), Err(error), "an error is final");
                    return Decoded { frames, end: End::Malformed(error) };
                }
            }
        }
    }
    let end = if decoder.is_idle() && input.is_empty() { End::Complete } else { End::Incomplete };
    Decoded { frames, end }
}

pub(crate) fn decode(stream: &[u8]) -> Decoded {
    decode_pieces([stream], Limits::default(), Attributes::Keep)
}

/// The same in one piece, byte by byte, and cut in two at each place.
#[track_caller]
pub(crate) fn decode_every_way(stream: &[u8], limits: Limits, attributes: Attributes) -> Decoded {
    let whole = decode_pieces([stream], limits, attributes);
    let shown = stream.escape_ascii();
    same(&decode_pieces(stream.chunks(1), limits, attributes), &whole, format_args!("{shown}, byte by byte"));
    for at in 0..=stream.len() {
        let (left, right) = stream.split_at(at);
        same(&decode_pieces([left, right], limits, attributes), &whole, format_args!("{shown}, cut at {at}"));
    }
    whole
}

pub(crate) fn simple(text: &'static str) -> Value {
    Value::Simple(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn bulk(text: &'static str) -> Value {
    Value::Bulk(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn error(text: &'static str) -> Value {
    Value::Error(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn big(text: &'static str) -> Value {
    Value::BigNumber(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn verbatim(format: &[u8; 3], text: &'static str) -> Value {
    Value::Verbatim { format: *format, text: Bytes::from_static(text.as_bytes()) }
}

pub(crate) fn int(n: i64) -> Value {
    Value::Integer(n)
}

pub(crate) fn array<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}

pub(crate) fn set<const N: usize>(items: [Value; N]) -> Value {
    Value::Set(items.into())
}

pub(crate) fn map<const N: usize>(pairs: [(Value, Value); N]) -> Value {
    Value::Map(pairs.into())
}

pub(crate) fn attributed<const N: usize>(attributes: [(Value, Value); N], value: Value) -> Value {
    Value::Attributed(Box::new(Attributed { attributes: attributes.into(), value }))
}

pub(crate) fn push<const N: usize>(items: [Value; N]) -> Frame {
    Frame::Push(items.into())
}
