//! How long a service may send nothing in the middle of a response.
//!
//! The time runs while the service is waited for: it stands still while the client takes no more of the response,
//! because nobody reads then, and while the service waits for the client's body. Event streams are silent between
//! events, which may be hours apart, and end when the client leaves: the general limit is not theirs.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::grpc;
use crate::options::RouteLimit;

/// A time with the name of its setting.
pub(crate) type Limit = (Duration, &'static str);

/// What is known of it before the response.
#[derive(Clone, Copy)]
pub(crate) struct SilenceLimit {
    limit: Option<Limit>,
    counts_for_events: bool,
}

impl SilenceLimit {
    pub(crate) fn new(route: RouteLimit<Duration>, general: Option<Duration>) -> Self {
        match route {
            RouteLimit::General => {
                let limit = general.map(|after| (after, "limits.response_body_timeout"));
                Self { limit, counts_for_events: false }
            }
            RouteLimit::Own(own) => {
                let limit = own.map(|after| (after, "the route's response_body_timeout"));
                Self { limit, counts_for_events: true }
            }
        }
    }
}

/// The wait for more of one response.
pub(crate) struct Silence {
    deadline: Deadline,
    limit: Option<Limit>,
    running: bool,
}

impl Silence {
    pub(crate) fn new(deadline: Deadline, limit: SilenceLimit, content_type: Option<&[u8]>) -> Self {
        let exempt = !limit.counts_for_events && content_type.is_some_and(is_silent);
        Self { deadline, limit: limit.limit.filter(|_| !exempt), running: false }
    }

    /// Something came: the next wait begins anew.
    pub(crate) fn heard(&mut self) {
        self.running = false;
    }

    /// Nothing is here. Ready, with what to say, when that has been so for too long; wakes the task then.
    /// `waits_for_client`: it is the client that keeps the service from going on; `moved`: more of the client's body
    /// has come.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, waits_for_client: bool, moved: bool) -> Poll<String> {
        let Some((after, setting)) = self.limit else { return Poll::Pending };
        if waits_for_client {
            if std::mem::take(&mut self.running) {
                self.deadline.clear();
            }
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.running, true) || moved {
            self.deadline.set(after);
        }
        ready!(self.deadline.poll(cx));
        Poll::Ready(format!("no more of it came within {setting} ({} s)", after.as_secs_f32()))
    }
}

/// Whether a response may be silent for hours: event streams, and those of gRPC, whose clients have deadlines.
fn is_silent(content_type: &[u8]) -> bool {
    is_event_stream(content_type) || grpc::is_media_type(content_type)
}

fn is_event_stream(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, wanted: bool) {
        assert_eq!(is_event_stream(content_type.as_bytes()), wanted, "{content_type}");
    }

    #[test]
    fn event_streams_by_their_type() {
        check("text/event-stream", true);
        check("Text/Event-Stream ; charset=utf-8", true);
        check("text/event-stream2", false);
        check("text/plain", false);
        check("", false);
    }
}
