//! The states of a connection, on either side: which event may come next, and what may be sent.

pub(crate) mod client;
pub(crate) mod server;

#[cfg(test)]
mod tests;

use crate::body::{BodyDecoder, BodyPiece};
use crate::error::Malformed;
use crate::fields::{FieldTable, Fields};
use crate::limits::Limits;
use crate::parse::trailers::parse_trailers;

/// What came, with a head of the kind that the other side sends.
#[derive(Debug, Clone, Copy)]
pub enum Received<'b, H> {
    /// The head of a message. If its body is [`crate::BodyLength::Empty`], the message is over and no `End` follows.
    Head(H),
    /// A piece of its body, never empty.
    Data(&'b [u8]),
    /// Its trailers; the message is over.
    Trailers(Fields<'b>),
    /// The message is over, without trailers.
    End,
    /// Nothing more without more bytes, or before what was received is answered.
    Incomplete,
}

/// Why something cannot be sent now: a mistake of the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The head of this message was sent, or there is nothing to send one for.
    #[error("no head may be sent now")]
    Head,
    /// No head was sent, or the message is over.
    #[error("no body may be sent now")]
    Body,
    /// More than the head announced.
    #[error("the body is longer than its Content-Length")]
    TooLong,
    /// Less than the head announced.
    #[error("the body is shorter than its Content-Length")]
    TooShort,
}

/// Reads a piece of a body: how much of the input it takes, and what it is.
fn receive_body<'b, H>(
    decoder: &mut BodyDecoder,
    bytes: &'b [u8],
    table: &'b mut FieldTable,
    limits: &Limits,
) -> Result<(usize, Received<'b, H>), Malformed> {
    match decoder.decode(bytes, limits)? {
        BodyPiece::Data { skip, length } => Ok((skip + length, Received::Data(&bytes[skip..skip + length]))),
        BodyPiece::Incomplete { skip } => Ok((skip, Received::Incomplete)),
        BodyPiece::End => Ok((0, Received::End)),
        BodyPiece::Trailers { skip } => match parse_trailers(&bytes[skip..], table, limits)? {
            None => Ok((skip, Received::Incomplete)),
            Some((trailers, length)) => {
                decoder.trailers_read();
                let event = if trailers.is_empty() { Received::End } else { Received::Trailers(trailers) };
                Ok((skip + length, event))
            }
        },
    }
}

/// Whether an incomplete head of which `searched` bytes were looked at has a further line, or is looked at for the
/// first time. Keeps a head that comes byte by byte from being parsed anew for each of them.
fn has_new_line(bytes: &[u8], searched: usize) -> bool {
    searched == 0 || bytes.get(searched..).is_some_and(|new| memchr::memchr(b'\n', new).is_some())
}
