//! Requests that wait for a decision from elsewhere: Redis for a shared rate, a thread for a password, an auth server.
//! Everything else, the lookup in the cache included, comes after the decision.

use std::net::IpAddr;
use std::sync::Arc;

use pilotlight_exchange::Connection;

use super::forward_auth::{self, Turned};
use super::inbound::{Looked, Parted};
use super::{Found, OnItsWay, Waiting, asking, forward, look};
use crate::admission::refusal::Refusal;
use crate::admission::{Asker, Gate};
use crate::body::ResponseBody;
use crate::client::outgoing::Outgoing;
use crate::problem::Failure;
use crate::request_body::has_content;
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::timing::{Layer, Moment};

/// Whether it was found out who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Unknown,
    Verified,
}

/// Looks at them, and answers the request.
pub(super) async fn admit(
    waiting: Waiting,
    mut request: OnItsWay,
    route: Arc<Route>,
    client: Client,
) -> (ResponseHead, Outgoing) {
    let passed = match &route.gate {
        Some(gate) => {
            let asking = asking(waiting.guard.parts().0, &request.request.head);
            passes(gate, &route, asking.address(), &mut request, client).await
        }
        None => Ok(()),
    };
    request.record.end_phase(Layer::Route);
    match passed {
        Ok(()) => {
            let OnItsWay { worker, record, request: incoming, .. } = &mut request;
            let (client, has_content) = (waiting.guard.parts().0, has_content(incoming.body.as_deref()));
            let found = look(worker, client, &route, &mut incoming.head, has_content, &record.timeline);
            respond(waiting, request, found).await
        }
        Err(turned) => turn(waiting, request, route, turned).await,
    }
}

/// Answers a request that is not let in.
pub(super) async fn turn(
    waiting: Waiting,
    request: OnItsWay,
    route: Arc<Route>,
    turned: Turned,
) -> (ResponseHead, Outgoing) {
    match turned {
        Turned::Refusal(refusal) => request.refuse(waiting, Some(route), Failure::Admission(refusal)).await,
        Turned::Answer(answer) => {
            request.record.refused(&Refusal::Forward);
            here(waiting, &request, Some(&route), *answer).await
        }
    }
}

/// Answers a request by what its route has for it.
pub(super) async fn respond(waiting: Waiting, request: OnItsWay, found: Found) -> (ResponseHead, Outgoing) {
    match found {
        Found::Route(passage, lookup) => {
            forward(waiting, request.inbound(passage), Looked { lookup, redis: None }).await
        }
        Found::Stored(route, verdict, answer) => {
            request.record.verdict(verdict);
            here(waiting, &request, Some(&route), ResponseHead::part(answer.map(ResponseBody::stored))).await
        }
        Found::Own(route, answer) => here(waiting, &request, route.as_deref(), ResponseHead::part(answer)).await,
        Found::Refused(route, failure) => request.refuse(waiting, route, failure).await,
        // It was asked, and chosen.
        Found::Asks(_) | Found::Chooses(_) => request.refuse(waiting, None, Failure::Bug).await,
    }
}

/// Checks the shared rate, and who asks if that is not known.
async fn passes(
    gate: &Gate,
    route: &Route,
    address: Option<IpAddr>,
    request: &mut OnItsWay,
    client: Client,
) -> Result<(), Turned> {
    let asker = Asker { address, fields: &request.request.head, now: Moment::now() };
    let (counts, tier) = (&request.worker.common.counts, request.worker.second.as_deref());
    gate.count_shared(counts, tier, &asker).await.map_err(Turned::Refusal)?;
    match client {
        Client::Unknown => find_out(gate, route, request).await,
        Client::Verified => Ok(()),
    }
}

/// Checks the credentials, and the decision of the auth server.
pub(super) async fn find_out(gate: &Gate, route: &Route, request: &mut OnItsWay) -> Result<(), Turned> {
    let head = &mut request.request.head;
    if gate.claims().is_some() {
        head.change_fields(|headers| gate.without_claims(headers));
    }
    let told = gate.credentials(head).await.map_err(Turned::Refusal)?;
    if !told.is_empty() {
        head.change_fields(|headers| headers.extend(told));
    }
    match (&gate.forward, &route.auth) {
        (None, _) => Ok(()),
        _ if gate.passes_preflight(head) => Ok(()),
        (Some(forward), auth) => forward_auth::ask(forward, auth.as_ref(), request).await,
    }
}

/// A response that is here.
pub(super) async fn here(
    waiting: Waiting,
    request: &OnItsWay,
    route: Option<&Route>,
    answer: Parted,
) -> (ResponseHead, Outgoing) {
    let is_left = request.request.body.as_ref().is_some_and(|body| !body.is_ended());
    // Nobody reads a body that is not here already.
    let connection = match is_left && !waiting.guard.parts().0.skip_body() {
        true => Connection::Close,
        false => Connection::Keep,
    };
    let answered = (Ok(answer), connection);
    let head = &request.request.head;
    let page = waiting.page(&request.worker, head, route, &answered.0).await;
    waiting.answer(&request.worker, head, route, answered, page, None)
}
