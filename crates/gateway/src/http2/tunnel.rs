//! WebSocket over a stream (RFC 8441): extended CONNECT becomes the handshake of HTTP/1.1 that services speak, its 101
//! becomes 200, and from then on the stream carries the bytes of the service's connection.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderName, UPGRADE};
use http::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::answer;
use super::body::io_error;
use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::exchange::PendingResponse;
use crate::problem;
use crate::response::ResponseHead;
use crate::upstream::Upgraded;

const SEC_WEBSOCKET_ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

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
    let result = match stream.send_head(response, false) {
        Ok(to_client) => pass(Tunnel { to_client, received, unread: Bytes::new() }, *upgraded).await,
        Err(e) => Err(io_error(e)),
    };
    if let Err(e) = result {
        tracing::debug!(peer = %stream.session().peer, "an upgraded stream ended: {e}");
    }
}

/// Passes bytes both ways until both sides have ended.
async fn pass(mut client: Tunnel, upgraded: Upgraded) -> io::Result<()> {
    let Upgraded { mut socket, read_ahead, lease } = upgraded;
    let passed = async {
        client.write_all(&read_ahead).await?;
        tokio::io::copy_bidirectional(&mut client, &mut socket).await
    };
    let result = passed.await;
    if result.is_err() {
        client.to_client.send_reset(Reason::CONNECT_ERROR);
    }
    drop(lease);
    result.map(drop)
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
    to_client: SendStream<Bytes>,
    received: RecvStream,
    /// What came, and was not taken.
    unread: Bytes,
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.received.poll_data(cx)) {
                Some(data) => self.unread = data.map_err(io_error)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread.split_to(length));
        // An error means that the stream has ended: then there is no window.
        let _ = self.received.flow_control().release_capacity(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.to_client.reserve_capacity(buf.len());
        let room = match self.to_client.capacity() {
            0 => match ready!(self.to_client.poll_capacity(cx)) {
                Some(room) => room.map_err(io_error)?,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            },
            room => room,
        };
        let length = room.min(buf.len());
        self.to_client.send_data(Bytes::copy_from_slice(&buf[..length]), false).map_err(io_error)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.to_client.send_data(Bytes::new(), true).map_err(io_error))
    }
}
