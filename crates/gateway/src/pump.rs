//! Carries a request's body from the client to a service's socket, in whichever framing the service speaks.
//!
//! At most one piece of the body is held while the socket takes no more (P-22): then the client is not read either,
//! and the kernel's buffers are the flow control from end to end.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use http::HeaderMap;
use pilotlight_pipe::frame::{FrameType, MAX_FRAME, encode_frame, flags};

use crate::client_socket::ServerSocket;
use crate::net::{Settled, Socket};
use crate::request_body::{BodyError, Piece, RequestBody};
use crate::upstream::http1::{self, BodyEncoder, BodyLength};
use crate::upstream::{BodyLeft, MAX_GATHERED};

/// How a service is told where the body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyFraming {
    /// `Content-Length` was sent with the head.
    Length,
    Chunked,
    /// `FCGI_STDIN`, which ends with a record without bytes.
    Records,
    /// DATA frames of this exchange.
    Frames(u16),
}

#[derive(Debug)]
pub(crate) enum PumpError {
    Body(BodyError),
    /// The service takes no more; what it answers, if it does, says more than the socket's error.
    Socket,
}

/// Where a request is written to.
pub(crate) trait Outlet {
    /// Writes from the front of `buf` until it is empty or no more is taken.
    fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>>;

    /// The same, at the end of the turn if it is small: then it counts as written from now on.
    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>>;

    /// What became of what was to go at the end of the turn: what is left of it is in front of `buf` again.
    fn settle(&mut self, buf: &mut BytesMut) -> io::Result<Settled>;
}

impl Outlet for Socket {
    fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        Self::poll_write_all(self, cx, buf)
    }

    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        Self::poll_send_all(self, cx, buf)
    }

    fn settle(&mut self, buf: &mut BytesMut) -> io::Result<Settled> {
        Self::settle(self, buf)
    }
}

impl Outlet for ServerSocket {
    fn poll_write_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        Self::poll_write_all(self, cx, buf)
    }

    /// What is encrypted is in no batch.
    fn poll_send_all(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_send_all(cx, buf),
            Self::Tls(_) => Self::poll_write_all(self, cx, buf),
        }
    }

    fn settle(&mut self, buf: &mut BytesMut) -> io::Result<Settled> {
        match self {
            Self::Plain(socket) => socket.settle(buf),
            Self::Tls(_) => Ok(Settled::Sent),
        }
    }
}

/// The write side of an exchange.
pub(crate) struct Pump {
    pub(crate) out: BytesMut,
    body: Option<Box<RequestBody>>,
    /// The body when its end has been put out, if all of it is held.
    sent: Option<Box<RequestBody>>,
    had_body: bool,
    /// Whether a piece of the body has come since [`Pump::take_moved`].
    moved: bool,
    /// Whether anything after the head has been put out.
    sent_more: bool,
    /// Whether the head has been written whole.
    begun: bool,
    /// The same before the last message was put in the batch.
    begun_before: bool,
    framing: BodyFraming,
    /// Small pieces that go out as one.
    gathered: BytesMut,
}

impl Pump {
    pub(crate) fn new(out: BytesMut, body: Option<Box<RequestBody>>, framing: BodyFraming) -> Self {
        Self {
            out,
            had_body: body.is_some(),
            moved: false,
            sent_more: false,
            begun: false,
            begun_before: false,
            body,
            sent: None,
            framing,
            gathered: BytesMut::new(),
        }
    }

