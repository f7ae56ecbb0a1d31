//! A socket behind a handshake: rustls between the bytes of a connection and those of HTTP.
//!
//! ```text
//!   socket ──▶ incoming ──▶ rustls ──▶ the reader's buffer
//!   socket ◀── sealed ◀──── rustls ◀── what is written
//! ```
//!
//! Records are encrypted into one buffer, which goes out as a plain answer would: with the worker's batch if it is
//! small. At most [`MAX_SEALED`] is encrypted ahead of what the client takes.
//!
//! A stream that ends without close_notify (RFC 8446 §6.1) ends as one of TCP does: HTTP knows where its messages end.

use std::io::{self, BufRead as _, Write as _};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use rustls::pki_types::CertificateDer;
use rustls::{ConnectionCommon, ServerConnection, SideData};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Socket;

/// Bytes that are encrypted before the client has taken those before.
const MAX_SEALED: usize = 64 * 1024;
/// Bytes of what is written that are encrypted at once: a record (RFC 8446 §5.1).
const MAX_RECORD: usize = 16 * 1024;
/// Room for what is read at once: a record, its header and what its encryption adds (RFC 8446 §5.2).
pub(crate) const READ_SIZE: usize = MAX_RECORD + 256 + 5;

/// A connection with TLS: of a client, or to a server.
pub(crate) struct TlsSocket<C = ServerConnection> {
    socket: Socket,
    tls: C,
    /// Read, and not taken by rustls yet.
    incoming: BytesMut,
    /// Encrypted, and not sent yet.
    sealed: BytesMut,
    /// Decrypted, and not read yet.
    plain: usize,
    /// The client's direction is over.
    is_ended: bool,
    /// Ours is.
    has_said_end: bool,
}

impl<C> TlsSocket<C> {
    /// Of a client whose hello rustls has read, and what was `received` behind that; or to a server, of whom nothing
    /// was.
    pub(crate) fn new(socket: Socket, tls: C, received: BytesMut) -> Self {
        let sealed = BytesMut::new();
        Self { socket, tls, incoming: received, sealed, plain: 0, is_ended: false, has_said_end: false }
    }

    /// The socket, without TLS.
    pub(crate) fn into_plain(self) -> Socket {
        self.socket
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl<C, D> TlsSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>>,
    D: SideData + 'static,
{
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// What was agreed on to be spoken (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// The certificate that the client has shown, and that was verified.
    pub(crate) fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates().and_then(<[_]>::first)
    }

    /// How the handshake went.
    pub(crate) fn handshake_kind(&self) -> Option<rustls::HandshakeKind> {
        self.tls.handshake_kind()
    }

    /// Reads bytes of the handshake, which are not looked at yet; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.incoming.reserve(READ_SIZE);
        self.socket.poll_read_buf(cx, &mut self.incoming)
    }

    /// Looks at what was received.
    ///
    /// # Errors
    /// It is not TLS, or not acceptable. The alert that says so is ready to be sent.
    pub(crate) fn process(&mut self) -> Result<(), rustls::Error> {
        while self.plain == 0 {
            let mut unread: &[u8] = &self.incoming;
            let before = unread.len();
            if !unread.is_empty() {
                // Only a full buffer is an error, which is emptied below.
                let _ = self.tls.read_tls(&mut unread);
            }
            let taken = before - unread.len();
            self.incoming.advance(taken);
            let state = self.tls.process_new_packets();
            self.seal_own();
            let state = state?;
            self.plain = state.plaintext_bytes_to_read();
            if state.peer_has_closed() {
                self.is_ended = true;
                self.incoming.clear();
            }
            if self.incoming.is_empty() {
                break;
            }
            if taken == 0 && self.plain == 0 {
                return Err(rustls::Error::General("a record that fits no buffer".to_owned()));
            }
        }
        Ok(())
    }

