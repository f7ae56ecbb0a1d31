//! A body taken apart by its framing; resumable at any byte.

use bytes::BytesMut;

use crate::chunked::{ChunkStep, Chunked};
use crate::error::Malformed;
use crate::framing::BodyLength;
use crate::limits::Limits;
use crate::small_chunks;

/// Reads one body.
#[derive(Debug, Clone)]
pub struct BodyDecoder {
    state: State,
    /// Bytes of chunk extensions so far.
    extensions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    Chunked(Chunked),
    Ended,
}

/// What stands at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPiece {
    /// Data: skip as many bytes, then take as many.
    Data {
        /// Bytes of framing before the data.
        skip: usize,
        /// Bytes of data; at least one.
        length: usize,
    },
    /// Skip as many bytes; there a trailer section begins. Read it with [`crate::parse_trailers`], then call
    /// [`BodyDecoder::trailers_read`].
    Trailers {
        /// Bytes of framing before the section.
        skip: usize,
    },
    /// Skip as many bytes; more input is needed.
    Incomplete {
        /// Bytes of framing that were read.
        skip: usize,
    },
    /// The body is over.
    End,
}

impl BodyDecoder {
    /// Of a body with this framing.
    pub fn new(length: BodyLength) -> Self {
        let state = match length {
            BodyLength::Empty | BodyLength::Exactly(0) => State::Ended,
            BodyLength::Exactly(length) => State::Length(length),
            BodyLength::Chunked => State::Chunked(Chunked::Size),
            BodyLength::UntilClose => State::UntilClose,
        };
        Self { state, extensions: 0 }
    }

    /// Whether the whole body was read.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Bytes that are still to come, if that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Ended => Some(0),
            State::UntilClose | State::Chunked(_) => None,
        }
    }

    /// Looks at the front of `input`. What the piece names has to be taken off the input before the next call.
    ///
    /// # Errors
    /// The rule that the framing breaks.
    pub fn decode(&mut self, input: &[u8], limits: &Limits) -> Result<BodyPiece, Malformed> {
        match &mut self.state {
            State::Ended => Ok(BodyPiece::End),
            State::UntilClose | State::Length(_) if input.is_empty() => Ok(BodyPiece::Incomplete { skip: 0 }),
            State::UntilClose => Ok(BodyPiece::Data { skip: 0, length: input.len() }),
            State::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::Ended;
                }
                Ok(BodyPiece::Data { skip: 0, length })
            }
            State::Chunked(chunked) => {
                let mut skip = 0;
                loop {
                    match chunked.step(&input[skip..], &mut self.extensions, limits)? {
                        ChunkStep::Framing(length) => skip += length,
                        ChunkStep::Data(length) => return Ok(BodyPiece::Data { skip, length }),
                        ChunkStep::Trailers => return Ok(BodyPiece::Trailers { skip }),
                        ChunkStep::Incomplete => return Ok(BodyPiece::Incomplete { skip }),
                    }
                }
            }
        }
    }

    /// Appends what follows in `input` to `out`, chunk after chunk, until `out` has `max` bytes or more, no data are
    /// left, or the framing is broken (which [`BodyDecoder::decode`] then says); how many bytes of `input` are done
    /// with. Only chunks are gathered.
    pub fn gather(&mut self, input: &[u8], limits: &Limits, out: &mut BytesMut, max: usize) -> usize {
        let State::Chunked(chunked) = &mut self.state else { return 0 };
        let mut at = 0;
        while out.len() < max {
            if *chunked == Chunked::Size {
                at += small_chunks::take(&input[at..], out, max);
            }
            match chunked.step(&input[at..], &mut self.extensions, limits) {
                Ok(ChunkStep::Framing(length)) => at += length,
                Ok(ChunkStep::Data(length)) => {
                    out.extend_from_slice(&input[at..at + length]);
                    at += length;
                }
                Ok(ChunkStep::Trailers | ChunkStep::Incomplete) | Err(_) => break,
            }
        }
        at
    }

    /// The trailer section was read whole.
    pub fn trailers_read(&mut self) {
        if self.state == State::Chunked(Chunked::Trailers) {
            self.state = State::Ended;
        }
    }

    /// The peer closed the connection.
    ///
    /// # Errors
    /// [`Malformed::CutBody`] if the body was not over.
    pub fn closed(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Ended => Ok(()),
            State::UntilClose => {
                self.state = State::Ended;
                Ok(())
            }
            State::Length(_) | State::Chunked(_) => Err(Malformed::CutBody),
        }
    }
}
