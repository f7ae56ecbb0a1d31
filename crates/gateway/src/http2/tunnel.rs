//! WebSocket over a stream (RFC 8441): extended CONNECT becomes the handshake of HTTP/1.1 that services speak, its 101
//! becomes 200, and from then on the stream carries the bytes of the service's connection.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderName, UPGRADE};
use http::{Method, StatusCode};

use pilotlight_http2::{End, ErrorCode, encode_field, encode_status};

use super::answer;
use super::body::{FromClient, io_error};
use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::exchange::PendingResponse;
use crate::fields::is_hop_by_hop;
use crate::problem;
use crate::protocols::ClientProtocol;
use crate::response::ResponseHead;
use crate::tunnel::{self, Side};
use crate::websocket::SEC_WEBSOCKET_ACCEPT;

/// One stream from its extended CONNECT to the end of the service's connection.
pub(super) async fn run(stream: Rc<Stream>, later: PendingResponse, received: FromClient) {
    let Some(answer) = answer::awaited(&stream, later).await else { return };
    let upgraded = stream.take_upgraded().filter(|_| answer.0.status == StatusCode::SWITCHING_PROTOCOLS);
    let Some(upgraded) = upgraded else {
        return answer::send(&stream, &Method::GET, refused(answer)).await;
    };
    let (mut head, outgoing) = answer;
    drop(outgoing); // the request is over with its response; what follows is another protocol
    let mut block = Vec::new();
    encode_status(200, &mut block); // RFC 8441 §5
    let stays =
        |name: &HeaderName| !is_hop_by_hop(name) && ![UPGRADE, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT].contains(name);
    for (name, value) in head.fields.map().iter().filter(|(name, _)| stays(name)) {
        encode_field(name.as_str().as_bytes(), value.as_bytes(), &mut block);
    }
    let sent = stream.session().h2.borrow_mut().send_head(stream.id(), &block, End::No);
    let result = match sent {
        Ok(()) => {
            let client = Tunnel { stream: Rc::clone(&stream), received, unread: Bytes::new() };
            let worker = &stream.session().worker;
            tunnel::pass(worker, ClientProtocol::Http2, client, BytesMut::new(), *upgraded).await
        }
        Err(gone) => Err(io_error(gone)),
    };
    if let Err(e) = result {
        tracing::debug!(peer = %stream.session().peer, "an upgraded stream ended: {e}");
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

/// A stream as a connection.
struct Tunnel {
    stream: Rc<Stream>,
    received: FromClient,
    /// What came, and was not taken.
    unread: Bytes,
}

impl Side for Tunnel {
    fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        while self.unread.is_empty() {
            match ready!(self.received.poll_data(cx)) {
                Some(data) => self.unread = data.map_err(io_error)?,
                None => return Poll::Ready(Ok(0)),
            }
        }
        let length = self.unread.len().min(buf.capacity() - buf.len());
        buf.extend_from_slice(&self.unread.split_to(length));
        self.received.release(length);
        Poll::Ready(Ok(length))
    }

    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        let (session, id) = (self.stream.session(), self.stream.id());
        let mut h2 = session.h2.borrow_mut();
        while !buf.is_empty() {
            let room = ready!(h2.poll_room(id, cx)).map_err(io_error)?;
            let length = room.min(buf.len());
            h2.send_data(id, &buf[..length], End::No).map_err(io_error)?;
            session.sent_data();
            buf.advance(length);
        }
        buf.clear(); // an empty one that has been advanced has less room
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        ready!(self.poll_send_all(cx, buf))?;
        let ended = self.stream.session().h2.borrow_mut().send_data(self.stream.id(), &[], End::Stream);
        Poll::Ready(ended.map_err(io_error))
    }

    /// RFC 8441 §5, RFC 9113 §8.5: what the other end of a connection is told by a reset.
    fn abort(&mut self) {
        self.stream.session().h2.borrow_mut().reset(self.stream.id(), ErrorCode::CONNECT_ERROR);
    }
}
