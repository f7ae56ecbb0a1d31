//! Asks who decides whether a request is let in (`allow.forward`). The question is an exchange of its own, as one with
//! any server of somebody else's; no client waits for its body, and none of its answers is stored in the cache.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::inbound::{Caller, Inbound, IncomingRequest, Looked, Parted, Passage};
use super::{DetachedFetch, OnItsWay};
use crate::admission::forward::{AskedFor, Forward, question};
use crate::admission::refusal::Refusal;
use crate::head::Head;
use crate::record::Record;
use crate::routes::Route;
use crate::target::{Hop, Origin, Trust};
use crate::timing::{Moment, Timeline};

/// What becomes of a request that is not let in.
pub(super) enum Turned {
    Refusal(Box<Refusal>),
    /// The client gets the answer of who decides.
    Answer(Box<Parted>),
}

/// Asks, unless it is known. What the answer says of the client is among the request's fields then.
pub(super) async fn ask(forward: &Forward, auth: &Arc<Route>, request: &mut OnItsWay) -> Result<(), Turned> {
    let caller = &request.caller;
    let hop =
        Hop { scheme: caller.peer.scheme(), trust: Trust::of(&caller.settings.trust_forwarded, caller.peer.address()) };
    let asked = question_of(forward, &request.request.head, hop);
    let fields = match known(forward, &asked, request) {
        (_, Some(fields)) => fields,
        (proof, None) => {
            let fields = Box::pin(decide(forward, auth, asked, request)).await?;
            if let (Some(time), Some(proof)) = (forward.spec.cache, proof) {
                forward.remembered.put(proof, fields.clone(), time);
            }
            fields
        }
    };
    let head = &mut request.request.head;
    head.change_fields(|headers| headers.extend(fields));
    Ok(())
}

/// The question: a GET with the request's fields.
fn question_of(forward: &Forward, head: &Head, hop: Hop) -> Head {
    let Origin { scheme, authority } = Origin::of_head(head, hop);
    let asked = AskedFor {
        method: head.method.as_str(),
        scheme: scheme.as_str(),
        authority,
        target: head.target(),
        is_trusted: hop.trust == Trust::Peers,
    };
    let spec = &forward.spec;
    let host = spec.authority.as_deref().unwrap_or_else(|| head.authority());
    Head::get(spec.target.as_str().into(), host.into(), question(head.headers(), &asked))
}

type Fields = Vec<(HeaderName, HeaderValue)>;

/// What is remembered: of the same question, asked for the same client.
fn known(forward: &Forward, asked: &Head, request: &OnItsWay) -> (Option<[u8; 32]>, Option<Fields>) {
    if forward.spec.cache.is_none() {
        return (None, None);
    }
    let fields = asked.headers().iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    // He is told of the client's certificate as well.
    let peer = &request.caller.peer;
    let certificate = peer.certificate().unwrap_or_default();
    let client = [peer.ip().as_bytes(), certificate.as_bytes(), asked.authority().as_bytes()];
    let proof = forward.remembered.proof(client.into_iter().chain(fields));
    (proof, proof.and_then(|proof| forward.remembered.find(&proof, Moment::now())))
}

async fn decide(forward: &Forward, auth: &Arc<Route>, asked: Head, request: &OnItsWay) -> Result<Fields, Turned> {
    let away = || Turned::Refusal(Box::new(Refusal::Undecided));
    let worker = &request.worker;
    let passage = Passage::new(worker, auth).ok_or_else(away)?;
    let caller = Caller {
        settings: Arc::clone(&request.caller.settings),
        peer: Rc::clone(&request.caller.peer),
        connection: None,
    };
    let record = Record::uncounted(worker, &auth.series, Timeline::new(Moment::now()));
    let question = IncomingRequest { head: asked, body: None, id: request.request.id.clone() };
    let mut inbound = Inbound::new(worker, caller, record, DetachedFetch::new(worker), passage, question);
    inbound.outbound.trust = Trust::Peers; // what it says of the client was written here
    let begin = inbound.begin(Looked { lookup: None, redis: None });
    let (mut head, body) = match inbound.respond(begin, Duration::ZERO).await.0 {
        Ok(parted) => parted,
        Err(failure) => {
            tracing::warn!(request_id = request.request.id.as_str(), "allow.forward: {}", failure.log_text());
            return Err(away());
        }
    };
    match head.status {
        status if status.is_success() => Ok(forward.passed(head.fields.map())),
        status if status.is_redirection() || matches!(status.as_u16(), 401 | 403) => {
            Err(Turned::Answer(Box::new((head, body))))
        }
        status => {
            let id = request.request.id.as_str();
            tracing::warn!(request_id = id, "allow.forward: {status} is no decision");
            Err(away())
        }
    }
}
