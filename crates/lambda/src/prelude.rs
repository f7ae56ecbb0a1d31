//! What comes before the body of a streamed response: JSON with status and fields, and eight zero bytes.

use serde_json::Value;

use crate::event::EventFormat;
use crate::result::{self, ResultError};

/// The media type of a stream that has one.
pub const PRELUDE_TYPE: &str = "application/vnd.awslambda.http-integration-response";
/// Bytes of a prelude.
pub const MAX_PRELUDE: usize = 64 * 1024;
/// What ends it.
const END: [u8; 8] = [0; 8];

/// The head of a streamed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prelude {
    /// From 200 to 599.
    pub status: u16,
    /// Its fields, with names in small letters.
    pub fields: Vec<(String, String)>,
}

/// Why a stream has no head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreludeError {
    /// Too long.
    #[error("there are no eight zero bytes within {MAX_PRELUDE} bytes")]
    TooLong,
    /// The stream is over.
    #[error("the stream ended before its eight zero bytes")]
    Ended,
    /// It says something else.
    #[error("{0}")]
    Head(#[from] ResultError),
}

/// Finds the prelude of a stream, however its bytes come.
#[derive(Debug, Default)]
pub struct PreludeReader {
    /// What has come of it.
    read: Vec<u8>,
}

impl PreludeReader {
    /// Nothing has come.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes. When the prelude is whole: it, and how many of these bytes belong to it.
    ///
    /// # Errors
    /// What came is no prelude.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<(Prelude, usize)>, PreludeError> {
        let before = self.read.len();
        let more = bytes.len().min(MAX_PRELUDE + END.len() - before);
        self.read.extend_from_slice(&bytes[..more]);
        let from = before.saturating_sub(END.len() - 1);
        let Some(at) = memchr::memmem::find(&self.read[from..], &END) else {
            return if self.read.len() == MAX_PRELUDE + END.len() { Err(PreludeError::TooLong) } else { Ok(None) };
        };
        let end = from + at;
        Ok(Some((head(&self.read[..end])?, end + END.len() - before)))
    }
}

fn head(json: &[u8]) -> Result<Prelude, PreludeError> {
    let value = serde_json::from_slice(json).map_err(|_| ResultError::NotJson)?;
    let Value::Object(mut map) = value else { return Err(ResultError::NotAnObject("streamed").into()) };
    map.entry("statusCode").or_insert_with(|| 200.into());
    let (status, fields) = result::head(EventFormat::V2, &map)?;
    Ok(Prelude { status, fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The prelude of a stream that comes in pieces, and what is behind it.
    fn read(stream: &[u8], step: usize) -> Result<Option<(Prelude, Vec<u8>)>, PreludeError> {
        let mut reader = PreludeReader::new();
        for (index, piece) in stream.chunks(step).enumerate() {
            if let Some((prelude, length)) = reader.read(piece)? {
                return Ok(Some((prelude, stream[index * step + length..].to_vec())));
            }
        }
        Ok(None)
    }

    #[test]
    fn preludes() {
        let stream =
            b"{\"statusCode\": 201, \"headers\": {\"X-A\": \"b\"}, \"cookies\": [\"c=d\"]}\0\0\0\0\0\0\0\0\0body";
        for step in 1..stream.len() {
            let (prelude, rest) = read(stream, step).unwrap().unwrap();
            let fields = [("x-a", "b"), ("set-cookie", "c=d")].map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(prelude, Prelude { status: 201, fields: fields.to_vec() }, "{step} bytes at a time");
            assert_eq!(rest, b"\0body");
        }
        assert_eq!(read(b"{}\0\0\0\0\0\0\0\0", 3).unwrap().unwrap().0.status, 200);
        assert_eq!(read(b"{}\0\0\0\0", 3), Ok(None));
        assert_eq!(read(b"[]\0\0\0\0\0\0\0\0", 3), Err(ResultError::NotAnObject("streamed").into()));
        assert_eq!(read(&[b' '; MAX_PRELUDE + 8], 1000), Err(PreludeError::TooLong));
    }

    proptest! {
        #[test]
        fn any_chunking_is_the_whole(
            text in "[{\"a-z:}0 ]{0,40}",
            zeros in 0..12_usize,
            body in proptest::collection::vec(any::<u8>(), 0..40),
            step in 1..20_usize,
        ) {
            let stream = [text.as_bytes(), &vec![0; zeros], &body].concat();
            prop_assert_eq!(read(&stream, step), read(&stream, usize::MAX >> 1));
        }
    }
}
