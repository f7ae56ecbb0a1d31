//! The exchanges that are open on a shared connection, and who waits for what.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{GatewayExchanges, ProtocolError, SharedId};
use slab::Slab;

use crate::upstream::Delivery;

pub(super) const NOBODY: usize = usize::MAX;

/// A connection of its own on which an answer has begun to come.
pub(crate) trait AnswerStream {
    /// The answer is no longer wanted.
    fn cancel(self: Box<Self>, code: ResetCode);
}

/// How an exchange on a shared connection ended.
pub(crate) enum ExchangeEnd<A> {
    /// The payload of RESPONSE.
    Response(Bytes),
    Reset(Reset),
    /// The answer comes on a connection of its own.
    Answer(Box<A>),
    /// The connection ended; why, and whether this was the only exchange on it, and so perhaps the reason.
    Lost(Arc<str>, Delivery),
}

/// What an exchange's task waits at. It outlives the exchange's id, which is free again as soon as the final frame
/// came.
pub(super) enum Waiter<A> {
    Waiting(Option<Waker>),
    Done(ExchangeEnd<A>),
}

pub(super) struct State<A> {
    pub(super) exchanges: GatewayExchanges,
    pub(super) id: SharedId,
    pub(super) out: BytesMut,
    pub(super) places: Slab<Waiter<A>>,
    /// The place of each open exchange, by its id; `NOBODY` once its task has gone.
    pub(super) place_of: Vec<usize>,
    /// Exchanges that wait for room (P-14), first come first served.
    pub(super) queue: VecDeque<(u64, Waker)>,
    pub(super) tickets: u64,
    pub(super) driver: Option<Waker>,
    pub(super) fault: Option<ProtocolError>,
    pub(super) ended: Option<Arc<str>>,
    /// DRAIN was sent: a request behind it may find nobody.
    pub(super) draining: bool,
}

impl<A> State<A> {
    /// No exchange yet; at most `limit` at a time.
    pub(super) fn new(limit: u16) -> Self {
        let mut exchanges = GatewayExchanges::default();
        let id = exchanges.add_shared(limit);
        Self {
            exchanges,
            id,
            out: BytesMut::with_capacity(4096),
            places: Slab::new(),
            place_of: Vec::new(),
            queue: VecDeque::new(),
            tickets: 0,
            driver: None,
            fault: None,
            ended: None,
            draining: false,
        }
    }

    pub(super) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// The final frame of an exchange came: its task gets it, its id belongs to nobody.
    pub(super) fn finish(&mut self, exchange: u16, outcome: ExchangeEnd<A>) {
        if let Some(place) = self.waiting_at(exchange) {
            place.finish(outcome);
        }
    }

    /// Where the task of an exchange waits, if it still does; asked once for each exchange.
    pub(super) fn waiting_at(&mut self, exchange: u16) -> Option<&mut Waiter<A>> {
        let place = std::mem::replace(self.place_of.get_mut(usize::from(exchange))?, NOBODY);
        self.places.get_mut(place).filter(|place| matches!(place, Waiter::Waiting(_)))
    }

    /// Wakes as many queued exchanges as there is room for.
    pub(super) fn wake_queue(&mut self) {
        let mut room = self.exchanges.room(self.id);
        for (_, waker) in &self.queue {
            if room == 0 {
                break;
            }
            waker.wake_by_ref();
            room -= 1;
        }
    }
}

impl<A> Waiter<A> {
    pub(super) fn finish(&mut self, outcome: ExchangeEnd<A>) {
        if let Self::Waiting(Some(waker)) = std::mem::replace(self, Self::Done(outcome)) {
            waker.wake();
        }
    }
}
