//! What the loop of a shared connection and its exchanges both change: which exchanges are open, and the frames that
//! wait to be written.

use super::answer_connection::AnswerConnection;
use crate::control::Log;
use crate::reset::Reset;
use crate::service::exchange::Exchange;
use crate::session::SharedService;
use bytes::BytesMut;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Answer connections that are kept for the next answer.
const MAX_IDLE_ANSWERS: usize = 8;

/// The exchanges of one shared connection.
pub(super) struct SharedExchanges {
    worker: Cell<Option<u32>>,
    pub(super) session: RefCell<SharedService>,
    /// Exchanges at work; those that were answered at once never come here.
    /// Invariant: a part of the session's open ones.
    running: RefCell<HashMap<u16, RunningExchange>>,
    /// Filled by exchanges, emptied by the loop. At most `exchanges` answers of one frame.
    pub(super) out: RefCell<BytesMut>,
    idle: RefCell<Vec<AnswerConnection>>,
}

/// An exchange at work, and where its answer goes.
struct RunningExchange {
    exchange: Exchange,
    moved: bool,
}

impl SharedExchanges {
    pub(super) fn new(worker: Option<u32>, max_exchanges: u16) -> Self {
        Self {
            worker: Cell::new(worker),
            session: RefCell::new(SharedService::new(max_exchanges)),
            running: RefCell::default(),
            out: RefCell::new(BytesMut::new()),
            idle: RefCell::default(),
        }
    }

    pub(super) fn worker(&self) -> Option<u32> {
        self.worker.get()
    }

    /// WELCOME named the worker.
    pub(super) fn set_worker(&self, worker: u32) {
        self.worker.set(Some(worker));
    }

    /// Notes an exchange that was not answered at once.
    pub(super) fn begin(&self, exchange: Exchange) {
        self.running.borrow_mut().insert(exchange.id(), RunningExchange { exchange, moved: false });
    }

    /// The answer goes on an answer connection: nothing more for this exchange here (P-24).
    pub(super) fn moved(&self, exchange: &Exchange) {
        if let Some(running) = self.running.borrow_mut().get_mut(&exchange.id()) {
            running.moved = true;
        }
    }

    /// The final frame is encoded, on whatever connection. A second call does nothing, even if the id has come back.
    pub(super) fn finish(&self, exchange: &Exchange) {
        let id = exchange.id();
        let mut running = self.running.borrow_mut();
        if running.get(&id).is_some_and(|running| running.exchange.is_same(exchange)) {
            running.remove(&id);
            self.session.borrow_mut().finish(id);
        }
    }

    pub(super) fn final_frame(&self, exchange: &Exchange, reset: &Reset) {
        reset.encode(&mut self.out.borrow_mut(), exchange.id());
        self.finish(exchange);
    }

    pub(super) fn reuse(&self) -> Option<AnswerConnection> {
        self.idle.borrow_mut().pop()
    }

    pub(super) fn keep(&self, connection: AnswerConnection) {
        let mut kept = self.idle.borrow_mut();
        if kept.len() < MAX_IDLE_ANSWERS {
            kept.push(connection);
        }
    }

    pub(super) fn cancel(&self, id: u16) {
        if let Some(running) = self.running.borrow().get(&id) {
            running.exchange.cancel();
        }
    }

    pub(super) fn cancel_all(&self) {
        for running in self.running.borrow().values() {
            running.exchange.cancel();
        }
    }

    /// P-24: once the answer has moved, its id is not used here; then the line names its request instead.
    pub(super) fn log(&self, exchange: &Exchange, mut line: Log) {
        let id = exchange.id();
        let running = self.running.borrow();
        let here = running.get(&id).is_some_and(|running| !running.moved && running.exchange.is_same(exchange));
        if !here {
            line.text = format!("[{}] {}", exchange.request_id(), line.text);
        }
        line.encode(&mut self.out.borrow_mut(), if here { id } else { 0 });
    }
}
