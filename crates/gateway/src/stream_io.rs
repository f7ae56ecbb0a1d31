//! A stream of HTTP/2 that carries another protocol's bytes (RFC 8441 §5), of a client or of a service, as a
//! connection.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};

/// A stream as a connection.
pub(crate) struct StreamIo {
    sending: SendStream<Bytes>,
    receiving: RecvStream,
    /// What came, and was not taken.
    unread: Bytes,
}

impl StreamIo {
    pub(crate) fn new(sending: SendStream<Bytes>, receiving: RecvStream) -> Self {
        Self { sending, receiving, unread: Bytes::new() }
    }

    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        while self.unread.is_empty() {
            match ready!(self.receiving.poll_data(cx)) {
                Some(data) => self.unread = data.map_err(io_error)?,
                None => return Poll::Ready(Ok(0)),
            }
        }
        let length = self.unread.len().min(buf.capacity() - buf.len());
        buf.extend_from_slice(&self.unread.split_to(length));
        // An error means that the stream has ended: then there is no window.
        let _ = self.receiving.flow_control().release_capacity(length);
        Poll::Ready(Ok(length))
    }

    /// Writes from the front of `buf` until it is empty or the other end's windows have no more room.
    pub(crate) fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        while !buf.is_empty() {
            self.sending.reserve_capacity(buf.len());
            let room = match self.sending.capacity() {
                0 => match ready!(self.sending.poll_capacity(cx)) {
                    Some(room) => room.map_err(io_error)?,
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                },
                room => room,
            };
            let length = room.min(buf.len());
            self.sending.send_data(Bytes::copy_from_slice(&buf[..length]), false).map_err(io_error)?;
            buf.advance(length);
        }
        buf.clear(); // an empty one that has been advanced has less room
        Poll::Ready(Ok(()))
    }

    /// Ends this direction.
    ///
    /// # Errors
    /// The stream is over.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.sending.send_data(Bytes::new(), true).map_err(io_error)
    }

    /// RFC 8441 §5, RFC 9113 §8.5: what the other end of a connection is told by a reset.
    pub(crate) fn reset(&mut self) {
        self.sending.send_reset(Reason::CONNECT_ERROR);
    }
}

/// An error of a stream as one of a socket.
pub(crate) fn io_error(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
    }
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}
