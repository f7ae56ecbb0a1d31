//! The body of an answer that came over the pipe, as the client takes it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use pilotlight_pipe::head::decode_fields;
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerPart, Part};
use pilotlight_supervisor::Lease;

use super::shared_state::AnswerStream;
use super::stream::{Stream, StreamError};
use crate::body::{CutError, Source};
use crate::upstream::silence::Silence;

/// The rest of an answer, read as the client takes it; dropped before its end, it cancels the exchange.
pub(crate) struct PipeBody {
    stream: Option<Box<Stream>>,
    lease: Option<Lease>,
    silence: Option<Silence>,
    /// What came with RESPONSE.
    first: Bytes,
    /// From `content-length`, if the service gave it.
    left: Option<u64>,
    service: String,
}

impl Source for PipeBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(self.take(first)));
        }
        loop {
            let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
            let Poll::Ready(part) = stream.poll_part(cx) else {
                let Some(silence) = &mut self.silence else { return Poll::Pending };
                let what = ready!(silence.poll(cx, stream.waits_for_client(), stream.take_moved()));
                self.deadline_over();
                return Poll::Ready(Some(Err(self.cut(what))));
            };
            if let Some(silence) = &mut self.silence {
                silence.heard();
            }
            match part {
                Ok(Some((AnswerPart::Data(part), data))) => {
                    if part == Part::Last {
                        self.end();
                        return Poll::Ready(self.last(data));
                    }
                    if data.is_empty() {
                        continue;
                    }
                    let data = stream.gather(data);
                    return Poll::Ready(Some(self.take(data)));
                }
                Ok(Some((AnswerPart::Trailers, fields))) => {
                    self.end();
                    if self.left.is_some_and(|left| left > 0) {
                        return Poll::Ready(self.last(Bytes::new()));
                    }
                    return Poll::Ready(match decode_fields(&fields) {
                        Ok(trailers) => Some(Ok(Frame::trailers(filtered(trailers)))),
                        Err(e) => Some(Err(self.cut(e.to_string()))),
                    });
                }
                Ok(Some((AnswerPart::Reset, payload))) => {
                    let what = Reset::parse(&payload)
                        .map_or_else(|e| e.to_string(), |r| format!("{}: {}", r.code.name(), r.text));
                    return Poll::Ready(Some(Err(self.cut(what))));
                }
                Ok(Some((AnswerPart::Info | AnswerPart::Response(_) | AnswerPart::Switched, _)) | None) => {
                    return Poll::Ready(Some(Err(self.cut("its parts are out of order".into()))));
                }
                Err(StreamError::Protocol(e)) => {
                    if let Some(stream) = self.stream.take() {
                        stream.fault(&e);
                    }
                    return Poll::Ready(Some(Err(self.cut(e.to_string()))));
                }
                Err(StreamError::Closed(what, _)) => {
                    self.stream = None; // nothing to cancel on a closed connection
                    return Poll::Ready(Some(Err(self.cut(what))));
                }
                Err(StreamError::Client(e)) => return Poll::Ready(Some(Err(self.cut(e.to_string())))),
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.stream.is_none() && self.first.is_empty()
    }

    fn length(&self) -> Option<u64> {
        self.left
    }

    fn deadline_over(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.cancel(ResetCode::Deadline);
        }
    }
}

impl PipeBody {
    pub(crate) fn new(
        stream: Box<Stream>,
        lease: Option<Lease>,
        silence: Option<Silence>,
        first: Bytes,
        left: Option<u64>,
        service: String,
    ) -> Self {
        Self { stream: Some(stream), lease, silence, first, left, service }
    }

    /// Counts against `content-length`, so that a lying service is cut and not believed.
    fn take(&mut self, data: Bytes) -> Result<Frame<Bytes>, CutError> {
        if let Some(left) = &mut self.left {
            match left.checked_sub(data.len() as u64) {
                Some(rest) => *left = rest,
                None => return Err(self.cut("it is longer than its content-length".into())),
            }
        }
        Ok(Frame::data(data))
    }

    /// The last piece. One that leaves the answer too short is not passed on: whoever stores it must not think it
    /// whole.
    fn last(&mut self, data: Bytes) -> Option<Result<Frame<Bytes>, CutError>> {
        match self.left {
            Some(left) if left > data.len() as u64 => {
                Some(Err(self.cut("it is shorter than its content-length".into())))
            }
            _ if data.is_empty() => None,
            _ => Some(self.take(data)),
        }
    }

    fn end(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.finish();
        }
        self.lease = None;
    }

    fn cut(&mut self, what: String) -> CutError {
        self.first = Bytes::new();
        if let Some(stream) = self.stream.take() {
            stream.cancel(ResetCode::Cancelled);
        }
        self.lease = None;
        CutError { service: self.service.clone(), what }
    }
}

impl Drop for PipeBody {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // Nobody asks for more once as many bytes are here as were announced; only the final frame is still to
            // come.
            if self.left == Some(0) && self.first.is_empty() {
                stream.finish();
            } else {
                stream.cancel(ResetCode::Cancelled);
            }
        }
    }
}

fn filtered(mut trailers: HeaderMap) -> HeaderMap {
    crate::fields::strip_hop_by_hop(&mut trailers);
    trailers
}
