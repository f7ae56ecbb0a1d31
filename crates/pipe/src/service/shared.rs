//! A shared connection: many small exchanges, one read and one write for a batch of them (P-18).

use super::answer::{self, Answer, Idle, MAX_IDLE_ANSWERS};
use super::body::{Body, Incoming};
use super::exchange::{Exchange, MAX_LOG_LINES};
use super::outcome::{Failure, Outcome, Running};
use super::state::{End, Ended, Stage, State, give_up, refused};
use super::wire::{Reading, Turn, Wire};
use super::{ServeError, Service, request};
use crate::control::{Drain, Log, More, encode_pong, parse_ping};
use crate::frame::{FrameHeader, HEADER_LEN, MAX_FRAME};
use crate::head::decode_request;
use crate::hello::ConnectionKind;
use crate::reset::{Reset, ResetCode};
use crate::session::{ProtocolError, SharedService, SharedServiceEvent};
use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What the connection's loop and its exchanges share.
pub(super) struct Shared {
    state: Rc<State>,
    worker: Cell<Option<u32>>,
    session: RefCell<SharedService>,
    /// Exchanges at work; those that were answered at once never come here.
    /// Invariant: a part of the session's open
    /// ones.
    running: RefCell<HashMap<u16, RunningExchange>>,
    tasks: RefCell<JoinSet<()>>,
    /// Filled by exchanges, emptied by the loop. At most `exchanges` answers of one frame.
    out: RefCell<BytesMut>,
    idle: RefCell<Vec<Idle>>,
    log: mpsc::Sender<(Exchange, Log)>,
}

/// An exchange at work, and where its answer goes.
struct RunningExchange {
    exchange: Exchange,
    moved: bool,
}

/// Serves one shared connection to its end.
pub(super) async fn run(state: &Rc<State>, worker: Option<u32>) -> Ended {
    let mut wire = Wire::dial(&state.service, ConnectionKind::Shared, worker).await?;
    let (log, lines) = mpsc::channel(MAX_LOG_LINES);
    let shared = Rc::new(Shared {
        state: Rc::clone(state),
        worker: Cell::new(worker),
        session: RefCell::new(SharedService::new(state.service.exchanges)),
        running: RefCell::default(),
        tasks: RefCell::new(JoinSet::new()),
        out: RefCell::new(BytesMut::new()),
        idle: RefCell::default(),
        log,
    });
    let result = serve(&shared, &mut wire, lines).await;
    // Exchanges hold what holds them; without this connection nobody waits for them.
    for place in shared.running.borrow().values() {
        place.exchange.cancel();
    }
    shared.tasks.borrow_mut().abort_all();
    match result {
        Ok(end) => Ok(end),
        Err(error) => give_up(wire, error).await,
    }
}

async fn serve(shared: &Rc<Shared>, wire: &mut Wire, mut lines: mpsc::Receiver<(Exchange, Log)>) -> Ended {
    let mut stage = shared.state.stage();
    if *stage.borrow_and_update() == Stage::Leaving {
        Drain { grace_ms: 0 }.encode(&mut wire.out);
    }
    // Beyond the answers only PONGs and RESETs can pile up: then reading waits for writing.
    let max_out = (usize::from(shared.service().exchanges) + 1) * (HEADER_LEN + MAX_FRAME);
    loop {
        wire.out.unsplit(shared.out.borrow_mut().split());
        let done = wire.out.is_empty() && shared.session.borrow().open() == 0 && shared.tasks.borrow().is_empty();
        if done && *stage.borrow() == Stage::Drained {
            return Ok(End::Closed); // P-31
        }
        let reading = if wire.out.len() < max_out { Reading::On } else { Reading::Paused };
        // Not biased: under load none of these may wait for ever.
        tokio::select! {
            turn = wire.turn(reading) => match turn? {
                Turn::Read => shared.take(wire)?,
                Turn::Wrote => {}
                Turn::End => return Ok(End::Eof),
            },
            () = shared.joined() => {}
            Some((exchange, line)) = lines.recv() => shared.log(&exchange, line),
            Ok(()) = stage.changed() => if *stage.borrow_and_update() == Stage::Leaving {
                Drain { grace_ms: 0 }.encode(&mut wire.out); // P-32
            },
        }
    }
}

impl Shared {
    pub(super) fn service(&self) -> &Service {
        &self.state.service
    }

    pub(super) fn worker(&self) -> Option<u32> {
        self.worker.get()
    }

    /// The answer goes on an answer connection: nothing more for this exchange here (P-24).
    pub(super) fn moved(&self, exchange: &Exchange) {
        if let Some(place) = self.running.borrow_mut().get_mut(&exchange.id()) {
            place.moved = true;
        }
    }

    /// The final frame is encoded, on whatever connection. Said again it does nothing, even if the id has come back.
    pub(super) fn finish(&self, exchange: &Exchange) {
        let id = exchange.id();
        let mut running = self.running.borrow_mut();
        if running.get(&id).is_some_and(|place| place.exchange.is_same(exchange)) {
            running.remove(&id);
            self.session.borrow_mut().finish(id);
        }
    }

    pub(super) fn final_frame(&self, exchange: &Exchange, reset: &Reset) {
        reset.encode(&mut self.out.borrow_mut(), exchange.id());
        self.finish(exchange);
    }

    pub(super) fn reuse(&self) -> Option<Idle> {
        self.idle.borrow_mut().pop()
    }

    pub(super) fn keep(&self, idle: Idle) {
        let mut kept = self.idle.borrow_mut();
        if kept.len() < MAX_IDLE_ANSWERS {
            kept.push(idle);
        }
    }

