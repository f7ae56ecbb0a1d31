//! Asks the auth server whether a request is let in (`allow.forward`). The question is an exchange of its own, as one
//! with any server of somebody else's, or goes over TLS by a connection of its own; no client waits for its body, and
//! none of its answers is stored in the cache.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http_body_util::Empty;
use pilotlight_http_client::HttpClient;

use super::inbound::{Caller, Inbound, IncomingRequest, Looked, Parted, Passage};
use super::{DetachedFetch, OnItsWay};
use crate::admission::forward::{AskedFor, Forward, question};
use crate::admission::refusal::Refusal;
use crate::body::ResponseBody;
use crate::head::{self, Head};
use crate::outbound::Outbound;
use crate::record::Record;
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::target::{Hop, Origin, Trust};
use crate::timing::{Moment, Timeline};
use crate::traces::{Propagation, RequestTrace};

/// What becomes of a request that is not let in.
pub(super) enum Turned {
    Refusal(Box<Refusal>),
    /// The client gets the answer of the auth server.
    Answer(Box<Parted>),
}

/// Asks, unless it is known. What the answer says of the client is among the request's fields then.
pub(super) async fn ask(forward: &Forward, auth: Option<&Arc<Route>>, request: &mut OnItsWay) -> Result<(), Turned> {
    let caller = &request.caller;
    let head = &request.request.head;
    let trust = Trust::of(&caller.settings.trust_forwarded, caller.peer.address(), || head.headers());
    let asked = question_of(forward, head, Hop { scheme: caller.peer.scheme(), trust });
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
        is_trusted: hop.trust != Trust::Nobody,
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

async fn decide(
    forward: &Forward,
    auth: Option<&Arc<Route>>,
    asked: Head,
    request: &OnItsWay,
) -> Result<Fields, Turned> {
    let answered = match (&forward.https, auth) {
        (Some(Ok(client)), _) => over_tls(forward, client, asked, request).await,
        (Some(Err(why)), _) => Err(why.clone()),
        (None, Some(auth)) => as_a_service(auth, asked, request).await,
        (None, None) => Err("there is no way to the auth server".to_owned()),
    };
    let undecided = |why: &dyn fmt::Display| {
        let trace_id = request.record.trace_id();
        tracing::warn!(request_id = request.request.id.as_str(), trace_id, "allow.forward: {why}");
        Turned::Refusal(Box::new(Refusal::Undecided))
    };
    let (mut head, body) = answered.map_err(|why| undecided(&why))?;
    match head.status {
        status if status.is_success() => Ok(forward.passed(head.fields.map())),
        status if status.is_redirection() || matches!(status.as_u16(), 401 | 403) => {
            Err(Turned::Answer(Box::new((head, body))))
        }
        status => Err(undecided(&format_args!("{status} is no decision"))),
    }
}

/// By an exchange, as with a service.
async fn as_a_service(auth: &Arc<Route>, asked: Head, request: &OnItsWay) -> Result<Parted, String> {
    let worker = &request.worker;
    let passage = Passage::new(worker, auth).ok_or("there is no way to the auth server")?;
    let caller = Caller {
        settings: Arc::clone(&request.caller.settings),
        peer: Rc::clone(&request.caller.peer),
        connection: None,
    };
    let record = Record::uncounted(worker, &auth.series, Timeline::new(Moment::now()));
    let question = IncomingRequest { head: asked, body: None, id: request.request.id.clone() };
    let mut inbound = Inbound::new(worker, caller, record, DetachedFetch::new(worker), passage, question);
    inbound.outbound.trust = Trust::OURSELVES; // what it says of the client was written here
    inbound.outbound.trace = trace_of(request);
    let begin = inbound.begin(Looked { lookup: None, redis: None });
    inbound.respond(begin, Duration::ZERO).await.0.map_err(|failure| failure.log_text())
}

/// The trace fields of the question.
fn trace_of(request: &OnItsWay) -> Option<Propagation> {
    request.record.trace().and_then(RequestTrace::propagation)
}

/// By a connection of its own, as no service is spoken to over TLS. It says the same of the client.
async fn over_tls(forward: &Forward, client: &HttpClient, asked: Head, request: &OnItsWay) -> Result<Parted, String> {
    let uri = format!("{}{}", forward.spec.at.text(), forward.spec.target);
    let mut question = Request::get(uri).body(Empty::new()).map_err(|e| e.to_string())?;
    let outbound = Outbound {
        head: asked,
        id: request.request.id.clone(),
        peer: Rc::clone(&request.caller.peer),
        stripped: None,
        changes: None,
        trust: Trust::OURSELVES, // what it says of the client was written here
        validators: None,
        upgrade: None,
        interim: None,
        is_cached: false,
        script: None,
        event: None,
        trace: trace_of(request),
    };
    outbound.received_fields(&mut |name, value| head::append(name, value, question.headers_mut()));
    outbound.own_fields(|name, value| head::append(name, &value.concat(), question.headers_mut()));
    let mut answer = client.send(question).await.map_err(|e| e.to_string())?;
    without_hop(answer.headers_mut());
    Ok(ResponseHead::part(answer.map(ResponseBody::full)))
}

/// RFC 9110 §7.6.1: what is of the connection that the answer came by. Its length is that of the body that is here.
fn without_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let others = [CONNECTION, CONTENT_LENGTH, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    let old = ["keep-alive", "proxy-connection"].map(HeaderName::from_static);
    for name in named.iter().chain(&others).chain(&old) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_a_connection_ends_with_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("www-authenticate", "Own"),
            ("set-cookie", "a=b"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        without_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["set-cookie", "www-authenticate"]);
    }
}
