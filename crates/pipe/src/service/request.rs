//! From a REQUEST to what a handler gets.

use super::body::{Body, Incoming};
use super::exchange::Exchange;
use crate::control::Log;
use crate::head::DecodedRequest;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri};
use tokio::sync::mpsc;

/// The request and its exchange. `None` if the target is not one that the `http` crate can hold: the client gets 400.
pub(super) fn build(
    id: u16,
    mut head: DecodedRequest,
    body: Incoming,
    log: &mpsc::Sender<(Exchange, Log)>,
) -> Option<(Request<Incoming>, Exchange)> {
    let uri = uri(head.target_bytes())?;
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = std::mem::take(&mut head.headers);
    let exchange = Exchange::new(id, head, log.clone());
    request.extensions_mut().insert(exchange.clone());
    Some((request, exchange))
}

/// The answer to a request whose target the `http` crate cannot hold.
pub(super) fn bad_target() -> Response<Body> {
    let mut response = Response::new(Body::from("the request target is not a URI\n"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn uri(target: Bytes) -> Option<Uri> {
    if matches!(target.first(), Some(b'/' | b'*')) {
        return PathAndQuery::from_maybe_shared(target).ok().map(Uri::from);
    }
    Uri::from_maybe_shared(target).ok()
}
