//! Answers to an authority that validates a name by HTTP-01 (RFC 8555 §8.3). They come before any route: whoever is let
//! in there has nothing to do with them.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode, Version};
use pilotlight_acme::Answer;
use pilotlight_exchange::Connection;
use tokio::sync::oneshot;

use super::detached_fetch::{DetachedFetch, PendingResponse};
use super::{Asked, Reply, Waiting, respond_now};
use crate::body::ResponseBody;
use crate::client::outgoing::Outgoing;
use crate::client::received::ReceivedRequest;
use crate::downstream::{Downstream, TakesInterim};
use crate::head::Head;
use crate::record::Record;
use crate::response::ResponseHead;
use crate::timing::{Layer, Timeline};
use crate::worker::Worker;

/// The response to a validation.
pub(super) fn respond(
    worker: &Rc<Worker>,
    client: Rc<dyn Downstream>,
    received: ReceivedRequest,
    answer: Answer,
) -> Reply {
    let ReceivedRequest { head, body, begun, read, .. } = received;
    let timeline = Timeline::new(begun);
    timeline.end_phase(Layer::Parse, read);
    let record = Record::new(worker, &worker.common.metrics.none, timeline);
    let later = match answer {
        Answer::Now(_) | Answer::Unknown => {
            let known = if let Answer::Now(known) = &answer { Some(&**known) } else { None };
            let asked = Asked { head: &head, body: body.as_deref(), route: None };
            let answer = response(known).map(ResponseBody::full);
            return Reply::Now(Box::new(respond_now(worker, client, asked, answer, record)));
        }
        Answer::Later(later) => later,
    };
    client.awaits_response(if head.version == Version::HTTP_10 { TakesInterim::No } else { TakesInterim::Yes });
    let waiting = Waiting::new(worker, client, &head, &record);
    let future = Box::pin(when_known(waiting, Rc::clone(worker), head, later));
    Reply::Later(PendingResponse::new(future, DetachedFetch::new(worker)))
}

/// Another gateway was given the token, and the shared storage has it.
async fn when_known(
    waiting: Waiting,
    worker: Rc<Worker>,
    asked: Head,
    later: oneshot::Receiver<Option<Arc<str>>>,
) -> (ResponseHead, Outgoing) {
    let known = later.await.ok().flatten(); // the gateway stops
    let (head, body) = ResponseHead::part(response(known.as_deref()));
    let answered = (Ok((head, ResponseBody::full(body))), Connection::Keep);
    waiting.answer(&worker, &asked, None, answered, None, None)
}

/// A key authorization; without one the token is nobody's.
fn response(key_authorization: Option<&str>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::copy_from_slice(key_authorization.unwrap_or_default().as_bytes()));
    if key_authorization.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
