//! What is asked.

use std::fmt;

/// Appends the next request; `false`: there are no more.
pub type Next = dyn FnMut(&mut Vec<u8>) -> bool;

/// What is asked.
pub enum Requests {
    /// The same again and again.
    Same {
        /// Its bytes.
        request: Vec<u8>,
        /// What the first answer on each connection has to say with status 200, and any later one that has another
        /// length or status.
        body: Option<Vec<u8>>,
    },
    /// What this says.
    Each(Box<Next>),
}

impl From<Box<Next>> for Requests {
    fn from(next: Box<Next>) -> Self {
        Self::Each(next)
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same { .. } => "Same",
            Self::Each(_) => "Each",
        })
    }
}

/// A GET as a browser's connection would repeat it, without what does not matter here.
#[must_use]
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Requests as they are taken.
pub(super) struct Source {
    requests: Requests,
    /// Of constant requests as many as are ever taken at once; else room for what is taken.
    bytes: Vec<u8>,
    ended: bool,
}

impl Source {
    /// At most `most` will be taken at once.
    pub(super) fn new(requests: Requests, most: usize) -> Self {
        let bytes = match &requests {
            Requests::Same { request, .. } => request.repeat(most),
            Requests::Each(_) => Vec::new(),
        };
        Self { requests, bytes, ended: false }
    }

    /// Whether there are no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What has to be answered.
    pub(super) fn body(&self) -> Option<&[u8]> {
        match &self.requests {
            Requests::Same { body, .. } => body.as_deref(),
            Requests::Each(_) => None,
        }
    }

    /// The next `count`, or as many as there are.
    pub(super) fn take(&mut self, count: usize) -> (usize, &[u8]) {
        match &mut self.requests {
            Requests::Same { request, .. } => (count, &self.bytes[..count * request.len()]),
            Requests::Each(next) => {
                self.bytes.clear();
                let mut taken = 0;
                while taken < count && !self.ended {
                    self.ended = !next(&mut self.bytes);
                    taken += usize::from(!self.ended);
                }
                (taken, &self.bytes)
            }
        }
    }
}