    /// What rustls has to say itself: parts of the handshake, alerts, tickets.
    fn seal_own(&mut self) {
        while self.tls.wants_write() {
            // To memory, which takes everything.
            if !matches!(self.tls.write_tls(&mut Sealed(&mut self.sealed)), Ok(1..)) {
                break;
            }
        }
    }

    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        let room = buf.capacity() - buf.len();
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        self.poll_plain(cx, room, |plain| buf.extend_from_slice(plain))
    }

    /// Hands out up to `room` bytes of the stream; `Ok(0)` is its end.
    fn poll_plain(&mut self, cx: &mut Context<'_>, room: usize, take: impl FnOnce(&[u8])) -> Poll<io::Result<usize>> {
        loop {
            if self.plain > 0 {
                let mut reader = self.tls.reader();
                let chunk = reader.fill_buf()?;
                let taken = chunk.len().min(room);
                take(&chunk[..taken]);
                reader.consume(taken);
                self.plain -= taken.min(self.plain);
                return Poll::Ready(Ok(taken));
            }
            if self.is_ended {
                return Poll::Ready(Ok(0));
            }
            if self.incoming.is_empty() {
                self.is_ended = ready!(self.poll_receive(cx))? == 0;
            }
            if let Err(error) = self.process() {
                let _ = self.poll_flush_sealed(cx); // the alert, if there is room for it
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            if self.incoming.is_empty() && self.plain == 0 {
                self.incoming = BytesMut::new();
            }
        }
    }

    /// Waits until something can be read.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.plain > 0 || self.is_ended || !self.incoming.is_empty() {
            true => Poll::Ready(()),
            false => self.socket.poll_readable(cx),
        }
    }

    /// What did not go of the batch is in front of what is sealed again.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        self.socket.settle(&mut self.sealed).map(drop)
    }

    pub(crate) fn unsent(&self) -> usize {
        self.sealed.len()
    }

    /// Encrypts all of a small `buf`, and has it sent at the end of the turn.
    pub(crate) fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        if buf.len() + self.sealed.len() > MAX_SEALED {
            return self.poll_write_both(cx, buf, &mut Bytes::new());
        }
        while !buf.is_empty() {
            let sealed = self.seal(buf)?;
            buf.advance(sealed);
        }
        buf.clear(); // an empty one that has been advanced has less room
        self.socket.poll_send_all(cx, &mut self.sealed)
    }

    /// Encrypts and writes `first`, then `second`, until both are empty or the socket takes no more.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        second: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        loop {
            while self.sealed.len() < MAX_SEALED && !(first.is_empty() && second.is_empty()) {
                if first.is_empty() {
                    let sealed = self.seal(second)?;
                    second.advance(sealed);
                } else {
                    let sealed = self.seal(first)?;
                    first.advance(sealed);
                }
            }
            ready!(self.poll_flush_sealed(cx))?;
            if first.is_empty() && second.is_empty() {
                first.clear(); // an empty one that has been advanced has less room
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Sends what is encrypted.
    pub(crate) fn poll_flush_sealed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_all(cx, &mut self.sealed)
    }

    /// Encrypts the beginning of `plain`, a record of it at most.
    fn seal(&mut self, plain: &[u8]) -> io::Result<usize> {
        let sealed = self.tls.writer().write(&plain[..plain.len().min(MAX_RECORD)])?;
        self.seal_own();
        if sealed == 0 {
            return Err(io::ErrorKind::WriteZero.into()); // behind close_notify
        }
        Ok(sealed)
    }

    /// Gives up memory for as long as the client is quiet.
    pub(crate) fn rest(&mut self) {
        if self.sealed.is_empty() {
            self.sealed = BytesMut::new();
        }
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
    }

    fn seal_end(&mut self) {
        if !std::mem::replace(&mut self.has_said_end, true) {
            self.tls.send_close_notify();
            self.seal_own();
        }
    }

    /// Says close_notify, if there is room for it.
    pub(crate) fn say_end(&mut self) {
        self.seal_end();
        let _ = self.poll_flush_sealed(&mut Context::from_waker(Waker::noop()));
    }
}

/// Where records are written to.
struct Sealed<'a>(&'a mut BytesMut);

impl io::Write for Sealed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let before = self.0.len();
        bufs.iter().for_each(|buf| self.0.extend_from_slice(buf));
        Ok(self.0.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<C, D> AsyncRead for TlsSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Unpin,
    D: SideData + 'static,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.get_mut().poll_plain(cx, buf.remaining(), |plain| buf.put_slice(plain)).map_ok(drop)
    }
}

impl<C, D> AsyncWrite for TlsSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Unpin,
    D: SideData + 'static,
{
    /// What is taken is encrypted; it has gone when it was flushed.
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if this.sealed.len() >= MAX_SEALED {
            ready!(this.poll_flush_sealed(cx))?;
        }
        let sealed = this.seal(buf)?;
        match this.poll_flush_sealed(cx) {
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(sealed)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush_sealed(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.seal_end();
        ready!(this.poll_flush_sealed(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}
