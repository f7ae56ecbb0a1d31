//! What is left of a request's body when its response does not need it.
//!
//! Closing the connection without a word would meet the client's next request; so either a small rest is read and
//! forgotten, or the response says `Connection: close` (RFC 9112 §9.3, §9.6).

use std::mem;
use std::time::Duration;

use super::{Body, Exchange, State};
use crate::action::{Action, Connection, Response};
use crate::event::RestOfBody;
use crate::handles::Handles;

/// Bytes of a body that are read and forgotten, so that the connection can be used again.
const MAX_DRAINED: u64 = 64 * 1024;
/// How long they are waited for.
const DRAIN_TIME: Duration = Duration::from_millis(200);

impl<H: Handles> Exchange<H> {
    /// Answers, when the rest of the body has been dealt with.
    pub(super) fn finish(&mut self, response: Response<H>) -> Action<H> {
        let has_failed = matches!(response, Response::Failure(_));
        let kept = match mem::replace(&mut self.body, Body::Gone) {
            Body::Nothing => return Action::Respond { response, connection: Connection::Keep },
            // A service that has answered goes on taking it.
            Body::Whole(_) | Body::Gone if !has_failed => {
                return Action::Respond { response, connection: Connection::Keep };
            }
            Body::Whole(body) => Some(body),
            Body::Unopened | Body::Gone => None,
        };
        self.state = State::LookingAtBody(response);
        Action::LookAtBody(kept)
    }

    pub(super) fn rest(&mut self, response: Response<H>, rest: RestOfBody) -> Action<H> {
        let connection = match rest {
            RestOfBody::Untouched { is_ended: true, .. } | RestOfBody::Touched { received_all: true } => {
                Connection::Keep
            }
            RestOfBody::Touched { received_all: false } => Connection::Close,
            // RFC 9110 §10.1.1: who waits for 100 sends nothing, and is not asked to.
            RestOfBody::Untouched { remaining, .. }
                if self.request.expects_continue || remaining.is_some_and(|bytes| bytes > MAX_DRAINED) =>
            {
                Connection::Close
            }
            RestOfBody::Untouched { .. } => {
                self.state = State::Draining(response);
                return Action::Drain { max_bytes: MAX_DRAINED, within: DRAIN_TIME };
            }
        };
        Action::Respond { response, connection }
    }
}
