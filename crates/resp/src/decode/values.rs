//! Replies that are read: frames become values.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::level::{self, Closed, Level, STREAMED};
use super::lexer::Lexer;
use super::token::{Kind, Token, is_scalar};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits::{Attributes, Limits};
use crate::spares::Spares;
use crate::value::{Frame, Value};

/// Takes frames off a read buffer, and builds what is in them.
#[derive(Debug)]
pub(super) struct ValueDecoder {
    lexer: Lexer,
    stack: Vec<Level>,
    pub(super) attributes: Attributes,
    pub(super) spares: Option<Arc<dyn Spares>>,
}

impl ValueDecoder {
    pub(super) fn new(limits: Limits) -> Self {
        Self { lexer: Lexer::new(limits), stack: Vec::new(), attributes: Attributes::Discard, spares: None }
    }

    pub(super) fn limits(&self) -> &Limits {
        self.lexer.limits()
    }

    #[inline]
    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if self.lexer.is_troubled() {
            return self.skip(input);
        }
        if self.stack.is_empty() {
            self.lexer.start_frame();
            if is_scalar(input) {
                return self.lexer.scalar(input);
            }
        }
        self.resume(input)
    }

    #[inline]
    pub(super) fn wanted(&self) -> usize {
        self.lexer.wanted()
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.stack.is_empty() && !self.lexer.is_skipping()
    }

    /// Goes on within a frame.
    fn resume(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        match self.build(input) {
            Err(error) => self.fail(error, input),
            built => built,
        }
    }

    fn build(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
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
                    return self.too_deep(kind, count);
                }
                let level = Level::new(kind, count, input.len(), self.spares.as_deref());
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
        self.stack.len() >= self.lexer.limits().max_depth
    }

    /// An aggregate of `count` elements, whose header was read, is one level too deep.
    #[cold]
    fn too_deep(&mut self, kind: Kind, count: Option<usize>) -> Result<Option<Frame>, DecodeError> {
        let offset = self.lexer.used();
        let error = self.lexer.fail_token(DecodeErrorKind::TooDeep);
        if kind != Kind::Push && !self.is_in_push() {
            let owed = count.and_then(|count| level::owed(&self.stack, kind, count));
            self.lexer.begin_skip(error, owed, offset);
        }
        Err(error)
    }

    /// What is in front of the input is malformed, or exceeds a limit: then the reply that it is a part of is read
    /// over.
    #[cold]
    fn fail(&mut self, error: DecodeError, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let is_reply = || input.first() != Some(&b'>') && !self.is_in_push();
        if error.kind.is_limit() && !self.lexer.is_skipping() && is_reply() {
            let owed = if self.stack.is_empty() { Some(1) } else { level::owed(&self.stack, Kind::Array, 1) };
            self.lexer.begin_skip(error, owed, self.lexer.used());
        }
        self.skip(input)
    }

    /// Whether what is being read is told to all, and answers nobody.
    fn is_in_push(&self) -> bool {
        self.stack.iter().any(|level| matches!(level, Level::Items { kind: Kind::Push, .. }))
    }

    /// Reads over the rest of a reply, or says again why the stream has ended.
    #[cold]
    fn skip(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if self.lexer.is_skipping() {
            self.stack.clear();
        }
        Ok(self.lexer.skip(input)?.map(Frame::Reply))
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
                self.lexer.count_one()?;
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
