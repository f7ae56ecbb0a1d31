//! A response on its stream: its head, its body at the pace of the client's windows, its trailers.
//!
//! A piece of the body is written only as far as the client's windows and [`super::MAX_UNWRITTEN`] have room for it. A
//! client that has the body wait for room, and takes less than [`MIN_PROGRESS`] of it within `limits.body_timeout`,
//! loses the stream.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE};
use http::{HeaderMap, Method, StatusCode};
use pilotlight_http2::{End, ErrorCode, Gone, encode_field, encode_status};

use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::date;
use crate::deadline::Deadline;
use crate::fields::{is_hop_by_hop, is_hop_by_hop_name};
use crate::response::ResponseHead;

/// About as many bytes as the head of a response takes.
const BLOCK: usize = 256;
/// Bytes of a body that waits for room of which a client has to take at least as many within `limits.body_timeout`, or
/// all that are there. One that opens its window by a byte now and then does not keep a stream for ever (CVE-2019-9517,
/// CVE-2019-9511). HTTP/1.1 needs no such number: a full socket has room again only when a third of its buffer is free.
const MIN_PROGRESS: usize = 1024;

/// Why a response has not been sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The client has given the stream up, or has gone.
    #[error(transparent)]
    Client(#[from] Gone),
    #[error("the client gave up the stream")]
    Reset,
    #[error("the client left room for less than {MIN_PROGRESS} bytes more of it within limits.body_timeout")]
    Stalled,
    /// The service has not sent it to its end.
    #[error("the response was cut")]
    Cut,
}

/// A response whose head is on its way.
pub(super) struct Sending {
    stream: Rc<Stream>,
    body: Outgoing,
    /// What of the body is here, and has no room yet.
    piece: Bytes,
    /// The client leaves no room, and the deadline runs.
    stall: Option<Stall>,
    deadline: Deadline,
}

/// A body that has waited for room, and still does or is still here.
struct Stall {
    /// Bytes that are to be sent before the deadline.
    missing: usize,
}

/// Sends the head of a response. `None`: that was all of it.
pub(super) fn send_head(
    stream: &Rc<Stream>,
    method: &Method,
    answer: (ResponseHead, Outgoing),
) -> Result<Option<Sending>, Gone> {
    let (ResponseHead { status, fields, .. }, body) = answer;
    let said = fields.content_length();
    let is_head = *method == Method::HEAD;
    let has_none = is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = match (said, body.length()) {
        (said, _) if has_none => said,
        (said, length) => length.or(said),
    };
    let mut block = Vec::with_capacity(BLOCK);
    encode_status(status.as_u16(), &mut block);
    fields.each(|name, value| {
        if !is_hop_by_hop_name(name) {
            encode_field(name, value, &mut block);
        }
    });
    if let Some(length) = length.filter(|_| status != StatusCode::NO_CONTENT) {
        encode_field(b"content-length", itoa::Buffer::new().format(length).as_bytes(), &mut block);
    }
    if fields.get(&DATE).is_none() {
        encode_field(b"date", &date::now(), &mut block);
    }
    let body = if has_none { body.without_data() } else { body };
    let session = stream.session();
    let end = if body.is_end() { End::Stream } else { End::No };
    session.h2.borrow_mut().send_head(stream.id(), &block, end)?;
    if end == End::Stream {
        session.sent_response();
        return Ok(None);
    }
    let deadline = session.worker.deadlines.deadline();
    Ok(Some(Sending { stream: Rc::clone(stream), body, piece: Bytes::new(), stall: None, deadline }))
}

