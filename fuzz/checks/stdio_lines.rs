//! The output of a program that speaks lines: whatever it writes, nothing panics, the cutting into reads and waits that
//! are given up change none of its lines, and nothing is read beyond a line that is too long.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use pilotlight_stdio::{Line, Lines};
use tokio::io::{AsyncRead, ReadBuf};

/// A read has room for no more, as lines are short here.
const MOST: usize = 32 * 1024;

/// The first byte says how long a line may be, the second how the rest is cut into reads.
pub(crate) fn check(data: &[u8]) {
    let &[max, mode, ref output @ ..] = data else { return };
    let max_line = usize::from(max);
    let whole = lines(output, usize::MAX, max_line);
    assert_eq!(whole, lines(output, usize::from(mode % 16) + 1, max_line), "the cutting changed the lines");
    assert_eq!(whole, expected(output, max_line), "they are no lines of it");
}

/// The lines, and whether the last one was too long.
fn expected(output: &[u8], max_line: usize) -> (Vec<Vec<u8>>, bool) {
    let mut found = Vec::new();
    let mut parts: VecDeque<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    let rest = parts.pop_back().unwrap_or_default();
    for part in parts {
        let line = part.strip_suffix(b"\r").unwrap_or(part);
        if line.len() > max_line {
            return (found, true);
        }
        found.push(line.to_vec());
    }
    (found, rest.strip_suffix(b"\r").unwrap_or(rest).len() > max_line)
}

fn lines(output: &[u8], step: usize, max_line: usize) -> (Vec<Vec<u8>>, bool) {
    let mut lines = Lines::new(Output { rest: output, step, waits: false }, max_line);
    let (mut found, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
    loop {
        // A wait is given up whenever nothing is there.
        let next = pin!(lines.next()).poll(&mut context);
        match next {
            Poll::Pending => {}
            Poll::Ready(Ok(Line::Text(line))) => found.push(line.to_vec()),
            Poll::Ready(Ok(Line::TooLong)) => return (found, true),
            Poll::Ready(Ok(Line::End) | Err(_)) => return (found, false),
        }
    }
}

/// What the program writes, of which so much is there at a time, and before each piece nothing.
struct Output<'a> {
    rest: &'a [u8],
    step: usize,
    waits: bool,
}

impl AsyncRead for Output<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.waits = !self.waits;
        if self.waits {
            return Poll::Pending;
        }
        assert!(into.remaining() <= MOST, "there is room for {} bytes", into.remaining());
        let (piece, rest) = self.rest.split_at(self.step.min(into.remaining()).min(self.rest.len()));
        into.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}
