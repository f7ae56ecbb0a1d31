//! Stream sockets, TCP or Unix, as one type.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pilotlight_files::{Changed, Sendable};
use pilotlight_send_batch::{self as batch, Batch, Batched, Stream};
use pilotlight_supervisor::{Address, Instance};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::options::{ExternalAddr, IoUring};

/// A connected stream socket.
///
/// What is put in its worker's batch ([`Socket::poll_send_all`]) counts as written. When it does not go whole, the task
/// is woken, and [`Socket::settle`] gives the rest back, or the error, as a short or failed write would have.
pub(crate) struct Socket(Option<Batched>);

/// What was put in the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// It has gone, or will; or there was nothing.
    Sent,
    /// Not all of it has gone.
    Returned,
}

/// Where a service listens.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// An instance, and where it listens.
    Instance(&'a Instance, &'a Address),
    /// A server of somebody else's, and how long the connection may take.
    External(&'a ExternalAddr, Option<Duration>),
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(_, Address::Unix(path)) => write!(f, "unix:{}", path.display()),
            Self::Instance(_, Address::Tcp(addr)) => addr.fmt(f),
            Self::External(addr, _) => addr.fmt(f),
        }
    }
}

/// A connection, unless who listens has ended before.
async fn unless<T>(ended: impl Future<Output = ()>, connected: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::select! {
        biased;
        connected = connected => connected,
        () = ended => Err(io::Error::new(io::ErrorKind::ConnectionRefused, "its instance has ended")),
    }
}

fn closed<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotConnected.into())
}

impl<S: Into<Stream>> From<S> for Socket {
    /// It takes part in no batch.
    fn from(stream: S) -> Self {
        Self(Some(Batched::from(stream.into())))
    }
}

impl Socket {
    /// Nothing any more: the socket has moved elsewhere.
    pub(crate) const CLOSED: Self = Self(None);

    /// Connects to a service.
    pub(crate) async fn connect(place: Destination<'_>) -> io::Result<Self> {
        match place {
            Destination::External(_, Some(limit)) => {
                let connected = tokio::time::timeout(limit, Self::connect_to(place)).await;
                connected.unwrap_or_else(|_| {
                    let what = format!("no connection within {} s", limit.as_secs_f32());
                    Err(io::Error::new(io::ErrorKind::TimedOut, what))
                })
            }
            Destination::Instance(instance, Address::Tcp(_)) => {
                // A container's network may go with it, and nobody refuses what is sent there.
                let ended = async { drop(instance.ended().await) };
                unless(ended, Self::connect_to(place)).await
            }
            place => Self::connect_to(place).await,
        }
    }

    async fn connect_to(place: Destination<'_>) -> io::Result<Self> {
        let stream = match place {
            Destination::Instance(_, Address::Unix(path)) | Destination::External(ExternalAddr::Unix(path), _) => {
                return Ok(UnixStream::connect(path).await?.into());
            }
            Destination::Instance(_, Address::Tcp(addr)) => TcpStream::connect(addr).await?,
            Destination::External(ExternalAddr::Tcp(host, port), _) => {
                TcpStream::connect((host.as_str(), *port)).await?
            }
        };
        stream.set_nodelay(true)?;
        Ok(stream.into())
    }

    /// The same, with its small messages in the batch of its worker.
    pub(crate) fn in_batch(mut self, batch: &Batch) -> Self {
        self.join(batch);
        self
    }

    /// From now on its small messages are in the batch of its worker.
    pub(crate) fn join(&mut self, batch: &Batch) {
        if let Some(stream) = &mut self.0 {
            stream.join(batch);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.stream(), Some(Stream::Unix(_)))
    }

