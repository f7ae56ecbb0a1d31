//! WebSocket over a stream (RFC 8441): extended CONNECT becomes the handshake of HTTP/1.1 that services speak, its 101
//! becomes 200, and from then on the stream carries the bytes of the service's connection.

use std::rc::Rc;

use bytes::BytesMut;
use h2::RecvStream;
use http::header::{CONTENT_LENGTH, UPGRADE};
use http::{Method, StatusCode};

use super::answer;
use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::exchange::PendingResponse;
use crate::problem;
use crate::protocols::ClientProtocol;
use crate::response::ResponseHead;
use crate::stream_io::{StreamIo, io_error};
use crate::tunnel;
use crate::websocket::SEC_WEBSOCKET_ACCEPT;

/// One stream from its extended CONNECT to the end of the service's connection.
pub(super) async fn run(stream: Rc<Stream>, later: PendingResponse, received: RecvStream) {
    let Some(answer) = answer::awaited(&stream, later).await else { return };
    let upgraded = stream.take_upgraded().filter(|_| answer.0.status == StatusCode::SWITCHING_PROTOCOLS);
    let Some(upgraded) = upgraded else {
        return answer::send(&stream, &Method::GET, refused(answer)).await;
    };
    let (mut head, outgoing) = answer;
    drop(outgoing); // the request is over with its response; what follows is another protocol
    let fields = head.fields.map();
    for name in [UPGRADE, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT] {
        fields.remove(name);
    }
    let mut response = http::Response::new(()); // 200: RFC 8441 §5
    *response.headers_mut() = std::mem::take(fields);
    let session = stream.session();
    let result = match stream.send_head(response, false) {
        Ok(to_client) => {
            let client = StreamIo::new(to_client, received);
            tunnel::pass(&session.worker, ClientProtocol::Http2, client, BytesMut::new(), *upgraded).await
        }
        Err(e) => Err(io_error(e)),
    };
    if let Err(e) = result {
        tracing::debug!(peer = %session.peer, "an upgraded stream ended: {e}");
    }
}

/// A 2xx would say that the stream is the other protocol's now (RFC 9110 §9.3.6).
pub(super) fn refused(answer: (ResponseHead, Outgoing)) -> (ResponseHead, Outgoing) {
    let (head, body) = answer;
    if !head.status.is_success() {
        return (head, body);
    }
    let (refusal, text) = ResponseHead::part(problem::not_switched());
    (refusal, body.replaced(text))
}
