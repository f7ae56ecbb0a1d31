//! The socket of a client, or to a server, with TLS or without, as one type. What a connection asks of it costs the
//! plain one a branch.

use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pilotlight_files::Sendable;
use pilotlight_send_batch::Batch;
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Socket;
use crate::tls_socket::TlsSocket;

/// A connected socket of a client.
pub(crate) type ClientSocket = PeerSocket<ServerConnection>;

/// A connected socket to a server, or to an instance.
pub(crate) type ServerSocket = PeerSocket<ClientConnection>;

/// A connected socket.
pub(crate) enum PeerSocket<C> {
    Plain(Socket),
    Tls(Box<TlsSocket<C>>),
}

impl<C, D> PeerSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>>,
    D: SideData + 'static,
{
    /// Nothing any more: the socket has moved elsewhere.
    pub(crate) const CLOSED: Self = Self::Plain(Socket::CLOSED);

    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    #[inline]
    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_read_buf(cx, buf),
            Self::Tls(tls) => tls.poll_read_buf(cx, buf),
        }
    }

    /// Waits until something can be read, perhaps the end of the stream or an error. With TLS, what can be read may be
    /// no part of the stream.
    #[inline]
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(socket) => socket.poll_readable(cx),
            Self::Tls(tls) => tls.poll_readable(cx),
        }
    }

    /// What has happened to the connection since the last look: a reset that no read shows behind the end of the
    /// stream.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.socket().take_error()
    }

    /// Has the system ask the other side whether it still knows the connection. Where it cannot, a write finds out.
    pub(crate) fn probe(&self, every: Duration, max: u32) {
        self.socket().probe(every, max);
    }

    /// What became of what was put in the batch: what is left of it is to be written before anything else.
    ///
    /// # Errors
    /// Nothing of it was sent, and nothing will be.
    #[inline]
    pub(crate) fn settle(&mut self, out: &mut BytesMut) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.settle(out).map(drop),
            Self::Tls(tls) => tls.settle(),
        }
    }

    /// Bytes that were taken and have not gone: those that are encrypted already.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.unsent(),
        }
    }

    /// Has what waits in the batch sent before its turn ends.
    pub(crate) fn send_now(&self) {
        self.socket().send_now();
    }

    /// Writes all of `buf`, at the end of the turn if it is small: then it counts as written from now on.
    #[inline]
    pub(crate) fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_send_all(cx, buf),
            Self::Tls(tls) => tls.poll_send_all(cx, buf),
        }
    }

    /// Writes from the front of `buf` until it is empty or the socket takes no more.
    #[inline]
    pub(crate) fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_write_all(cx, buf),
            Self::Tls(tls) => tls.poll_write_both(cx, buf, &mut Bytes::new()),
        }
    }

    /// Writes `first`, then `second`, from where they are, until both are empty or the socket takes no more.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        second: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_write_both(cx, first, second),
            Self::Tls(tls) => tls.poll_write_both(cx, first, second),
        }
    }

    /// Whether the kernel sends files on it: not what has to be encrypted.
    #[inline]
    pub(crate) fn sends_files(&self) -> bool {
        matches!(self, Self::Plain(socket) if socket.sends_files())
    }

    /// Writes `first`, then has the kernel send `part`, until both are done or the socket takes no more.
    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        part: &mut Sendable,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_send_file(cx, first, part),
            Self::Tls(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Waits until the kernel has sent all that was written but for `most` bytes. From then on there is room only for
    /// as much, until [`ClientSocket::forget_unsent`].
    pub(crate) fn poll_unsent(&self, cx: &mut Context<'_>, most: u32) -> Poll<io::Result<()>> {
        self.socket().poll_unsent(cx, most)
    }

    /// There is room as on any other socket again.
    pub(crate) fn forget_unsent(&self) -> io::Result<()> {
        self.socket().forget_unsent()
    }

    /// Gives up memory for as long as the client is quiet.
    pub(crate) fn rest(&mut self) {
        if let Self::Tls(tls) = self {
            tls.rest();
        }
    }

    /// Tells the other side that this was all (RFC 8446 §6.1), as far as that can be told at once. Without it, whoever
    /// reads to the end of the stream has to take it for cut.
    pub(crate) fn say_end(&mut self) {
        if let Self::Tls(tls) = self {
            tls.say_end();
        }
    }
}

impl ServerSocket {
    /// Has its small messages go out with those of its worker's other connections, if they need not be encrypted.
    pub(crate) fn in_batch(self, batch: &Batch) -> Self {
        match self {
            Self::Plain(socket) => Self::Plain(socket.in_batch(batch)),
            tls @ Self::Tls(_) => tls,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket().is_closed()
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.socket().is_unix()
    }

    /// Whether nothing has come on it that nobody has asked for, nor its end. With TLS, tickets for resumption may.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => {
                let read = socket.try_read(&mut [0; 1]);
                matches!(read, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Tls(tls) => {
                let mut cx = Context::from_waker(Waker::noop());
                tls.poll_read_buf(&mut cx, &mut BytesMut::with_capacity(1)).is_pending()
            }
        }
    }

    /// What was agreed on to be spoken (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.protocol(),
        }
    }
}

impl<C, D> AsyncRead for PeerSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Unpin,
    D: SideData + 'static,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_read(cx, buf),
        }
    }
}

impl<C, D> AsyncWrite for PeerSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Unpin,
    D: SideData + 'static,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(cx),
        }
    }
}
