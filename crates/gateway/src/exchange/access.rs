//! Access before the route is known: a body is read to find the route only for a client that one of the routes which
//! the request may get lets in.
//!
//! What is known at once is looked at first, on all of these routes, and nothing is counted. Passwords, keys and auth
//! servers come only where no route lets the client in without. A request that all of them refuse gets the refusal of
//! the most specific one that had to ask, else of the most specific.
//!
//! Invariant: a request that goes on is counted on the route that it goes on with, and on no other.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::EXPECT;

use super::forward_auth::Turned;
use super::{Found, OnItsWay, Waiting, admit, asking, https};
use crate::admission::refusal::Refusal;
use crate::admission::{Asker, Checked, Entered, Gate, Place};
use crate::json_choice::Choice;
use crate::problem::Failure;
use crate::routes::Route;
use crate::timing::Moment;

/// Why no body is read.
pub(super) enum Denied {
    /// Nobody had to be asked.
    AtOnce(Found),
    Turned(Arc<Route>, Turned),
}

/// A route that has found out who asks, and counted the request.
pub(super) struct Verified {
    route: Arc<Route>,
    address: Option<IpAddr>,
    pub(super) place: Option<Place>,
    /// The request's fields before the route said in them who asks, if it does.
    before: Option<Box<HeaderMap>>,
}

/// Whether one of the routes lets a request in; the one that had to find out who asks.
pub(super) async fn check(
    waiting: &Waiting,
    request: &mut OnItsWay,
    choice: &Choice,
) -> Result<Option<Verified>, Denied> {
    let address = asking(waiting.guard.parts().0, &request.request.head).address();
    let (mut unsure, mut refusing) = (Vec::new(), None);
    for route in choice.routes() {
        match glance(waiting, request, route, address) {
            Glance::In => return Ok(None),
            Glance::Unsure => unsure.push(route),
            Glance::Out => refusing = refusing.or(Some(route)),
        }
    }
    let mut turned: Vec<(&Arc<Route>, Turned)> = Vec::new();
    for route in unsure {
        if turned.iter().any(|(other, why)| says_the_same(other, route) && !is_limit(why)) {
            continue; // a wrong password is verified once
        }
        match verify(request, route, address).await {
            Ok(verified) => return Ok(Some(verified)),
            Err(why) => turned.push((route, why)),
        }
    }
    match (turned.into_iter().next(), refusing) {
        (Some((route, why)), _) => Err(Denied::Turned(Arc::clone(route), why)),
        (None, Some(route)) => refuse(waiting, request, route, address).map_or(Ok(None), Err),
        (None, None) => Ok(None),
    }
}

/// What one route says at once.
enum Glance {
    In,
    /// It has to ask.
    Unsure,
    Out,
}

fn glance(waiting: &Waiting, request: &OnItsWay, route: &Arc<Route>, address: Option<IpAddr>) -> Glance {
    let OnItsWay { worker, request: incoming, .. } = request;
    // Before anybody is asked for a password.
    if https::redirect(&worker.common, waiting.guard.parts().0, route, &incoming.head).is_some() {
        return Glance::Out;
    }
    let Some(gate) = &route.gate else { return Glance::In };
    let asker = Asker { address, fields: &incoming.head, now: Moment::now() };
    match gate.peek(&worker.common.counts, &asker) {
        Checked::Granted => Glance::In,
        Checked::Counted | Checked::Not => Glance::Unsure,
        Checked::Refused(_) => Glance::Out,
    }
}

/// The answer of a route that says no at once; counted now.
fn refuse(waiting: &Waiting, request: &OnItsWay, route: &Arc<Route>, address: Option<IpAddr>) -> Option<Denied> {
    let OnItsWay { worker, request: incoming, .. } = request;
    if let Some(response) = https::redirect(&worker.common, waiting.guard.parts().0, route, &incoming.head) {
        return Some(Denied::AtOnce(Found::Own(Some(Arc::clone(route)), response)));
    }
    let asker = Asker { address, fields: &incoming.head, now: Moment::now() };
    let refusal = route.gate.as_ref()?.enter(&worker.common.counts, &asker, Checked::Not).err()?;
    Some(Denied::AtOnce(Found::Refused(Some(Arc::clone(route)), Failure::Admission(refusal))))
}

fn says_the_same(one: &Route, other: &Route) -> bool {
    matches!((&one.gate, &other.gate), (Some(one), Some(other)) if one.asks_the_same(other))
}

/// Limits are each route's own.
fn is_limit(why: &Turned) -> bool {
    matches!(why, Turned::Refusal(why) if matches!(**why, Refusal::Rate { .. } | Refusal::Concurrent { .. }))
}

/// Counts the request on the route, and finds out who asks. The route's fields are in the head then.
async fn verify(request: &mut OnItsWay, route: &Arc<Route>, address: Option<IpAddr>) -> Result<Verified, Turned> {
    let mut verified = Verified { route: Arc::clone(route), address, place: None, before: None };
    let Some(gate) = &route.gate else { return Ok(verified) };
    let asker = Asker { address, fields: &request.request.head, now: Moment::now() };
    match gate.enter(&request.worker.common.counts, &asker, Checked::Not).map_err(Turned::Refusal)? {
        Entered::Now(place) => {
            verified.place = place;
            return Ok(verified);
        }
        Entered::Later(place) => verified.place = place,
    }
    verified.before = gate.claims().map(|_| Box::new(request.request.head.headers().clone()));
    match admit::find_out(gate, route, request).await {
        Ok(()) => Ok(verified),
        Err(why) => {
            verified.restore(request);
            count_elsewhere(gate, address, request).await;
            Err(why)
        }
    }
}

/// A guess counts for all gateways, where the rate is shared.
async fn count_elsewhere(gate: &Gate, address: Option<IpAddr>, request: &OnItsWay) {
    let asker = Asker { address, fields: &request.request.head, now: Moment::now() };
    let (counts, tier) = (&request.worker.common.counts, request.worker.second.as_deref());
    let _ = gate.count_shared(counts, tier, &asker).await; // it is refused as it is
}

impl Verified {
    pub(super) fn is_by(&self, route: &Arc<Route>) -> bool {
        Arc::ptr_eq(&self.route, route)
    }

    /// Another route has the request, which is as it was then.
    pub(super) fn take_back(mut self, waiting: &Waiting, request: &mut OnItsWay) {
        self.restore(request);
        if !waiting.expects_continue {
            request.request.head.change_fields(|fields| drop(fields.remove(EXPECT))); // the client has been told
        }
        if let Some(gate) = &self.route.gate {
            let asker = Asker { address: self.address, fields: &request.request.head, now: Moment::now() };
            gate.take_back(&request.worker.common.counts, &asker);
        }
    }

    fn restore(&mut self, request: &mut OnItsWay) {
        if let Some(before) = self.before.take() {
            request.request.head.change_fields(|fields| *fields = *before);
        }
    }
}
