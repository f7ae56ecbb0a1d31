//! From bytes to the fields that are wanted.

use crate::text::{MAX_VALUE, Step, Text};

/// Brackets within each other; a document with more is refused, as most parsers do.
pub const MAX_DEPTH: u32 = 128;

/// The byte order mark of UTF-8.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Looks for fields at the top of an object.
#[derive(Debug)]
pub struct Scanner {
    /// The names, and what was found of each.
    wanted: Vec<(Box<str>, Option<Found>)>,
    state: State,
    /// Open brackets below the top, the innermost in the lowest bit: 1 for `{`.
    brackets: u128,
    depth: u32,
}

/// What a field has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A string.
    Text(String),
    /// A string of more than [`MAX_VALUE`] bytes, or no string.
    Other,
}

/// How far a scanner has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More of the document is needed.
    More,
    /// All that is wanted was found, or the object is over.
    Done,
}

/// The document is no JSON object, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

#[derive(Debug)]
enum State {
    /// Before the object, and before a byte order mark.
    Start,
    /// So many bytes of the mark have come, which a parser may pass by (RFC 8259 §8.1).
    Mark(usize),
    /// Before the object.
    Object,
    /// Behind `{`.
    First,
    /// Behind a comma of the object.
    Next,
    Name(Text),
    /// Behind a name: which of the wanted it is.
    Colon(Option<usize>),
    Value(Option<usize>),
    /// The string of a wanted field.
    Kept(usize, Text),
    /// A string that nobody wants, at the top or below.
    Skipped(Text),
    /// A number or a word.
    Word,
    /// Below the top, outside of strings.
    Nested,
    /// Behind a value.
    Behind,
    Done,
    Invalid,
}

impl Scanner {
    /// A scanner for these names.
    pub fn new<T: Into<Box<str>>>(wanted: impl IntoIterator<Item = T>) -> Self {
        let wanted = wanted.into_iter().map(|name| (name.into(), None)).collect();
        Self { wanted, state: State::Start, brackets: 0, depth: 0 }
    }

    /// Goes on with the next bytes, however the document is cut into pieces.
    ///
    /// # Errors
    /// The document is no JSON object. What was found before stays.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Invalid> {
        for byte in bytes {
            match self.state {
                State::Done => return Ok(Progress::Done),
                State::Invalid => return Err(Invalid),
                _ => self.step(*byte),
            }
        }
        match self.state {
            State::Done => Ok(Progress::Done),
            State::Invalid => Err(Invalid),
            _ => Ok(Progress::More),
        }
    }

    /// What was found of a field.
    #[must_use]
    pub fn found(&self, name: &str) -> Option<&Found> {
        self.wanted.iter().find(|(wanted, _)| **wanted == *name)?.1.as_ref()
    }

    fn step(&mut self, byte: u8) {
        let state = std::mem::replace(&mut self.state, State::Invalid);
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.state = match state {
            State::Name(text) => self.name(text, byte),
            State::Kept(index, text) => self.kept(index, text, byte),
            State::Skipped(mut text) => match text.step(byte) {
                Step::Inside => State::Skipped(text),
                Step::End => self.outside(),
                Step::Wrong => State::Invalid,
            },
            State::Word if matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.') => State::Word,
            State::Word => self.behind(byte),
            State::Mark(count) if MARK.get(count) == Some(&byte) && count + 1 == MARK.len() => State::Object,
            State::Mark(count) if MARK.get(count) == Some(&byte) => State::Mark(count + 1),
            State::Mark(_) => State::Invalid,
            State::Start if byte == MARK[0] => State::Mark(1),
            State::Start if is_space => State::Object,
            state if is_space => state,
            State::Start | State::Object if byte == b'{' => State::First,
            State::First if byte == b'}' => State::Done,
            State::First | State::Next if byte == b'"' => State::Name(Text::kept(self.longest())),
            State::Colon(index) if byte == b':' => State::Value(index),
            State::Value(index) => self.value(index, byte),
            State::Nested => self.nested(byte),
            State::Behind => self.behind(byte),
            _ => State::Invalid,
        };
    }

    fn longest(&self) -> usize {
        self.wanted.iter().map(|(name, _)| name.len()).max().unwrap_or(0)
    }

    fn name(&self, mut text: Text, byte: u8) -> State {
        match text.step(byte) {
            Step::Inside => State::Name(text),
            Step::Wrong => State::Invalid,
            Step::End => match text.finish() {
                Ok(name) => {
                    // The first of several counts.
                    let is_it = |(wanted, found): &(Box<str>, Option<Found>)| {
                        found.is_none() && name.as_deref() == Some(&**wanted)
                    };
                    State::Colon(self.wanted.iter().position(is_it))
                }
                Err(()) => State::Invalid,
            },
        }
    }

    fn kept(&mut self, index: usize, mut text: Text, byte: u8) -> State {
        match text.step(byte) {
            Step::Inside => State::Kept(index, text),
            Step::Wrong => State::Invalid,
            Step::End => match text.finish() {
                Ok(value) => self.note(index, value.map_or(Found::Other, Found::Text), State::Behind),
                Err(()) => State::Invalid,
            },
        }
    }

    fn value(&mut self, index: Option<usize>, byte: u8) -> State {
        let next = match (byte, index) {
            (b'"', Some(index)) => return State::Kept(index, Text::kept(MAX_VALUE)),
            (b'"', None) => return State::Skipped(Text::skipped()),
            (b'{' | b'[', _) => self.open(byte),
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', _) => State::Word,
            _ => return State::Invalid,
        };
        match index {
            Some(index) => self.note(index, Found::Other, next),
            None => next,
        }
    }

    /// A field was found; perhaps it was the last.
    fn note(&mut self, index: usize, found: Found, next: State) -> State {
        if let Some((_, place)) = self.wanted.get_mut(index) {
            *place = Some(found);
        }
        if self.wanted.iter().all(|(_, found)| found.is_some()) { State::Done } else { next }
    }

    fn nested(&mut self, byte: u8) -> State {
        match byte {
            b'"' => State::Skipped(Text::skipped()),
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(byte),
            b',' | b':' | b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E' => State::Nested,
            _ => State::Invalid,
        }
    }

    fn open(&mut self, byte: u8) -> State {
        if self.depth + 1 >= MAX_DEPTH {
            return State::Invalid;
        }
        self.brackets = self.brackets << 1 | u128::from(byte == b'{');
        self.depth += 1;
        State::Nested
    }

    fn close(&mut self, byte: u8) -> State {
        if (byte == b'}') != (self.brackets & 1 == 1) {
            return State::Invalid;
        }
        self.brackets >>= 1;
        self.depth -= 1;
        self.outside()
    }

    /// Behind something that nobody wants.
    fn outside(&self) -> State {
        if self.depth == 0 { State::Behind } else { State::Nested }
    }

    fn behind(&self, byte: u8) -> State {
        match byte {
            b',' => State::Next,
            b'}' => State::Done,
            b' ' | b'\t' | b'\n' | b'\r' => State::Behind,
            _ => State::Invalid,
        }
    }
}

#[cfg(test)]
mod tests;
