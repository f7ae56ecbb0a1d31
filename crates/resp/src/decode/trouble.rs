//! Why the next bytes are no token: the rest of a reply is read over, or the stream has ended.

use alloc::boxed::Box;

use bytes::BytesMut;

use super::skip::Skip;
use crate::error::DecodeError;
use crate::value::Value;

/// Reason why the decoder takes no tokens off the input.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The rest of a reply that exceeds a limit is to come.
    Skip(Skip),
    /// The stream has ended.
    Ended(DecodeError),
}

impl Trouble {
    pub(super) fn ended(error: DecodeError) -> Box<Self> {
        Box::new(Self::Ended(error))
    }

    /// Begins to read over a reply ([`Skip::new`]).
    pub(super) fn skip(exceeded: DecodeError, owed: Option<usize>, offset: usize) -> Box<Self> {
        Box::new(Self::Skip(Skip::new(exceeded, owed, offset)))
    }

    /// Reads over the rest of a reply and returns [`Value::Skipped`] at its end, or returns the error that ended the
    /// stream.
    pub(super) fn run(trouble: &mut Option<Box<Self>>, input: &mut BytesMut) -> Result<Option<Value>, DecodeError> {
        let skip = match trouble.as_deref_mut() {
            Some(Self::Skip(skip)) => skip,
            Some(Self::Ended(error)) => return Err(*error),
            None => return Ok(None),
        };
        let ended = match skip.run(input) {
            Ok(false) => return Ok(None),
            Ok(true) => None,
            Err(error) => Some(error),
        };
        let limit = skip.limit();
        // The reply is over even where the stream ends: its reader is to know why.
        *trouble = ended.map(Self::ended);
        Ok(Some(Value::Skipped(limit)))
    }
}
