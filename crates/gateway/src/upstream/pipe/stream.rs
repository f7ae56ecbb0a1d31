//! An exchange with a connection to itself: an *own* connection, or the *answer* connection that the service opened for
//! it.
//!
//! Both directions are moved by the task that serves the client. When an exchange is over, or its client has gone, the
//! stream goes to a task of the worker that brings the connection back to rest: it waits for what is still due within
//! `cancel_grace`, and then keeps or closes it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pilotlight_pipe::control::{encode_pong, parse_ping};
use pilotlight_pipe::frame::{FrameType, HEADER_LEN, MAX_FRAME, flags, split_frame, whole_frame};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerEvent, AnswerGateway, AnswerPart, OwnEvent, OwnGateway, Part, ProtocolError};

use super::peer::Peer;
use super::shared_state::AnswerStream;
use crate::net::Socket;
use crate::pump::{BodyFraming, Pump, PumpError};
use crate::request_body::{BodyError, RequestBody};
use crate::upstream::{BodyLeft, Delivery, MAX_GATHERED, MIN_PIECE};

const READ_SIZE: usize = 64 * 1024;
/// How long a cancelled exchange may take to its final frame (P-27).
const CANCEL_GRACE: Duration = Duration::from_secs(5);

enum Session {
    Own(OwnGateway),
    Answer(AnswerGateway),
}

/// Why a stream gives no further part.
pub(crate) enum StreamError {
    Client(BodyError),
    /// The connection ended; whether the request may have been carried out.
    Closed(String, Delivery),
    Protocol(ProtocolError),
}

/// A connection that carries no frames any more.
pub(super) struct Switched {
    pub(super) socket: Socket,
    pub(super) read_ahead: BytesMut,
}

/// What follows a REQUEST frame.
pub(super) enum Begin {
    /// The rest of the request.
    Request(Option<Box<RequestBody>>),
    /// Nothing, for the service may switch to another protocol (P-39).
    Offer,
}

impl Begin {
    /// The request's body, which is untouched.
    pub(super) fn into_body(self) -> Option<Box<RequestBody>> {
        match self {
            Self::Request(body) => body,
            Self::Offer => None,
        }
    }
}

/// A connection with an exchange on it.
pub(crate) struct Stream {
    socket: Socket,
    read: BytesMut,
    pump: Pump,
    session: Session,
    exchange: u16,
    peer: Rc<Peer<Self>>,
    /// A part that was read before the exchange was known to wait for it.
    pending: Option<(AnswerPart, Bytes)>,
    /// Whether the final frame has come.
    ended: bool,
    write_failed: bool,
}

impl Stream {
    /// Begins an exchange on an own connection with a REQUEST frame.
    pub(crate) fn own(
        socket: Socket,
        read: BytesMut,
        peer: Rc<Peer<Self>>,
        exchange: u16,
        request: BytesMut,
        begin: Begin,
    ) -> Self {
        let mut session = OwnGateway::default();
        let (fresh, body) = match begin {
            Begin::Offer => (session.begin_offer(exchange), None),
            Begin::Request(None) => (session.begin(exchange, Part::Last), None),
            Begin::Request(body) => (session.begin(exchange, Part::More), body),
        };
        debug_assert!(fresh, "a new session is idle");
        let pump = Pump::new(request, body, BodyFraming::Frames(exchange));
        let session = Session::Own(session);
        Self { socket, read, pump, session, exchange, peer, pending: None, ended: false, write_failed: false }
    }

    /// An answer connection between answers.
    pub(crate) fn answers(socket: Socket, read: BytesMut, peer: Rc<Peer<Self>>) -> Self {
        let pump = Pump::new(BytesMut::new(), None, BodyFraming::Frames(0));
        let session = Session::Answer(AnswerGateway::default());
        Self { socket, read, pump, session, exchange: 0, peer, pending: None, ended: true, write_failed: false }
    }

    /// The request's body if nothing of it has gone.
    pub(crate) fn reclaim(&mut self) -> BodyLeft {
        self.pump.reclaim()
    }

