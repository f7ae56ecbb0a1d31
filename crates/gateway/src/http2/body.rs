//! The body of a request, read from its stream as somebody takes it.
//!
//! A piece that was handed out is given back to the client's window when the next one is asked for: by then the service
//! has taken it. So a client whose service takes nothing stops at its stream's window.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::Frame;

use super::stream::Stream;
use crate::request_body::{BodySource, ReadError};
use crate::stream_io::io_error;

/// The body of a request.
pub(super) struct StreamBody {
    received: RecvStream,
    /// Who is told to send it, if it waits for that (RFC 9110 §10.1.1).
    expects: Option<Rc<Stream>>,
    /// Bytes that are still to come, if that is known.
    remaining: Option<u64>,
    /// Bytes that were handed out and count against the window.
    taken: usize,
    is_ended: bool,
}

impl StreamBody {
    pub(super) fn new(received: RecvStream, length: Option<u64>, expects: Option<Rc<Stream>>) -> Self {
        Self { received, expects, remaining: length, taken: 0, is_ended: false }
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            // An error means that the stream has ended: then there is no window.
            let _ = self.received.flow_control().release_capacity(taken);
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
                self.is_ended = self.received.is_end_stream();
                if self.is_ended {
                    self.give_back();
                }
                Some(Ok(Frame::data(data)))
            }
            Some(Err(e)) => Some(Err(e)),
            None => ready!(self.received.poll_trailers(cx)).map(|trailers| trailers.map(Frame::trailers)).transpose(),
        };
        self.is_ended |= frame.as_ref().is_none_or(|frame| frame.as_ref().map_or(true, Frame::is_trailers));
        Poll::Ready(frame.map(|frame| frame.map_err(|e| ReadError::Io(io_error(e)))))
    }
}
