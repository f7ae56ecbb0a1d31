//! A shared connection: many one-frame exchanges at once, one read and one write for a whole batch.
//!
//! ```text
//!  exchange ──encode──▶ out ─┐                        ┌─▶ place 7: frame, wake
//!  exchange ──encode──▶ out ─┼─▶ driver ══ socket ══▶ driver ─┼─▶ place 3: frame, wake
//!  exchange ──encode──▶ out ─┘   one write            one read └─▶ place 9: …
//! ```
//!
//! An exchange writes its REQUEST into `out` and wakes the driver once. The driver runs after every task that was
//! already due, so what they add goes out in the same write; it reads in every turn whether or not it could write.
//!
//! Invariant: a place is freed only with the final frame of its exchange (or the end of the connection), never because
//! a waiting task went away: that cancels the exchange, and its answer is thrown away when it comes (P-26).

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use pilotlight_pipe::control::{Drain, encode_pong, parse_ping};
use pilotlight_pipe::frame::{FrameHeader, MAX_FRAME, split_frame};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerGateway, ProtocolError, SharedEvent};
use pilotlight_supervisor::{Instance, Service, StartError};

use super::shared_state::{AnswerStream, ExchangeEnd, NOBODY, State, Waiter};
use crate::net::Socket;
use crate::upstream::Delivery;
use crate::upstream::first_byte::FirstByte;

const READ_SIZE: usize = 64 * 1024;
/// Reads in one turn before other tasks get theirs.
const MAX_READS_PER_TURN: usize = 4;

/// One shared connection of a worker to an instance. `A`: what an answer comes on that has a connection to itself.
pub(crate) struct SharedConnection<A: AnswerStream> {
    pub(crate) instance: Arc<Instance>,
    service: String,
    /// From HELLO; 0 is for control frames only.
    limit: u16,
    state: RefCell<State<A>>,
}

impl<A: AnswerStream> SharedConnection<A> {
    pub(crate) fn new(service: String, instance: Arc<Instance>, limit: u16) -> Rc<Self> {
        let state = State::new(limit);
        Rc::new(Self { instance, service, limit, state: RefCell::new(state) })
    }

    /// Whether requests may share this connection.
    pub(crate) fn takes_exchanges(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.borrow().ended.is_some()
    }

    /// Writes DRAIN (P-31); requests that are not written yet go elsewhere.
    pub(crate) fn drain(&self, drain: &Drain) {
        let mut state = self.state.borrow_mut();
        state.draining = true;
        drain.encode(&mut state.out);
        state.wake_driver();
        state.queue.iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.borrow().draining
    }

    /// Writes frames that belong to the connection (MORE).
    pub(crate) fn control(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut state = self.state.borrow_mut();
        write(&mut state.out);
        state.wake_driver();
    }

    /// Sends a REQUEST frame under an id that is written into it. Waits for room if the connection is full, as the
    /// service's `queue` says.
    ///
    /// # Cancel safety
    /// Dropping the future, or the [`Waiting`] it returns, cancels the exchange.
    pub(crate) async fn begin(
        self: &Rc<Self>,
        service: &Service,
        frame: &mut [u8],
        first_byte: &FirstByte,
    ) -> Result<Waiting<A>, BeginError> {
        let mut ticket = Ticket { shared: self, number: None };
        let exchange = match ticket.enter()? {
            Some(exchange) => exchange,
            None => {
                let waiting = service.wait().map_err(BeginError::Queue)?;
                let room = waiting.within("its connection had no room", poll_fn(|cx| ticket.poll(cx))).await;
                room.map_err(BeginError::Queue)??
            }
        };
        super::frames::complete(frame, exchange, first_byte.left());
        let mut state = self.state.borrow_mut();
        state.out.extend_from_slice(frame);
        state.wake_driver();
        let place = state.places.insert(Waiter::Waiting(None));
        let index = usize::from(exchange);
        if state.place_of.len() <= index {
            state.place_of.resize(index + 1, NOBODY);
        }
        state.place_of[index] = place;
        Ok(Waiting { shared: Rc::clone(self), exchange, place, ended: false })
    }

    /// An id for an exchange on an own connection.
    pub(crate) fn begin_own(&self) -> Option<u16> {
        self.state.borrow_mut().exchanges.begin_own()
    }

    pub(crate) fn end_own(&self, exchange: u16) {
        self.state.borrow_mut().exchanges.end_own(exchange);
    }

    /// The first frame of an answer came on an answer connection.
    pub(crate) fn receive_answer(
        &self,
        session: &mut AnswerGateway,
        header: &FrameHeader,
    ) -> Result<pilotlight_pipe::session::AnswerEvent, pilotlight_pipe::session::Violation> {
        session.receive(header, &mut self.state.borrow_mut().exchanges)
    }

    /// The answer connection ended in the middle of an answer.
    pub(crate) fn answer_lost(&self, session: &mut AnswerGateway) {
        session.close(&mut self.state.borrow_mut().exchanges);
        self.state.borrow_mut().wake_queue();
    }

