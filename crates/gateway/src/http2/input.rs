//! What comes of a client: read into one buffer, and counted.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;

use super::frame_counter::Flood;
use super::session::Session;
use crate::client_socket::ClientSocket;

/// Room for what is read at once: the largest frame, and its header.
const READ_SIZE: usize = pilotlight_http2::MAX_FRAME + pilotlight_http2::FRAME_HEADER;

/// The client's socket, and what was read of it.
pub(super) struct Input {
    pub(super) socket: ClientSocket,
    /// Unread bytes.
    pub(super) read: BytesMut,
    /// The socket takes no more.
    pub(super) is_blocked: bool,
    /// Bytes that the socket has taken.
    pub(super) written: u64,
}

impl Input {
    pub(super) fn new(socket: ClientSocket, read: BytesMut) -> Self {
        Self { socket, read, is_blocked: false, written: 0 }
    }

    /// Reads what is there; `Ok(0)` is the end of the stream.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        session: &Session,
    ) -> Poll<io::Result<Result<usize, Flood>>> {
        let before = self.read.len();
        self.read.reserve(READ_SIZE);
        let read = self.socket.poll_read_buf(cx, &mut self.read);
        read.map_ok(|length| session.counter.borrow_mut().received(&self.read[before..]).map(|()| length))
    }

    /// Takes `spare` to read into, if nothing is here.
    pub(super) fn borrow(&mut self, spare: &mut BytesMut) {
        if self.read.capacity() == 0 {
            std::mem::swap(&mut self.read, spare);
        }
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, spare: &mut BytesMut) {
        if self.read.is_empty() {
            *spare = std::mem::take(&mut self.read);
            spare.clear();
        }
    }
}
