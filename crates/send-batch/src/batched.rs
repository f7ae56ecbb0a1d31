//! A stream that may put messages in a batch.
//!
//! It owns its stream and lends it only to be read, so that the descriptor of a message that waits stays open, and
//! nothing overtakes that message.
//!
//! Invariant: a message is sent before its stream is closed, and before anything else is written to it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::batch::{Batch, State, Ticket, Unfinished};
use crate::stream::Stream;

/// A stream, and what it has put in a batch. As an [`AsyncWrite`] it writes at once, and fails if something is
/// unsettled that did not go whole.
pub struct Batched {
    stream: Stream,
    batch: Option<Batch>,
    /// What was put in last, until it is known to have gone.
    ticket: Option<Ticket>,
    /// The socket took no more when it was last tried. Only writing to it waits for room: put in again and again, a
    /// message would keep its task busy.
    is_full: bool,
}

/// What has become of what was put in a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled {
    /// It waits, has gone, or nothing was put in.
    Nothing,
    /// The socket took no more. This is left, to be written before anything else.
    Rest(Vec<u8>),
}

impl From<Stream> for Batched {
    /// It takes part in no batch.
    fn from(stream: Stream) -> Self {
        Self { stream, batch: None, ticket: None, is_full: false }
    }
}

impl Batched {
    /// From now on messages may be put in this batch, which is that of the stream's thread. The first stays.
    pub fn join(&mut self, batch: &Batch) {
        self.batch.get_or_insert_with(|| batch.clone());
    }

    /// The stream, to be read and asked.
    #[must_use]
    #[inline]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Has `message` sent at the end of the turn. `false`: the caller has to write it, and waits for room that way. The
    /// task is woken when the message does not go whole, and asks [`Batched::settle`] before it sends anything else.
    pub fn put(&mut self, cx: &Context<'_>, message: &[u8]) -> bool {
        if self.ticket.is_some() || self.is_full {
            return false; // one at a time, and none behind a rest
        }
        self.ticket = self.batch.as_ref().and_then(|batch| batch.put(self.stream.as_fd(), message, cx));
        self.ticket.is_some()
    }

    /// Sends what waits before its turn ends, so that [`Batched::settle`] knows what became of it.
    #[inline]
    pub fn send_now(&self) {
        if let (Some(batch), Some(ticket)) = (&self.batch, self.ticket)
            && batch.waits(ticket)
        {
            batch.send();
        }
    }

    /// Writes the beginning of `message` at once. The system may keep it for what follows, which is written next.
    pub fn poll_write_more(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<usize>> {
        self.settle_all()?;
        let work = || Ok(send(self.stream.as_fd(), message, MORE)?);
        let written = self.stream.poll_write_with(cx, work);
        self.is_full = written.is_pending();
        written
    }

    /// Has the kernel send up to `most` bytes of a file, without a copy of them here. `Ok(0)`: the file has ended. What
    /// is changed in the file before it has gone, goes changed.
    ///
    /// # Errors
    /// Those of the socket and of the file; `InvalidInput`, `Unsupported` and `PermissionDenied`: such a file cannot be
    /// sent this way.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        most: u64,
    ) -> Poll<io::Result<usize>> {
        self.settle_all()?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let written = self.stream.poll_write_with(cx, || send_file(self.stream.as_fd(), file, offset, most));
        self.is_full = written.is_pending();
        written
    }

    /// What has become of what was put in last.
    ///
    /// # Errors
    /// The socket has taken nothing of it, and takes nothing any more.
    #[inline]
    pub fn settle(&mut self) -> io::Result<Settled> {
        if self.ticket.is_none() { Ok(Settled::Nothing) } else { self.look() }
    }

    fn look(&mut self) -> io::Result<Settled> {
        let (Some(batch), Some(ticket)) = (&self.batch, self.ticket) else { return Ok(Settled::Nothing) };
        let state = batch.state(ticket);
        if !matches!(state, State::Waiting) {
            self.ticket = None;
        }
        match state {
            State::Waiting | State::Sent => Ok(Settled::Nothing),
            State::Unfinished(Unfinished::Rest(rest)) => {
                self.is_full = true;
                Ok(Settled::Rest(rest))
            }
            State::Unfinished(Unfinished::Failed(error)) => Err(error),
        }
    }

    /// Nothing waits any more; an error if something of it was not sent.
    #[inline]
    fn settle_all(&mut self) -> io::Result<()> {
        self.send_now();
        match self.settle()? {
            Settled::Nothing => Ok(()),
            Settled::Rest(_) => Err(io::Error::other("a part of an earlier message was not written")),
        }
    }
}

#[cfg(target_os = "linux")]
const MORE: SendFlags = SendFlags::MORE.union(SendFlags::NOSIGNAL);
#[cfg(not(target_os = "linux"))]
const MORE: SendFlags = SendFlags::empty();

#[cfg(target_os = "linux")]
fn send_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, most: usize) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), most)?)
}

#[cfg(not(target_os = "linux"))]
fn send_file(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Drop for Batched {
    fn drop(&mut self) {
        let _ = self.settle_all(); // nobody is left who would write the rest
    }
}

impl AsyncRead for Batched {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Batched {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.settle_all()?;
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.is_full = written.is_pending();
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().settle_all())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.settle_all()?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.settle_all()?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.is_full = written.is_pending();
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
