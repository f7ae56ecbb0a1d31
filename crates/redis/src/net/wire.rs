//! The reader and writer of a connection: for lanes, subscriptions, the pool, and whoever asks a server something.
//!
//! ```text
//!  stream ─► input ─► decoder ─► frames          commands ─► out ─► stream
//! ```
//!
//! Reading never waits for writing: each has a poll of its own.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use pilotlight_resp::{DecodeError, Decoder, Frame, Value};

use super::budget::ReplyBudget;
use super::connection::Connection;
use super::input::Input;
use super::stream::{self, InlineWriter, Stream};
use super::transport::Transport;
use crate::command::Command;
use crate::error::ErrorKind;
use crate::out::{Cursor, Out};

/// Room that is made for the first reads, in bytes.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// See the module.
pub(crate) struct Wire {
    stream: Stream,
    decoder: Decoder,
    input: Input,
    /// What is to be written; what was, up to the cursor.
    out: Out,
    cursor: Cursor,
    needs_flush: bool,
    /// What large replies count against.
    budget: Option<Arc<ReplyBudget>>,
    /// The half that nobody else writes to. Dropped, it would tell the server that nothing more comes.
    inline: Option<InlineWriter>,
}

impl Wire {
    /// Of a connection after its handshake, and the half of a plain socket that callers may write to. Reads are made of
    /// `read_bytes` at first.
    pub(crate) fn split(
        transport: Transport,
        decoder: Decoder,
        read_buffer: BytesMut,
        budget: Option<Arc<ReplyBudget>>,
        read_bytes: usize,
    ) -> (Self, Option<InlineWriter>) {
        let (stream, inline) = stream::split(transport);
        let input = Input::new(read_buffer, read_bytes);
        let (out, cursor) = (Out::default(), Cursor::default());
        (Self { stream, decoder, input, out, cursor, needs_flush: false, budget, inline: None }, inline)
    }

    /// Nobody but this one writes to the half that callers might.
    pub(crate) fn keep(&mut self, inline: Option<InlineWriter>) {
        self.inline = inline;
    }

    /// Reads once; never nothing.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ErrorKind>> {
        self.poll_read_some(cx, 0)
    }

    /// The same, when so many bytes are certainly to come.
    #[inline]
    fn poll_read_some(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<usize, ErrorKind>> {
        self.input.make_room(self.decoder.wanted().max(wanted));
        let room = self.input.room();
        match ready!(self.stream.poll_read(cx, &mut self.input.buffer)) {
            Ok(0) => Poll::Ready(Err(ErrorKind::Connection("the server closed the connection".into()))),
            Ok(read) => {
                self.input.note_read(read, room);
                Poll::Ready(Ok(read))
            }
            Err(error) => Poll::Ready(Err(lost(&error))),
        }
    }

    /// The next frame of what was read, if it is complete.
    ///
    /// # Errors
    /// The server broke the protocol.
    #[inline]
    pub(crate) fn decode(&mut self) -> Result<Option<Frame>, DecodeError> {
        let frame = self.decoder.decode(&mut self.input.buffer)?;
        Ok(match (frame, &self.budget) {
            (Some(Frame::Reply(value)), Some(budget)) => Some(Frame::Reply(budget.hold(value))),
            (frame, _) => frame,
        })
    }

    /// What was read and not decoded.
    #[inline]
    pub(crate) fn unparsed(&mut self) -> &mut BytesMut {
        &mut self.input.buffer
    }

    /// Bytes of it.
    pub(crate) fn unparsed_bytes(&self) -> usize {
        self.input.buffer.len()
    }

    /// Gives back the memory that a burst has left behind.
    pub(crate) fn shrink(&mut self) {
        self.input.shrink();
    }

    /// Gives back the memory that a connection out of use does not need.
    pub(crate) fn rest(&mut self) {
        self.input.rest();
    }

    /// What is to be written, to append to.
    #[inline]
    pub(crate) fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Whether nothing is left to be written.
    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether there is anything to be written or handed on.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.needs_flush
    }

    /// Writes what the kernel takes, or hands on what the stream buffers: 0.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ErrorKind>> {
        if self.out.is_empty() {
            return self.poll_flush(cx);
        }
        let written = match ready!(self.stream.poll_write(cx, &self.out, self.cursor)) {
            Ok(0) => return Poll::Ready(Err(nothing_written())),
            Ok(written) => written,
            Err(error) => return Poll::Ready(Err(lost(&error))),
        };
        self.cursor = self.out.advanced(self.cursor, written);
        if self.out.is_written(self.cursor) {
            self.out.clear();
            self.cursor = Cursor::default();
            self.needs_flush = self.stream.needs_flush();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ErrorKind>> {
        if self.needs_flush {
            ready!(self.stream.poll_flush(cx)).map_err(|error| lost(&error))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(0))
    }

    /// Whether nothing has come that nobody asked for, and it is not closed.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.input.buffer.is_empty() && self.stream.is_quiet()
    }
}

