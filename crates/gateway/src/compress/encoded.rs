//! A body that is encoded as it comes.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use pilotlight_content_coding::{EncodeError, Encoder};

use super::permit::Permit;
use crate::body::{CutError, ResponseBody, Source};

/// Bytes that are gathered before they are given out, unless the service pauses.
const PIECE: usize = 16 * 1024;
/// Bytes that are encoded before others have their turn.
const MAX_TURN: usize = 128 * 1024;

/// A body that is encoded as it comes. What a service has sent when it pauses is given out, so that events of a stream
/// arrive when they happen.
pub(super) struct Encoded {
    source: ResponseBody,
    /// `None` behind the end.
    encoder: Option<Box<Encoder>>,
    /// Something was taken that may not have been given out.
    has_unflushed: bool,
    trailers: Option<Frame<Bytes>>,
    _permit: Permit,
}

impl Encoded {
    pub(super) fn new(source: ResponseBody, encoder: Box<Encoder>, permit: Permit) -> Self {
        Self { source, encoder: Some(encoder), has_unflushed: false, trailers: None, _permit: permit }
    }

    fn poll_encoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, CutError>> {
        let mut turn = 0;
        loop {
            let Some(encoder) = &mut self.encoder else { return Poll::Ready(Ok(None)) };
            if turn >= MAX_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let frame = match self.source.poll_source(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending if std::mem::take(&mut self.has_unflushed) => {
                    encoder.flush().map_err(|e| cut(&e))?;
                    let ready = encoder.take();
                    return if ready.is_empty() { Poll::Pending } else { Poll::Ready(Ok(Some(ready))) };
                }
                Poll::Pending => return Poll::Pending,
            };
            match frame.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => {
                    turn += data.len();
                    self.has_unflushed |= !data.is_empty();
                    encoder.write(&data).map_err(|e| cut(&e))?;
                    if encoder.ready() >= PIECE {
                        return Poll::Ready(Ok(Some(encoder.take())));
                    }
                }
                trailers => {
                    self.trailers = trailers.and_then(Result::err);
                    let Some(encoder) = self.encoder.take() else { return Poll::Ready(Ok(None)) };
                    return Poll::Ready(encoder.finish().map(Some).map_err(|e| cut(&e)));
                }
            }
        }
    }
}

fn cut(error: &EncodeError) -> CutError {
    CutError { service: "a service".to_owned(), what: error.to_string() }
}

impl Source for Encoded {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        if self.encoder.is_none() {
            return Poll::Ready(self.trailers.take().map(Ok));
        }
        let encoded = ready!(self.poll_encoded(cx));
        if encoded.is_err() {
            self.encoder = None;
        }
        Poll::Ready(encoded.map(|bytes| bytes.map(Frame::data)).transpose())
    }

    fn is_ended(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn deadline_over(&mut self) {
        if let ResponseBody::Streamed(source) = &mut self.source {
            source.deadline_over();
        }
    }
}
