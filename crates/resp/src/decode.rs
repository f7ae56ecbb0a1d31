//! Frames off a read buffer.
//!
//! ```text
//!  input ──▶ Lexer ──tokens──▶ stack of open aggregates ──▶ Frame
//!            grammar,          what is still owed
//!            byte limits       depth, element limits
//! ```
//!
//! The lexer consumes whole tokens only (a scalar, or the header of an aggregate), so an incomplete frame costs at most
//! one token of repeated work, and a large aggregate needs no contiguous buffer: what came is consumed as it comes.
//!
//! Invariant: the stack is empty exactly between frames. Nothing recurses; the depth of a value, and so of its drop, is
//! that of the stack.

mod level;
mod lexer;
mod raw;
mod skip;
mod token;
mod trouble;
mod values;

use alloc::boxed::Box;
use alloc::sync::Arc;

use bytes::BytesMut;
use raw::Raw;
use values::ValueDecoder;

use crate::error::DecodeError;
use crate::limits::{Attributes, Limits};
use crate::spares::Spares;
use crate::value::Frame;

/// Takes frames off a read buffer, resuming at any byte.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_resp::{Decoder, Frame, Limits, Value};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut input = BytesMut::from(":1\r\n:2\r\n+OK");
/// assert_eq!(decoder.decode(&mut input)?, Some(Frame::Reply(Value::Integer(1))));
/// assert_eq!(decoder.decode(&mut input)?, Some(Frame::Reply(Value::Integer(2))));
/// assert_eq!(decoder.decode(&mut input)?, None);
/// # Ok::<(), pilotlight_resp::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    values: ValueDecoder,
    raw: Option<Box<Raw>>,
}

impl Decoder {
    /// A decoder at the start of a stream, which discards attributes.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { values: ValueDecoder::new(limits), raw: None }
    }

    /// Says what happens to attributes.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Attributes) -> Self {
        self.values.attributes = attributes;
        self
    }

    /// From now on, the elements of aggregates are put into vectors that were used before, where there are any.
    pub fn use_spares(&mut self, spares: Arc<dyn Spares>) {
        self.values.spares = Some(spares);
    }

    /// From the next frame on, replies are not read: each is a [`Value::Bulk`](crate::Value::Bulk) with the bytes of
    /// the whole frame, header and line ends included, as they came. Errors ([`Value::Error`](crate::Value::Error)) and
    /// pushes are read as ever. To be called between frames.
    ///
    /// Streamed types are not understood then; attributes stay before the value that they describe.
    pub fn pass_through(&mut self) {
        self.raw = Some(Box::new(Raw::new(*self.values.limits())));
    }

    /// Takes the next frame off the front of `input`, or returns `None` when more bytes are needed.
    ///
    /// Call it until it returns `None`. The parts of an incomplete frame are consumed as well, so append to `input`
    /// only what was read and take nothing off it elsewhere. A push inside a reply (redis#8935) is no element of it: it
    /// is returned as soon as it is complete, before the reply.
    ///
    /// # Errors
    /// The bytes are malformed, or a push exceeds a limit. The decoder returns the same error from then on. A reply
    /// that exceeds a limit is no error, but a [`Value::Skipped`](crate::Value::Skipped); an error follows it if the
    /// end of the reply cannot be found.
    #[inline]
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if let Some(raw) = &mut self.raw {
            return raw.decode(input);
        }
        self.values.decode(input)
    }

    /// After `decode` returned `None`: bytes that are certainly still missing for the current frame, 0 when unknown.
    /// They follow from the length of a string within the limits, so the caller reserves them.
    #[inline]
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.raw.as_ref().map_or_else(|| self.values.wanted(), |raw| raw.wanted())
    }

    /// Whether no part of a frame was consumed yet. With an empty input, too, the stream may end here.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.raw.as_ref().map_or_else(|| self.values.is_idle(), |raw| raw.is_idle())
    }
}
