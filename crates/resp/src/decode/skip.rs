//! The rest of a reply that exceeds a limit. A count of the values that are still owed finds its end; nothing of it is
//! kept.

use bytes::{Buf, BytesMut};

use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits::{Limits, MAX_SKIPPED_BYTES};
use crate::scan::Scanner;

/// Bytes of the longest header: a type byte, 19 digits, CR LF.
const MAX_HEADER: usize = 22;

/// Reads over the rest of one reply.
#[derive(Debug)]
pub(super) struct Skip {
    /// The limit that the reply exceeds, and where.
    exceeded: DecodeError,
    /// Values that are still to come. `None`: they cannot be counted.
    owed: Option<u64>,
    /// Reads over strings and lines.
    scanner: Scanner,
    /// Bytes of the frame before those that were dropped.
    begin: usize,
    /// Bytes that were dropped.
    dropped: u64,
    /// Bytes that were dropped before the current value.
    value_at: u64,
}

/// The header of an aggregate.
enum Header {
    /// More bytes are needed.
    Incomplete,
    /// Elements, keys and values counted alike, and bytes of the header.
    Count(u64, usize),
    /// A null of this many bytes.
    Null(usize),
    /// It is none, or the aggregate is streamed.
    Countless,
}

impl Skip {
    /// A reply of which `owed` values are to come, the first of them at byte `offset` of its frame.
    pub(super) fn new(exceeded: DecodeError, owed: Option<usize>, offset: usize) -> Self {
        let limits = Limits {
            max_bulk_bytes: usize::MAX,
            max_line_bytes: usize::MAX,
            max_depth: usize::MAX,
            max_elements: usize::MAX,
            max_frame_bytes: usize::MAX,
        };
        let owed = owed.map(|owed| owed as u64);
        Self { exceeded, owed, scanner: Scanner::new(limits), begin: offset, dropped: 0, value_at: 0 }
    }

    /// The limit that the reply exceeds.
    pub(super) fn limit(&self) -> DecodeErrorKind {
        self.exceeded.kind
    }

    /// Drops the bytes in `input` that belong to the reply. Returns whether its end was among them.
    ///
    /// # Errors
    /// The end cannot be found, a push is among the rest, or the rest exceeds [`MAX_SKIPPED_BYTES`].
    pub(super) fn run(&mut self, input: &mut BytesMut) -> Result<bool, DecodeError> {
        let Some(mut owed) = self.owed else { return Err(self.exceeded) };
        while owed > 0 {
            let Some(&first) = input.first() else { return Ok(false) };
            if self.scanner.is_idle() && matches!(first, b'*' | b'%' | b'~' | b'|' | b'>') {
                let (count, size) = match header(input) {
                    // A push is no part of the reply, and its reader would miss it.
                    _ if first == b'>' => return Err(self.endless()),
                    Header::Incomplete => return Ok(false),
                    Header::Countless => return Err(self.endless()),
                    Header::Null(size) => (0, size),
                    Header::Count(count, size) => (count, size),
                };
                // Attributes take no element's place.
                let own = u64::from(first != b'|');
                owed = (owed - own).checked_add(count).ok_or_else(|| self.endless())?;
                self.drop_bytes(input, size)?;
            } else {
                let step = self.scanner.scan(input).map_err(|error| self.broken(error))?;
                // The scanner only counts the bytes of a string's line end.
                if step.is_end && input[step.consumed - 1] != b'\n' {
                    return Err(self.line_end(step.consumed));
                }
                owed -= u64::from(step.is_end);
                self.drop_bytes(input, step.consumed)?;
            }
            self.owed = Some(owed);
        }
        Ok(true)
    }

    fn drop_bytes(&mut self, input: &mut BytesMut, size: usize) -> Result<(), DecodeError> {
        input.advance(size);
        self.dropped += size as u64;
        if self.scanner.is_idle() {
            self.value_at = self.dropped;
        }
        let announced = self.dropped.saturating_add(self.scanner.wanted() as u64);
        if announced > MAX_SKIPPED_BYTES { Err(self.exceeded) } else { Ok(()) }
    }

    /// The end cannot be found from here on.
    fn endless(&self) -> DecodeError {
        DecodeError { offset: self.offset(), kind: self.exceeded.kind }
    }

    /// The last of `consumed` bytes is no line feed.
    fn line_end(&self, consumed: usize) -> DecodeError {
        let offset = self.begin.saturating_add(self.dropped as usize).saturating_add(consumed - 1);
        DecodeError { offset, kind: DecodeErrorKind::LineEnd }
    }

    /// Offset of the current value in its frame.
    fn offset(&self) -> usize {
        self.begin.saturating_add(self.value_at as usize)
    }

    /// A mistake that the scanner has found. Of what is streamed it finds no length.
    fn broken(&self, error: DecodeError) -> DecodeError {
        match error.kind {
            DecodeErrorKind::Length => self.endless(),
            kind => DecodeError { offset: self.offset() + error.offset, kind },
        }
    }
}

fn header(input: &[u8]) -> Header {
    let line = &input[1..input.len().min(MAX_HEADER)];
    let Some(end) = line.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-') else {
        return if input.len() < MAX_HEADER { Header::Incomplete } else { Header::Countless };
    };
    match &line[end..] {
        [b'\r'] => Header::Incomplete,
        [b'\r', b'\n', ..] => {
            let size = end + 3;
            match core::str::from_utf8(&line[..end]) {
                Ok("-1") => Header::Null(size),
                Ok(digits) => match digits.parse::<u64>() {
                    Ok(count) if matches!(input[0], b'%' | b'|') => Header::Count(count.saturating_mul(2), size),
                    Ok(count) => Header::Count(count, size),
                    Err(_) => Header::Countless,
                },
                Err(_) => Header::Countless,
            }
        }
        _ => Header::Countless,
    }
}
