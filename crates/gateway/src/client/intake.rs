//! What was read from a client before hyper asked for it, and how much of that hyper gets.
//!
//! ```text
//!                  a head without a body           hyper has read it, and its answer is written
//!   Share::Nothing ────────────────────▶ Share::Head ────────────────────▶ Share::Nothing
//!         │ anything else
//!         ▼
//!   Share::Everything
//! ```
//!
//! Invariant: while the share is nothing, hyper has no unread byte and no unwritten one, so the first byte here begins a request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use crate::net::Socket;

/// Room for what is read at once.
const READ_SIZE: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Nothing,
    /// So many bytes more, the rest of the head of one request.
    Head(usize),
    /// From now on, all that comes.
    Everything,
}

#[derive(Debug)]
pub(super) struct Intake {
    pub(super) bytes: BytesMut,
    pub(super) share: Share,
    /// Requests since the last hit.
    pub(super) others: u32,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new(), share: Share::Nothing, others: 0 }
    }

    /// Whether hyper is between two requests and has nothing of the next.
    pub(super) fn is_at_request(&self) -> bool {
        self.share == Share::Nothing
    }

    /// hyper has written an answer.
    pub(super) fn answered(&mut self) {
        if self.share == Share::Head(0) {
            self.share = Share::Nothing;
        }
    }

    /// Reads what is there, into `spare` if nothing is here; 0 is the end of the stream.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        spare: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, spare);
        }
        self.bytes.reserve(READ_SIZE);
        let filled = socket.poll_read_buf(cx, &mut self.bytes);
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, spare);
        }
        filled
    }

    /// What hyper reads.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let given = match self.share {
            Share::Everything if self.bytes.is_empty() => {
                return Pin::new(socket).poll_read(cx, buf);
            }
            Share::Everything => self.bytes.len(),
            Share::Head(length) => length,
            Share::Nothing => 0,
        };
        if given == 0 {
            // Beyond its share hyper only learns of the end.
            return match self.bytes.is_empty() {
                true => match ready!(self.poll_fill(cx, socket, &mut BytesMut::new())) {
                    Ok(0) => Poll::Ready(Ok(())),
                    Ok(_) => Poll::Pending,
                    Err(e) => Poll::Ready(Err(e)),
                },
                false => Poll::Pending,
            };
        }
        let count = given.min(buf.remaining());
        buf.put_slice(&self.bytes[..count]);
        self.bytes.advance(count);
        if let Share::Head(length) = &mut self.share {
            *length -= count;
        }
        Poll::Ready(Ok(()))
    }
}
