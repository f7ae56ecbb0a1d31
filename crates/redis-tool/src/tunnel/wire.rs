//! A client's socket: what was read and not understood yet, what is to be written, and the one loop that never lets one
//! wait for the other for ever.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pilotlight_resp::{Protocol, Value, encode};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;

/// Room that is made for a read, in bytes.
const READ_BYTES: usize = 16 * 1024;
/// Most room that is made for a read: a value that was announced takes memory as it comes.
const MAX_READ_BYTES: usize = 1024 * 1024;
/// Replies from this size on are not copied, in bytes.
const MIN_SPLICE_BYTES: usize = 16 * 1024;
/// Most slices of one write.
const MAX_SLICES: usize = 32;

/// A client that takes no replies for so long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: TcpStream,
    pub(crate) input: BytesMut,
    /// Small replies, together.
    page: Vec<u8>,
    /// What comes before the page.
    chunks: VecDeque<Bytes>,
    /// Replies are thrown away (`CLIENT REPLY`).
    pub(crate) is_mute: bool,
    /// Commands may wait for so many bytes while their client takes no replies.
    max_pending_bytes: usize,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, max_pending_bytes: usize) -> Self {
        Self {
            socket,
            input: BytesMut::new(),
            page: Vec::new(),
            chunks: VecDeque::new(),
            is_mute: false,
            max_pending_bytes,
        }
    }

    /// Waits for bytes. `missing`: so many will certainly come. False: the client has gone.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn read(&mut self, missing: usize) -> io::Result<bool> {
        self.make_room(missing);
        Ok(self.socket.read_buf(&mut self.input).await? > 0)
    }

    fn make_room(&mut self, missing: usize) {
        if self.input.capacity() - self.input.len() < READ_BYTES / 4 {
            self.input.reserve(missing.clamp(READ_BYTES, MAX_READ_BYTES));
        }
    }

    fn try_read(&mut self) -> io::Result<Option<usize>> {
        self.make_room(0);
        match self.socket.try_read_buf(&mut self.input) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until the client has gone, and takes what it sends meanwhile.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn gone(&mut self) {
        while self.input.len() < self.max_pending_bytes {
            match self.read(0).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    }

    /// Appends a whole reply.
    pub(crate) fn frame(&mut self, frame: Bytes) {
        if self.is_mute {
            return;
        }
        if frame.len() < MIN_SPLICE_BYTES {
            self.page.extend_from_slice(&frame);
            return;
        }
        self.turn_page();
        self.chunks.push_back(frame);
    }

    /// Appends a whole reply, or part of one.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if !self.is_mute {
            self.page.extend_from_slice(bytes);
        }
    }

    /// Appends a value.
    pub(crate) fn value(&mut self, value: &Value, protocol: Protocol) {
        if !self.is_mute {
            encode::value(&mut self.page, value, protocol);
        }
    }

    /// Appends an error.
    pub(crate) fn error(&mut self, text: &str) {
        self.value(&Value::Error(Bytes::copy_from_slice(text.as_bytes())), Protocol::Resp2);
    }

    /// Bytes that wait to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.page.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }

    fn turn_page(&mut self) {
        if !self.page.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.page).into());
        }
    }

    /// Writes everything. What the client sends meanwhile is read: some read no reply before they have sent all of
    /// their commands.
    ///
    /// # Errors
    /// The client has gone, or takes nothing for a minute.
    ///
    /// # Cancel safety
    /// None: the connection is to be closed.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if self.chunks.is_empty() {
            // Nearly always: all of it at once, and the page is kept.
            let mut written = 0;
            while written < self.page.len() {
                match self.socket.try_write(&self.page[written..]) {
                    Ok(more) => written += more,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        let rest = self.page.split_off(written);
                        self.page = rest;
                        return self.flush_slowly().await;
                    }
                    Err(error) => return Err(error),
                }
            }
            self.page.clear();
            self.page.shrink_to(MAX_READ_BYTES);
            return Ok(());
        }
        self.flush_slowly().await
    }

    async fn flush_slowly(&mut self) -> io::Result<()> {
        self.turn_page();
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let filled = slices.iter_mut().zip(&self.chunks).map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count();
            match self.socket.try_write_vectored(&slices[..filled]) {
                Ok(written) => self.written(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let ready = tokio::time::timeout(WRITE_TIMEOUT, self.wait_to_write());
                    ready.await.map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn wait_to_write(&mut self) -> io::Result<()> {
        let mut has_room = true;
        loop {
            has_room &= self.input.len() < self.max_pending_bytes;
            let interest = if has_room { Interest::WRITABLE | Interest::READABLE } else { Interest::WRITABLE };
            let ready = self.socket.ready(interest).await?;
            if ready.is_readable() && has_room && self.try_read()? == Some(0) {
                // It sends no more, but may well read.
                has_room = false;
            }
            if ready.is_writable() {
                return Ok(());
            }
        }
    }

    fn written(&mut self, mut written: usize) {
        while let Some(chunk) = self.chunks.front_mut() {
            if written < chunk.len() {
                chunk.advance(written);
                return;
            }
            written -= chunk.len();
            self.chunks.pop_front();
        }
    }
}
