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

/// So many requests in a row that were no hits, and looking at more is not worth it: a look in vain costs a request that is passed
/// on a seventh more instructions.
const MAX_OTHERS: u32 = 8;
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
    others: u32,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new(), share: Share::Nothing, others: 0 }
    }

    /// Whether hyper is between two requests and has nothing of the next.
    pub(super) fn is_at_request(&self) -> bool {
        self.share == Share::Nothing
    }

    /// The first so many bytes were a hit, which is answered.
    pub(super) fn take_hit(&mut self, length: usize) {
        self.bytes.advance(length);
        self.others = 0;
    }

    /// What hyper gets when the first so many bytes are another request, all of them its head.
    pub(super) fn take_other(&mut self, length: usize) -> Share {
        self.others += 1;
        if self.others < MAX_OTHERS { Share::Head(length) } else { Share::Everything }
    }

    /// Keeps what is unread in no more memory than it needs, for as long as something else is waited for.
    pub(super) fn shrink(&mut self, spare: &mut BytesMut) {
        let unread = BytesMut::from(&self.bytes[..]);
        *spare = std::mem::replace(&mut self.bytes, unread);
        spare.clear();
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
