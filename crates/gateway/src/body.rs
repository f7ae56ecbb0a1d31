//! The body of a response on its way to the client, wherever it comes from.

use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http_body::Frame;
use pilotlight_cache::{BrokenOff, LiveBody, Recorder, StoredBody, Timestamp};
use pilotlight_files::{Changed, Sendable};

use crate::file_body::FileBody;

/// Why a response ends before it is complete; the client's connection is closed then (RFC 9112 §8).
#[derive(Debug, thiserror::Error)]
#[error("an answer of {service} ended early: {what}")]
pub(crate) struct CutError {
    pub(crate) service: String,
    pub(crate) what: String,
}

/// A body that comes piece by piece.
pub(crate) trait Source {
    /// The next piece, or trailers; `None` behind the end.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>>;

    /// Whether nothing is left of it.
    fn is_ended(&self) -> bool;

    /// The length, if it is known.
    fn length(&self) -> Option<u64>;

    /// The time of the exchange is over: whoever sends may be told so. It is dropped next.
    fn deadline_over(&mut self) {}
}

/// Where the bytes come from.
pub(crate) enum ResponseBody {
    Empty,
    Full(Bytes),
    Stored(Pieces),
    /// What another request is getting.
    Live(Box<LiveBody>),
    /// From files, as it is read or sent.
    Files(Box<FileBody>),
    /// From a service, now.
    Streamed(Box<dyn Source>),
}

impl ResponseBody {
    /// Whether all of it is here, so that whoever made it has nothing more to do.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Empty | Self::Full(_))
    }

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
            Self::Files(body) => {
                body.poll_read(cx).map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(changed)))
            }
            Self::Streamed(body) => body.poll_frame(cx),
        }
    }

    /// The next part, if it is one that the kernel can send; at most `most` bytes.
    #[inline]
    pub(crate) fn poll_sendable(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
    ) -> Poll<Option<Result<Sendable, CutError>>> {
        match self {
            Self::Files(body) => body.poll_sendable(cx, most).map(|part| part.map(|part| part.map_err(changed))),
            _ => Poll::Ready(None),
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(_) => false,
            Self::Stored(pieces) => pieces.left() == 0,
            Self::Live(body) => body.left() == 0,
            Self::Files(body) => body.left() == 0,
            Self::Streamed(body) => body.is_ended(),
        }
    }

    /// The length, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Full(data) => Some(data.len() as u64),
            Self::Stored(pieces) => Some(pieces.left() as u64),
            Self::Live(body) => Some(body.left() as u64),
            Self::Files(body) => Some(body.left()),
            Self::Streamed(body) => body.length(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn changed(why: Changed) -> CutError {
    CutError { service: "files".to_owned(), what: why.to_string() }
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

/// Stores a response that is complete.
pub(crate) fn keep(recorder: Box<Recorder>) {
    if let Err(why) = recorder.finish(Timestamp::from_system(SystemTime::now())) {
        tracing::debug!("an answer was not stored after all: {why}");
    }
}