/// Commands and replies one after the other, on a connection that nobody shares.
impl Wire {
    /// Of a connection that no callers write to.
    pub(crate) fn new(connection: Connection) -> Self {
        let Connection { transport, decoder, read_buffer, budget, .. } = connection;
        let (mut wire, inline) = Self::split(transport, decoder, read_buffer, budget, READ_BYTES);
        wire.keep(inline);
        wire
    }

    /// Sends `command` and reads its reply. Pushes in between are passed over.
    ///
    /// # Cancel safety
    /// None: a connection whose exchange was dropped is to be dropped, too.
    pub(crate) async fn exchange(&mut self, command: &Command<'_>) -> Result<Value, ErrorKind> {
        self.send_command(command).await?;
        self.receive().await
    }

    /// Sends `command`.
    ///
    /// # Cancel safety
    /// As [`exchange`](Self::exchange).
    pub(crate) async fn send_command(&mut self, command: &Command<'_>) -> Result<(), ErrorKind> {
        let mut out = Out::contiguous_only();
        command.encode(&mut out);
        self.send(out.contiguous(Default::default()).unwrap_or_default()).await
    }

    /// Sends encoded commands.
    ///
    /// # Cancel safety
    /// As [`exchange`](Self::exchange).
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), ErrorKind> {
        while !bytes.is_empty() {
            match poll_fn(|cx| self.stream.poll_write_bytes(cx, bytes)).await {
                Ok(0) => return Err(nothing_written()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => return Err(lost(&error)),
            }
        }
        poll_fn(|cx| self.stream.poll_flush(cx)).await.map_err(|error| lost(&error))
    }

    /// Reads one reply. Pushes before it are passed over.
    ///
    /// # Cancel safety
    /// What was read is kept: the next call goes on.
    pub(crate) async fn receive(&mut self) -> Result<Value, ErrorKind> {
        loop {
            if let Frame::Reply(value) = self.next_frame().await? {
                return Ok(value);
            }
        }
    }

    /// Reads one reply or push.
    ///
    /// # Cancel safety
    /// What was read is kept: the next call goes on.
    pub(crate) async fn next_frame(&mut self) -> Result<Frame, ErrorKind> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(frame);
            }
            self.read(0).await?;
        }
    }

    /// Reads once, when so many bytes are certainly to come.
    ///
    /// # Cancel safety
    /// What was read is kept.
    pub(crate) async fn read(&mut self, wanted: usize) -> Result<(), ErrorKind> {
        poll_fn(|cx| self.poll_read_some(cx, wanted)).await.map(|_| ())
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("unparsed_bytes", &self.unparsed_bytes()).finish_non_exhaustive()
    }
}

#[cold]
fn lost(error: &io::Error) -> ErrorKind {
    ErrorKind::Connection(error.to_string().into())
}

fn nothing_written() -> ErrorKind {
    ErrorKind::Connection("nothing could be written".into())
}
