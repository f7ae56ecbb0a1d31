//! The body of a response as the connection writes it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use pilotlight_files::Sendable;

use crate::admission::pacer::Pacer;
use crate::body::{CutError, ResponseBody};
use crate::deadline::Deadline;
use crate::downstream::RequestGuard;

/// What a client's connection takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Bytes,
    /// What the kernel can send as well.
    Files,
}

/// What of a body comes next.
pub(crate) enum Piece {
    Frame(Frame<Bytes>),
    /// A part of a file that the kernel is to send.
    File(Sendable),
}

/// The source, its deadline, and the mark that the request is over.
pub(crate) struct Outgoing {
    source: ResponseBody,
    /// The route's `timeout`, for the whole exchange.
    deadline: Option<Deadline>,
    /// The route's `bandwidth`.
    pacer: Option<Box<Pacer>>,
    request: RequestGuard,
}

impl Outgoing {
    /// A response that may still be coming, cut when the deadline is over.
    pub(crate) fn new(source: ResponseBody, deadline: Option<Deadline>, request: RequestGuard) -> Self {
        let pacer = request.parts().1.take_pacer();
        Self { source, deadline, pacer, request }
    }

    /// The same without what is not sent: to HEAD, for example.
    pub(crate) fn without_data(self) -> Self {
        Self { source: ResponseBody::Empty, ..self }
    }

    /// The same with other data.
    pub(crate) fn replaced(self, data: Bytes) -> Self {
        Self { source: ResponseBody::full(data), ..self }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let piece = ready!(self.poll_piece(cx, Takes::Bytes, 0));
        Poll::Ready(piece.map(|piece| piece.map(Piece::into_frame)))
    }

    /// The next piece; of a file that the kernel is to send, at most `most` bytes.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        takes: Takes,
        most: u64,
    ) -> Poll<Option<Result<Piece, CutError>>> {
        // First, because a source that always has more would never let the deadline be seen.
        let late = self.deadline.as_ref().is_some_and(|deadline| deadline.poll(cx).is_ready());
        if late && !matches!(self.source, ResponseBody::Empty | ResponseBody::Full(_) | ResponseBody::Stored(_)) {
            self.deadline = None;
            if let ResponseBody::Streamed(mut body) = std::mem::replace(&mut self.source, ResponseBody::Empty) {
                body.deadline_over();
            }
            let what = "the route's timeout is over".to_owned();
            return Poll::Ready(Some(Err(CutError { service: "this exchange".to_owned(), what })));
        }
        let piece = match &mut self.pacer {
            None => ready!(poll_any(&mut self.source, cx, takes, most)),
            Some(pacer) => ready!(poll_paced(pacer, &mut self.source, cx, takes, most)),
        };
        match &piece {
            Some(Ok(piece)) => self.request.sent(piece.len()),
            Some(Err(cut)) => {
                let trace_id = self.request.parts().1.trace_id();
                tracing::warn!(service = %cut.service, trace_id, "{cut}");
            }
            None => {}
        }
        Poll::Ready(piece)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.source.is_end() && self.pacer.as_ref().is_none_or(|pacer| !pacer.has_rest())
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.source.length()
    }
}

impl Piece {
    /// Of a body that nobody lets the kernel send, every piece is a frame.
    fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Frame(frame) => frame,
            Self::File(_) => Frame::data(Bytes::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.data_ref().map_or(0, Bytes::len),
            Self::File(part) => usize::try_from(part.left()).unwrap_or(usize::MAX),
        }
    }
}

#[inline]
fn poll_any(
    source: &mut ResponseBody,
    cx: &mut Context<'_>,
    takes: Takes,
    most: u64,
) -> Poll<Option<Result<Piece, CutError>>> {
    if takes == Takes::Files
        && let Some(part) = ready!(source.poll_sendable(cx, most))
    {
        return Poll::Ready(Some(part.map(Piece::File)));
    }
    source.poll_source(cx).map(|frame| frame.map(|frame| frame.map(Piece::Frame)))
}

/// The next piece, no sooner and no longer than the pace allows.
fn poll_paced(
    pacer: &mut Pacer,
    source: &mut ResponseBody,
    cx: &mut Context<'_>,
    takes: Takes,
    most: u64,
) -> Poll<Option<Result<Piece, CutError>>> {
    ready!(pacer.poll(cx));
    let piece = match pacer.rest() {
        Some(rest) => Some(Ok(Piece::Frame(Frame::data(rest)))),
        None => ready!(poll_any(source, cx, takes, most.min(pacer.most()))),
    };
    Poll::Ready(piece.map(|piece| {
        piece.map(|piece| match piece {
            Piece::File(part) => {
                pacer.pay(part.left());
                Piece::File(part)
            }
            Piece::Frame(frame) => Piece::Frame(match frame.into_data() {
                Ok(data) => Frame::data(pacer.take(data)),
                Err(trailers) => trailers,
            }),
        })
    }))
}