    /// Waits for tasks that have ended, which have left frames in `out`.
    async fn joined(&self) {
        poll_fn(|cx| {
            let mut tasks = self.tasks.borrow_mut();
            let mut any = Poll::Pending;
            // Handlers' panics are caught where they are polled.
            while let Poll::Ready(Some(_ended)) = tasks.poll_join_next(cx) {
                any = Poll::Ready(());
            }
            any
        })
        .await;
    }

    /// Handles all frames that one read returned (P-18).
    fn take(self: &Rc<Self>, wire: &mut Wire) -> Result<(), ServeError> {
        while let Some((header, payload)) = wire.frame()? {
            check_reset(&header, &payload)?;
            let event = self.session.borrow_mut().receive(&header).map_err(ProtocolError::from)?;
            match event {
                SharedServiceEvent::Request(id) => self.request(id, payload)?,
                SharedServiceEvent::Cancel(id) => self.cancel(id),
                SharedServiceEvent::Welcome => self.worker.set(Some(wire.welcome(&payload)?.worker)),
                SharedServiceEvent::ConnectionReset => return Err(refused(&payload)),
                SharedServiceEvent::Ping => {
                    let bytes = parse_ping(&payload).map_err(ProtocolError::from)?;
                    encode_pong(&mut self.out.borrow_mut(), bytes); // P-35
                }
                SharedServiceEvent::Drain => self.drain(&payload)?,
                SharedServiceEvent::More => self.state.more(More::parse(&payload).map_err(ProtocolError::from)?),
                SharedServiceEvent::Ignored | SharedServiceEvent::Pong | SharedServiceEvent::Skipped => {}
            }
        }
        Ok(())
    }

    fn drain(&self, payload: &[u8]) -> Result<(), ServeError> {
        Drain::parse(payload).map_err(ProtocolError::from)?;
        self.state.drained();
        Ok(())
    }

    fn request(self: &Rc<Self>, id: u16, payload: Bytes) -> Result<(), ServeError> {
        let (head, body) = decode_request(payload).map_err(ProtocolError::from)?;
        if self.state.now() != Stage::Serving {
            self.answered(id, Err(Failure::Refused("the service is ending".into())));
            return Ok(());
        }
        let Some((request, exchange)) = request::build(id, head, Incoming::full(body), &self.log) else {
            self.answered(id, Ok(bad_target()));
            return Ok(());
        };
        let mut running = (self.state.handler)(request);
        // Ready at its first poll: no task. Otherwise the task polls it again, with a waker.
        match Pin::new(&mut running).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => match self.answer(id, outcome) {
                None => {
                    self.session.borrow_mut().finish(id);
                }
                Some(answer) => self.spawn(exchange, Work::Answer(Box::new(answer))),
            },
            Poll::Pending => self.spawn(exchange, Work::Handler(running)),
        }
        Ok(())
    }

    fn answer(&self, id: u16, outcome: Outcome) -> Option<Answer> {
        Answer::at_once(outcome, id, &mut self.out.borrow_mut())
    }

    /// Answers with what fits one frame for certain.
    fn answered(&self, id: u16, outcome: Outcome) {
        let rest = self.answer(id, outcome);
        debug_assert!(rest.is_none(), "a short answer fits one frame");
        self.session.borrow_mut().finish(id);
    }

    fn spawn(self: &Rc<Self>, exchange: Exchange, work: Work) {
        let place = RunningExchange { exchange: exchange.clone(), moved: false };
        self.running.borrow_mut().insert(exchange.id(), place);
        let shared = Rc::clone(self);
        self.tasks.borrow_mut().spawn_local(async move { shared.work(&exchange, work).await });
    }

    async fn work(&self, exchange: &Exchange, work: Work) {
        let answer = match work {
            Work::Answer(answer) => *answer,
            Work::Handler(running) => {
                let outcome = tokio::select! {
                    biased;
                    () = exchange.cancelled() => {
                        return self.final_frame(exchange, &Reset::new(ResetCode::Cancelled, "")); // P-26
                    }
                    outcome = running => outcome,
                };
                match self.answer(exchange.id(), outcome) {
                    None => return self.finish(exchange),
                    Some(answer) => answer,
                }
            }
        };
        answer::carry(self, exchange, answer).await;
    }

    fn cancel(&self, id: u16) {
        if let Some(place) = self.running.borrow().get(&id) {
            place.exchange.cancel();
        }
    }

    /// P-24: once the answer has moved, its id is not used here; then the line names its request instead.
    fn log(&self, exchange: &Exchange, mut line: Log) {
        let id = exchange.id();
        let running = self.running.borrow();
        let here = running.get(&id).is_some_and(|place| !place.moved && place.exchange.is_same(exchange));
        if !here {
            line.text = format!("[{}] {}", exchange.request_id(), line.text);
        }
        line.encode(&mut self.out.borrow_mut(), if here { id } else { 0 });
    }
}

enum Work {
    Handler(Running),
    Answer(Box<Answer>),
}

/// A RESET for an exchange has no use for its payload, which must be one all the same.
pub(super) fn check_reset(header: &FrameHeader, payload: &[u8]) -> Result<(), ServeError> {
    if header.kind == crate::frame::FrameType::RESET {
        Reset::parse(payload).map_err(ProtocolError::from)?;
    }
    Ok(())
}

pub(super) fn bad_target() -> Response<Body> {
    let mut response = Response::new(Body::from("the request target is not a URI\n"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}
