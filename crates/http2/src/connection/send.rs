//! What streams send, and what they take of what was received.

use std::task::Poll;

use bytes::Bytes;

use super::*;
use crate::frame::{flag, put_block};

impl ServerConnection {
    /// Answers a request at once: its stream is over with it. `block` are the status and the fields. `false`: nothing
    /// was sent, as the windows have no room for all of it, or the request has a body.
    #[inline]
    pub fn respond(&mut self, request: Request, block: &[u8], body: &[u8]) -> bool {
        let length = body.len() as i64;
        let fits = length <= self.send_window.min(self.initial_window);
        if !fits || !request.ends || block.len() > MAX_FRAME || body.len() > MAX_FRAME {
            return false;
        }
        if self.owes_table_size {
            let mut begun = Vec::new();
            self.begin_block(&mut begun);
            begun.extend_from_slice(block);
            self.put_response(request.stream, &begun, body);
        } else {
            self.put_response(request.stream, block, body);
        }
        self.send_window -= length;
        true
    }

    #[inline]
    fn put_response(&mut self, id: u32, block: &[u8], body: &[u8]) {
        self.out.reserve(2 * FRAME_HEADER + block.len() + body.len());
        let flags = if body.is_empty() { flag::END_STREAM } else { 0 };
        put_block(id, block, flags, &mut self.out);
        if !body.is_empty() {
            put_frame(kind::DATA, flag::END_STREAM, id, body, &mut self.out);
        }
    }

    /// Opens the stream of a request: somebody answers it from now on, and if it has a body, somebody reads that, until
    /// [`ServerConnection::drop_sender`] and [`ServerConnection::drop_receiver`].
    pub fn open(&mut self, request: Request) {
        let stream = Stream {
            send_window: self.initial_window,
            receive_window: i64::from(self.limits.stream_window),
            expected: request.content_length,
            client_has_ended: request.ends,
            has_sender: true,
            has_receiver: !request.ends,
            ..Stream::default()
        };
        self.open += 1;
        self.streams.insert(request.stream, stream);
    }

    fn sending(&mut self, id: u32) -> Result<&mut Stream, Gone> {
        let stream = self.streams.get_mut(&id).ok_or(Gone::Closed)?;
        match stream.gone {
            Some(gone) => Err(gone),
            None if stream.has_ended => Err(Gone::Closed),
            None => Ok(stream),
        }
    }

    /// Sends an interim response.
    ///
    /// # Errors
    /// Nothing more goes over the stream, or its response has begun.
    pub fn send_interim(&mut self, id: u32, block: &[u8]) -> Result<(), Gone> {
        if self.sending(id)?.has_sent_head {
            return Err(Gone::Closed);
        }
        self.put_section(id, block, 0);
        Ok(())
    }

    /// Sends the head of the response. `ends`: it has neither body nor trailers.
    ///
    /// # Errors
    /// Nothing more goes over the stream, or its response has begun.
    pub fn send_head(&mut self, id: u32, block: &[u8], end: End) -> Result<(), Gone> {
        let stream = self.sending(id)?;
        if std::mem::replace(&mut stream.has_sent_head, true) {
            return Err(Gone::Closed);
        }
        self.put_section(id, block, end.flag());
        self.ended(id, end);
        Ok(())
    }

    /// Sends trailers, and ends the response.
    ///
    /// # Errors
    /// Nothing more goes over the stream.
    pub fn send_trailers(&mut self, id: u32, block: &[u8]) -> Result<(), Gone> {
        self.sending(id)?;
        match block {
            [] => put_frame(kind::DATA, flag::END_STREAM, id, &[], &mut self.out),
            _ => self.put_section(id, block, flag::END_STREAM),
        }
        self.notify();
        self.ended(id, End::Stream);
        Ok(())
    }

    fn put_section(&mut self, id: u32, block: &[u8], flags: u8) {
        if self.owes_table_size {
            let mut begun = Vec::new();
            self.begin_block(&mut begun);
            begun.extend_from_slice(block);
            put_block(id, &begun, flags, &mut self.out);
        } else {
            put_block(id, block, flags, &mut self.out);
        }
        self.notify();
    }

    fn ended(&mut self, id: u32, end: End) {
        if end == End::Stream {
            self.change(id, |stream| stream.has_ended = true);
            self.stop_upload(id);
        }
    }

    /// RFC 9113 §8.1: a client whose request is answered need not send the rest of it.
    fn stop_upload(&mut self, id: u32) {
        let is_unread = |stream: &Stream| stream.is_open() && stream.has_ended && !stream.has_receiver;
        if self.streams.get(&id).is_some_and(is_unread) {
            self.reset_stream(id, ErrorCode::NO_ERROR);
            self.notify();
        }
    }

