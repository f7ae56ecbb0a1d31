//! The ends of frames in a stream, found without keeping any of it.
//!
//! What passes frames on unread needs no values, only where one frame ends and the next begins. The scanner is fed
//! pieces as they come, and holds a few bytes: the number in a header that was cut in its middle, and how many elements
//! the open aggregates are still owed.

use alloc::vec::Vec;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits::Limits;

/// Decimal digits of a length.
const MAX_DIGITS: u8 = 19;

/// Finds the ends of frames in a stream, resuming at any byte. Commands are frames, too.
///
/// It checks what is needed to find the ends, no more: the text of a number, for one, is not looked at.
///
/// ```
/// # use pilotlight_resp::{Limits, Scanner};
/// let mut scanner = Scanner::new(Limits::default());
/// let step = scanner.scan(b"*2\r\n$3\r\nGE")?;
/// assert_eq!((step.consumed, step.is_end), (10, false));
/// let step = scanner.scan(b"T\r\n:1\r\n+OK\r\n")?;
/// assert_eq!((step.consumed, step.is_end), (7, true));
/// # Ok::<(), pilotlight_resp::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Scanner {
    limits: Limits,
    state: State,
    open: Vec<Level>,
    /// Bytes of the current frame.
    used: usize,
}

/// How far one call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that belong to the current frame.
    pub consumed: usize,
    /// The last of them ends the frame.
    pub is_end: bool,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    owed: u64,
    is: Is,
}

/// What an aggregate is to the one around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Element,
    /// Attributes and pushes come between elements.
    Aside,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A type byte is next.
    Start,
    /// Within a line whose text does not matter.
    Line,
    /// The line feed of one.
    LineFeed,
    /// Within the number of a header.
    Number { kind: u8, number: u64, digits: u8, is_minus: bool },
    /// The line feed of a header.
    HeaderEnd { kind: u8, number: u64, is_minus: bool },
    /// Within a string, or the CR LF behind it.
    Body { left: usize },
}

impl Scanner {
    /// A scanner at the start of a stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: State::Start, open: Vec::new(), used: 0 }
    }

    /// Goes through `input` up to the end of the current frame, or of the input.
    ///
    /// # Errors
    /// The bytes are no RESP, use its streamed types, which no server sends, or exceed a limit. The scanner is of no
    /// use afterwards.
    pub fn scan(&mut self, input: &[u8]) -> Result<Step, DecodeError> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            let (taken, is_complete) = match self.state {
                State::Body { left } => {
                    let taken = left.min(input.len() - at);
                    self.state = State::Body { left: left - taken };
                    (taken, taken == left)
                }
                State::Line => match input[at..].iter().position(|byte| *byte == b'\r') {
                    Some(cr) => {
                        self.state = State::LineFeed;
                        (cr + 1, false)
                    }
                    None => (input.len() - at, false),
                },
                State::Start => match short_header(&input[at..]) {
                    Some((number, taken)) => (taken, self.opened(byte, number, false)?),
                    None => (1, self.step(byte)?),
                },
                _ => (1, self.step(byte)?),
            };
            at += taken;
            self.used = self.used.saturating_add(taken);
            if self.used > self.limits.max_frame_bytes {
                return Err(self.error(DecodeErrorKind::FrameTooLong));
            }
            if is_complete && self.close() {
                self.used = 0;
                return Ok(Step { consumed: at, is_end: true });
            }
        }
        Ok(Step { consumed: at, is_end: false })
    }

    /// Whether the next byte is the first of a frame.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.used == 0
    }

    /// Bytes that are certainly missing of the current frame: 0 when unknown.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.state {
            State::Body { left } => left,
            _ => 0,
        }
    }

    /// One byte of anything but a line's text and a string. Says whether a value is complete.
    fn step(&mut self, byte: u8) -> Result<bool, DecodeError> {
        match self.state {
            State::Start => self.state = self.begin(byte)?,
            State::Number { kind, number, digits, is_minus } => match byte {
                b'0'..=b'9' if digits < MAX_DIGITS => {
                    let number = number * 10 + u64::from(byte - b'0');
                    self.state = State::Number { kind, number, digits: digits + 1, is_minus };
                }
                b'-' if digits == 0 && !is_minus => self.state = State::Number { kind, number, digits, is_minus: true },
                b'\r' if digits > 0 => self.state = State::HeaderEnd { kind, number, is_minus },
                _ => return Err(self.error(DecodeErrorKind::Length)),
            },
            State::HeaderEnd { kind, number, is_minus } => {
                if byte != b'\n' {
                    return Err(self.error(DecodeErrorKind::LineEnd));
                }
                return self.opened(kind, number, is_minus);
            }
            State::LineFeed => {
                if byte != b'\n' {
                    return Err(self.error(DecodeErrorKind::LineEnd));
                }
                self.state = State::Start;
                return Ok(true);
            }
            State::Line | State::Body { .. } => {}
        }
        Ok(false)
    }

    fn begin(&self, byte: u8) -> Result<State, DecodeError> {
        match byte {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(State::Line),
            b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => {
                Ok(State::Number { kind: byte, number: 0, digits: 0, is_minus: false })
            }
            _ => Err(self.error(DecodeErrorKind::UnknownType(byte))),
        }
    }

    /// After a header. Says whether a value is complete.
    fn opened(&mut self, kind: u8, number: u64, is_minus: bool) -> Result<bool, DecodeError> {
        self.state = State::Start;
        if is_minus {
            return if number == 1 && matches!(kind, b'$' | b'*') {
                Ok(true)
            } else {
                Err(self.error(DecodeErrorKind::Length))
            };
        }
        if matches!(kind, b'$' | b'!' | b'=') {
            let length = usize::try_from(number).ok().filter(|length| *length <= self.limits.max_bulk_bytes);
            let Some(length) = length else { return Err(self.error(DecodeErrorKind::BulkTooLong(number))) };
            self.state = State::Body { left: length + 2 };
            return Ok(false);
        }
        let owed = if matches!(kind, b'%' | b'|') { number.saturating_mul(2) } else { number };
        if owed > self.limits.max_elements as u64 {
            return Err(self.error(DecodeErrorKind::TooManyElements(owed)));
        }
        if self.open.len() >= self.limits.max_depth {
            return Err(self.error(DecodeErrorKind::TooDeep));
        }
        // A push that is a frame by itself ends it; one inside of a reply (redis#8935) is no element of it.
        let is_aside = kind == b'|' || (kind == b'>' && !self.open.is_empty());
        let is = if is_aside { Is::Aside } else { Is::Element };
        if owed == 0 {
            return Ok(is == Is::Element);
        }
        self.open.push(Level { owed, is });
        Ok(false)
    }

    /// A value is complete, and with it the aggregates whose last element it is. Says whether that was the frame.
    fn close(&mut self) -> bool {
        self.state = State::Start;
        loop {
            let Some(level) = self.open.last_mut() else { return true };
            level.owed -= 1;
            if level.owed > 0 {
                return false;
            }
            let is = level.is;
            self.open.pop();
            if is == Is::Aside {
                return false;
            }
        }
    }

    fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { offset: self.used, kind }
    }
}

