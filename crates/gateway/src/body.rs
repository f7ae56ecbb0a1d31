//! The body of an answer on its way to the client, wherever it comes from.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pilotlight_cache::{Recorder, Timestamp};

use crate::client::RequestGuard;
use crate::deadline::Deadline;
use crate::upstream::http::HttpBody;
use crate::upstream::pipe::PipeBody;

/// Why an answer ends before it is complete; the client's connection is closed then (RFC 9112 §8).
#[derive(Debug, thiserror::Error)]
#[error("an answer of {service} ended early: {what}")]
pub(crate) struct CutError {
    pub(crate) service: String,
    pub(crate) what: String,
}

/// Where the bytes come from.
pub(crate) enum ResponseBody {
    Empty,
    Full(Bytes),
    Http(Box<HttpBody>),
    Pipe(Box<PipeBody>),
}

impl ResponseBody {
    pub(crate) fn full(data: Bytes) -> Self {
        if data.is_empty() { Self::Empty } else { Self::Full(data) }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Full(data) => {
                let data = std::mem::take(data);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Self::Http(body) => body.poll_frame(cx),
            Self::Pipe(body) => body.poll_frame(cx),
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(_) => false,
            Self::Http(body) => body.is_ended(),
            Self::Pipe(body) => body.is_ended(),
        }
    }

    /// The length, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Full(data) => Some(data.len() as u64),
            Self::Http(body) => body.length(),
            Self::Pipe(body) => body.length(),
        }
    }
}

/// The body that hyper sends: the source, what the cache keeps of it, and the mark that the request is over.
pub(crate) struct Outgoing {
    source: ResponseBody,
    recorder: Option<Box<Recorder>>,
    /// The route's `timeout`, for the whole exchange.
    deadline: Option<Deadline>,
    _request: Option<RequestGuard>,
}

impl Outgoing {
    pub(crate) fn new(source: ResponseBody, recorder: Option<Box<Recorder>>, request: Option<RequestGuard>) -> Self {
        let mut this = Self { source, recorder, deadline: None, _request: request };
        if this.source.is_end() {
            this.finish();
        } else if let ResponseBody::Full(data) = &this.source {
            // All of it is here: stored now, whether or not this client takes it.
            if let Some(mut recorder) = this.recorder.take() {
                if recorder.push(data).is_ok() {
                    keep(recorder);
                }
            }
        }
        this
    }

    /// Cuts the answer when the deadline is over.
    pub(crate) fn until(self, deadline: Option<Deadline>) -> Self {
        Self { deadline, ..self }
    }

    fn finish(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            keep(recorder);
        }
    }
}

fn keep(recorder: Box<Recorder>) {
    if let Err(why) = recorder.finish(Timestamp::from_system(SystemTime::now())) {
        tracing::debug!("an answer was not stored after all: {why}");
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = CutError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = this.source.poll_source(cx) else {
            let Some(deadline) = &this.deadline else { return Poll::Pending };
            ready!(deadline.poll(cx));
            this.recorder = None;
            this.source = ResponseBody::Empty;
            let what = "the route's timeout is over".to_owned();
            return Poll::Ready(Some(Err(CutError { service: "this exchange".to_owned(), what })));
        };
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(recorder), Some(data)) = (&mut this.recorder, frame.data_ref())
                    && recorder.push(data).is_err()
                {
                    this.recorder = None; // too large to be kept: the client gets it all the same
                }
                if this.source.is_end() {
                    this.finish();
                }
            }
            Some(Err(cut)) => {
                tracing::warn!(service = %cut.service, "{cut}");
                this.recorder = None; // dropped unfinished: nothing incomplete is stored
            }
            None => this.finish(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.length().map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