    /// Whether everything has been written.
    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.out.is_empty()
    }

    /// The body back, if all that has been taken of it is held.
    pub(crate) fn reclaim(&mut self) -> BodyLeft {
        match self.body.take_if(|b| b.is_whole()).or_else(|| self.sent.take()) {
            Some(mut body) => {
                body.rewind();
                BodyLeft::Whole(Some(body))
            }
            None if self.had_body => BodyLeft::Spent,
            None => BodyLeft::Whole(None),
        }
    }

    /// The response has begun: the request is not sent again.
    pub(crate) fn forget_sent(&mut self) {
        self.sent = None;
    }

    /// Whether the head has been written whole, so that the service may have begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether nothing but the head has been put out.
    pub(crate) fn is_head_only(&self) -> bool {
        !self.sent_more
    }

    /// Puts out a frame that is no part of the body.
    pub(crate) fn put(&mut self, frame: impl FnOnce(&mut BytesMut)) {
        self.sent_more = true;
        frame(&mut self.out);
    }

    /// Whether it is the client that keeps the request from going on.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.body.is_some() && self.out.is_empty()
    }

    /// Whether more of the body has come since this was last asked.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Whether the end of the body has not been put out yet.
    pub(crate) fn has_body_left(&self) -> bool {
        self.body.is_some()
    }

    /// Forgets the rest of the body without ending the direction (a RESET follows).
    pub(crate) fn abandon(&mut self) {
        self.gathered.clear();
        self.body = None;
        self.sent = None;
    }

    /// The service wants no more of the body: ends the direction (P-21).
    pub(crate) fn stop(&mut self) {
        self.gathered.clear();
        if self.body.take().is_some() {
            self.end(None);
        }
    }

    /// Writes what can be written. `Pending` when the client or the socket has to be waited for.
    pub(crate) fn poll(&mut self, socket: &mut impl Outlet, cx: &mut Context<'_>) -> Poll<Result<(), PumpError>> {
        loop {
            if self.poll_out(socket, cx).map_err(|_| PumpError::Socket)?.is_pending() {
                return Poll::Pending;
            }
            self.begun = true;
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            let piece = match body.poll_piece(cx) {
                Poll::Ready(piece) => piece.map_err(PumpError::Body)?,
                Poll::Pending if self.gathered.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    self.put_gathered();
                    continue;
                }
            };
            (self.moved, self.sent_more) = (true, true);
            match piece {
                Piece::Data(data) if self.gathered.len() + data.len() < MAX_GATHERED => {
                    self.gathered.extend_from_slice(&data);
                }
                Piece::Data(data) => {
                    self.put_gathered();
                    self.put_data(&data);
                }
                Piece::Trailers(trailers) => self.body_ended(Some(&trailers)),
                Piece::End => self.body_ended(None),
            }
        }
    }

    /// Puts the last message in the batch. What more follows is not taken from the client before it is clear that the
    /// service takes what came before.
    fn poll_out(&mut self, socket: &mut impl Outlet, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.body.is_some() {
            return socket.poll_write_all(cx, &mut self.out);
        }
        self.begun_before = self.begun;
        socket.poll_send_all(cx, &mut self.out)
    }

    /// Learns what became of what was put in the batch.
    ///
    /// # Errors
    /// The service takes no more.
    pub(crate) fn settle(&mut self, socket: &mut impl Outlet) -> io::Result<()> {
        let settled = socket.settle(&mut self.out);
        if !matches!(settled, Ok(Settled::Sent)) {
            self.begun = self.begun_before;
        }
        settled.map(drop)
    }

    fn body_ended(&mut self, trailers: Option<&HeaderMap>) {
        self.put_gathered();
        self.sent = self.body.take().filter(|body| body.is_whole());
        self.end(trailers);
    }

    fn put_gathered(&mut self) {
        if !self.gathered.is_empty() {
            let data = self.gathered.split();
            self.put_data(&data);
        }
    }

    fn put_data(&mut self, data: &[u8]) {
        match self.framing {
            BodyFraming::Length => self.out.extend_from_slice(data),
            BodyFraming::Chunked => BodyEncoder::new(BodyLength::Chunked).data(&mut self.out, data),
            BodyFraming::Records => pilotlight_cgi::stdin(&mut self.out, data),
            BodyFraming::Frames(exchange) => {
                for part in data.chunks(MAX_FRAME) {
                    encode_frame(&mut self.out, FrameType::DATA, flags::NONE, exchange, part);
                }
            }
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) {
        match (self.framing, trailers) {
            (BodyFraming::Length, _) => {}
            (BodyFraming::Records, _) => pilotlight_cgi::stdin(&mut self.out, b""), // a program has no trailers
            (BodyFraming::Chunked, trailers) => http1::encode_last_chunk(&mut self.out, trailers),
            (BodyFraming::Frames(exchange), None) => {
                encode_frame(&mut self.out, FrameType::DATA, flags::END, exchange, b"");
            }
            (BodyFraming::Frames(exchange), Some(trailers)) => {
                let mut fields = BytesMut::new();
                for (name, value) in trailers {
                    for part in [name.as_str().as_bytes(), b"\0", value.as_bytes(), b"\0"] {
                        fields.extend_from_slice(part);
                    }
                }
                if fields.len() > MAX_FRAME {
                    fields.clear(); // the limit on a trailer section is lower
                }
                encode_frame(&mut self.out, FrameType::TRAILERS, flags::END, exchange, &fields);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as Peer;

    use pilotlight_send_batch::Batch;
    use socket2::SockRef;
    use tokio::net::UnixStream;

    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    /// A request without a body, put in a batch for a service that takes nothing as `prepare` has it.
    fn unsent(prepare: impl FnOnce(&mut Peer, Peer), check: impl FnOnce(&mut Pump, &mut Socket)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let body = async {
            let batch = Batch::without_io_uring();
            tokio::task::spawn_local(batch.clone().send_each_turn());
            tokio::task::yield_now().await;
            let (mut ours, theirs) = Peer::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            prepare(&mut ours, theirs);
            let mut socket = Socket::from(UnixStream::from_std(ours).unwrap()).in_batch(&batch);
            let mut pump = Pump::new(HEAD.into(), None, BodyFraming::Length);
            let put = std::future::poll_fn(|cx| pump.poll(&mut socket, cx)).await;
            assert!(put.is_ok() && pump.is_done() && pump.has_begun());
            batch.send();
            check(&mut pump, &mut socket);
        };
        tokio::task::LocalSet::new().block_on(&runtime, body);
    }

    /// As if it had been written at once: so it may be sent again.
    #[test]
    fn what_a_closed_service_was_to_get_has_not_begun() {
        unsent(
            |_, theirs| drop(theirs),
            |pump, socket| {
                assert!(pump.settle(socket).is_err());
                assert!(!pump.has_begun());
            },
        );
    }

    #[test]
    fn what_a_full_socket_did_not_take_is_still_to_be_written() {
        let mut service = None;
        unsent(
            |ours, theirs| {
                while SockRef::from(&*ours).send(&[0; 4096]).is_ok() {}
                service = Some(theirs);
            },
            |pump, socket| {
                assert!(pump.settle(socket).is_ok());
                assert!(!pump.has_begun() && !pump.is_done());
                assert_eq!(pump.out, HEAD);
            },
        );
    }
}
