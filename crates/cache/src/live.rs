//! A response that is still being recorded, read by those who wait for it.
//!
//! Only answers whose length is known and for which there is room: others may turn out too large to be kept, and who
//! has read a part of one would have to be cut off for a reason of ours.
//!
//! Invariant: whoever reads a recording gets all of its bytes, or an error after some of them; never an end before the
//! end.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};

use crate::flight::FollowerGuard;
use crate::policy::Timestamp;
use crate::recording::{BrokenOff, LiveResponse, Recording};
use crate::status::CacheStatus;

/// A response that another request is getting, of which a part is here.
#[derive(Debug)]
pub struct Live {
    answer: LiveResponse,
    follower: FollowerGuard,
}

impl Live {
    pub(crate) fn new(answer: LiveResponse, follower: FollowerGuard) -> Self {
        Self { answer, follower }
    }

    /// The response to a GET, as [`Stored::response_as`](crate::Stored::response_as) gives it once the response is
    /// stored.
    pub fn response_as(
        self,
        status: CacheStatus,
        method: &Method,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Response<LiveBody> {
        let Self { answer: LiveResponse { head, len, recording }, follower } = self;
        let answer = head.response_as(status, method, request, now);
        // 304 has no body, nor has any answer to HEAD.
        let has_body = answer.status() == head.status() && method != Method::HEAD;
        answer.map(|_| LiveBody { at: 0, len: if has_body { len } else { 0 }, recording, _seat: follower })
    }
}

/// The body of a [`Live`] answer.
#[derive(Debug)]
pub struct LiveBody {
    recording: Arc<Recording>,
    at: usize,
    len: usize,
    /// As long as it is read, somebody waits for it.
    _seat: FollowerGuard,
}

impl LiveBody {
    /// Bytes that are still to be read.
    pub fn left(&self) -> usize {
        self.len - self.at
    }

    /// The next bytes, `None` at the end.
    ///
    /// # Errors
    /// It broke off: what was read is not all.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        if self.left() == 0 {
            return Poll::Ready(None);
        }
        self.recording.poll_read(cx, self.at).map(|data| match data {
            // It ended, and not where it should have.
            Ok(data) if data.is_empty() => Some(Err(BrokenOff)),
            Ok(data) => {
                self.at += data.len();
                Some(Ok(data))
            }
            Err(broken) => Some(Err(broken)),
        })
    }
}
