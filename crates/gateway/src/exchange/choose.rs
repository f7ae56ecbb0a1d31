//! A request whose route depends on its body: as much of the body is read as that takes, and goes on unchanged.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, EXPECT};
use http_body::Frame;
use pilotlight_json_fields::{Progress, Scanner};

use super::access::{self, Denied};
use super::admit::Client;
use super::{Found, OnItsWay, Waiting, admit, asking, https, look};
use crate::admission::{Asker, Checked, Entered};
use crate::client::outgoing::Outgoing;
use crate::deadline::Deadline;
use crate::head::Head;
use crate::json_choice::Choice;
use crate::json_rule::{JsonMiss, JsonRefusal};
use crate::problem::Failure;
use crate::request_body::{BodyError, BodySource, ReadError, has_content};
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::timing::{Layer, Moment};

/// Chooses the route, and has the request answered on it.
pub(super) async fn choose(
    mut waiting: Waiting,
    mut request: OnItsWay,
    choice: Box<Choice>,
) -> (ResponseHead, Outgoing) {
    let verified = match access::check(&waiting, &mut request, &choice).await {
        Ok(verified) => verified,
        Err(denied) => return deny(waiting, request, denied).await,
    };
    let picked = pick(&mut waiting, &mut request, &choice).await;
    drop(choice);
    request.record.end_phase(Layer::Route);
    let route = match picked {
        Ok(route) => route,
        Err(failure) => return request.refuse(waiting, None, failure).await,
    };
    request.record.routed(&route.series);
    match verified {
        Some(verified) if verified.is_by(&route) => {
            if let Some(gate) = &route.gate {
                request.record.admitted(gate, verified.place, waiting.guard.parts().0.peer());
            }
            return admit::admit(waiting, request, route, Client::Verified).await;
        }
        Some(verified) => verified.take_back(&waiting, &mut request),
        None => {}
    }
    match enter(&waiting, &mut request, &route) {
        Found::Asks(route) => admit::admit(waiting, request, route, Client::Unknown).await,
        found => admit::respond(waiting, request, found).await,
    }
}

/// Answers a request whose body is not looked into.
async fn deny(waiting: Waiting, request: OnItsWay, denied: Denied) -> (ResponseHead, Outgoing) {
    request.record.end_phase(Layer::Route);
    let route = match &denied {
        Denied::AtOnce(found) => found.route_of(),
        Denied::Turned(route, _) => Some(route),
    };
    if let Some(route) = route {
        request.record.routed(&route.series);
    }
    match denied {
        Denied::AtOnce(found) => admit::respond(waiting, request, found).await,
        Denied::Turned(route, turned) => admit::turn(waiting, request, route, turned).await,
    }
}

/// The same as for a route that is known by the head.
fn enter(waiting: &Waiting, request: &mut OnItsWay, route: &Arc<Route>) -> Found {
    let client = waiting.guard.parts().0;
    let OnItsWay { worker, record, request: incoming, .. } = request;
    if let Some(response) = https::redirect(&worker.common, client, route, &incoming.head) {
        return Found::Own(Some(Arc::clone(route)), response);
    }
    if let Some(gate) = &route.gate {
        let asker =
            Asker { address: asking(client, &incoming.head).address(), fields: &incoming.head, now: Moment::now() };
        let entered = gate.enter(&worker.common.counts, &asker, Checked::Not);
        let (place, is_asked) = match entered {
            Ok(Entered::Now(place)) => (place, false),
            Ok(Entered::Later(place)) => (place, true),
            Err(refusal) => return Found::Refused(Some(Arc::clone(route)), Failure::Admission(refusal)),
        };
        record.admitted(gate, place, client.peer());
        if is_asked {
            return Found::Asks(Arc::clone(route));
        }
    }
    let has_content = has_content(incoming.body.as_deref());
    look(worker, client, route, &mut incoming.head, has_content, &record.timeline)
}

