//! The body of a request, read from its stream as somebody takes it.
//!
//! A piece that was handed out is given back to the client's window when the next one is asked for: by then the service
//! has taken it. So a client whose service takes nothing stops at its stream's window.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use pilotlight_http2::{Fields, Gone};

use super::session::Session;
use super::stream::Stream;
use crate::head;
use crate::request_body::{BodySource, ReadError};

/// The client's direction of a stream. Dropped before its end, the client need not send the rest.
pub(super) struct FromClient {
    session: Rc<Session>,
    /// The number of the stream.
    id: u32,
}

impl FromClient {
    /// Of a stream that was opened.
    pub(super) fn new(session: &Rc<Session>, id: u32) -> Self {
        Self { session: Rc::clone(session), id }
    }

    /// What has come since the last call; `None` behind the end of the data.
    pub(super) fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Gone>>> {
        self.session.h2.borrow_mut().poll_data(self.id, cx)
    }

    /// Bytes were taken.
    pub(super) fn release(&self, bytes: usize) {
        self.session.h2.borrow_mut().release(self.id, bytes);
    }

    fn take_trailers(&self) -> Option<HeaderMap> {
        let table = self.session.h2.borrow_mut().take_trailers(self.id)?;
        Some(map(table.fields()))
    }

    fn is_received(&self) -> bool {
        self.session.h2.borrow().is_received(self.id)
    }
}

impl Drop for FromClient {
    fn drop(&mut self) {
        self.session.h2.borrow_mut().drop_receiver(self.id);
    }
}

/// Fields as a map.
pub(super) fn map(fields: Fields<'_>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len() + 1);
    fields.iter().for_each(|field| head::append(field.name, field.value, &mut map));
    map
}

/// The body of a request.
pub(super) struct StreamBody {
    received: FromClient,
    /// Who is told to send it, if it waits for that (RFC 9110 §10.1.1).
    expects: Option<Rc<Stream>>,
    /// Bytes that are still to come, if that is known.
    remaining: Option<u64>,
    /// Bytes that were handed out and count against the window.
    taken: usize,
    is_ended: bool,
}

impl StreamBody {
    pub(super) fn new(received: FromClient, length: Option<u64>, expects: Option<Rc<Stream>>) -> Self {
        Self { received, expects, remaining: length, taken: 0, is_ended: false }
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            self.received.release(taken);
        }
    }
}

impl BodySource for StreamBody {
    fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        if let Some(stream) = self.expects.take() {
            stream.send_continue();
        }
        self.give_back();
        let frame = match ready!(self.received.poll_data(cx)) {
            Some(Ok(data)) => {
                self.taken = data.len();
                self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(data.len() as u64));
                self.is_ended = self.received.is_received();
                if self.is_ended {
                    self.give_back();
                }
                Some(Ok(Frame::data(data)))
            }
            Some(Err(e)) => Some(Err(e)),
            None => self.received.take_trailers().map(|trailers| Ok(Frame::trailers(trailers))),
        };
        self.is_ended |= frame.as_ref().is_none_or(|frame| frame.as_ref().map_or(true, Frame::is_trailers));
        Poll::Ready(frame.map(|frame| frame.map_err(|e| ReadError::Io(io_error(e)))))
    }
}

/// An error of a stream as one of a connection.
pub(super) fn io_error(gone: Gone) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, gone)
}
