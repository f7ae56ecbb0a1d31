//! Replies that are not read but passed on: each is the bytes of its frame.

use alloc::boxed::Box;

use bytes::{Buf, Bytes, BytesMut};

use super::skip::Skip;
use super::values::ValueDecoder;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits::Limits;
use crate::scan::Scanner;
use crate::value::{Frame, Value};

/// Levels of a frame that is not built: 16 bytes of memory each.
const MAX_RAW_DEPTH: usize = 1 << 16;

/// Takes whole frames off a read buffer, as they are. Errors and pushes are read all the same: they are for whoever
/// holds the connection.
#[derive(Debug)]
pub(super) struct Raw {
    limits: Limits,
    scanner: Scanner,
    /// Bytes at the front of the input that were scanned.
    scanned: usize,
    /// The frame in front of the input exceeds a limit.
    skip: Option<Box<Skip>>,
    failed: Option<DecodeError>,
}

impl Raw {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, scanner: scanner(&limits), scanned: 0, skip: None, failed: None }
    }

    pub(super) fn wanted(&self) -> usize {
        if self.skip.is_some() { 0 } else { self.scanner.wanted() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.scanned == 0 && self.skip.is_none()
    }

    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.skip.is_some() {
            return self.skip(input);
        }
        let frame = self.next(input);
        self.failed = self.failed.or(frame.as_ref().err().copied());
        frame
    }

    fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let step = match self.scanner.scan(&input[self.scanned..]) {
            Ok(step) => step,
            Err(error) => return self.begin_skip(error, input),
        };
        self.scanned += step.consumed;
        if !step.is_end {
            return Ok(None);
        }
        let frame = input.split_to(core::mem::take(&mut self.scanned));
        match frame.first() {
            Some(b'-') => Ok(Some(Frame::Reply(Value::Error(line(frame))))),
            Some(b'!' | b'>') => ValueDecoder::new(self.limits).decode(&mut { frame }),
            _ => Ok(Some(Frame::Reply(Value::Bulk(frame.freeze())))),
        }
    }

    #[cold]
    fn begin_skip(&mut self, error: DecodeError, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let is_reply = input.first().is_some_and(|first| *first != b'>');
        if is_reply && (error.kind.is_limit() || error.kind == DecodeErrorKind::TooDeep) {
            (self.scanned, self.scanner) = (0, scanner(&self.limits));
            self.skip = Some(Box::new(Skip::new(error, Some(1), 0)));
            return self.skip(input);
        }
        Err(error)
    }

    /// Reads over the frame in front of the input.
    #[cold]
    fn skip(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let Some(skip) = &mut self.skip else { return Ok(None) };
        match skip.run(input) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => self.failed = Some(error),
        }
        let limit = skip.limit();
        self.skip = None;
        Ok(Some(Frame::Reply(Value::Skipped(limit))))
    }
}

fn scanner(limits: &Limits) -> Scanner {
    Scanner::new(Limits { max_depth: limits.max_depth.max(MAX_RAW_DEPTH), ..*limits })
}

/// The text of a line.
fn line(mut frame: BytesMut) -> Bytes {
    frame.truncate(frame.len() - 2);
    frame.advance(1);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::decode::Decoder;

    #[test]
    fn frames_are_whole_however_they_are_cut() {
        let stream = b"+OK\r\n*2\r\n$-1\r\n*-1\r\n-ERR no\r\n>2\r\n+a\r\n:1\r\n|1\r\n+k\r\n+v\r\n,1.50\r\n!5\r\nERR x\r\n$4\r\n\r\n\r\n\r\n";
        let raw = |text: &'static str| Frame::Reply(Value::Bulk(Bytes::from_static(text.as_bytes())));
        let error = |text: &'static str| Frame::Reply(Value::Error(Bytes::from_static(text.as_bytes())));
        let expected = [
            raw("+OK\r\n"),
            raw("*2\r\n$-1\r\n*-1\r\n"),
            error("ERR no"),
            Frame::Push(vec![Value::Simple("a".into()), Value::Integer(1)]),
            raw("|1\r\n+k\r\n+v\r\n,1.50\r\n"),
            error("ERR x"),
            raw("$4\r\n\r\n\r\n\r\n"),
        ];
        for piece in 1..=stream.len() {
            let mut decoder = Decoder::new(Limits::default());
            decoder.pass_through();
            let (mut input, mut found) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                input.extend_from_slice(piece);
                while let Some(frame) = decoder.decode(&mut input).unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, expected, "in pieces of {piece}");
            assert!(decoder.is_idle() && input.is_empty());
        }
    }

    #[test]
    fn a_frame_beyond_a_limit_is_read_over_however_it_is_cut() {
        let stream = b"*2\r\n:1\r\n$11\r\nabcdefghijk\r\n+OK\r\n";
        for piece in 1..=stream.len() {
            let mut decoder = Decoder::new(Limits { max_bulk_bytes: 10, ..Limits::default() });
            decoder.pass_through();
            let (mut input, mut found) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                input.extend_from_slice(piece);
                while let Some(frame) = decoder.decode(&mut input).unwrap() {
                    found.push(frame);
                }
            }
            let ok = Value::Bulk(Bytes::from_static(b"+OK\r\n"));
            let skipped = Value::Skipped(DecodeErrorKind::BulkTooLong(11));
            assert_eq!(found, [Frame::Reply(skipped), Frame::Reply(ok)], "in pieces of {piece}");
            assert!(decoder.is_idle() && input.is_empty());
        }
    }

    #[test]
    fn a_mistake_is_the_same_from_then_on() {
        let mut decoder = Decoder::new(Limits { max_bulk_bytes: 10, ..Limits::default() });
        decoder.pass_through();
        let mut input = BytesMut::from(">1\r\n$11\r\n");
        let error = decoder.decode(&mut input).unwrap_err();
        input.extend_from_slice(b"+OK\r\n");
        assert_eq!(decoder.decode(&mut input), Err(error));
    }
}
