//! One connection of somebody's own: commands out, replies and pushes in, in their order.

use std::io;

use bytes::BytesMut;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::raw::NodeStream;
use pilotlight_redis::{Client, Error, Route};
use pilotlight_resp::{Decoder, Frame, Limits, encode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Least room for a read.
const MIN_READ_BYTES: usize = 16 << 10;

/// See the module.
pub(crate) struct Wire {
    stream: NodeStream,
    frames: Frames,
}

/// What was read and is not decoded.
pub(crate) struct Frames {
    decoder: Decoder,
    read: BytesMut,
}

impl Wire {
    /// Connects.
    pub(crate) async fn open(client: &Client, route: Route, limits: Limits) -> Result<Self, Error> {
        Ok(Self::over(client.stream(route).await?, limits))
    }

    /// What is connected already.
    pub(crate) fn over(stream: NodeStream, limits: Limits) -> Self {
        Self { stream, frames: Frames { decoder: Decoder::new(limits), read: BytesMut::new() } }
    }

    /// Who is connected to.
    pub(crate) fn node(&self) -> &NodeAddress {
        self.stream.node()
    }

    /// Sends a command. Cut off in the middle, the connection is of no more use.
    pub(crate) async fn send(&mut self, words: &[Vec<u8>]) -> io::Result<()> {
        let mut out = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        encode::command(&mut out, &words);
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// The next reply or push.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn frame(&mut self) -> io::Result<Frame> {
        self.frames.next(&mut self.stream).await
    }

    /// The stream in two halves, and what was read and is not decoded.
    pub(crate) fn split(self) -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin, Frames) {
        let (reader, writer) = tokio::io::split(self.stream);
        (reader, writer, self.frames)
    }
}

impl Frames {
    /// The next reply or push of a stream.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
        loop {
            let decoded = self.decoder.decode(&mut self.read);
            if let Some(frame) = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                return Ok(frame);
            }
            self.read.reserve(self.decoder.wanted().max(MIN_READ_BYTES));
            if stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }
}
