//! The grammar of one token: a whole scalar, the header of an aggregate, an end marker.
//!
//! Tokens are read from left to right and fail at the first wrong byte, so the error does not depend on the reads.
//! Nothing is consumed before a token is complete. Repeated work is bounded: numbers have at most [`MAX_DIGITS`]
//! digits, the search for the end of a longer line goes on where it stopped.

use alloc::boxed::Box;

use bytes::{Buf, Bytes, BytesMut};

use super::token::{Kind, Token, is_scalar};
use super::trouble::Trouble;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits::Limits;
use crate::value::Value;

/// Decimal digits of a number; 19 always fit 64 bits unsigned.
const MAX_DIGITS: usize = 19;

/// Bytes of the smallest element, `_\r\n`.
const MIN_ELEMENT: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlobKind {
    Error,
    Verbatim,
}

/// Result of reading a part: `None` when more bytes are needed.
type Read<T> = Result<Option<T>, DecodeError>;

#[derive(Debug)]
pub(super) struct Lexer {
    limits: Limits,
    /// Bytes of the frame that were consumed; at most `limits.max_frame_bytes`.
    used: usize,
    /// Where the last consumed token started, within the frame.
    token_start: usize,
    /// Elements of the frame that were announced, or came in streamed aggregates.
    elements: usize,
    /// Bytes at the front of the input in which the end of a line was not found.
    searched: usize,
    wanted: usize,
    /// `None`: all is well.
    trouble: Option<Box<Trouble>>,
}