    /// Who is at the other end, over TCP.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        match self.stream() {
            Some(Stream::Tcp(socket)) => socket.peer_addr().ok(),
            _ => None,
        }
    }

    fn stream(&self) -> Option<&Stream> {
        self.0.as_ref().map(Batched::stream)
    }

    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` keeps no state between polls, so a fresh one for each poll is the same as one kept.
        std::pin::pin!(tokio::io::AsyncReadExt::read_buf(self, buf)).poll(cx)
    }

    /// Waits until something can be read, perhaps the end of the stream or an error.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream().map_or(Poll::Ready(()), |stream| stream.poll_read_ready(cx).map(drop))
    }

    /// What has happened to the connection since the last look: a reset that no read shows behind the end of the
    /// stream.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.stream().map_or_else(closed, Stream::take_error).unwrap_or_else(Some)
    }

    /// Has the system ask the other side whether it still knows the connection. Where it cannot, a write finds out.
    pub(crate) fn probe(&self, every: Duration, max: u32) {
        if let Some(Stream::Tcp(socket)) = self.stream() {
            let probes = TcpKeepalive::new().with_time(every).with_interval(every).with_retries(max);
            if let Err(e) = SockRef::from(socket).set_tcp_keepalive(&probes) {
                tracing::debug!("no keep-alive probes for a client: {e}");
            }
        }
    }

    /// Reads without waiting; `WouldBlock` when nothing is there. Costs no system call when the runtime knows so.
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream().map_or_else(closed, |stream| stream.try_read(buf))
    }

    /// What became of what was put in the batch: what is left of it is in front of `buf` again.
    ///
    /// # Errors
    /// Nothing of it was sent, and nothing will be.
    pub(crate) fn settle(&mut self, buf: &mut BytesMut) -> io::Result<Settled> {
        let Some(stream) = &mut self.0 else { return Ok(Settled::Sent) };
        let rest = match stream.settle()? {
            batch::Settled::Nothing => return Ok(Settled::Sent),
            batch::Settled::Rest(rest) => rest,
        };
        let behind = std::mem::replace(buf, BytesMut::from(&rest[..]));
        buf.unsplit(behind);
        Ok(Settled::Returned)
    }

    /// Has what waits in the batch sent before its turn ends.
    pub(crate) fn send_now(&self) {
        if let Some(stream) = &self.0 {
            stream.send_now();
        }
    }

    /// Writes all of `buf`, at the end of the turn if it is small: then it counts as written from now on.
    pub(crate) fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        let is_put = self.settle(buf)? == Settled::Sent
            && (buf.is_empty() || self.0.as_mut().is_some_and(|stream| stream.put(cx, buf)));
        if is_put {
            buf.clear();
            return Poll::Ready(Ok(()));
        }
        self.poll_write_all(cx, buf)
    }

    /// Writes from the front of `buf` until it is empty or the socket takes no more.
    pub(crate) fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        self.send_now();
        self.settle(buf)?;
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
    /// Whether the kernel sends files on it, and can tell when they have gone.
    #[inline]
    pub(crate) fn sends_files(&self) -> bool {
        cfg!(target_os = "linux") && matches!(self.stream(), Some(Stream::Tcp(_)))
    }

    /// Writes `first`, then has the kernel send `part`, until both are done or the socket takes no more.
    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        part: &mut Sendable,
    ) -> Poll<io::Result<()>> {
        self.send_now();
        self.settle(first)?;
        let Some(stream) = &mut self.0 else { return Poll::Ready(closed()) };
        while !first.is_empty() {
            // In one packet with the beginning of the file.
            let written = ready!(stream.poll_write_more(cx, first))?;
            first.advance(written);
        }
        first.clear(); // an empty one that has been advanced has less room
        while part.left() > 0 {
            match ready!(stream.poll_send_file(cx, part.file(), part.offset(), part.left()))? {
                0 => return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, Changed::Changed))),
                sent => part.sent(sent as u64),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the kernel has sent all that was written but for `most` bytes, at least once; what was lost on the
    /// way it may send again. From then on there is room only for as much, until [`Socket::forget_unsent`].
    pub(crate) fn poll_unsent(&self, cx: &mut Context<'_>, most: u32) -> Poll<io::Result<()>> {
        let Some(stream) = self.stream() else { return Poll::Ready(closed()) };
        // TCP_NOTSENT_LOWAT: there is room when less than half of it is unsent.
        self.set_unsent_limit(most.saturating_mul(2).saturating_add(1))?;
        stream.poll_room(cx)
    }

    /// There is room as on any other socket again.
    pub(crate) fn forget_unsent(&self) -> io::Result<()> {
        self.set_unsent_limit(0) // that of the system
    }

    #[cfg(target_os = "linux")]
    fn set_unsent_limit(&self, bytes: u32) -> io::Result<()> {
        match self.stream() {
            Some(Stream::Tcp(socket)) => SockRef::from(socket).set_tcp_notsent_lowat(bytes),
            _ => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn set_unsent_limit(&self, _: u32) -> io::Result<()> {
        Ok(())
    }

    /// Writes `first`, then `second`, from where they are, until both are empty or the socket takes no more.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut BytesMut,
        second: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        self.send_now();
        self.settle(first)?;
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

/// A worker's batch of small messages.
pub(crate) fn batch(worker: usize, io_uring: IoUring) -> Batch {
    if io_uring == IoUring::Never {
        return Batch::without_io_uring();
    }
    Batch::with_io_uring().unwrap_or_else(|e| {
        tracing::debug!(
            worker,
            "io_uring cannot be used, so each message takes a system call: {e}; allow io_uring_setup, io_uring_enter \
             and io_uring_register, or write io_uring = false"
        );
        Batch::without_io_uring()
    })
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Some(s) => Pin::new(s).poll_read(cx, buf),
            None => Poll::Ready(closed()),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Some(s) => Pin::new(s).poll_write(cx, buf),
            None => Poll::Ready(closed()),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Some(s) => Pin::new(s).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Some(s) => Pin::new(s).poll_shutdown(cx),
            None => Poll::Ready(closed()),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Some(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            None => Poll::Ready(closed()),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_nobody_takes_ends_with_the_instance() {
        // Its backlog has room for one; the kernel drops what else comes.
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bound");
        listener.listen(0).expect("listening");
        let address = listener.local_addr().expect("its address").as_socket().expect("of TCP");
        let mut connected = Vec::new();
        let (told, end) = oneshot::channel::<()>();
        while let Ok(stream) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            connected.push(stream.expect("a place in the backlog"));
        }
        let ended = async {
            end.await.expect("the end is told");
        };
        let connecting = unless(ended, TcpStream::connect(address));
        let telling = async {
            tokio::task::yield_now().await;
            told.send(()).expect("somebody waits");
        };
        let (connecting, ()) = tokio::join!(connecting, telling);
        assert_eq!(connecting.expect_err("nobody takes it").to_string(), "its instance has ended");
    }
}
