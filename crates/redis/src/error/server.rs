//! An error as a server says it.

use std::fmt;

/// An error that the server sent, `CODE message`.
///
/// ```
/// use pilotlight_redis::ServerError;
///
/// let error = ServerError::parse(b"WRONGTYPE Operation against a key");
/// assert_eq!((error.code(), error.message()), ("WRONGTYPE", "Operation against a key"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    text: Box<str>,
    code_len: usize,
}

impl ServerError {
    /// The error whose line or blob is `text`. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let text: Box<str> = String::from_utf8_lossy(text).into();
        // The code is the first word if it is in capitals, as all of the servers' are.
        let word = text.split([' ', '\n']).next().unwrap_or_default();
        let is_code = !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit());
        let code_len = if is_code { word.len() } else { 0 };
        Self { text, code_len }
    }

    /// Its first word, in capitals: `ERR`, `WRONGTYPE`, `MOVED`; empty if there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.text[..self.code_len]
    }

    /// What follows the code.
    #[must_use]
    pub fn message(&self) -> &str {
        self.text[self.code_len..].trim_start()
    }

    /// Code and message.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ServerError {}
