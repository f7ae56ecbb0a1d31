//! Lines of a stream of bytes, each of a bounded length.

use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::AsyncReadExt;

/// What is read at once, at least.
const READ: usize = 8 * 1024;

/// What comes out of a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Text(Bytes),
    /// It is longer than what is allowed; what follows it is unknown.
    TooLong,
    /// Nothing more comes.
    End,
}

/// Lines of at most so many bytes.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    buffer: BytesMut,
    /// Bytes of the buffer in which there is no line end.
    searched: usize,
    max_line: usize,
}

impl<R: AsyncReadExt + Unpin> Lines<R> {
    /// Lines of a source.
    pub fn new(source: R, max_line: usize) -> Self {
        Self { source, buffer: BytesMut::new(), searched: 0, max_line }
    }

    /// Forgets what was read.
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
        self.searched = 0;
    }

    /// The next line. What has no line end before the end of all is none. Behind a line that is too long nothing is
    /// read.
    ///
    /// # Errors
    /// Those of the source.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                return Ok(if line.len() > self.max_line { Line::TooLong } else { Line::Text(line.freeze()) });
            }
            self.searched = self.buffer.len();
            // The other half of a line end may be on its way.
            let is_ending = self.buffer.last() == Some(&b'\r');
            if self.searched - usize::from(is_ending) > self.max_line {
                return Ok(Line::TooLong);
            }
            self.buffer.reserve(READ);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(Line::End);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    async fn all(mut lines: Lines<impl AsyncReadExt + Unpin>) -> Vec<Line> {
        let mut found = Vec::new();
        loop {
            let line = lines.next().await.unwrap();
            let is_last = matches!(line, Line::End | Line::TooLong);
            found.push(line);
            if is_last {
                return found;
            }
        }
    }

    #[tokio::test]
    async fn lines() {
        let text = |text: &'static str| Line::Text(Bytes::from_static(text.as_bytes()));
        let found = all(Lines::new(&b"a\r\n\nbc\nrest"[..], 4)).await;
        assert_eq!(found, [text("a"), text(""), text("bc"), Line::End]);
        assert_eq!(all(Lines::new(&b"1234\n12345\n"[..], 4)).await, [text("1234"), Line::TooLong]);
        assert_eq!(all(Lines::new(&b"123456789"[..], 4)).await, [Line::TooLong]);
        assert_eq!(all(Lines::new(&b"1234\r"[..], 4)).await, [Line::End]);
    }

    proptest! {
        /// The cutting of the output into reads changes none of its lines.
        #[test]
        fn any_cutting(text in "[a-c\r\n]{0,60}", cuts in prop::collection::vec(1_usize..8, 0..30)) {
            struct Cut(Vec<u8>, Vec<usize>);
            impl tokio::io::AsyncRead for Cut {
                fn poll_read(
                    mut self: std::pin::Pin<&mut Self>,
                    _: &mut std::task::Context<'_>,
                    into: &mut tokio::io::ReadBuf<'_>,
                ) -> std::task::Poll<io::Result<()>> {
                    let size = self.1.pop().unwrap_or(7).min(self.0.len());
                    into.put_slice(&self.0.drain(..size).collect::<Vec<_>>());
                    std::task::Poll::Ready(Ok(()))
                }
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let cut = runtime.block_on(all(Lines::new(Cut(text.clone().into(), cuts), 10)));
            prop_assert_eq!(cut, runtime.block_on(all(Lines::new(text.as_bytes(), 10))));
        }
    }
}
