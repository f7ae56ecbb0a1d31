//! Stream sockets, TCP or Unix, as one type.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pilotlight_supervisor::Address;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::options::ExternalAddr;

/// A connected stream socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Nothing any more: the socket has moved elsewhere.
    Closed,
}

/// Where a service listens.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Instance(&'a Address),
    External(&'a ExternalAddr),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(Address::Unix(path)) => write!(f, "unix:{}", path.display()),
            Self::Instance(Address::Tcp(addr)) => addr.fmt(f),
            Self::External(addr) => addr.fmt(f),
        }
    }
}

fn closed<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotConnected.into())
}

impl Socket {
    /// Connects to a service.
    pub(crate) async fn connect(place: Place<'_>) -> io::Result<Self> {
        let stream = match place {
            Place::Instance(Address::Unix(path)) | Place::External(ExternalAddr::Unix(path)) => {
                return Ok(Self::Unix(UnixStream::connect(path).await?));
            }
            Place::Instance(Address::Tcp(addr)) => TcpStream::connect(addr).await?,
            Place::External(ExternalAddr::Tcp(host, port)) => TcpStream::connect((host.as_str(), *port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` keeps no state between polls, so a fresh one for each poll is the same as one kept.
        std::pin::pin!(tokio::io::AsyncReadExt::read_buf(self, buf)).poll(cx)
    }

    /// Waits until something can be read, perhaps the end of the stream or an error.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(s) => s.poll_read_ready(cx).map(drop),
            Self::Unix(s) => s.poll_read_ready(cx).map(drop),
            Self::Closed => Poll::Ready(()),
        }
    }

    /// What has happened to the connection since the last look: a reset that no read shows behind the end of the
    /// stream.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let error = match self {
            Self::Tcp(s) => s.take_error(),
            Self::Unix(s) => s.take_error(),
            Self::Closed => closed(),
        };
        error.unwrap_or_else(Some)
    }

    /// Has the system ask the other side whether it still knows the connection. Where it cannot, a write finds out.
    pub(crate) fn probe(&self, every: Duration, max: u32) {
        if let Self::Tcp(socket) = self {
            let probes = TcpKeepalive::new().with_time(every).with_interval(every).with_retries(max);
            if let Err(e) = SockRef::from(socket).set_tcp_keepalive(&probes) {
                tracing::debug!("no keep-alive probes for a client: {e}");
            }
        }
    }

    /// Reads without waiting; `WouldBlock` when nothing is there. Costs no system call when the runtime knows so.
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.try_read(buf),
            Self::Unix(s) => s.try_read(buf),
            Self::Closed => closed(),
        }
    }

    /// Writes from the front of `buf` until it is empty or the socket takes no more.
    pub(crate) fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        while !buf.is_empty() {
            match Pin::new(&mut *self).poll_write(cx, buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) if n == buf.len() => buf.clear(),
                Poll::Ready(Ok(n)) => bytes::Buf::advance(buf, n),
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Socket {
    /// Writes `first`, then `second`, from where they are, until both are empty or the socket takes no more.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        second: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        while !second.is_empty() {
            let slices = [io::IoSlice::new(first), io::IoSlice::new(second)];
            let from = usize::from(first.is_empty());
            let written = ready!(Pin::new(&mut *self).poll_write_vectored(cx, &slices[from..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_first = written.min(first.len());
            first.advance(of_first);
            second.advance(written - of_first);
        }
        first.clear(); // an empty one that has been advanced has less room
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_read(cx, buf),
            Self::Closed => Poll::Ready(closed()),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_write(cx, buf),
            Self::Closed => Poll::Ready(closed()),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // sockets have no buffer of ours
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            Self::Unix(s) => Pin::new(s).poll_shutdown(cx),
            Self::Closed => Poll::Ready(closed()),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Self::Unix(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Self::Closed => Poll::Ready(closed()),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