async fn pick(waiting: &mut Waiting, request: &mut OnItsWay, choice: &Choice) -> Result<Arc<Route>, Failure> {
    let mut scanner = choice.scanner();
    let (limits, head) = (&request.caller.settings.limits, &mut request.request.head);
    let missed = match request.request.body.take() {
        None => Some(JsonMiss::NoBody),
        Some(body) if is_encoded(head) => {
            request.request.body = Some(body);
            Some(JsonMiss::Encoded)
        }
        Some(body) => {
            let deadline = request.worker.deadlines.deadline();
            let mut ahead =
                Ahead { pieces: VecDeque::new(), held: 0, has_length: body.remaining().is_some(), rest: body };
            let missed = ahead.read(&mut scanner, limits.json_look_ahead, limits.body_timeout, deadline).await;
            request.request.body = Some(Box::new(ahead));
            if std::mem::take(&mut waiting.expects_continue) {
                head.change_fields(|fields| drop(fields.remove(EXPECT))); // the client has been told
            }
            missed?
        }
    };
    choice.pick(&scanner).cloned().ok_or_else(|| {
        Failure::JsonRoute(JsonRefusal {
            path: request.request.head.path().to_owned(),
            fields: choice.fields(),
            why: missed.unwrap_or(JsonMiss::OtherValue),
        })
    })
}

/// Whether the body is not what its bytes say.
fn is_encoded(head: &Head) -> bool {
    let is_identity = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"identity");
    head.field(&CONTENT_ENCODING).is_some_and(|value| !is_identity(value))
}

/// A body of which the beginning has been read.
struct Ahead {
    pieces: VecDeque<Frame<Bytes>>,
    /// Bytes of the pieces.
    held: u64,
    has_length: bool,
    rest: Box<dyn BodySource>,
}

impl Ahead {
    /// Reads until the scanner has what it wants; gives what was missed.
    async fn read(
        &mut self,
        scanner: &mut Scanner,
        max_bytes: usize,
        within: Duration,
        deadline: Deadline,
    ) -> Result<Option<JsonMiss>, Failure> {
        deadline.set(within);
        loop {
            let frame = poll_fn(|cx| match deadline.poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(BodyError::Late { after: within, setting: "limits.body_timeout" })),
                Poll::Pending => self.rest.poll_frame(cx).map(|frame| frame.transpose().map_err(BodyError::Client)),
            });
            let Some(frame) = frame.await.map_err(Failure::Body)? else { return Ok(Some(JsonMiss::Short)) };
            let Some(data) = frame.data_ref() else {
                self.pieces.push_back(frame);
                return Ok(Some(JsonMiss::Short));
            };
            let left = max_bytes.saturating_sub(usize::try_from(self.held).unwrap_or(usize::MAX));
            self.held += data.len() as u64;
            let progress = scanner.feed(&data[..data.len().min(left)]);
            self.pieces.push_back(frame);
            match progress {
                Ok(Progress::Done) => return Ok(None),
                Ok(Progress::More) if self.held >= max_bytes as u64 => return Ok(Some(JsonMiss::Far { max_bytes })),
                Ok(Progress::More) if self.rest.is_ended() => return Ok(Some(JsonMiss::Short)),
                Ok(Progress::More) => {}
                Err(_) => return Ok(Some(JsonMiss::Invalid)),
            }
        }
    }
}

impl BodySource for Ahead {
    fn is_ended(&self) -> bool {
        self.pieces.is_empty() && self.rest.is_ended()
    }

    fn remaining(&self) -> Option<u64> {
        let rest = if self.rest.is_ended() { Some(0) } else { self.rest.remaining() };
        rest.filter(|_| self.has_length).map(|rest| rest + self.held)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        let Some(frame) = self.pieces.pop_front() else { return Poll::Ready(ready!(self.rest.poll_frame(cx))) };
        self.held -= frame.data_ref().map_or(0, |data| data.len() as u64);
        Poll::Ready(Some(Ok(frame)))
    }
}
