//! What is written behind the gathered bytes of a client's connection, from where it is.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use pilotlight_files::Sendable;

use crate::client_socket::ClientSocket;

/// The longest queue of the kernel that is waited for in steps.
const MAX_UNSENT: u32 = 4 << 20;
/// One step: it counts as something that the client has taken, so one that is slow is not cut because of a queue that
/// is long.
const UNSENT_STEP: u32 = 64 << 10;

/// What is written next.
pub(super) enum Direct {
    /// None: nothing is.
    Bytes(Bytes),
    /// The kernel sends it.
    File(Sendable),
    /// The kernel has got all of it, and may still have so many bytes to send before the next step. Until they have
    /// gone, they are not known to be what was promised.
    Leaving(u32),
}

impl Direct {
    /// Nothing.
    pub(super) const NOTHING: Self = Self::Bytes(Bytes::new());

    #[inline]
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }

    /// Bytes that wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(part) => usize::try_from(part.left()).unwrap_or(usize::MAX),
            Self::Leaving(unsent) => *unsent as usize + 1,
        }
    }

    /// Writes `first`, then this, until nothing is left or the socket takes no more.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut ClientSocket,
        first: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        loop {
            *self = match std::mem::replace(self, Self::NOTHING) {
                Self::Bytes(mut bytes) => {
                    let written = socket.poll_write_both(cx, first, &mut bytes);
                    *self = Self::Bytes(bytes);
                    return written;
                }
                Self::File(mut part) => match socket.poll_send_file(cx, first, &mut part) {
                    Poll::Ready(Ok(())) if part.is_last() => match socket.poll_unsent(cx, 0)? {
                        Poll::Ready(()) => Self::left(socket)?,
                        Poll::Pending => Self::Leaving(MAX_UNSENT),
                    },
                    Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                    Poll::Ready(Err(e)) if is_refused(&e) => Self::Bytes(part.read().map_err(io::Error::other)?),
                    other => {
                        if let Poll::Ready(Err(e)) = &other
                            && e.kind() == io::ErrorKind::UnexpectedEof
                        {
                            tracing::warn!(service = "files", "an answer of files ended early: {e}");
                        }
                        *self = Self::File(part);
                        return other;
                    }
                },
                Self::Leaving(unsent) => {
                    *self = Self::Leaving(unsent);
                    ready!(socket.poll_unsent(cx, unsent))?;
                    match unsent {
                        0 => Self::left(socket)?,
                        _ => Self::Leaving(unsent.saturating_sub(UNSENT_STEP)),
                    }
                }
            };
            if self.is_nothing() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Nothing is waited for any more.
    fn left(socket: &ClientSocket) -> io::Result<Self> {
        socket.forget_unsent()?;
        Ok(Self::NOTHING)
    }
}

/// Whether the kernel sends no such file: its file system has no way to, or a filter of system calls forbids it.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}
