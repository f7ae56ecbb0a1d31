//! Bytes of a Redis server: whatever they are, nothing panics, chunking changes nothing, memory follows the input, and
//! what was read is written and read again as the same.

use bytes::BytesMut;
use pilotlight_resp::{Attributes, DecodeError, Decoder, Frame, Limits, Protocol, Value, encode};

/// Small enough for a fuzzer to reach each of them.
const SMALL: Limits =
    Limits { max_bulk_bytes: 64, max_line_bytes: 32, max_depth: 4, max_elements: 32, max_frame_bytes: 256 };

/// The first byte says how the rest is cut into reads; its highest bit, which limits hold.
pub(crate) fn check(data: &[u8]) {
    let Some((&mode, stream)) = data.split_first() else {
        return;
    };
    let limits = if mode & 0x80 == 0 { Limits::default() } else { SMALL };
    let step = usize::from(mode & 0x7f).max(1);
    for attributes in [Attributes::Discard, Attributes::Keep] {
        let whole = decode_all(stream, stream.len().max(1), limits, attributes);
        // As text, because NaN is not equal to itself.
        let pieces = decode_all(stream, step, limits, attributes);
        assert_eq!(format!("{whole:?}"), format!("{pieces:?}"), "the cutting of the stream changed its frames");
        let held: usize = whole.frames.iter().map(held_by_frame).sum();
        assert!(held <= 4 * stream.len(), "{held} values are reserved for {} bytes", stream.len());
        written_again(&whole.frames);
    }
}

#[derive(Debug)]
struct Decoded {
    frames: Vec<Frame>,
    is_idle: bool,
    error: Option<DecodeError>,
}

fn decode_all(stream: &[u8], step: usize, limits: Limits, attributes: Attributes) -> Decoded {
    let mut decoder = Decoder::new(limits).with_attributes(attributes);
    let (mut frames, mut input) = (Vec::new(), BytesMut::new());
    for piece in stream.chunks(step) {
        input.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return Decoded { frames, is_idle: false, error: Some(error) },
            }
        }
        assert!(decoder.wanted() <= limits.max_bulk_bytes + 2, "more bytes are wanted than a string may have");
    }
    Decoded { frames, is_idle: decoder.is_idle() && input.is_empty(), error: None }
}

/// The values for which a frame has reserved memory. A vector grows by doubling, and no less than to four.
fn held_by_frame(frame: &Frame) -> usize {
    match frame {
        Frame::Reply(value) => held_by(value),
        Frame::Push(items) => items.capacity() + items.iter().map(held_by).sum::<usize>(),
    }
}

fn held_by(value: &Value) -> usize {
    let pairs = |pairs: &Vec<(Value, Value)>| {
        2 * pairs.capacity() + pairs.iter().map(|(key, item)| held_by(key) + held_by(item)).sum::<usize>()
    };
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.capacity() + items.iter().map(held_by).sum::<usize>()
        }
        Value::Map(items) => pairs(items),
        Value::Attributed(attributed) => 1 + pairs(&attributed.attributes) + held_by(&attributed.value),
        _ => 0,
    }
}

fn written_again(frames: &[Frame]) {
    // What was skipped is written as an error.
    let frames: Vec<_> =
        frames.iter().filter(|frame| !matches!(frame, Frame::Reply(Value::Skipped(_)))).cloned().collect();
    let mut out = Vec::new();
    for frame in &frames {
        match frame {
            Frame::Reply(value) => encode::value(&mut out, value, Protocol::Resp3),
            Frame::Push(items) => encode::value(&mut out, &Value::Push(items.clone()), Protocol::Resp3),
        }
    }
    // A streamed text or a double may be longer as it is written; none is near the default limits.
    let again = decode_all(&out, out.len().max(1), Limits::default(), Attributes::Keep);
    assert!(again.is_idle, "what was written cannot be read: {:?}", again.error);
    assert_eq!(format!("{frames:?}"), format!("{:?}", again.frames), "what was read and written is something else");
}