impl Sending {
    /// Sends what can be sent without waiting; ready when the response is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if ready!(self.poll_piece(cx))? == Sent::All {
                break;
            }
            if self.body.is_end() {
                self.send(&[], End::Stream)?;
                break;
            }
            let Poll::Ready(frame) = self.body.poll_frame(cx) else {
                self.stall = None; // the client has room for all that is here
                return self.stream.poll_gone(cx).map(|()| Err(Ended::Reset));
            };
            match frame.transpose() {
                Err(_) => {
                    self.reset(ErrorCode::INTERNAL_ERROR);
                    return Poll::Ready(Err(Ended::Cut));
                }
                Ok(None) => {
                    self.send(&[], End::Stream)?;
                    break;
                }
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(frame) => {
                        let block = trailers(&frame.into_trailers().unwrap_or_default());
                        self.stream.session().h2.borrow_mut().send_trailers(self.stream.id(), &block)?;
                        break;
                    }
                },
            }
        }
        self.stream.session().sent_response();
        Poll::Ready(Ok(()))
    }

    fn send(&self, data: &[u8], end: End) -> Result<(), Gone> {
        self.stream.session().h2.borrow_mut().send_data(self.stream.id(), data, end)
    }

    fn reset(&self, code: ErrorCode) {
        self.stream.session().h2.borrow_mut().reset(self.stream.id(), code);
    }

    /// Sends the piece that is here, as far as there is room.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Sent, Ended>> {
        while !self.piece.is_empty() {
            let room = self.stream.session().h2.borrow_mut().poll_room(self.stream.id(), cx);
            let room = match room {
                Poll::Ready(room) => room?,
                Poll::Pending => return self.poll_stalled(cx).map(Err),
            };
            let part = self.piece.split_to(room.min(self.piece.len()));
            let is_last = self.piece.is_empty() && self.body.is_end();
            self.send(&part, if is_last { End::Stream } else { End::No })?;
            self.stream.session().sent_data();
            if is_last {
                return Poll::Ready(Ok(Sent::All));
            }
            self.stall = self.stall.take().and_then(|stall| stall.without(part.len()));
        }
        Poll::Ready(Ok(Sent::Piece))
    }

    /// There is no room; ready when there was too little of it for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.stall.is_none() {
            self.stall = Some(Stall { missing: MIN_PROGRESS });
            self.deadline.set(self.stream.session().settings.limits.body_timeout);
        }
        ready!(self.deadline.poll(cx));
        self.reset(ErrorCode::CANCEL);
        Poll::Ready(Ended::Stalled)
    }

    /// Sends all of it.
    ///
    /// # Cancel safety
    /// Dropping it resets the stream.
    pub(super) async fn run(mut self) -> Result<(), Ended> {
        poll_fn(|cx| self.poll(cx)).await
    }
}

impl Stall {
    /// So many bytes were sent; `None`: enough.
    fn without(self, sent: usize) -> Option<Self> {
        self.missing.checked_sub(sent).filter(|missing| *missing > 0).map(|missing| Self { missing })
    }
}

/// What has been sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Piece,
    /// The end as well.
    All,
}

/// Trailers that may leave a connection.
fn trailers(trailers: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in trailers.iter().filter(|(name, _)| !is_hop_by_hop(name) && **name != CONTENT_LENGTH) {
        encode_field(name.as_str().as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// Sends a small document and nothing else; `is_head`: as the response to HEAD.
pub(super) async fn send_document(
    stream: Rc<Stream>,
    document: http::Response<Bytes>,
    is_head: bool,
) -> Result<(), Ended> {
    let (head, mut body) = document.into_parts();
    let mut block = Vec::with_capacity(BLOCK);
    encode_status(head.status.as_u16(), &mut block);
    for (name, value) in &head.headers {
        encode_field(name.as_str().as_bytes(), value.as_bytes(), &mut block);
    }
    encode_field(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes(), &mut block);
    if is_head {
        body.clear();
    }
    let session = stream.session();
    let end = if body.is_empty() { End::Stream } else { End::No };
    session.h2.borrow_mut().send_head(stream.id(), &block, end)?;
    let deadline = session.worker.deadlines.deadline();
    deadline.set(session.settings.limits.body_timeout);
    while !body.is_empty() {
        let room = poll_fn(|cx| match session.h2.borrow_mut().poll_room(stream.id(), cx) {
            Poll::Ready(room) => Poll::Ready(room.map_err(Ended::Client)),
            Poll::Pending => deadline.poll(cx).map(|()| Err(Ended::Stalled)),
        });
        let part = body.split_to(room.await?.min(body.len()));
        let end = if body.is_empty() { End::Stream } else { End::No };
        session.h2.borrow_mut().send_data(stream.id(), &part, end)?;
    }
    session.sent_response();
    Ok(())
}
