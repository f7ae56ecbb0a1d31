//! Answers: an outcome to frames, at once or piece by piece.

use super::body::Body;
use super::outcome::{Failure, Outcome};
use crate::frame::{FrameType, MAX_FRAME, encode_frame, flags};
use crate::head::{encode_fields, encode_response};
use crate::session::Part;
use bytes::{Buf, Bytes, BytesMut};
use http::response::Parts;
use http::{HeaderMap, Response};
use http_body::Body as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// An answer on its way into frames. Holds at most one frame of its body, unless the handler gave more in one piece
/// (P-22).
pub(super) struct Answer {
    head: Option<Parts>,
    /// From the body, not sent yet.
    rest: Bytes,
    /// From the body, after `rest`.
    next: Option<Next>,
    body: Body,
}

/// What ends a body.
enum Next {
    End,
    Trailers(HeaderMap),
    Failed(String),
}

impl Answer {
    pub(super) fn new(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let (rest, body) = match body.into_full() {
            Ok(rest) => (rest, Body::empty()),
            Err(body) => (Bytes::new(), body),
        };
        Self { head: Some(head), rest, next: None, body }
    }

    /// Puts the final frame into `out`, if the outcome fits one and is at hand without waiting. Otherwise what is to be
    /// sent in pieces.
    pub(super) fn at_once(outcome: Outcome, exchange: u16, out: &mut BytesMut) -> Option<Self> {
        let mut answer = match outcome {
            Ok(response) => Self::new(response),
            Err(failure) => {
                failure.to_reset().encode(out, exchange);
                return None;
            }
        };
        // A body of known size that is ready needs no connection of its own.
        let small = answer.body.size_hint().exact().is_some_and(|size| size <= MAX_FRAME as u64);
        if small && answer.rest.is_empty() && !answer.body.is_end_stream() {
            let _ready = answer.poll_ready_body(&mut Context::from_waker(Waker::noop()));
        }
        let Some(head) = answer.head.as_ref().filter(|_| answer.is_last(0)) else {
            return Some(answer);
        };
        match encode_response(out, exchange, flags::END, head.status, &head.headers, &answer.rest) {
            Ok(()) => None,
            Err(_) => Some(answer),
        }
    }

    /// Waits until there is something to put.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.head.is_some() || !self.rest.is_empty() || self.next.is_some() {
            return Poll::Ready(());
        }
        self.poll_ready_body(cx)
    }

    fn poll_ready_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.rest.is_empty() && self.next.is_none() {
            if self.body.is_end_stream() {
                self.next = Some(Next::End);
                break;
            }
            let body = Pin::new(&mut self.body);
            // As with handlers: a body that panicked is not polled again.
            let polled = catch_unwind(AssertUnwindSafe(|| body.poll_frame(cx)));
            let Ok(polled) = polled else {
                self.next = Some(Next::Failed("the body panicked".into()));
                break;
            };
            match ready!(polled) {
                None => self.next = Some(Next::End),
                Some(Err(error)) => self.next = Some(Next::Failed(format!("the body failed: {error}"))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => self.next = frame.into_trailers().ok().map(Next::Trailers),
                },
            }
        }
        Poll::Ready(())
    }

    /// Puts the next frame, with at most `room` bytes of the body, into `out`. Only after
    /// [`poll_ready`](Self::poll_ready).
    pub(super) fn put(&mut self, exchange: u16, room: usize, out: &mut BytesMut) -> Part {
        if let Some(head) = self.head.take() {
            return self.put_head(&head, exchange, room, out);
        }
        if !self.rest.is_empty() {
            return self.put_rest(exchange, room, out);
        }
        match self.next.take() {
            None => return Part::More,
            Some(Next::End) => encode_frame(out, FrameType::DATA, flags::END, exchange, &[]),
            Some(Next::Failed(text)) => Failure::Internal(text).to_reset().encode(out, exchange),
            Some(Next::Trailers(fields)) => {
                if let Err(error) = encode_fields(out, exchange, &fields) {
                    let text = format!("the trailers are too large: {error}");
                    Failure::Internal(text).to_reset().encode(out, exchange);
                }
            }
        }
        Part::Last
    }

    fn put_head(&mut self, head: &Parts, exchange: u16, room: usize, out: &mut BytesMut) -> Part {
        // Not a whole frame of the body: the head wants room as well.
        let with_head = self.rest.len().min(room).min(MAX_FRAME / 2);
        let (part, flags) = self.part(with_head);
        let piece = &self.rest[..with_head];
        if encode_response(out, exchange, flags, head.status, &head.headers, piece).is_ok() {
            self.rest.advance(with_head);
            return part;
        }
        if let Err(error) = encode_response(out, exchange, flags::NONE, head.status, &head.headers, &[]) {
            Failure::Internal(format!("the response head is too large: {error}")).to_reset().encode(out, exchange);
            return Part::Last;
        }
        Part::More
    }

    fn put_rest(&mut self, exchange: u16, room: usize, out: &mut BytesMut) -> Part {
        let length = self.rest.len().min(room).min(MAX_FRAME);
        let (part, flags) = self.part(length);
        encode_frame(out, FrameType::DATA, flags, exchange, &self.rest[..length]);
        self.rest.advance(length);
        part
    }

    /// Whether nothing is left after the next `length` bytes of `rest`, or all of it if `length` is 0.
    fn is_last(&self, length: usize) -> bool {
        let all = length == 0 || length == self.rest.len();
        all && match self.next {
            None => self.body.is_end_stream(),
            Some(Next::End) => true,
            Some(Next::Trailers(_) | Next::Failed(_)) => false,
        }
    }

    fn part(&self, length: usize) -> (Part, u8) {
        let last = length == self.rest.len() && self.is_last(length);
        if last { (Part::Last, flags::END) } else { (Part::More, flags::NONE) }
    }
}