    /// Hands an answer over to the exchange that waits for it; gives it back if nobody does.
    pub(crate) fn deliver(&self, exchange: u16, answer: Box<A>) -> Option<Box<A>> {
        let mut state = self.state.borrow_mut();
        match state.waiting_at(exchange) {
            Some(place) => {
                place.finish(ExchangeEnd::Answer(answer));
                None
            }
            None => Some(answer),
        }
    }

    /// The answer is no longer wanted: RESET goes on this connection, also when the answer comes on another (P-26).
    pub(crate) fn cancel(&self, exchange: u16, code: ResetCode) {
        let mut state = self.state.borrow_mut();
        if state.exchanges.cancel(exchange) {
            Reset::new(code, "").encode(&mut state.out, exchange);
            state.wake_driver();
        }
    }

    /// Reads and writes until the connection ends; returns why it ended.
    ///
    /// # Cancel safety
    /// Dropping it ends every open exchange as lost.
    pub(crate) async fn drive(self: Rc<Self>, mut socket: Socket, read_ahead: Bytes) -> Arc<str> {
        let mut guard = EndGuard { shared: &self, why: "was left by the gateway".into() };
        let mut io = DriverIo { read: BytesMut::from(&read_ahead[..]), write: BytesMut::new() };
        guard.why = poll_fn(|cx| self.turn(cx, &mut socket, &mut io)).await.into();
        Arc::clone(&guard.why)
    }

    /// The service broke the protocol in a payload: the connection ends with RESET(PROTOCOL) (P-10).
    pub(crate) fn fault(&self, error: &ProtocolError) {
        let mut state = self.state.borrow_mut();
        state.fault = Some(error.clone());
        state.wake_driver();
    }

    fn turn(&self, cx: &mut Context<'_>, socket: &mut Socket, io: &mut DriverIo) -> Poll<String> {
        self.state.borrow_mut().driver = None; // set again below, so that a frame written meanwhile wakes nobody
        for _ in 0..MAX_READS_PER_TURN {
            let fault = self.state.borrow_mut().fault.take();
            if let Err(e) = fault.map_or_else(|| self.parse(&mut io.read), Err) {
                return Poll::Ready(self.protocol_error(cx, socket, io, &e));
            }
            if let Err(e) = self.write(cx, socket, io) {
                return Poll::Ready(format!("broke the connection ({e})"));
            }
            if io.read.capacity() - io.read.len() < READ_SIZE / 4 {
                io.read.reserve(READ_SIZE);
            }
            match socket.poll_read_buf(cx, &mut io.read) {
                Poll::Pending => {
                    self.state.borrow_mut().driver = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready("closed the connection".into()),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(e)) => return Poll::Ready(format!("broke the connection ({e})")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn write(&self, cx: &mut Context<'_>, socket: &mut Socket, io: &mut DriverIo) -> std::io::Result<()> {
        loop {
            if io.write.is_empty() {
                let mut state = self.state.borrow_mut();
                if state.out.is_empty() {
                    return Ok(());
                }
                std::mem::swap(&mut io.write, &mut state.out);
            }
            match socket.poll_write_all(cx, &mut io.write) {
                Poll::Pending => return Ok(()),
                Poll::Ready(written) => written?,
            }
        }
    }

    /// P-10: says which rule was broken, as far as the socket takes it, and ends.
    fn protocol_error(
        &self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        io: &mut DriverIo,
        e: &ProtocolError,
    ) -> String {
        e.to_reset().encode(&mut io.write, 0);
        let _ = socket.poll_write_all(cx, &mut io.write);
        format!("broke the protocol ({e})")
    }

    fn parse(&self, read: &mut BytesMut) -> Result<(), ProtocolError> {
        let mut state = self.state.borrow_mut();
        while let Some((header, payload)) = split_frame(read, MAX_FRAME)? {
            let id = state.id;
            let exchange = header.exchange;
            match state.exchanges.receive(id, &header)? {
                SharedEvent::Answer(_) => state.finish(exchange, ExchangeEnd::Response(payload)),
                SharedEvent::Reset(_) => {
                    let reset = Reset::parse(&payload)?;
                    state.finish(exchange, ExchangeEnd::Reset(reset));
                }
                SharedEvent::ConnectionReset => self.reported(&payload)?,
                SharedEvent::Ping => encode_pong(&mut state.out, parse_ping(&payload)?),
                SharedEvent::Drain => self.instance.announce_drain(),
                SharedEvent::Log => self.log(&payload)?,
                SharedEvent::Thrown(_) | SharedEvent::Ignored | SharedEvent::Pong | SharedEvent::Skipped => {}
            }
        }
        state.wake_queue();
        Ok(())
    }

    /// The service reports a fault of ours on exchange 0.
    pub(crate) fn reported(&self, payload: &[u8]) -> Result<(), ProtocolError> {
        let reset = Reset::parse(payload)?;
        tracing::error!(service = %self.service, "the service reports: {}", reset.text);
        Ok(())
    }

    /// An exchange ended elsewhere: another may have its place.
    pub(crate) fn room_changed(&self) {
        self.state.borrow_mut().wake_queue();
    }

    pub(crate) fn log(&self, payload: &[u8]) -> Result<(), ProtocolError> {
        super::frames::log(&self.service, payload)
    }

    fn end(&self, why: &Arc<str>) {
        let mut state = self.state.borrow_mut();
        state.ended = Some(Arc::clone(why));
        let (mut lost, id) = (Vec::new(), state.id);
        state.exchanges.remove_shared(id, &mut lost);
        let delivery = if lost.len() == 1 { Delivery::Suspect } else { Delivery::Maybe };
        for exchange in lost {
            state.finish(exchange, ExchangeEnd::Lost(Arc::clone(why), delivery));
        }
        state.queue.drain(..).for_each(|(_, waker)| waker.wake());
    }
}

struct DriverIo {
    read: BytesMut,
    write: BytesMut,
}

/// Ends the exchanges when the driver ends, also if it is dropped (the worker stops).
struct EndGuard<'a, A: AnswerStream> {
    shared: &'a SharedConnection<A>,
    why: Arc<str>,
}

impl<A: AnswerStream> Drop for EndGuard<'_, A> {
    fn drop(&mut self) {
        self.shared.end(&self.why);
    }
}

/// Why an exchange could not begin.
pub(crate) enum BeginError {
    /// Too many wait already, or it waited too long.
    Queue(StartError),
    Ended(Arc<str>),
}

/// A place in the queue for room.
struct Ticket<'a, A: AnswerStream> {
    shared: &'a Rc<SharedConnection<A>>,
    number: Option<u64>,
}

impl<A: AnswerStream> Ticket<'_, A> {
    /// An id, if there is room and it is this one's turn.
    fn enter(&mut self) -> Result<Option<u16>, BeginError> {
        let mut state = self.shared.state.borrow_mut();
        let stopped = || state.draining.then(|| "was being stopped".into());
        if let Some(why) = state.ended.clone().or_else(stopped) {
            return Err(BeginError::Ended(why));
        }
        if state.queue.front().is_some_and(|(number, _)| Some(*number) != self.number) {
            return Ok(None);
        }
        let id = state.id;
        let exchange = state.exchanges.begin_shared(id);
        if exchange.is_some() && self.number.take().is_some() {
            state.queue.pop_front();
            state.wake_queue();
        }
        Ok(exchange)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u16, BeginError>> {
        if let Some(entered) = self.enter().transpose() {
            return Poll::Ready(entered);
        }
        let state = &mut *self.shared.state.borrow_mut();
        match state.queue.iter_mut().find(|(number, _)| Some(*number) == self.number) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                state.tickets += 1;
                self.number = Some(state.tickets);
                state.queue.push_back((state.tickets, cx.waker().clone()));
            }
        }
        Poll::Pending
    }
}