    /// How many bytes of the body may be sent now: at least one.
    ///
    /// # Errors
    /// Nothing more goes over the stream.
    pub fn poll_room(&mut self, id: u32, cx: &Context<'_>) -> Poll<Result<usize, Gone>> {
        let unwritten = self.limits.unwritten.saturating_sub(self.out.len()) as i64;
        let of_all = self.send_window.min(unwritten);
        let stream = match self.sending(id) {
            Ok(stream) => stream,
            Err(gone) => return Poll::Ready(Err(gone)),
        };
        let room = stream.send_window.min(of_all);
        if let Ok(room @ 1..) = usize::try_from(room) {
            return Poll::Ready(Ok(room.min(MAX_FRAME)));
        }
        register(&mut stream.sender, cx);
        if !std::mem::replace(&mut stream.waits, true) {
            self.waiting.push_back(id);
        }
        Poll::Pending
    }

    /// Sends a piece of the body, of no more bytes than there is room for.
    ///
    /// # Errors
    /// Nothing more goes over the stream.
    pub fn send_data(&mut self, id: u32, data: &[u8], end: End) -> Result<(), Gone> {
        let stream = self.sending(id)?;
        stream.send_window -= data.len() as i64;
        self.send_window -= data.len() as i64;
        put_frame(kind::DATA, end.flag(), id, data, &mut self.out);
        self.notify();
        self.ended(id, end);
        Ok(())
    }

    /// Resets a stream that is open.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        if !self.is_over && self.streams.get(&id).is_some_and(Stream::is_open) {
            self.reset_stream(id, code);
            self.notify();
        }
    }

    /// Ready when nothing more goes over the stream.
    pub fn poll_gone(&mut self, id: u32, cx: &Context<'_>) -> Poll<Gone> {
        match self.streams.get_mut(&id) {
            None => Poll::Ready(Gone::Closed),
            Some(Stream { gone: Some(gone), .. }) => Poll::Ready(*gone),
            Some(stream) => {
                register(&mut stream.sender, cx);
                Poll::Pending
            }
        }
    }

    /// Nobody answers the stream any more. If its response is not whole, the client is told so.
    pub fn drop_sender(&mut self, id: u32) {
        let is_cut = self.streams.get(&id).is_some_and(|stream| stream.gone.is_none() && !stream.has_ended);
        if is_cut {
            self.reset(id, ErrorCode::CANCEL);
        }
        self.change(id, |stream| stream.has_sender = false);
    }

    /// What has come of the body since the last call; `None` behind its end.
    pub fn poll_data(&mut self, id: u32, cx: &Context<'_>) -> Poll<Option<Result<Bytes, Gone>>> {
        let Some(stream) = self.streams.get_mut(&id) else { return Poll::Ready(Some(Err(Gone::Closed))) };
        match stream.gone {
            // First: what was received is gone as well, so an end behind it would be that of a body with a gap.
            Some(gone) => Poll::Ready(Some(Err(gone))),
            None if !stream.received.is_empty() => {
                let data = stream.received.split().freeze();
                stream.lent += data.len();
                Poll::Ready(Some(Ok(data)))
            }
            None if stream.client_has_ended => Poll::Ready(None),
            None => {
                register(&mut stream.receiver, cx);
                Poll::Pending
            }
        }
    }

    /// The trailers behind the body, if there are some.
    pub fn take_trailers(&mut self, id: u32) -> Option<Box<FieldTable>> {
        self.streams.get_mut(&id)?.trailers.take()
    }

    /// Whether nothing is left of the request.
    pub fn is_received(&self, id: u32) -> bool {
        let is_left =
            |stream: &Stream| !stream.client_has_ended || !stream.received.is_empty() || stream.trailers.is_some();
        !self.streams.get(&id).is_some_and(is_left)
    }

    /// Bytes that [`ServerConnection::poll_data`] has handed out were taken: the client may send as many more. Those
    /// that are never said to be taken are given back by [`ServerConnection::drop_receiver`].
    pub fn release(&mut self, id: u32, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.lent = stream.lent.saturating_sub(bytes);
        }
        self.give_back(id, bytes);
    }

    /// Bytes of a stream's data are no longer held.
    pub(super) fn give_back(&mut self, id: u32, bytes: usize) {
        let window = self.limits.stream_window;
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.gone.is_none()) {
            stream.unannounced += bytes as u32; // bounded by the window
            if !stream.client_has_ended && stream.unannounced > 0 && stream.unannounced >= window / 2 {
                let increment = std::mem::take(&mut stream.unannounced);
                stream.receive_window += i64::from(increment);
                put_window_update(id, increment, &mut self.out);
                self.notify();
            }
        }
        self.take_back(bytes);
    }

    /// Nobody reads the body any more.
    pub fn drop_receiver(&mut self, id: u32) {
        let left = self.change(id, |stream| {
            stream.has_receiver = false;
            stream.trailers = None;
            std::mem::take(&mut stream.received).len() + std::mem::take(&mut stream.lent)
        });
        self.take_back(left.unwrap_or(0));
        self.stop_upload(id);
    }
}

/// What follows on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// More of it.
    No,
    /// Nothing: END_STREAM.
    Stream,
}

impl End {
    fn flag(self) -> u8 {
        match self {
            Self::No => 0,
            Self::Stream => flag::END_STREAM,
        }
    }
}
