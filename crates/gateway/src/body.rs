//! The body of an answer on its way to the client, wherever it comes from.

use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::Bytes;
use http_body::Frame;
use pilotlight_cache::{BrokenOff, LiveBody, Recorder, StoredBody, Timestamp};

use crate::client::RequestGuard;
use crate::deadline::Deadline;
use crate::read_ahead::ReadAhead;
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
    Stored(Pieces),
    /// What another request is getting.
    Live(Box<LiveBody>),
    Http(Box<HttpBody>),
    Pipe(Box<PipeBody>),
    /// Any of these, read ahead while it is stored.
    Relayed(ReadAhead),
}

impl ResponseBody {
    pub(crate) fn full(data: Bytes) -> Self {
        if data.is_empty() { Self::Empty } else { Self::Full(data) }
    }

    pub(crate) fn stored(body: StoredBody) -> Self {
        if body.is_empty() { Self::Empty } else { Self::Stored(Pieces { body, sent: 0, sent_bytes: 0 }) }
    }

    pub(crate) fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Full(data) => {
                let data = std::mem::take(data);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Self::Live(body) => body.poll_data(cx).map(|data| data.map(|data| data.map(Frame::data).map_err(cut))),
            Self::Stored(pieces) => Poll::Ready(pieces.next().map(|piece| Ok(Frame::data(piece)))),
            Self::Http(body) => body.poll_frame(cx),
            Self::Pipe(body) => body.poll_frame(cx),
            Self::Relayed(read_ahead) => read_ahead.poll_frame(cx),
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(_) => false,
            Self::Stored(pieces) => pieces.left() == 0,
            Self::Live(body) => body.left() == 0,
            Self::Http(body) => body.is_ended(),
            Self::Pipe(body) => body.is_ended(),
            Self::Relayed(read_ahead) => read_ahead.is_ended(),
        }
    }

    /// The length, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Full(data) => Some(data.len() as u64),
            Self::Stored(pieces) => Some(pieces.left() as u64),
            Self::Live(body) => Some(body.left() as u64),
            Self::Http(body) => body.length(),
            Self::Pipe(body) => body.length(),
            Self::Relayed(read_ahead) => read_ahead.length(),
        }
    }
}

fn cut(broken: BrokenOff) -> CutError {
    CutError { service: "the cache".to_owned(), what: broken.to_string() }
}

/// A stored body on its way, piece by piece, each shared with the store.
pub(crate) struct Pieces {
    body: StoredBody,
    /// Pieces that were given out.
    sent: usize,
    sent_bytes: usize,
}

impl Pieces {
    fn next(&mut self) -> Option<Bytes> {
        let piece = self.body.pieces().get(self.sent)?.clone();
        self.sent += 1;
        self.sent_bytes += piece.len();
        Some(piece)
    }

    fn left(&self) -> usize {
        self.body.len() - self.sent_bytes
    }
}

/// The body of an answer as the connection writes it: the source, its deadline, and the mark that the request is over.
pub(crate) struct Outgoing {
    source: ResponseBody,
    /// The route's `timeout`, for the whole exchange.
    deadline: Option<Deadline>,
    request: RequestGuard,
}

impl Outgoing {
    /// An answer that may still be coming, cut when the deadline is over.
    pub(crate) fn new(source: ResponseBody, deadline: Option<Deadline>, request: RequestGuard) -> Self {
        Self { source, deadline, request }
    }

    /// The same without what is not sent: to HEAD, for example.
    pub(crate) fn without_data(self) -> Self {
        Self { source: ResponseBody::Empty, ..self }
    }
}

/// Stores an answer that is complete.
pub(crate) fn keep(recorder: Box<Recorder>) {
    if let Err(why) = recorder.finish(Timestamp::from_system(SystemTime::now())) {
        tracing::debug!("an answer was not stored after all: {why}");
    }
}

impl Outgoing {
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        // First, because a source that always has more would never let the deadline be seen.
        let late = self.deadline.as_ref().is_some_and(|deadline| deadline.poll(cx).is_ready());
        if late && !matches!(self.source, ResponseBody::Empty | ResponseBody::Full(_) | ResponseBody::Stored(_)) {
            self.deadline = None;
            if let ResponseBody::Pipe(mut body) = std::mem::replace(&mut self.source, ResponseBody::Empty) {
                body.deadline_over();
            }
            let what = "the route's timeout is over".to_owned();
            return Poll::Ready(Some(Err(CutError { service: "this exchange".to_owned(), what })));
        }
        let frame = ready!(self.source.poll_source(cx));
        match &frame {
            Some(Ok(frame)) => self.request.sent(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(cut)) => tracing::warn!(service = %cut.service, "{cut}"),
            None => {}
        }
        Poll::Ready(frame)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.source.is_end()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.source.length()
    }
}
