//! From a REQUEST to what a handler gets.

use super::body::Incoming;
use super::exchange::Exchange;
use crate::control::Log;
use crate::head::DecodedRequest;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Uri};
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

fn uri(target: Bytes) -> Option<Uri> {
    if matches!(target.first(), Some(b'/' | b'*')) {
        return PathAndQuery::from_maybe_shared(target).ok().map(Uri::from);
    }
    Uri::from_maybe_shared(target).ok()
}
