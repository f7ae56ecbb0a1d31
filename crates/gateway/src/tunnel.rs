//! A connection that is no longer HTTP: bytes between a client and a service, both ways, until both have ended.
//!
//! ```text
//!   client ──▶ to_service ──▶ service        a read, and a write at the end of the worker's turn, together with those
//!   client ◀── to_client  ◀── service        of other connections
//! ```
//!
//! Nothing of the bytes is looked at. The end of one direction is passed on behind what came before it, and the other
//! one goes on.
//!
//! Invariant: of each direction one piece at most is held, and only while the other side takes no more; a quiet tunnel
//! holds no buffer.

use std::io;
use std::mem;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustls::{ConnectionCommon, SideData};
use tokio::io::AsyncWrite;

use crate::client_socket::{PeerSocket, ServerSocket};
use crate::protocols::ClientProtocol;
use crate::upstream::{ServiceSide, Upgraded};
use crate::worker::Worker;

/// Room for what is read at once: as much as may wait for the end of the turn.
const READ_SIZE: usize = pilotlight_send_batch::MAX_MESSAGE_BYTES;

/// One side of a tunnel.
pub(crate) trait Side {
    /// Reads what is there into the free part of `buf`; `Ok(0)` is the end of the stream.
    fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>>;

    /// Writes all of `buf`, at the end of the turn if it is small: then it counts as written from now on. What has not
    /// gone of it is in front of `buf` again at the next call.
    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>>;

    /// Writes all of `buf` and what was put out before, and ends this direction.
    fn poll_end(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>>;

    /// Tells the other end that the tunnel has failed, where closing does not.
    fn abort(&mut self) {}
}

/// Passes bytes both ways until both sides have ended. `received`: what the client has sent already.
///
/// # Errors
/// One side failed; both are ended by it.
pub(crate) async fn pass(
    worker: &Worker,
    protocol: ClientProtocol,
    mut client: impl Side,
    received: BytesMut,
    upgraded: Upgraded,
) -> io::Result<()> {
    let Upgraded { mut service, transport, read_ahead, lease, seat } = upgraded;
    let _open = worker.connection_counts().upgrades.open(protocol, transport);
    service.join(worker);
    let (mut to_service, mut to_client) = (Direction::holding(received), Direction::holding(read_ahead));
    let passed = std::future::poll_fn(|cx| {
        let there = to_service.poll(cx, worker, &mut client, &mut service)?;
        let back = to_client.poll(cx, worker, &mut service, &mut client)?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await;
    if passed.is_err() {
        client.abort();
        service.abort();
    }
    drop((lease, seat)); // the instance may be idle from now on
    passed
}

/// Bytes from one side to the other.
struct Direction {
    /// Read, and not written yet.
    held: BytesMut,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The reading side has ended; the writing one has not been told.
    Ending,
    Ended,
}

impl Direction {
    fn holding(held: BytesMut) -> Self {
        Self { held, stage: Stage::Open }
    }

    /// Moves on until something has to be waited for; ready when this direction has ended.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        from: &mut impl Side,
        to: &mut impl Side,
    ) -> Poll<io::Result<()>> {
        let moved = self.poll_moved(cx, worker, from, to);
        if self.held.is_empty() && self.held.capacity() > 0 {
            worker.scratch.borrow_mut().bytes = mem::take(&mut self.held);
        }
        moved
    }

    fn poll_moved(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        from: &mut impl Side,
        to: &mut impl Side,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.stage {
                Stage::Ended => return Poll::Ready(Ok(())),
                Stage::Ending => {
                    ready!(to.poll_end(cx, &mut self.held))?;
                    self.stage = Stage::Ended;
                }
                Stage::Open => {
                    ready!(to.poll_send_all(cx, &mut self.held))?;
                    if self.held.capacity() == 0 {
                        self.held = mem::take(&mut worker.scratch.borrow_mut().bytes);
                    }
                    self.held.reserve(READ_SIZE);
                    if ready!(from.poll_read_buf(cx, &mut self.held))? == 0 {
                        self.stage = Stage::Ending;
                    }
                }
            }
        }
    }
}

impl<C, D> Side for PeerSocket<C>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Unpin,
    D: SideData + 'static,
{
    fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        Self::poll_read_buf(self, cx, buf)
    }

    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        Self::poll_send_all(self, cx, buf)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        ready!(self.poll_write_all(cx, buf))?;
        Pin::new(self).poll_shutdown(cx)
    }
}

impl ServiceSide {
    /// Has small messages wait for the end of the turn with those of the worker's other connections.
    fn join(&mut self, worker: &Worker) {
        if let Self::Socket(ServerSocket::Plain(socket)) = self {
            socket.join(worker.batch());
        }
    }
}

impl Side for ServiceSide {
    fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.poll_read_buf(cx, buf),
            Self::Stream { stream, .. } => stream.poll_read_buf(cx, buf),
        }
    }

    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => socket.poll_send_all(cx, buf),
            Self::Stream { stream, .. } => stream.poll_write_all(cx, buf),
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => {
                ready!(socket.poll_write_all(cx, buf))?;
                Pin::new(socket).poll_shutdown(cx)
            }
            Self::Stream { stream, .. } => {
                ready!(stream.poll_write_all(cx, buf))?;
                Poll::Ready(stream.end())
            }
        }
    }

    fn abort(&mut self) {
        if let Self::Stream { stream, .. } = self {
            stream.reset();
        }
    }
}
