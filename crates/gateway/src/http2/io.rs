//! The client's socket as the `h2` crate sees it: what it writes is gathered until the end of the turn, what it reads
//! is counted.
//!
//! ```text
//!  socket ──▶ FrameCounter ──▶ h2        h2 ──▶ gathered (64 KiB) ──▶ socket, at the end of the turn
//! ```
//! Answers to requests that came together go out in one write, so.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame_counter::{Flood, FrameCounter};

/// Bytes gathered before they are written in the middle of a turn.
const MAX_GATHERED: usize = 64 * 1024;
/// Writes of at least this size are not copied.
const DIRECT_WRITE: usize = 16 * 1024;

/// The socket, as two hold it: the connection of `h2`, and the task that drives it.
pub(super) struct Shared<S>(Rc<RefCell<Io<S>>>);

struct Io<S> {
    stream: S,
    /// What was read before the protocol was known.
    read_ahead: BytesMut,
    out: BytesMut,
    counter: FrameCounter,
    flood: Option<Flood>,
    /// The socket takes no more.
    is_blocked: bool,
    /// Bytes that the socket has taken.
    written: u64,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Shared<S> {
    pub(super) fn new(stream: S, read_ahead: BytesMut) -> Self {
        let (out, counter) = (BytesMut::new(), FrameCounter::default());
        Self(Rc::new(RefCell::new(Io { stream, read_ahead, out, counter, flood: None, is_blocked: false, written: 0 })))
    }

    /// The socket, if nobody else holds it any more.
    pub(super) fn into_stream(self) -> Option<S> {
        Rc::into_inner(self.0).map(|io| io.into_inner().stream)
    }

    /// Writes what was gathered.
    pub(super) fn poll_flush_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush_out(cx)
    }

    /// Gives up what was kept for further responses.
    pub(super) fn rest(&self) {
        let mut io = self.0.borrow_mut();
        if io.out.is_empty() {
            io.out = BytesMut::new();
        }
    }

    /// Whether the socket takes no more, and how much it has taken by now.
    pub(super) fn is_blocked(&self) -> (bool, u64) {
        let io = self.0.borrow();
        (io.is_blocked, io.written)
    }

    /// Whether the head of a request has begun that is not whole.
    pub(super) fn is_in_head(&self) -> bool {
        self.0.borrow().counter.is_in_head()
    }

    /// What the client did too often.
    pub(super) fn flood(&self) -> Option<Flood> {
        self.0.borrow().flood
    }

    /// A frame with data was sent.
    pub(super) fn sent_data(&self) {
        self.0.borrow_mut().counter.useful();
    }

    /// A stream was answered.
    pub(super) fn answered(&self) {
        self.0.borrow_mut().counter.answered();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Io<S> {
    fn poll_flush_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A blocked write of what was not gathered stays one.
        let is_gathered = !self.out.is_empty();
        while !self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.out) {
                Poll::Pending => {
                    self.is_blocked = true;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    self.written += written as u64;
                    self.out.advance(written);
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            }
        }
        self.is_blocked &= !is_gathered;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.flood.is_some() {
            return Poll::Pending; // nothing more is taken of it; the connection's task ends it in this turn
        }
        let before = buf.filled().len();
        if self.read_ahead.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        } else {
            let length = self.read_ahead.len().min(buf.remaining());
            buf.put_slice(&self.read_ahead.split_to(length));
        }
        self.flood = self.counter.received(&buf.filled()[before..]).err();
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(&mut self, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length < DIRECT_WRITE && self.out.len() + length <= MAX_GATHERED {
            slices.iter().for_each(|slice| self.out.extend_from_slice(slice));
            return Poll::Ready(Ok(length));
        }
        ready!(self.poll_flush_out(cx))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.is_blocked = written.is_pending();
        if let Poll::Ready(Ok(written)) = &written {
            self.written += *written as u64;
        }
        written
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Shared<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Shared<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    /// What was gathered counts as written; its task writes it at the end of the turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.0.borrow_mut();
        ready!(io.poll_flush_out(cx))?;
        Pin::new(&mut io.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
