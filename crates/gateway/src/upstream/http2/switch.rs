//! Extended CONNECT to a service (RFC 8441): a stream that becomes a connection of another protocol, for a client that
//! asks by either version of HTTP.

use std::any::Any;
use std::future::poll_fn;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request, StatusCode};
use pilotlight_supervisor::Lease;

use super::pool::{Begun, Counted, Follows, Pool};
use crate::body::ResponseBody;
use crate::outbound::Outbound;
use crate::protocols::ServiceProtocol;
use crate::stream_io::StreamIo;
use crate::upstream::first_byte::FirstByte;
use crate::upstream::{SendError, ServiceResponse, ServiceSide, Upgraded, UpstreamError};
use crate::websocket::{self, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};

/// Begins a stream that is to become a connection of the first protocol that is offered.
///
/// # Errors
/// The service takes no extended CONNECT; or what [`Counted::begin`] says.
pub(super) async fn begin(
    on: &Counted,
    pool: &Pool,
    first_byte: &FirstByte,
    mut request: Request<()>,
    offered: &HeaderValue,
) -> Result<Begun, SendError> {
    if first_byte.within(on.connection().greeting.come()).await.is_none() {
        return Err(first_byte.over(&pool.service).into());
    }
    let mut requests = on.connection().requests.clone();
    let ready = poll_fn(|cx| Poll::Ready(requests.poll_ready(cx))).await;
    // A connection that has ended says so itself.
    let has_ended = matches!(ready, Poll::Ready(Err(_)));
    if !has_ended && !requests.is_extended_connect_protocol_enabled() {
        return Err(UpstreamError::NoExtendedConnect { service: pool.service.clone() }.into());
    }
    drop(requests);
    ask(&mut request, offered);
    on.begin(pool, first_byte, request, Follows::Body).await
}

/// Makes a request one for a stream of the first protocol that is offered.
fn ask(request: &mut Request<()>, offered: &HeaderValue) {
    let offered = offered.to_str().unwrap_or_default();
    let protocol = offered.split(',').next().unwrap_or_default().trim().to_ascii_lowercase();
    *request.method_mut() = Method::CONNECT;
    request.extensions_mut().insert(Protocol::from(protocol.as_str()));
    request.headers_mut().remove(SEC_WEBSOCKET_KEY); // RFC 8441 §5: that takes their place
}

/// A 2xx to it, as an answer of HTTP/1.1 that switches.
pub(super) fn switched(
    fields: HeaderMap,
    outbound: &Outbound,
    stream: (SendStream<Bytes>, RecvStream),
    connection: Box<dyn Any>,
    lease: Option<Lease>,
) -> ServiceResponse {
    let mut fields = fields;
    fields.remove(CONTENT_LENGTH); // RFC 9110 §8.6: a 2xx to CONNECT has none
    if let Some(offered) = &outbound.upgrade {
        let chosen = offered.to_str().ok().and_then(|offered| offered.split(',').next());
        let chosen = chosen.and_then(|chosen| HeaderValue::from_str(chosen.trim()).ok());
        fields.insert(UPGRADE, chosen.unwrap_or_else(|| HeaderValue::clone(offered)));
    }
    if let Some(accept) = outbound.head.headers().get(SEC_WEBSOCKET_KEY).and_then(websocket::accept) {
        fields.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    let (sending, receiving) = stream;
    let service = ServiceSide::Stream { stream: StreamIo::new(sending, receiving), _connection: connection };
    let upgraded =
        Upgraded { service, transport: ServiceProtocol::H2c, read_ahead: BytesMut::new(), lease, seat: None };
    let (status, fields) = (StatusCode::SWITCHING_PROTOCOLS, fields.into());
    ServiceResponse { status, fields, body: ResponseBody::Empty, upgraded: Some(Box::new(upgraded)) }
}
