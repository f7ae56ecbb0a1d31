//! The body of a request on its way to a service that speaks HTTP/2.
//!
//! One piece of it at most is held while the service's windows have no room (P-22 holds here as well): then the client
//! is not read either.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};

use crate::request_body::{BodyError, Piece, RequestBody};
use crate::upstream::BodyLeft;

/// The sending side of an exchange.
pub(super) struct Upload {
    to_service: SendStream<Bytes>,
    body: Option<Box<RequestBody>>,
    /// The body when its end has been sent, if all of it is held.
    sent: Option<Box<RequestBody>>,
    had_body: bool,
    piece: Bytes,
    /// Whether room for the piece is asked for.
    is_reserved: bool,
    /// Whether a piece of the body has come since [`Upload::take_moved`].
    moved: bool,
}

impl Upload {
    pub(super) fn new(to_service: SendStream<Bytes>, body: Option<Box<RequestBody>>) -> Self {
        let had_body = body.is_some();
        Self { to_service, body, sent: None, had_body, piece: Bytes::new(), is_reserved: false, moved: false }
    }

    /// The stream, which goes on with another protocol's bytes.
    pub(super) fn into_stream(self) -> SendStream<Bytes> {
        self.to_service
    }

    /// Whether all of it has been sent, or the service wants no more.
    pub(super) fn is_done(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it is the client that keeps the request from going on.
    pub(super) fn waits_for_client(&self) -> bool {
        self.body.is_some() && self.piece.is_empty()
    }

    /// Whether more of the body has come since this was last asked.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The response has begun: the request is not sent again.
    pub(super) fn forget_sent(&mut self) {
        self.sent = None;
    }

    /// The body back, if all that has been taken of it is held.
    pub(super) fn reclaim(&mut self) -> BodyLeft {
        match self.body.take_if(|body| body.is_whole()).or_else(|| self.sent.take()) {
            Some(mut body) => {
                body.rewind();
                BodyLeft::Whole(Some(body))
            }
            None if self.had_body => BodyLeft::Spent,
            None => BodyLeft::Whole(None),
        }
    }

    /// Tells the service that nothing of the exchange is wanted any more.
    pub(super) fn abandon(&mut self) {
        self.stop();
        self.to_service.send_reset(Reason::CANCEL);
    }

    fn stop(&mut self) {
        self.body = None;
        self.piece = Bytes::new();
    }

    /// Sends what can be sent without waiting.
    ///
    /// # Errors
    /// The client's body. A service that takes no more may still answer, and says more by that.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        while self.body.is_some() {
            if !self.piece.is_empty() {
                match self.poll_piece(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(())) => {
                        self.stop();
                        return Ok(());
                    }
                }
            }
            let Some(body) = &mut self.body else { return Ok(()) };
            let Poll::Ready(piece) = body.poll_piece(cx) else {
                // A service that has reset the stream is heard of by its response.
                return Ok(());
            };
            self.moved = true;
            let sent = match piece? {
                Piece::Data(data) => {
                    self.piece = data;
                    continue;
                }
                Piece::Trailers(trailers) => self.to_service.send_trailers(trailers),
                Piece::End => self.to_service.send_data(Bytes::new(), true),
            };
            self.sent = self.body.take().filter(|body| body.is_whole() && sent.is_ok());
        }
        Ok(())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        while !self.piece.is_empty() {
            if !std::mem::replace(&mut self.is_reserved, true) {
                self.to_service.reserve_capacity(self.piece.len());
            }
            let room = match self.to_service.capacity() {
                0 => match self.to_service.poll_capacity(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(())),
                },
                room => room,
            };
            let part = self.piece.split_to(room.min(self.piece.len()));
            if self.to_service.send_data(part, false).is_err() {
                return Poll::Ready(Err(()));
            }
            self.is_reserved = !self.piece.is_empty();
        }
        Poll::Ready(Ok(()))
    }
}
