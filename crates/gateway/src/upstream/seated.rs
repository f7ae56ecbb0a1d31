//! What came of a request at one of several servers: its response, which holds the place there until its end, or a
//! failure.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::server::Seat;
use super::{ServiceResponse, UpstreamError};
use crate::body::{CutError, ResponseBody, Source};

/// Which failures say something about the server.
pub(crate) fn is_its_fault(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Connect { .. }
        | UpstreamError::Closed { .. }
        | UpstreamError::Protocol { .. }
        | UpstreamError::Overloaded { .. }
        | UpstreamError::Timeout { .. } => true,
        UpstreamError::NoExtendedConnect { .. }
        | UpstreamError::Refused { .. }
        | UpstreamError::Deadline { .. }
        | UpstreamError::NoServer { .. }
        | UpstreamError::NoShare { .. }
        | UpstreamError::Internal { .. }
        | UpstreamError::Function { .. }
        | UpstreamError::TooLarge { .. }
        | UpstreamError::LengthRequired { .. } => false,
    }
}

/// Keeps the place until the response has ended.
pub(crate) fn hold(mut answer: ServiceResponse, seat: Seat) -> ServiceResponse {
    if let Some(upgraded) = &mut answer.upgraded {
        upgraded.seat = Some(seat);
        return answer;
    }
    answer.body = match answer.body {
        ResponseBody::Streamed(source) => ResponseBody::Streamed(Box::new(Seated { source, seat: Some(seat) })),
        other => other,
    };
    answer
}

struct Seated {
    source: Box<dyn Source>,
    seat: Option<Seat>,
}

impl Source for Seated {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let frame = self.source.poll_frame(cx);
        if self.source.is_ended() || matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.seat = None;
        }
        frame
    }

    fn is_ended(&self) -> bool {
        self.source.is_ended()
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn deadline_over(&mut self) {
        self.source.deadline_over();
    }
}
