//! The body of a response as the connection writes it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;

use crate::admission::pacer::Pacer;
use crate::body::{CutError, ResponseBody};
use crate::deadline::Deadline;
use crate::downstream::RequestGuard;

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
        let frame = match &mut self.pacer {
            None => ready!(self.source.poll_source(cx)),
            Some(pacer) => ready!(poll_paced(pacer, &mut self.source, cx)),
        };
        match &frame {
            Some(Ok(frame)) => self.request.sent(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(cut)) => tracing::warn!(service = %cut.service, "{cut}"),
            None => {}
        }
        Poll::Ready(frame)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.source.is_end() && self.pacer.as_ref().is_none_or(|pacer| !pacer.has_rest())
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.source.length()
    }
}

/// The next piece, no sooner and no longer than the pace allows.
fn poll_paced(
    pacer: &mut Pacer,
    source: &mut ResponseBody,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
    ready!(pacer.poll(cx));
    let frame = match pacer.rest() {
        Some(rest) => Some(Ok(Frame::data(rest))),
        None => ready!(source.poll_source(cx)),
    };
    Poll::Ready(frame.map(|frame| {
        frame.map(|frame| match frame.into_data() {
            Ok(data) => Frame::data(pacer.take(data)),
            Err(trailers) => trailers,
        })
    }))
}
