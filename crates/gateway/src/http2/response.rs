//! A response on its stream: its head, its body at the pace of the client's windows, its trailers.
//!
//! A piece of the body goes to `h2` only as far as the client's windows and [`super::MAX_SEND_BUFFER`] have room for
//! it. A client that leaves no room for `limits.body_timeout` loses the stream.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header::{CONTENT_LENGTH, DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::date;
use crate::deadline::Deadline;
use crate::fields::is_hop_by_hop;
use crate::response::ResponseHead;

/// Why a response has not been sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The client has given the stream up, or has gone.
    #[error(transparent)]
    Client(#[from] h2::Error),
    #[error("the client gave up the stream")]
    Reset,
    #[error("the client left no room for more of it within limits.body_timeout")]
    Stalled,
    /// The service has not sent it to its end.
    #[error("the response was cut")]
    Cut,
}

/// A response whose head is on its way.
pub(super) struct Sending {
    stream: Rc<Stream>,
    to_client: SendStream<Bytes>,
    body: Outgoing,
    /// What of the body is here, and has no room yet.
    piece: Bytes,
    /// Whether room for the piece is asked for.
    is_reserved: bool,
    /// The client leaves no room, and the deadline runs.
    is_stalled: bool,
    deadline: Deadline,
}

/// Sends the head of a response. `None`: that was all of it.
pub(super) fn send_head(
    stream: &Rc<Stream>,
    method: &Method,
    answer: (ResponseHead, Outgoing),
) -> Result<Option<Sending>, h2::Error> {
    let (ResponseHead { status, mut fields, .. }, body) = answer;
    let said = fields.content_length();
    let is_head = *method == Method::HEAD;
    let has_none = is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = match (said, body.length()) {
        (said, _) if has_none => said,
        (said, length) => length.or(said),
    };
    let fields = fields.map();
    let leaving: Vec<HeaderName> = fields.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    for name in leaving {
        fields.remove(name);
    }
    match length {
        Some(length) if status != StatusCode::NO_CONTENT => {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        _ => {
            fields.remove(CONTENT_LENGTH);
        }
    }
    if !fields.contains_key(DATE)
        && let Ok(date) = HeaderValue::from_bytes(&date::now())
    {
        fields.insert(DATE, date);
    }
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = std::mem::take(fields);
    let body = if has_none { body.without_data() } else { body };
    let ends = body.is_end();
    let to_client = stream.send_head(head, ends)?;
    if ends {
        stream.session().sent.response();
        return Ok(None);
    }
    let deadline = stream.session().worker.deadlines.deadline();
    let stream = Rc::clone(stream);
    Ok(Some(Sending { stream, to_client, body, piece: Bytes::new(), is_reserved: false, is_stalled: false, deadline }))
}

impl Sending {
    /// Sends what can be sent without waiting; ready when the response is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if ready!(self.poll_piece(cx))? == Sent::All {
                break;
            }
            if self.body.is_end() {
                self.to_client.send_data(Bytes::new(), true)?;
                break;
            }
            let Poll::Ready(frame) = self.body.poll_frame(cx) else {
                return self.to_client.poll_reset(cx).map(|_| Err(Ended::Reset));
            };
            match frame.transpose() {
                Err(_) => {
                    self.to_client.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(Err(Ended::Cut));
                }
                Ok(None) => {
                    self.to_client.send_data(Bytes::new(), true)?;
                    break;
                }
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(frame) => {
                        self.to_client.send_trailers(crossing(frame.into_trailers().unwrap_or_default()))?;
                        break;
                    }
                },
            }
        }
        self.stream.session().sent.response();
        Poll::Ready(Ok(()))
    }

    /// Sends the piece that is here, as far as there is room.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Sent, Ended>> {
        while !self.piece.is_empty() {
            if !std::mem::replace(&mut self.is_reserved, true) {
                self.to_client.reserve_capacity(self.piece.len());
            }
            let room = match self.to_client.capacity() {
                0 => ready!(self.poll_room(cx))?,
                room => room,
            };
            self.is_stalled = false;
            let part = self.piece.split_to(room.min(self.piece.len()));
            let is_last = self.piece.is_empty() && self.body.is_end();
            self.to_client.send_data(part, is_last)?;
            self.stream.session().sent.data();
            self.is_reserved = !self.piece.is_empty();
            if is_last {
                return Poll::Ready(Ok(Sent::All));
            }
        }
        Poll::Ready(Ok(Sent::Piece))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        match self.to_client.poll_capacity(cx) {
            Poll::Ready(Some(room)) => return Poll::Ready(Ok(room?)),
            Poll::Ready(None) => return Poll::Ready(Err(Ended::Reset)),
            Poll::Pending => {}
        }
        if !std::mem::replace(&mut self.is_stalled, true) {
            self.deadline.set(self.stream.session().settings.limits.body_timeout);
        }
        ready!(self.deadline.poll(cx));
        self.to_client.send_reset(Reason::CANCEL);
        Poll::Ready(Err(Ended::Stalled))
    }

    /// Sends all of it.
    ///
    /// # Cancel safety
    /// Dropping it resets the stream.
    pub(super) async fn run(mut self) -> Result<(), Ended> {
        poll_fn(|cx| self.poll(cx)).await
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
fn crossing(trailers: HeaderMap) -> HeaderMap {
    let mut trailers = trailers;
    let leaving: Vec<HeaderName> =
        trailers.keys().filter(|name| is_hop_by_hop(name) || **name == CONTENT_LENGTH).cloned().collect();
    for name in leaving {
        trailers.remove(name);
    }
    trailers
}
