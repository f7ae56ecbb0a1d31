//! Bytes to and from one connection.

use super::error::ServeError;
use super::settings::Service;
use crate::frame::{FrameHeader, FrameType, MAX_FRAME, missing, split_frame};
use crate::hello::{ConnectionKind, Hello, MINOR, Welcome};
use crate::reset::Reset;
use crate::session::ProtocolError;
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Room made before a read: a batch of small requests.
const READ_ROOM: usize = 32 * 1024;
/// How long a connection that is given up may take for its last RESET.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection with what was read and not yet used, and what is to be written.
pub(super) struct Wire {
    stream: UnixStream,
    input: BytesMut,
    pub(super) out: BytesMut,
    /// The longest payload, as WELCOME said.
    max_frame: usize,
}

/// What a turn of a connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// More input: take the frames.
    Read,
    /// Some output was written.
    Wrote,
    /// The peer has closed.
    End,
}

/// Whether a turn reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    On,
    /// Nobody takes input now: it stays in the kernel, which is the flow control.
    Paused,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// By the service, which was done with it.
    Closed,
    /// By the gateway.
    Eof,
    /// It had switched to another protocol.
    Upgraded,
}

pub(super) type Ended = Result<End, ServeError>;

impl Wire {
    /// Dials and queues HELLO; nothing is written yet.
    pub(super) async fn dial(
        settings: &Service,
        kind: ConnectionKind,
        worker: Option<u32>,
    ) -> Result<Self, ServeError> {
        let connect = |source| ServeError::Connect { path: settings.socket.clone(), source };
        let stream = UnixStream::connect(&settings.socket).await.map_err(connect)?;
        let mut out = BytesMut::new();
        let hello = Hello {
            token: settings.token.clone(),
            kind,
            worker,
            exchanges: settings.exchanges,
            max_own: settings.max_own,
            minor: MINOR,
            sdk: concat!("pilotlight-pipe/", env!("CARGO_PKG_VERSION")).into(),
            pid: Some(std::process::id()),
        };
        hello.encode(&mut out);
        Ok(Self { stream, input: BytesMut::new(), out, max_frame: MAX_FRAME })
    }

    /// Writes what there is and reads what comes, whichever goes first. With `Reading::Paused` and nothing to write it
    /// waits for ever.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn turn(&mut self, reading: Reading) -> io::Result<Turn> {
        let wanted = missing(&self.input, self.max_frame).unwrap_or(0);
        if self.input.capacity() - self.input.len() < wanted.max(READ_ROOM / 2) {
            self.input.reserve(wanted.max(READ_ROOM));
        }
        let (mut reader, mut writer) = self.stream.split();
        // Not biased: an endless answer must not keep a RESET from being read.
        tokio::select! {
            written = writer.write(&self.out), if !self.out.is_empty() => {
                self.out.advance(written?);
                Ok(Turn::Wrote)
            }
            read = reader.read_buf(&mut self.input), if reading == Reading::On => {
                Ok(if read? == 0 { Turn::End } else { Turn::Read })
            }
            else => std::future::pending().await,
        }
    }

    /// The next whole frame of what was read.
    pub(super) fn frame(&mut self) -> Result<Option<(FrameHeader, Bytes)>, ProtocolError> {
        Ok(split_frame(&mut self.input, self.max_frame)?)
    }

    /// WELCOME came.
    pub(super) fn welcome(&mut self, payload: &[u8]) -> Result<Welcome, ProtocolError> {
        let welcome = Welcome::parse(payload)?;
        self.max_frame = welcome.max_frame as usize;
        Ok(welcome)
    }

    /// How many more bytes of a body may be put into `out`, so that all of it is one frame at most (P-22). 0 until half
    /// of a frame is free: better to write than to cut small pieces.
    pub(super) fn room(&self) -> usize {
        let room = MAX_FRAME.saturating_sub(self.out.len());
        if room < MAX_FRAME / 2 { 0 } else { room }
    }

    /// Writes all that is queued, and reads nothing: what comes next is not frames. The socket is the caller's then.
    ///
    /// # Errors
    /// The connection has failed.
    pub(super) async fn leave(mut self) -> io::Result<UnixStream> {
        while !self.out.is_empty() {
            self.turn(Reading::Paused).await?;
        }
        Ok(self.stream)
    }

    /// P-10: says which rule was broken, then closes.
    pub(super) async fn refuse(mut self, reset: &Reset) {
        reset.encode(&mut self.out, 0);
        let last = async { while !self.out.is_empty() && self.turn(Reading::Paused).await.is_ok() {} };
        // Too slow or already closed: there is nobody to tell.
        let _told = tokio::time::timeout(LAST_WORDS, last).await.is_ok();
    }

    /// P-10, and what the gateway says by it: ends the connection after an error.
    pub(super) async fn give_up(self, error: ServeError) -> Ended {
        if let ServeError::Protocol(error) = &error {
            self.refuse(&error.to_reset()).await;
        }
        Err(error)
    }
}

/// A RESET for an exchange has no use for its payload, which must be one all the same.
pub(super) fn check_reset(header: &FrameHeader, payload: &[u8]) -> Result<(), ServeError> {
    if header.kind == FrameType::RESET {
        Reset::parse(payload).map_err(ProtocolError::from)?;
    }
    Ok(())
}
