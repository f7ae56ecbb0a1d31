//! A shared connection: many small exchanges, one read and one write for a batch of them (P-18).

mod answer_connection;
mod exchanges;
mod send_answer;

use super::answer::Answer;
use super::body::Incoming;
use super::error::ServeError;
use super::exchange::{Exchange, MAX_LOG_LINES};
use super::instance::Instance;
use super::outcome::{Failure, Offer, Outcome, Running, checked};
use super::request;
use super::stage::Stage;
use super::wire::{End, Ended, Reading, Turn, Wire, check_reset};
use crate::control::{Drain, Log, More, encode_pong, parse_ping};
use crate::frame::{HEADER_LEN, MAX_FRAME};
use crate::head::decode_request;
use crate::hello::ConnectionKind;
use crate::reset::{Reset, ResetCode};
use crate::session::{ProtocolError, SharedServiceEvent};
use bytes::Bytes;
use exchanges::SharedExchanges;
use send_answer::send_answer;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// One shared connection.
struct Shared {
    instance: Rc<Instance>,
    exchanges: SharedExchanges,
    tasks: RefCell<JoinSet<()>>,
    log: mpsc::Sender<(Exchange, Log)>,
}

/// Serves one shared connection to its end.
pub(super) async fn run(instance: &Rc<Instance>, worker: Option<u32>) -> Ended {
    let mut wire = Wire::dial(&instance.settings, ConnectionKind::Shared, worker).await?;
    let (log, lines) = mpsc::channel(MAX_LOG_LINES);
    let shared = Rc::new(Shared {
        instance: Rc::clone(instance),
        exchanges: SharedExchanges::new(worker, instance.settings.exchanges),
        tasks: RefCell::new(JoinSet::new()),
        log,
    });
    let result = serve(&shared, &mut wire, lines).await;
    // Exchanges hold what holds them; without this connection nobody waits for them.
    shared.exchanges.cancel_all();
    shared.tasks.borrow_mut().abort_all();
    match result {
        Ok(end) => Ok(end),
        Err(error) => wire.give_up(error).await,
    }
}

async fn serve(shared: &Rc<Shared>, wire: &mut Wire, mut lines: mpsc::Receiver<(Exchange, Log)>) -> Ended {
    let mut stage = shared.instance.watch_stage();
    if *stage.borrow_and_update() == Stage::Leaving {
        Drain { grace_ms: 0 }.encode(&mut wire.out);
    }
    // Beyond the answers only PONGs and RESETs can pile up: then reading waits for writing.
    let max_out = (usize::from(shared.instance.settings.exchanges) + 1) * (HEADER_LEN + MAX_FRAME);
    loop {
        wire.out.unsplit(shared.exchanges.out.borrow_mut().split());
        let done =
            wire.out.is_empty() && shared.exchanges.session.borrow().open() == 0 && shared.tasks.borrow().is_empty();
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
            Some((exchange, line)) = lines.recv() => shared.exchanges.log(&exchange, line),
            Ok(()) = stage.changed() => if *stage.borrow_and_update() == Stage::Leaving {
                Drain { grace_ms: 0 }.encode(&mut wire.out); // P-32
            },
        }
    }
}

impl Shared {
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
            let event = self.exchanges.session.borrow_mut().receive(&header).map_err(ProtocolError::from)?;
            match event {
                SharedServiceEvent::Request(id) => self.request(id, payload)?,
                SharedServiceEvent::Cancel(id) => self.exchanges.cancel(id),
                SharedServiceEvent::Welcome => self.exchanges.set_worker(wire.welcome(&payload)?.worker),
                SharedServiceEvent::ConnectionReset => return Err(ServeError::from_connection_reset(&payload)),
                SharedServiceEvent::Ping => {
                    let bytes = parse_ping(&payload).map_err(ProtocolError::from)?;
                    encode_pong(&mut self.exchanges.out.borrow_mut(), bytes); // P-35
                }
                SharedServiceEvent::Drain => self.drain(&payload)?,
                SharedServiceEvent::More => self.instance.more(More::parse(&payload).map_err(ProtocolError::from)?),
                SharedServiceEvent::Ignored | SharedServiceEvent::Pong | SharedServiceEvent::Skipped => {}
            }
        }
        Ok(())
    }

    fn drain(&self, payload: &[u8]) -> Result<(), ServeError> {
        Drain::parse(payload).map_err(ProtocolError::from)?;
        self.instance.drained();
        Ok(())
    }

    fn request(self: &Rc<Self>, id: u16, payload: Bytes) -> Result<(), ServeError> {
        let (head, body) = decode_request(payload).map_err(ProtocolError::from)?;
        if self.instance.stage() != Stage::Serving {
            self.answered(id, Err(Failure::Refused("the service is ending".into())));
            return Ok(());
        }
        let Some((request, exchange)) = request::build(id, head, Incoming::full(body), &self.log) else {
            self.answered(id, Ok(request::bad_target()));
            return Ok(());
        };
        let mut running = (self.instance.handler)(request);
        // Ready at its first poll: no task. Otherwise the task polls it again, with a waker.
        match Pin::new(&mut running).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => match self.answer(id, outcome) {
                None => {
                    self.exchanges.session.borrow_mut().finish(id);
                }
                Some(answer) => self.spawn(exchange, Work::Answer(Box::new(answer))),
            },
            Poll::Pending => self.spawn(exchange, Work::Handler(running)),
        }
        Ok(())
    }

    fn answer(&self, id: u16, outcome: Outcome) -> Option<Answer> {
        Answer::at_once(checked(outcome, Offer::None), id, &mut self.exchanges.out.borrow_mut())
    }

    /// Answers with what fits one frame for certain.
    fn answered(&self, id: u16, outcome: Outcome) {
        let rest = self.answer(id, outcome);
        debug_assert!(rest.is_none(), "a short answer fits one frame");
        self.exchanges.session.borrow_mut().finish(id);
    }

    fn spawn(self: &Rc<Self>, exchange: Exchange, work: Work) {
        self.exchanges.begin(exchange.clone());
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
                        return self.exchanges.final_frame(exchange, &Reset::new(ResetCode::Cancelled, "")); // P-26
                    }
                    outcome = running => outcome,
                };
                match self.answer(exchange.id(), outcome) {
                    None => return self.exchanges.finish(exchange),
                    Some(answer) => answer,
                }
            }
        };
        send_answer(&self.instance.settings, &self.exchanges, exchange, answer).await;
    }
}

enum Work {
    Handler(Running),
    Answer(Box<Answer>),
}