impl<A: AnswerStream> Drop for Ticket<'_, A> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.shared.state.borrow_mut();
            state.queue.retain(|(n, _)| *n != number);
            state.wake_queue();
        }
    }
}

/// An exchange that waits for its answer; dropping it cancels the exchange.
pub(crate) struct Waiting<A: AnswerStream> {
    shared: Rc<SharedConnection<A>>,
    exchange: u16,
    place: usize,
    ended: bool,
}

impl<A: AnswerStream> Waiting<A> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd<A>> {
        let mut state = self.shared.state.borrow_mut();
        if let Some(Waiter::Waiting(waker)) = state.places.get_mut(self.place) {
            match waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                _ => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        self.ended = true;
        match state.places.try_remove(self.place) {
            Some(Waiter::Done(outcome)) => Poll::Ready(outcome),
            // Not reachable: only this future removes its place.
            Some(Waiter::Waiting(_)) | None => Poll::Ready(ExchangeEnd::Lost("lost its place".into(), Delivery::Maybe)),
        }
    }

    /// Ends the exchange for another reason than the client's leaving.
    pub(crate) fn cancel(mut self, code: ResetCode) {
        self.send_cancel(code);
    }

    fn send_cancel(&mut self, code: ResetCode) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let mut state = self.shared.state.borrow_mut();
        match state.places.try_remove(self.place) {
            // Its answer has begun on a connection that nobody has taken yet: that one brings itself to rest.
            Some(Waiter::Done(ExchangeEnd::Answer(answer))) => {
                drop(state);
                return answer.cancel(code);
            }
            Some(Waiter::Done(_)) => return, // it had ended already
            Some(Waiter::Waiting(_)) | None => {}
        }
        if let Some(place) = state.place_of.get_mut(usize::from(self.exchange)) {
            *place = NOBODY;
        }
        drop(state);
        self.shared.cancel(self.exchange, code);
    }
}

impl<A: AnswerStream> Drop for Waiting<A> {
    fn drop(&mut self) {
        self.send_cancel(ResetCode::Cancelled);
    }
}