impl Lexer {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, used: 0, token_start: 0, elements: 0, searched: 0, wanted: 0, trouble: None }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// The next token starts a frame.
    #[inline]
    pub(super) fn start_frame(&mut self) {
        self.used = 0;
        self.elements = 0;
    }

    /// Bytes of the frame that were consumed.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Whether [`skip`](Self::skip) is to be asked instead of the tokens.
    #[inline]
    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    /// Whether the rest of a reply is being read over.
    #[inline]
    pub(super) fn is_skipping(&self) -> bool {
        matches!(self.trouble.as_deref(), Some(Trouble::Skip(_)))
    }

    /// The reply exceeds a limit. From the byte `offset` of its frame on it is read over: `owed` more values, `None` if
    /// they cannot be counted.
    pub(super) fn begin_skip(&mut self, exceeded: DecodeError, owed: Option<usize>, offset: usize) {
        self.searched = 0;
        self.trouble = Some(Trouble::skip(exceeded, owed, offset));
    }

    /// Reads over the rest of a reply, or says again why the stream has ended.
    #[cold]
    pub(super) fn skip(&mut self, input: &mut BytesMut) -> Read<Value> {
        Trouble::run(&mut self.trouble, input)
    }

    /// A scalar failed. If it is a whole reply that exceeds a limit, it is read over.
    #[cold]
    fn failed<T: From<Value>>(&mut self, input: &mut BytesMut, error: DecodeError) -> Read<T> {
        if self.used > 0 || !error.kind.is_limit() {
            return Err(error);
        }
        self.begin_skip(error, Some(1), 0);
        Ok(self.skip(input)?.map(T::from))
    }

    /// Fails at the first byte of the token that was read last.
    pub(super) fn fail_token(&mut self, kind: DecodeErrorKind) -> DecodeError {
        self.used = self.token_start;
        self.fail(0, kind)
    }

    /// Counts an element of a streamed aggregate.
    pub(super) fn count_one(&mut self) -> Result<(), DecodeError> {
        if self.elements == self.limits.max_elements {
            return Err(self.fail_token(DecodeErrorKind::TooManyElements(1)));
        }
        self.elements += 1;
        Ok(())
    }

    /// Takes the next token, where any value may stand.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Read<Token> {
        if is_scalar(input) {
            return self.scalar(input);
        }
        self.wanted = 0;
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.aggregate(input, Kind::Array),
            Some(b'%') => self.aggregate(input, Kind::Map),
            Some(b'~') => self.aggregate(input, Kind::Set),
            Some(b'>') => self.aggregate(input, Kind::Push),
            Some(b'|') => self.aggregate(input, Kind::Attribute),
            Some(b'.') => self.marker(input, 1, Token::End),
            Some(b'$') => self.marker(input, 2, Token::OpenText),
            Some(&byte) => Err(self.fail(0, DecodeErrorKind::UnknownType(byte))),
        }
    }

    /// Takes a value that is no aggregate, which [`is_scalar`] has found. The result is built where it is returned to,
    /// which is why it is generic: a move of it would cost as much as the digits.
    #[inline]
    pub(super) fn scalar<T: From<Value>>(&mut self, input: &mut BytesMut) -> Read<T> {
        self.wanted = 0;
        match input.first() {
            Some(b'$') => self.bulk(input),
            Some(b':') => self.integer(input),
            Some(b'+') => self.simple(input),
            _ => match self.rare(input) {
                Ok(value) => Ok(value.map(T::from)),
                Err(error) => self.failed(input, error),
            },
        }
    }

    /// Takes the next chunk of a streamed string of which `have` bytes came.
    pub(super) fn chunk(&mut self, input: &mut BytesMut, have: usize) -> Read<Token> {
        self.wanted = 0;
        match input.first() {
            None => return Ok(None),
            Some(b';') => {}
            Some(_) => return Err(self.fail(0, DecodeErrorKind::Chunk)),
        }
        let Some((len, header)) = self.digits(input, 1, DecodeErrorKind::Length)? else { return Ok(None) };
        if len == 0 {
            self.consume(input, header)?;
            return Ok(Some(Token::End));
        }
        let whole = len.saturating_add(have as u64);
        if whole > self.limits.max_bulk_bytes as u64 {
            return Err(self.fail(0, DecodeErrorKind::BulkTooLong(whole)));
        }
        let chunk = self.body(input, header, len)?;
        Ok(chunk.map(|chunk| Token::Value(Value::Bulk(chunk))))
    }

    fn rare(&mut self, input: &mut BytesMut) -> Read<Value> {
        match input.first() {
            Some(b'-') => self.error(input),
            Some(b'_') => self.null(input, 1),
            Some(b'#') => self.boolean(input),
            Some(b',') => self.double(input),
            Some(b'(') => self.big_number(input),
            Some(b'!') => self.blob(input, BlobKind::Error),
            Some(b'=') => self.blob(input, BlobKind::Verbatim),
            _ => Ok(None),
        }
    }

    /// `$`
    #[inline(always)]
    fn bulk<T: From<Value>>(&mut self, input: &mut BytesMut) -> Read<T> {
        if input.get(1) == Some(&b'-') {
            return Ok(self.minus_one(input)?.map(T::from));
        }
        let (len, header) = match self.length(input) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(None),
            Err(error) => return self.failed(input, error),
        };
        match self.body(input, header, len) {
            Ok(Some(data)) => Ok(Some(T::from(Value::Bulk(data)))),
            Ok(None) => Ok(None),
            Err(error) => self.failed(input, error),
        }
    }

    /// `:`
    #[inline(always)]
    fn integer<T: From<Value>>(&mut self, input: &mut BytesMut) -> Read<T> {
        let start = if matches!(input.get(1), Some(b'-' | b'+')) { 2 } else { 1 };
        let Some((magnitude, end)) = self.digits(input, start, DecodeErrorKind::Integer)? else { return Ok(None) };
        let is_negative = input.get(1) == Some(&b'-');
        let number = if is_negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
        let Some(number) = number else { return Err(self.fail(start, DecodeErrorKind::Integer)) };
        self.consume(input, end)?;
        Ok(Some(T::from(Value::Integer(number))))
    }

    /// `+`
    #[inline(always)]
    fn simple<T: From<Value>>(&mut self, input: &mut BytesMut) -> Read<T> {
        const OK: &[u8] = b"+OK\r\n";
        if input.starts_with(OK) {
            self.consume(input, OK.len())?;
            return Ok(Some(T::from(Value::Simple(Bytes::from_static(b"OK")))));
        }
        match self.other_simple(input) {
            Ok(value) => Ok(value.map(T::from)),
            Err(error) => self.failed(input, error),
        }
    }

    fn other_simple(&mut self, input: &mut BytesMut) -> Read<Value> {
        let Some(end) = self.line(input)? else { return Ok(None) };
        let known: &[u8] = match input.get(1..end) {
            Some(b"QUEUED") => b"QUEUED",
            Some(b"PONG") => b"PONG",
            _ => return Ok(Some(Value::Simple(self.take_line(input, end)?))),
        };
        self.consume(input, end + 2)?;
        Ok(Some(Value::Simple(Bytes::from_static(known))))
    }

    fn error(&mut self, input: &mut BytesMut) -> Read<Value> {
        let Some(end) = self.line(input)? else { return Ok(None) };
        Ok(Some(Value::Error(self.take_line(input, end)?)))
    }

    /// A null whose CR is at `at`.
    fn null(&mut self, input: &mut BytesMut, at: usize) -> Read<Value> {
        let Some(end) = self.line_end(input, at)? else { return Ok(None) };
        self.consume(input, end)?;
        Ok(Some(Value::Null))
    }

    /// The rest of a token whose CR is at `at`.
    fn marker(&mut self, input: &mut BytesMut, at: usize, token: Token) -> Read<Token> {
        let Some(end) = self.line_end(input, at)? else { return Ok(None) };
        self.consume(input, end)?;
        Ok(Some(token))
    }

    /// `$-1` and `*-1`, the nulls of RESP2.
    #[cold]
    fn minus_one(&mut self, input: &mut BytesMut) -> Read<Value> {
        match input.get(2) {
            None => Ok(None),
            Some(b'1') => self.null(input, 3),
            Some(_) => Err(self.fail(1, DecodeErrorKind::Length)),
        }
    }

    fn boolean(&mut self, input: &mut BytesMut) -> Read<Value> {
        let value = match input.get(1) {
            None => return Ok(None),
            Some(b't') => true,
            Some(b'f') => false,
            Some(_) => return Err(self.fail(1, DecodeErrorKind::Boolean)),
        };
        let Some(end) = self.line_end(input, 2)? else { return Ok(None) };
        self.consume(input, end)?;
        Ok(Some(Value::Boolean(value)))
    }

    fn double(&mut self, input: &mut BytesMut) -> Read<Value> {
        let Some(end) = self.line(input)? else { return Ok(None) };
        let Some(number) = input.get(1..end).and_then(parse_double) else {
            return Err(self.fail(1, DecodeErrorKind::Double));
        };
        self.consume(input, end + 2)?;
        Ok(Some(Value::Double(number)))
    }

    fn big_number(&mut self, input: &mut BytesMut) -> Read<Value> {
        let Some(end) = self.line(input)? else { return Ok(None) };
        let digits = match input.get(1..end) {
            Some([b'+' | b'-', digits @ ..]) => digits,
            Some(digits) => digits,
            None => &[],
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.fail(1, DecodeErrorKind::BigNumber));
        }
        Ok(Some(Value::BigNumber(self.take_line(input, end)?)))
    }

    /// `!` and `=`
    fn blob(&mut self, input: &mut BytesMut, kind: BlobKind) -> Read<Value> {
        let Some((len, header)) = self.length(input)? else { return Ok(None) };
        if kind == BlobKind::Error {
            return Ok(self.body(input, header, len)?.map(Value::Error));
        }
        if len < 4 {
            return Err(self.fail(1, DecodeErrorKind::Verbatim));
        }
        let Some(mut text) = self.body(input, header, len)? else { return Ok(None) };
        let &[a, b, c, b':', ..] = &text[..] else {
            return Err(self.fail_token(DecodeErrorKind::Verbatim));
        };
        text.advance(4);
        Ok(Some(Value::Verbatim { format: [a, b, c], text }))
    }

    fn aggregate(&mut self, input: &mut BytesMut, kind: Kind) -> Read<Token> {
        match input.get(1) {
            Some(b'-') if kind == Kind::Array => return Ok(self.minus_one(input)?.map(Token::Value)),
            Some(b'?') if matches!(kind, Kind::Array | Kind::Set | Kind::Map) => {
                return self.marker(input, 2, Token::Open(kind, None));
            }
            _ => {}
        }
        let Some((count, end)) = self.digits(input, 1, DecodeErrorKind::Length)? else { return Ok(None) };
        let elements = if matches!(kind, Kind::Map | Kind::Attribute) { count.saturating_mul(2) } else { count };
        // Beyond a limit, the header stays in front of the input for whoever reads over the reply.
        let left = (self.limits.max_frame_bytes - self.used) as u64;
        if end as u64 > left {
            return Err(self.fail(0, DecodeErrorKind::FrameTooLong));
        }
        if elements > (self.limits.max_elements - self.elements) as u64 {
            return Err(self.fail(0, DecodeErrorKind::TooManyElements(elements)));
        }
        if elements.saturating_mul(MIN_ELEMENT) > left - end as u64 {
            return Err(self.fail(0, DecodeErrorKind::FrameTooLong));
        }
        self.consume(input, end)?;
        self.elements += elements as usize;
        // It was compared with a usize.
        Ok(Some(Token::Open(kind, Some(elements as usize))))
    }

    /// The length of a string from its header, and the offset of the string.
    #[inline(always)]
    fn length(&mut self, input: &[u8]) -> Read<(u64, usize)> {
        let Some((len, header)) = self.digits(input, 1, DecodeErrorKind::Length)? else { return Ok(None) };
        if len > self.limits.max_bulk_bytes as u64 {
            return Err(self.fail(0, DecodeErrorKind::BulkTooLong(len)));
        }
        Ok(Some((len, header)))
    }

    /// The string of `len` bytes behind a header, with its CR LF.
    #[inline(always)]
    fn body(&mut self, input: &mut BytesMut, header: usize, len: u64) -> Read<Bytes> {
        // The callers compared it with `max_bulk_bytes`, which is a usize.
        let len = len as usize;
        let end = header.saturating_add(len);
        let size = end.saturating_add(2);
        if size > self.limits.max_frame_bytes - self.used {
            return Err(self.fail(0, DecodeErrorKind::FrameTooLong));
        }
        if input.len() < size {
            self.wanted = size - input.len();
            return Ok(None);
        }
        if input[end..size] != *b"\r\n" {
            return Err(self.fail(end, DecodeErrorKind::LineEnd));
        }
        self.token_start = self.used;
        self.used += size;
        if len == 0 {
            input.advance(size);
            return Ok(Some(Bytes::new()));
        }
        // One reference is taken; cutting both ends off the slice is plain arithmetic.
        let mut slice = input.split_to(size);
        slice.truncate(end);
        let mut data = slice.freeze();
        data.advance(header);
        Ok(Some(data))
    }

    /// The digits from `start` to CR LF: their number, and the offset behind CR LF.
    #[inline(always)]
    fn digits(&mut self, input: &[u8], start: usize, kind: DecodeErrorKind) -> Read<(u64, usize)> {
        let mut number = 0u64;
        let mut at = start;
        loop {
            match input.get(at) {
                None => return Ok(None),
                Some(&byte @ b'0'..=b'9') => {
                    if at - start == MAX_DIGITS {
                        return Err(self.fail(start, kind));
                    }
                    number = number * 10 + u64::from(byte - b'0');
                    at += 1;
                }
                Some(b'\r') if at > start => break,
                Some(_) => return Err(self.fail(at, kind)),
            }
        }
        Ok(self.line_end(input, at)?.map(|end| (number, end)))
    }

    /// Expects CR LF at `at`; the offset behind it.
    #[inline(always)]
    fn line_end(&mut self, input: &[u8], at: usize) -> Read<usize> {
        match input.get(at..) {
            Some([b'\r', b'\n', ..]) => Ok(Some(at + 2)),
            None | Some([] | [b'\r']) => Ok(None),
            Some(_) => Err(self.fail(at, DecodeErrorKind::LineEnd)),
        }
    }

    /// Searches the end of the line that starts with a type byte; the offset of its CR.
    fn line(&mut self, input: &[u8]) -> Read<usize> {
        let longest = self.limits.max_line_bytes.saturating_add(2);
        let room = (self.limits.max_frame_bytes - self.used).saturating_sub(1);
        let window = longest.min(room);
        let start = self.searched.max(1);
        let found = input.get(start..input.len().min(window)).unwrap_or_default();
        if let Some(at) = found.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let at = start + at;
            self.searched = at;
            return Ok(self.line_end(input, at)?.map(|_| at));
        }
        if input.len() >= window {
            let kind = if longest <= room { DecodeErrorKind::LineTooLong } else { DecodeErrorKind::FrameTooLong };
            return Err(self.fail(0, kind));
        }
        self.searched = input.len();
        Ok(None)
    }

    /// Consumes a line whose CR is at `end`; its text.
    fn take_line(&mut self, input: &mut BytesMut, end: usize) -> Result<Bytes, DecodeError> {
        let mut line = input.split_to(self.charge(end + 2)?);
        line.truncate(end);
        line.advance(1);
        Ok(line.freeze())
    }

    #[inline(always)]
    fn consume(&mut self, input: &mut BytesMut, size: usize) -> Result<(), DecodeError> {
        input.advance(self.charge(size)?);
        Ok(())
    }

    /// Counts a complete token of `size` bytes.
    #[inline(always)]
    fn charge(&mut self, size: usize) -> Result<usize, DecodeError> {
        if size > self.limits.max_frame_bytes - self.used {
            return Err(self.fail(0, DecodeErrorKind::FrameTooLong));
        }
        self.token_start = self.used;
        self.used += size;
        self.searched = 0;
        Ok(size)
    }

    /// Remembers the error at `offset` of the input: nothing after it can be trusted, unless it is a limit that a reply
    /// exceeds.
    #[cold]
    fn fail(&mut self, offset: usize, kind: DecodeErrorKind) -> DecodeError {
        let error = DecodeError { offset: self.used + offset, kind };
        self.trouble = Some(Trouble::ended(error));
        error
    }
}

fn parse_double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        // Servers print the sign that printf gives to the platform's NaN.
        b"nan" | b"+nan" | b"-nan" => Some(f64::NAN),
        _ if text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) => {
            core::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}