/// A whole header of one digit or two, as nearly all are: its number, and its bytes.
#[inline]
fn short_header(input: &[u8]) -> Option<(u64, usize)> {
    match *input {
        [b'$' | b'*' | b'%' | b'~', digit @ b'0'..=b'9', b'\r', b'\n', ..] => Some((u64::from(digit - b'0'), 4)),
        [b'$' | b'*' | b'%' | b'~', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((u64::from(tens - b'0') * 10 + u64::from(ones - b'0'), 5))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// The ends of all frames, however the stream is cut.
    #[track_caller]
    fn check(stream: &[u8], ends: &[usize]) {
        for piece in 1..=stream.len() {
            let mut scanner = Scanner::new(Limits::default());
            let (mut found, mut position) = (Vec::new(), 0);
            for piece in stream.chunks(piece) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let step = scanner.scan(rest).unwrap();
                    position += step.consumed;
                    rest = &rest[step.consumed..];
                    if step.is_end {
                        found.push(position);
                    }
                }
            }
            assert_eq!(found, ends, "{:?} in pieces of {piece}", String::from_utf8_lossy(stream));
        }
    }

    #[test]
    fn scalars_end_with_their_line_or_string() {
        check(b"+OK\r\n-ERR no\r\n:1\r\n_\r\n#t\r\n,1.5\r\n(12\r\n", &[5, 14, 18, 21, 25, 31, 36]);
        check(b"$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n", &[9, 15, 20, 25]);
        check(b"!5\r\nERR x\r\n=5\r\ntxt:a\r\n", &[11, 22]);
    }

    #[test]
    fn aggregates_end_with_their_last_element() {
        check(b"*0\r\n*2\r\n*1\r\n:1\r\n*0\r\n%1\r\n+a\r\n~1\r\n:1\r\n", &[4, 20, 36]);
        check(b">2\r\n+a\r\n+b\r\n:1\r\n", &[12, 16]);
    }

    #[test]
    fn attributes_belong_to_what_they_describe_and_pushes_inside_to_nothing() {
        check(b"|1\r\n+a\r\n:1\r\n:7\r\n+OK\r\n", &[16, 21]);
        check(b"*2\r\n:1\r\n>1\r\n+x\r\n:2\r\n+OK\r\n", &[20, 25]);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for stream in [&b"x"[..], b"$-2\r\n", b"$a\r\n", b"*?\r\n", b"+a\rb", b"$1\rx", b"$99999999999999999999\r\n"] {
            assert!(Scanner::new(Limits::default()).scan(stream).is_err(), "{stream:?}");
        }
    }
}