    /// Whether it is the client that keeps the request from going on.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.pump.waits_for_client()
    }

    /// Whether more of the request's body has come since this was last asked.
    pub(crate) fn take_moved(&mut self) -> bool {
        self.pump.take_moved()
    }

    /// The next part of the answer with its payload; parts of cancelled exchanges are thrown away up to the final one,
    /// which is given as `None`.
    pub(crate) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(AnswerPart, Bytes)>, StreamError>> {
        if let Some(part) = self.pending.take() {
            return Poll::Ready(Ok(Some(part)));
        }
        loop {
            if let Some(part) = self.next_part().map_err(StreamError::Protocol)? {
                return Poll::Ready(Ok(part));
            }
            self.poll_pump(cx).map_err(StreamError::Client)?;
            if self.read.capacity() - self.read.len() < READ_SIZE / 4 {
                self.read.reserve(READ_SIZE);
            }
            match ready!(self.socket.poll_read_buf(cx, &mut self.read)) {
                Ok(0) => {
                    return Poll::Ready(Err(StreamError::Closed("closed the connection".into(), self.delivery(None))));
                }
                Ok(_) => {}
                Err(e) => {
                    let delivery = self.delivery(Some(&e));
                    return Poll::Ready(Err(StreamError::Closed(format!("broke the connection ({e})"), delivery)));
                }
            }
        }
    }

    /// P-23: an idle own connection may be closed at any time, and a request that met the close has not begun. That is
    /// certain if the socket did not take REQUEST, or if the service closed the connection with REQUEST unread, which
    /// is what a reset means on a Unix socket.
    fn delivery(&self, error: Option<&std::io::Error>) -> Delivery {
        let Session::Own(own) = &self.session else { return Delivery::Maybe };
        let unsent = self.write_failed && !self.pump.has_begun();
        let reset = error.is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        let unread = reset && self.pump.is_head_only();
        if !own.has_received() && (unsent || unread) { Delivery::No } else { Delivery::Maybe }
    }

    /// A small piece of the answer with what follows it in the buffer: each by itself costs a turn of everything
    /// behind, however small it is. Nothing is waited for.
    pub(crate) fn gather(&mut self, first: Bytes) -> Bytes {
        if first.len() >= MIN_PIECE || self.read.len() <= HEADER_LEN {
            return first;
        }
        let mut all = BytesMut::with_capacity(MAX_GATHERED.min(first.len() + self.read.len()));
        all.extend_from_slice(&first);
        let mut taken = 0;
        while all.len() < MAX_GATHERED
            && let Ok(Some((header, payload))) = whole_frame(&self.read[taken..], MAX_FRAME)
            // To the session, DATA behind DATA changes nothing. Whatever else comes is for `next_part`.
            && (header.kind, header.flags, header.exchange) == (FrameType::DATA, flags::NONE, self.exchange)
        {
            all.extend_from_slice(payload);
            taken += HEADER_LEN + payload.len();
        }
        self.read.advance(taken);
        all.freeze()
    }

    /// One frame from the buffer. `Some(None)` is the final part of a cancelled exchange.
    #[expect(clippy::option_option, reason = "no part yet, a part to throw away, or a part")]
    fn next_part(&mut self) -> Result<Option<Option<(AnswerPart, Bytes)>>, ProtocolError> {
        while let Some((header, payload)) = split_frame(&mut self.read, MAX_FRAME)? {
            let (part, thrown) = match &mut self.session {
                Session::Own(own) => match own.receive(&header)? {
                    OwnEvent::Part(part) => (part, false),
                    OwnEvent::Thrown(part) => (part, true),
                    OwnEvent::Stop => {
                        self.pump.stop(); // P-21
                        own.request_ended();
                        continue;
                    }
                    OwnEvent::Ping => {
                        let ping = parse_ping(&payload)?;
                        self.pump.put(|out| encode_pong(out, ping));
                        continue;
                    }
                    OwnEvent::Drain => {
                        self.peer.shared.instance.announce_drain();
                        continue;
                    }
                    OwnEvent::Log => {
                        self.peer.shared.log(&payload)?;
                        continue;
                    }
                    OwnEvent::ConnectionReset => {
                        self.peer.shared.reported(&payload)?;
                        continue;
                    }
                    OwnEvent::Ignored | OwnEvent::Pong | OwnEvent::Skipped => continue,
                },
                Session::Answer(session) => match self.peer.shared.receive_answer(session, &header)? {
                    AnswerEvent::Part(exchange, part) => {
                        self.exchange = exchange;
                        (part, false)
                    }
                    AnswerEvent::Thrown(exchange, part) => {
                        self.exchange = exchange;
                        (part, true)
                    }
                    AnswerEvent::Log => {
                        self.peer.shared.log(&payload)?;
                        continue;
                    }
                    AnswerEvent::ConnectionReset => {
                        self.peer.shared.reported(&payload)?;
                        continue;
                    }
                    AnswerEvent::Ignored | AnswerEvent::Skipped => continue,
                },
            };
            self.ended = part.is_final();
            if part != AnswerPart::Info && part != AnswerPart::Reset {
                self.pump.forget_sent();
            }
            if self.ended {
                self.response_ended();
            }
            if !thrown {
                return Ok(Some(Some((part, payload))));
            }
            if self.ended {
                return Ok(Some(None));
            }
        }
        Ok(None)
    }

    fn response_ended(&mut self) {
        match &mut self.session {
            Session::Own(own) => {
                if own.must_end_request() {
                    self.pump.stop(); // P-21: whatever is left of the body
                    own.request_ended();
                }
            }
            Session::Answer(_) => self.peer.shared.room_changed(),
        }
    }

    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        if self.write_failed || self.pump.is_done() {
            return Ok(());
        }
        let moved = self.pump.poll(&mut self.socket, cx);
        if let Session::Own(own) = &mut self.session
            && own.is_sending()
            && !self.pump.has_body_left()
        {
            own.request_ended();
        }
        match moved {
            Poll::Ready(Err(PumpError::Body(e))) => Err(e),
            Poll::Ready(Err(PumpError::Socket)) => {
                self.write_failed = true; // an answer may still be there to be read
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// The connection behind [`AnswerPart::Switched`]: what comes on it from now on is the other protocol's.
    pub(super) fn into_switched(mut self) -> Switched {
        let socket = std::mem::replace(&mut self.socket, Socket::CLOSED);
        self.peer.own_is_closed(); // P-42; what is left of the exchange ends with `self`
        Switched { socket, read_ahead: std::mem::take(&mut self.read) }
    }

    /// Whether a frame could be taken for bytes of the protocol that was offered (P-39, P-40).
    fn must_be_silent(&self) -> bool {
        matches!(&self.session, Session::Own(own) if own.is_offering())
    }

    fn is_at_rest(&self) -> bool {
        match &self.session {
            Session::Own(own) => own.is_idle() && self.pump.is_done() && !self.write_failed,
            Session::Answer(answer) => answer.exchange().is_none(),
        }
    }

    /// The exchange is over: the connection is kept, at once or after what is still due.
    pub(crate) fn finish(self) {
        if matches!(self.session, Session::Own(_)) && self.is_at_rest() {
            self.into_idle();
        } else {
            let peer = Rc::clone(&self.peer);
            peer.spawner.spawn(self.settle());
        }
    }

    /// Brings the connection to rest within `cancel_grace`, then keeps it; closes it otherwise.
    async fn settle(mut self) {
        let rest = poll_fn(|cx| {
            loop {
                // Own: until both directions have ended. Answer: until the final frame, then at once.
                if self.ended && self.is_at_rest() {
                    return Poll::Ready(true);
                }
                if self.poll_pump(cx).is_err() {
                    return Poll::Ready(false);
                }
                if self.ended && self.is_at_rest() {
                    return Poll::Ready(true);
                }
                match self.poll_part(cx) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let rested = tokio::time::timeout(CANCEL_GRACE, rest).await.unwrap_or(false);
        let peer = Rc::clone(&self.peer);
        match (&mut self.session, rested) {
            (Session::Own(_), true) => self.into_idle(),
            (Session::Answer(_), true) => peer.spawner.spawn(self.wait_for_answers()),
            (Session::Own(_), false) => {}
            (Session::Answer(session), false) => peer.shared.answer_lost(session),
        }
    }

    /// Waits for answers on an answer connection and hands each to the exchange that waits for it.
    pub(crate) async fn wait_for_answers(mut self) {
        loop {
            match poll_fn(|cx| self.poll_part(cx)).await {
                Ok(Some(part)) => {
                    self.pending = Some(part);
                    let shared = Rc::clone(&self.peer.shared);
                    let exchange = self.exchange;
                    match shared.deliver(exchange, Box::new(self)) {
                        None => return,
                        // Its client left in this very moment.
                        Some(stream) => return stream.cancel(ResetCode::Cancelled),
                    }
                }
                Ok(None) => {} // the end of an answer that nobody wanted
                Err(StreamError::Protocol(e)) => return self.fault(&e),
                Err(_) => {
                    if let Session::Answer(session) = &mut self.session {
                        self.peer.shared.answer_lost(session);
                    }
                    return;
                }
            }
        }
    }

    /// P-10: names the broken rule on exchange 0 and closes.
    pub(crate) fn fault(mut self, error: &ProtocolError) {
        tracing::error!(service = %self.peer.service, "the service broke the protocol ({error})");
        if self.must_be_silent() {
            return;
        }
        self.pump.abandon();
        error.to_reset().encode(&mut self.pump.out, 0);
        let peer = Rc::clone(&self.peer);
        peer.spawner.spawn(async move {
            let written = poll_fn(|cx| self.socket.poll_write_all(cx, &mut self.pump.out));
            // The peer that broke the rules may not read either.
            let _ = tokio::time::timeout(CANCEL_GRACE, written).await;
            if let Session::Answer(session) = &mut self.session {
                self.peer.shared.answer_lost(session);
            }
        });
    }

    fn into_idle(mut self) {
        self.ended = true;
        let peer = Rc::clone(&self.peer);
        let socket = std::mem::replace(&mut self.socket, Socket::CLOSED);
        peer.own_is_idle(socket, std::mem::take(&mut self.read));
    }
}

impl AnswerStream for Stream {
    /// Says so to the service, and waits for its final frame elsewhere.
    fn cancel(mut self: Box<Self>, code: ResetCode) {
        if self.must_be_silent() {
            return; // P-39: closed
        }
        self.pending = None; // must not be taken for a part of the connection's next answer
        if !self.ended {
            self.pump.abandon();
            match &mut self.session {
                Session::Own(own) => {
                    if own.cancel() {
                        Reset::new(code, "").encode(&mut self.pump.out, self.exchange);
                    }
                }
                Session::Answer(_) => self.peer.shared.cancel(self.exchange, code),
            }
        }
        self.finish();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Session::Own(_) = &self.session {
            self.peer.shared.end_own(self.exchange);
            if !self.socket.is_closed() {
                self.peer.own_is_closed();
            }
        }
    }
}
