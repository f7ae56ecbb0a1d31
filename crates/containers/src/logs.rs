//! What a container prints: frames of both of its streams on one connection.
//!
//! ```text
//!  ┌────────┬─────────┬────────────────┬──────────┐
//!  │ stream │ 0, 0, 0 │ length, 4 bytes│ payload  │   stream: 1 standard output, 2 standard error
//!  └────────┴─────────┴────────────────┴──────────┘
//! ```
//! A container with a terminal has one stream, without frames.

use crate::call::Answer;
use crate::error::EngineError;
use bytes::{Buf as _, Bytes};

/// A stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a container prints, as it comes.
#[derive(Debug)]
pub struct Logs {
    answer: Answer,
    frames: Option<Demultiplexer>,
    read: Bytes,
}

impl Logs {
    pub(crate) fn new(answer: Answer, tty: bool) -> Self {
        Self { answer, frames: (!tty).then(Demultiplexer::default), read: Bytes::new() }
    }

    /// The next bytes of a stream; `None` when the container has ended.
    ///
    /// # Errors
    /// The connection broke.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<(Stream, Bytes)>, EngineError> {
        loop {
            if let Some(frames) = &mut self.frames {
                if let Some(piece) = frames.next(&mut self.read) {
                    return Ok(Some(piece));
                }
            } else if !self.read.is_empty() {
                return Ok(Some((Stream::Stdout, std::mem::take(&mut self.read))));
            }
            match self.answer.next().await? {
                Some(read) => self.read = read,
                None => return Ok(None),
            }
        }
    }
}

/// Takes frames apart, however they are cut. Payloads are passed on as they come, so nothing is sized by a length.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    head: [u8; 8],
    /// Bytes of `head` that have come.
    have: usize,
    /// Bytes of the payload that are to come.
    left: u32,
}

impl Demultiplexer {
    /// The next piece of a payload; `None` when `from` is used up.
    pub fn next(&mut self, from: &mut Bytes) -> Option<(Stream, Bytes)> {
        while !from.is_empty() {
            if self.left > 0 {
                let take = from.len().min(self.left as usize);
                self.left -= take as u32;
                return Some((self.stream(), from.split_to(take)));
            }
            if self.have == self.head.len() {
                self.have = 0; // the payload before is complete
            }
            self.head[self.have] = from.get_u8();
            self.have += 1;
            if self.have == self.head.len() {
                self.left = u32::from_be_bytes([self.head[4], self.head[5], self.head[6], self.head[7]]);
            }
        }
        None
    }

    fn stream(&self) -> Stream {
        if self.head[0] == 2 { Stream::Stderr } else { Stream::Stdout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_kept_apart_however_they_are_cut() {
        let mut all = Vec::new();
        for (stream, text) in [(1_u8, "one\n"), (2, "bad\n"), (1, ""), (1, "two\n")] {
            all.extend([stream, 0, 0, 0]);
            all.extend((text.len() as u32).to_be_bytes());
            all.extend(text.bytes());
        }
        for size in 1..=all.len() {
            let (mut frames, mut out, mut err) = (Demultiplexer::default(), Vec::new(), Vec::new());
            for chunk in all.chunks(size) {
                let mut chunk = Bytes::copy_from_slice(chunk);
                while let Some((stream, piece)) = frames.next(&mut chunk) {
                    if stream == Stream::Stdout { out.extend(piece) } else { err.extend(piece) }
                }
            }
            assert_eq!((&out[..], &err[..]), (&b"one\ntwo\n"[..], &b"bad\n"[..]), "in pieces of {size}");
        }
    }
}
