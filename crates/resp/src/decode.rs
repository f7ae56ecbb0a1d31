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
mod limits;
mod raw;

pub use limits::{Attributes, Limits};

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::BytesMut;
use level::{Closed, Level, STREAMED};
use lexer::{Kind, Lexer, Token, is_scalar};
use raw::Raw;

use crate::{DecodeError, DecodeErrorKind, Frame, Value};

/// Takes frames off a read buffer, resuming at any byte.
#[derive(Debug)]
pub struct Decoder {
    lexer: Lexer,
    stack: Vec<Level>,
    attributes: Attributes,
    raw: Option<Box<Raw>>,
}

impl Decoder {
    /// A decoder at the start of a stream, which discards attributes.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { lexer: Lexer::new(limits), stack: Vec::new(), attributes: Attributes::Discard, raw: None }
    }

    /// Says what happens to attributes.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = attributes;
        self
    }

    /// From the next frame on, replies are not read: each is a [`Value::Bulk`] with the bytes of the whole frame,
    /// header and line ends included, as they came. Errors ([`Value::Error`]) and pushes are read as ever. To be called
    /// between frames.
    ///
    /// Streamed types are not understood then; attributes stay before the value that they describe.
    pub fn pass_through(&mut self) {
        self.raw = Some(Box::new(Raw::new(*self.lexer.limits())));
    }

    /// Takes the next frame off the front of `input`, or returns `None` when more bytes are needed.
    ///
    /// Call it until it returns `None`. The parts of an incomplete frame are consumed as well, so append to `input`
    /// only what was read and take nothing off it elsewhere. A push inside a reply (redis#8935) is no element of it: it
    /// is returned as soon as it is complete, before the reply.
    ///
    /// # Errors
    /// The bytes are malformed or exceed a limit. The decoder returns the same error from then on. Only a reply that is
    /// nested too deeply is no error, but a [`Value::TooDeep`], if its end can be found.
    #[inline]
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if let Some(raw) = &mut self.raw {
            return raw.decode(input);
        }
        self.lexer.check()?;
        if self.stack.is_empty() {
            self.lexer.start_frame();
            if is_scalar(input) {
                return self.lexer.scalar(input);
            }
        }
        self.resume(input)
    }

    /// After `decode` returned `None`: bytes that are certainly still missing for the current frame, 0 when unknown.
    /// They follow from the length of a string within the limits, so the caller reserves them.
    #[inline]
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.raw.as_ref().map_or_else(|| self.lexer.wanted(), |raw| raw.wanted())
    }

    /// Whether no part of a frame was consumed yet. With an empty input, too, the stream may end here.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.raw.as_ref().map_or_else(|| self.stack.is_empty(), |raw| raw.is_idle())
    }

    /// Goes on within a frame.
    fn resume(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        loop {
            let token = match self.stack.last_mut() {
                Some(Level::Items { left, items, .. }) if *left != STREAMED => {
                    fill(&mut self.lexer, input, left, items)?
                }
                Some(Level::Text { text }) => self.lexer.chunk(input, text.len())?,
                _ => self.lexer.next(input)?,
            };
            let Some(token) = token else { return Ok(None) };
            if let Some(frame) = self.apply(token, input)? {
                return Ok(Some(frame));
            }
        }
    }

    fn apply(&mut self, token: Token, input: &BytesMut) -> Result<Option<Frame>, DecodeError> {
        match token {
            Token::Value(value) => self.place(Closed::Value(value)),
            Token::Open(kind, count) => {
                if self.is_too_deep() {
                    return self.skip(kind, count);
                }
                let level = Level::new(kind, count, input.len());
                if count == Some(0) {
                    return self.place(level.close());
                }
                self.stack.push(level);
                Ok(None)
            }
            Token::OpenText => {
                if self.is_too_deep() {
                    return Err(self.lexer.fail_token(DecodeErrorKind::TooDeep));
                }
                self.stack.push(Level::Text { text: BytesMut::new() });
                Ok(None)
            }
            Token::End => match self.stack.pop() {
                Some(level) if level.may_end() => self.place(level.close()),
                _ => Err(self.lexer.fail_token(DecodeErrorKind::End)),
            },
        }
    }

    /// Whether no further level may be opened.
    fn is_too_deep(&self) -> bool {
        self.stack.len() >= self.lexer.limits().max_depth || matches!(self.stack.last(), Some(Level::Skipped { .. }))
    }

    /// An aggregate of `count` elements is one level too deep. Its reply is skipped to the end: a count of the values
    /// that are still owed finds it, and nothing of it is kept. Pushes are not skipped, nor is what has no count: there
    /// the stream ends.
    #[cold]
    fn skip(&mut self, kind: Kind, count: Option<usize>) -> Result<Option<Frame>, DecodeError> {
        let owed = count.filter(|_| kind != Kind::Push).and_then(|count| level::owed(&self.stack, kind, count));
        let Some(owed) = owed else { return Err(self.lexer.fail_token(DecodeErrorKind::TooDeep)) };
        self.stack.clear();
        if owed == 0 {
            return Ok(Some(Frame::Reply(Value::TooDeep)));
        }
        self.stack.push(Level::Skipped { owed });
        Ok(None)
    }

    /// Gives what is complete to the innermost level, and with it ends the levels that it completes.
    fn place(&mut self, closed: Closed) -> Result<Option<Frame>, DecodeError> {
        let mut closed = Some(closed);
        while let Some(complete) = closed {
            let value = match complete {
                Closed::Value(value) => value,
                Closed::Push(items) => return Ok(Some(Frame::Push(items))),
                Closed::Attributes(attributes) => {
                    let kept = (self.attributes == Attributes::Keep).then_some(attributes);
                    self.stack.push(Level::Attributed { attributes: kept, value: None });
                    return Ok(None);
                }
            };
            let Some(level) = self.stack.last_mut() else { return Ok(Some(Frame::Reply(value))) };
            if level.is_streamed() {
                self.lexer.count(1)?;
            }
            if !level.add(value) {
                return Ok(None);
            }
            closed = self.stack.pop().map(Level::close);
        }
        Ok(None)
    }
}

/// Takes scalars as the elements of an array, set or push, but for the last: that one is returned as any other token,
/// because it completes the aggregate. This loop is where large replies are decoded.
fn fill(
    lexer: &mut Lexer,
    input: &mut BytesMut,
    left: &mut usize,
    items: &mut Vec<Value>,
) -> Result<Option<Token>, DecodeError> {
    while *left > 1 && is_scalar(input) {
        let Some(value) = lexer.scalar(input)? else { return Ok(None) };
        items.push(value);
        *left -= 1;
    }
    lexer.next(input)
}
