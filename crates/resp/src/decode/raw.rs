//! Replies that are not read but passed on: each is the bytes of its frame.

use bytes::{Buf, Bytes, BytesMut};

use super::{Decoder, Limits};
use crate::scan::Scanner;
use crate::{DecodeError, Frame, Value};

/// Takes whole frames off a read buffer, as they are. Errors and pushes are read all the same: they are for whoever holds the connection.
#[derive(Debug)]
pub(super) struct Raw {
    limits: Limits,
    scanner: Scanner,
    /// Bytes at the front of the input that were scanned.
    scanned: usize,
    failed: Option<DecodeError>,
}

impl Raw {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, scanner: Scanner::new(limits), scanned: 0, failed: None }
    }

    pub(super) fn wanted(&self) -> usize {
        self.scanner.wanted()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.scanned == 0
    }

    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let frame = self.failed.map_or_else(|| self.next(input), Err);
        self.failed = frame.as_ref().err().copied();
        frame
    }

    fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let step = self.scanner.scan(&input[self.scanned..])?;
        self.scanned += step.consumed;
        if !step.is_end {
            return Ok(None);
        }
        let frame = input.split_to(std::mem::take(&mut self.scanned));
        match frame.first() {
            Some(b'-') => Ok(Some(Frame::Reply(Value::Error(line(frame))))),
            Some(b'!' | b'>') => Decoder::new(self.limits).decode(&mut { frame }),
            _ => Ok(Some(Frame::Reply(Value::Bulk(frame.freeze())))),
        }
    }
}

/// The text of a line.
fn line(mut frame: BytesMut) -> Bytes {
    frame.truncate(frame.len() - 2);
    frame.advance(1);
    frame.freeze()
}
