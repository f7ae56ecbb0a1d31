//! A connection's stream as a lane uses it: read and written by the driver, and, for plain sockets, written by callers
//! too.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{tcp, unix};

use crate::net::transport::Transport;
use crate::out::{Cursor, MAX_SLICES, Out};

/// Most bytes given to one call of `write`, so that a huge wave does not keep the driver from reading.
const MAX_WRITE_BYTES: usize = 256 * 1024;

/// The driver's side.
pub(crate) enum Stream {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    /// TLS and the user's own: only the driver touches them.
    Other(Transport),
}

/// The callers' side of a plain socket: what fits the kernel's buffer is written at once.
pub(crate) enum InlineWriter {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

/// Both sides of `transport`.
pub(crate) fn split(transport: Transport) -> (Stream, Option<InlineWriter>) {
    match transport {
        Transport::Tcp(stream) => {
            let (read, write) = stream.into_split();
            (Stream::Tcp(read), Some(InlineWriter::Tcp(write)))
        }
        Transport::Unix(stream) => {
            let (read, write) = stream.into_split();
            (Stream::Unix(read), Some(InlineWriter::Unix(write)))
        }
        other => (Stream::Other(other), None),
    }
}

impl InlineWriter {
    /// Writes what the kernel takes now.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            Self::Unix(half) => half.try_write(bytes),
        }
    }
}

impl Stream {
    /// Reads into the spare capacity of `input`; 0: the peer has closed.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, input: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(half) => pin!(half.read_buf(input)).poll(cx),
            Self::Unix(half) => pin!(half.read_buf(input)).poll(cx),
            Self::Other(transport) => pin!(transport.read_buf(input)).poll(cx),
        }
    }

    /// Writes some of what is left of `out` at `cursor`.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, out: &Out, cursor: Cursor) -> Poll<io::Result<usize>> {
        let Some(bytes) = out.contiguous(cursor) else {
            let mut slices = [IoSlice::new(b""); MAX_SLICES];
            let filled = out.slices(cursor, &mut slices);
            return self.poll_write_slices(cx, &slices[..filled]);
        };
        self.poll_write_bytes(cx, bytes)
    }

    /// Writes some of `bytes`.
    #[inline]
    pub(crate) fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(MAX_WRITE_BYTES)];
        match self {
            Self::Tcp(half) => {
                let socket = half.as_ref();
                until_ready(cx, || socket.try_write(bytes), |cx| socket.poll_write_ready(cx))
            }
            Self::Unix(half) => {
                let socket = half.as_ref();
                until_ready(cx, || socket.try_write(bytes), |cx| socket.poll_write_ready(cx))
            }
            Self::Other(transport) => Pin::new(transport).poll_write(cx, bytes),
        }
    }

    fn poll_write_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(half) => {
                let socket = half.as_ref();
                until_ready(cx, || socket.try_write_vectored(slices), |cx| socket.poll_write_ready(cx))
            }
            Self::Unix(half) => {
                let socket = half.as_ref();
                until_ready(cx, || socket.try_write_vectored(slices), |cx| socket.poll_write_ready(cx))
            }
            Self::Other(transport) => Pin::new(transport).poll_write_vectored(cx, slices),
        }
    }

    /// Whether it buffers what is written.
    #[inline]
    pub(crate) fn needs_flush(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// Whether the peer has neither closed the stream nor sent anything that was not read. For a plain socket the
    /// kernel is asked; of the others only what the runtime has noticed is known.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let peeked = match self {
            Self::Tcp(half) => SockRef::from(half.as_ref()).peek(&mut byte),
            Self::Unix(half) => SockRef::from(half.as_ref()).peek(&mut byte),
            Self::Other(transport) => {
                let (mut byte, mut cx) = ([0; 1], Context::from_waker(Waker::noop()));
                return Pin::new(transport).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending();
            }
        };
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Hands on what the stream itself buffers (TLS).
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Other(transport) => Pin::new(transport).poll_flush(cx),
        }
    }
}

/// Tries, and when the kernel would block waits for readiness and tries again.
fn until_ready(
    cx: &mut Context<'_>,
    attempt: impl Fn() -> io::Result<usize>,
    ready: impl Fn(&mut Context<'_>) -> Poll<io::Result<()>>,
) -> Poll<io::Result<usize>> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(ready(cx))?,
            done => return Poll::Ready(done),
        }
    }
}
