//! The body of a request, read from the client's connection as somebody takes it.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;
use pilotlight_http1::{FieldTable, Fields, Malformed, ServerConnection};

use super::{Client, Io};
use crate::head;
use crate::request_body::{BodySource, ReadError};
use crate::upstream::{MAX_GATHERED, MIN_PIECE};

/// Room for what is read of a body at once.
const READ_SIZE: usize = 64 * 1024;
/// The least room.
const MIN_READ_SIZE: usize = 8 * 1024;

/// A request's body.
///
/// Invariant: nobody reads it behind its response. (A service that has answered gets no more of it: P-21, and for HTTP
/// the connection is closed.) What comes then is the next request's.
pub(crate) struct ClientBody {
    /// `None` behind its end.
    client: Option<Rc<Client>>,
    /// Bytes that are still to come, if that is known.
    remaining: Option<u64>,
    /// The client sends it only when it is told to (RFC 9110 §10.1.1).
    is_expected: bool,
}

impl ClientBody {
    /// The body behind the head that the client's connection has just received.
    pub(super) fn behind(client: &Rc<Client>, http: &ServerConnection, is_expected: bool) -> Self {
        Self { client: Some(Rc::clone(client)), remaining: http.body_remaining(), is_expected }
    }
}

impl BodySource for ClientBody {
    fn is_ended(&self) -> bool {
        self.client.is_none()
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        let Some(client) = &self.client else { return Poll::Ready(None) };
        if std::mem::take(&mut self.is_expected) {
            client.send_continue();
        }
        let frame = ready!(client.poll_body(cx));
        self.remaining = client.io.borrow().http.body_remaining();
        let is_over = match &frame {
            None | Some(Err(_)) => true,
            Some(Ok(frame)) => frame.is_trailers() || self.remaining == Some(0),
        };
        if is_over {
            self.client = None;
        }
        Poll::Ready(frame)
    }
}

/// What the connection has for a body.
enum Step {
    Data(usize, usize),
    Trailers(HeaderMap, usize),
    End(usize),
    Incomplete(usize),
}

impl Client {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        let io = &mut *self.io.borrow_mut();
        loop {
            let step = match io.step() {
                Ok(step) => step,
                Err(rule) => return Poll::Ready(Some(Err(ReadError::Malformed(rule)))),
            };
            match step {
                Step::Data(skip, length) => return Poll::Ready(Some(Ok(Frame::data(io.take_data(skip, length))))),
                Step::Trailers(trailers, taken) => {
                    io.read.advance(taken);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Step::End(taken) => {
                    io.read.advance(taken);
                    return Poll::Ready(None);
                }
                Step::Incomplete(taken) => io.read.advance(taken),
            }
            match ready!(io.poll_fill_body(cx)) {
                Ok(0) => {
                    let cut = io.http.receive_end(io.read.len()).err().unwrap_or(Malformed::CutBody);
                    return Poll::Ready(Some(Err(ReadError::Malformed(cut))));
                }
                Ok(_) => {}
                Err(e) => return Poll::Ready(Some(Err(e.into()))),
            }
        }
    }

    /// Takes what has been read already of a body that nobody wants; whether that was all of it.
    pub(crate) fn skip_read_body(&self) -> bool {
        let io = &mut *self.io.borrow_mut();
        while io.http.is_in_body() {
            let taken = match io.step() {
                Ok(Step::Data(skip, length)) => skip + length,
                Ok(Step::Trailers(_, taken) | Step::End(taken)) => taken,
                Ok(Step::Incomplete(_)) | Err(_) => return false,
            };
            io.read.advance(taken);
        }
        true
    }
}

impl Io {
    fn step(&mut self) -> Result<Step, Malformed> {
        use pilotlight_http1::Received;

        // Takes no memory before there are trailers.
        let mut table = FieldTable::new();
        let (taken, received) = self.http.receive(&self.read, &mut table)?;
        Ok(match received {
            // The framing comes before the data.
            Received::Data(data) => Step::Data(taken - data.len(), data.len()),
            Received::Trailers(fields) => Step::Trailers(trailers(fields), taken),
            Received::End => Step::End(taken),
            // No head is given out before the end of the body and of its response.
            Received::Incomplete | Received::Head(_) => Step::Incomplete(taken),
        })
    }

    /// Takes a piece off what was read; small ones together.
    fn take_data(&mut self, skip: usize, length: usize) -> Bytes {
        self.read.advance(skip);
        let first = self.read.split_to(length).freeze();
        if self.http.body_remaining() == Some(0) {
            // The end of a body of known length needs no further byte.
            let _ = self.http.receive(&[], &mut FieldTable::new());
            return first;
        }
        if length >= MIN_PIECE || self.read.is_empty() {
            return first;
        }
        // Each piece costs a turn of everything behind, however small it is. Nothing is waited for.
        let mut all = BytesMut::with_capacity(MAX_GATHERED.min(length + self.read.len()));
        all.extend_from_slice(&first);
        let taken = self.http.gather(&self.read, &mut all, MAX_GATHERED);
        self.read.advance(taken);
        all.freeze()
    }

    fn poll_fill_body(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.socket.poll_readable(cx));
        let rest = self.http.body_remaining().map_or(READ_SIZE, |rest| usize::try_from(rest).unwrap_or(READ_SIZE));
        self.read.reserve(rest.clamp(MIN_READ_SIZE, READ_SIZE));
        self.socket.poll_read_buf(cx, &mut self.read)
    }
}

fn trailers(fields: Fields<'_>) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(fields.len());
    fields.end_to_end().for_each(|field| head::append(field.name, field.value, &mut trailers));
    trailers
}
