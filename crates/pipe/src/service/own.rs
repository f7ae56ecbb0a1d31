//! An own connection: one exchange at a time, streaming both ways (P-19 … P-23).

use super::answer::Answer;
use super::body::{Body, Incoming, Message};
use super::error::ServeError;
use super::exchange::{Exchange, MAX_LOG_LINES};
use super::instance::Instance;
use super::outcome::{Failure, Offer, Outcome, Running, checked};
use super::request;
use super::stage::Stage;
use super::upgrade::{OnUpgrade, Upgraded};
use super::wire::{End, Ended, Reading, Turn, Wire, check_reset};
use crate::control::{Drain, Log, encode_pong, encode_stop, parse_ping};
use crate::frame::{FrameHeader, flags};
use crate::head::{DecodedRequest, decode_fields, decode_offer, decode_request, encode_response};
use crate::hello::ConnectionKind;
use crate::reset::{Reset, ResetCode};
use crate::session::{OwnService, OwnServiceEvent, Part, ProtocolError};
use bytes::Bytes;
use http::Response;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What a client is told that meets `max_upgraded`.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Serves one own connection to its end.
pub(super) async fn run(instance: &Rc<Instance>, worker: Option<u32>) -> Ended {
    let wire = Wire::dial(&instance.settings, ConnectionKind::Own, worker).await?;
    let (log, lines) = mpsc::channel(MAX_LOG_LINES);
    let mut own = Own {
        instance: Rc::clone(instance),
        wire,
        session: OwnService::default(),
        work: Work::Idle,
        exchange: None,
        body: None,
        waiting: None,
        switch: None,
        log,
    };
    let result = own.serve(lines, instance.watch_stage()).await;
    if own.session.owes_answer() {
        own.cancel(); // P-34
    }
    match result {
        Ok(_) if own.switch.is_some() => switched(own).await,
        Ok(end) => Ok(end),
        Err(error) => own.wire.give_up(error).await,
    }
}

/// The connection is the other protocol's, to its end.
async fn switched(own: Own) -> Ended {
    let Own { instance, wire, switch, .. } = own;
    let stream = wire.leave().await?;
    instance.upgraded();
    if let Some(switch) = switch {
        switch.run(Upgraded::new(stream, instance.watch_stage())).await;
    }
    Ok(End::Upgraded)
}

struct Own {
    instance: Rc<Instance>,
    wire: Wire,
    session: OwnService,
    work: Work,
    exchange: Option<Exchange>,
    /// Where the request's body goes while somebody wants it.
    body: Option<mpsc::Sender<Message>>,
    /// A part of the body that waits for room there; nothing is read meanwhile.
    waiting: Option<Message>,
    /// What takes the connection behind the RESPONSE that was put into `out` last.
    switch: Option<OnUpgrade>,
    log: mpsc::Sender<(Exchange, Log)>,
}

/// The response direction.
enum Work {
    Idle,
    Handler(Running),
    Answer(Box<Answer>),
}

/// What a turn of the loop found; only applying it changes the state.
enum Action {
    Turn(Turn),
    /// There is room for the part of the body that waits.
    Room,
    /// The handler has dropped the body.
    Unwanted,
    Outcome(Outcome),
    /// There is something to put into a frame.
    Put,
    Line(Exchange, Log),
    Stage,
}

impl Own {
    async fn serve(&mut self, mut lines: mpsc::Receiver<(Exchange, Log)>, mut stage: watch::Receiver<Stage>) -> Ended {
        loop {
            let over = self.session.is_idle() && self.wire.out.is_empty();
            if over && *stage.borrow_and_update() == Stage::Drained {
                return Ok(End::Closed); // P-31
            }
            match self.select(&mut lines, &mut stage).await? {
                Action::Turn(Turn::End) => return Ok(End::Eof),
                action => self.apply(action),
            }
            if self.switch.is_some() {
                return Ok(End::Upgraded);
            }
            // Also when nothing was read: a part of the body may have waited before other frames.
            self.take()?;
        }
    }

    async fn select(
        &mut self,
        lines: &mut mpsc::Receiver<(Exchange, Log)>,
        stage: &mut watch::Receiver<Stage>,
    ) -> Result<Action, ServeError> {
        let reading = if self.waiting.is_some() { Reading::Paused } else { Reading::On };
        let room = self.wire.room() > 0;
        // Split so that the branches can borrow their own parts.
        let Self { wire, work, body, waiting, .. } = self;
        Ok(tokio::select! {
            biased;
            action = poll_fn(|cx| match work {
                Work::Handler(running) => std::pin::Pin::new(running).poll(cx).map(Action::Outcome),
                Work::Answer(answer) if room => answer.poll_ready(cx).map(|()| Action::Put),
                _ => std::task::Poll::Pending,
            }) => action,
            () = has_room(body.as_ref()), if waiting.is_some() => Action::Room,
            () = is_unwanted(body.as_ref()) => Action::Unwanted,
            turn = wire.turn(reading) => Action::Turn(turn?),
            Some((exchange, line)) = lines.recv() => Action::Line(exchange, line),
            Ok(()) = stage.changed() => Action::Stage,
        })
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Turn(_) | Action::Stage => {}
            Action::Room => self.pass_on(),
            Action::Unwanted => self.drop_body(),
            Action::Outcome(outcome) => self.outcome(outcome),
            Action::Put => self.put(),
            Action::Line(exchange, mut line) => {
                let here = self.exchange.as_ref().is_some_and(|current| current.is_same(&exchange));
                if !here {
                    line.text = format!("[{}] {}", exchange.request_id(), line.text);
                }
                line.encode(&mut self.wire.out, if here { exchange.id() } else { 0 });
            }
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        let offer = if self.session.is_offered() { Offer::Switch } else { Offer::None };
        match checked(outcome, offer) {
            Ok(response) if response.body().is_upgrade() => self.accept(response),
            Ok(response) => self.work = Work::Answer(Box::new(Answer::new(response))),
            Err(failure) => self.finish(Some(&failure.to_reset())),
        }
    }

    /// P-40: the last frame of this connection.
    fn accept(&mut self, response: Response<Body>) {
        let (head, body) = response.into_parts();
        let id = self.session.exchange().unwrap_or_default();
        if !self.instance.takes_upgrade() {
            let text = format!("{} connections have switched protocols already", self.instance.settings.max_upgraded);
            let failure = Failure::Overloaded { retry_after: FULL_RETRY_AFTER, text };
            return self.finish(Some(&failure.to_reset()));
        }
        match encode_response(&mut self.wire.out, id, flags::UPGRADE, head.status, &head.headers, &[]) {
            Ok(()) => {
                self.switch = body.into_upgrade();
                self.ended();
            }
            Err(error) => {
                let failure = Failure::Internal(format!("the response head is too large: {error}"));
                self.finish(Some(&failure.to_reset()));
            }
        }
    }

    fn put(&mut self) {
        let (Work::Answer(answer), Some(id)) = (&mut self.work, self.session.exchange()) else {
            return;
        };
        match answer.put(id, self.wire.room(), &mut self.wire.out) {
            Part::Last => self.finish(None),
            Part::More => self.session.answer_begun(),
        }
    }

    /// Handles what was read, until a part of the body has to wait.
    fn take(&mut self) -> Result<(), ServeError> {
        while self.waiting.is_none() {
            let Some((header, payload)) = self.wire.frame()? else {
                break;
            };
            self.frame(&header, payload)?;
        }
        Ok(())
    }

    fn frame(&mut self, header: &FrameHeader, payload: Bytes) -> Result<(), ServeError> {
        check_reset(header, &payload)?;
        match self.session.receive(header).map_err(ProtocolError::from)? {
            OwnServiceEvent::Welcome => self.session.agreed(self.wire.welcome(&payload)?.minor),
            OwnServiceEvent::Request(id, part) => {
                let request = decode_request(payload).map_err(ProtocolError::from)?;
                self.request(id, part, request);
            }
            OwnServiceEvent::Offer(id) => {
                let request = decode_offer(payload).map_err(ProtocolError::from)?;
                self.request(id, Part::Last, request);
            }
            OwnServiceEvent::Data(Part::More) if payload.is_empty() => {}
            OwnServiceEvent::Data(Part::More) => self.give(Message::Data(payload)),
            OwnServiceEvent::Data(Part::Last) => self.give(Message::Last(payload)),
            OwnServiceEvent::Trailers => {
                self.give(Message::Trailers(decode_fields(&payload).map_err(ProtocolError::from)?));
            }
            OwnServiceEvent::Cancel => {
                self.cancel();
                self.finish(Some(&Reset::new(ResetCode::Cancelled, ""))); // P-26
            }
            OwnServiceEvent::ConnectionReset => return Err(ServeError::from_connection_reset(&payload)),
            OwnServiceEvent::Ping => {
                encode_pong(&mut self.wire.out, parse_ping(&payload).map_err(ProtocolError::from)?); // P-35
            }
            OwnServiceEvent::Drain => {
                Drain::parse(&payload).map_err(ProtocolError::from)?;
                self.instance.drained();
            }
            OwnServiceEvent::Thrown | OwnServiceEvent::Ignored | OwnServiceEvent::Pong | OwnServiceEvent::Skipped => {}
        }
        Ok(())
    }

    fn request(&mut self, id: u16, part: Part, request: (DecodedRequest, Bytes)) {
        let (head, first) = request;
        let (body, incoming) = match part {
            Part::Last => (None, Incoming::full(first)),
            Part::More => {
                let (sender, incoming) = Incoming::channel(first);
                (Some(sender), incoming)
            }
        };
        self.body = body;
        let leaving = self.instance.stage() != Stage::Serving;
        match request::build(id, head, incoming, &self.log) {
            _ if leaving => {
                self.exchange = None;
                let refused = Failure::Refused("the service is ending".into()).to_reset();
                refused.encode(&mut self.wire.out, id);
                self.ended();
            }
            Some((request, exchange)) => {
                self.exchange = Some(exchange);
                self.work = Work::Handler((self.instance.handler)(request));
            }
            None => {
                let rest = Answer::at_once(Ok(request::bad_target()), id, &mut self.wire.out);
                debug_assert!(rest.is_none(), "a short answer fits one frame");
                self.ended();
            }
        }
    }

    /// Hands a part of the body to the handler, now or when it has room.
    fn give(&mut self, message: Message) {
        self.waiting = Some(message);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        let Some(message) = self.waiting.take() else { return };
        let Some(body) = &self.body else { return };
        let last = !matches!(message, Message::Data(_));
        match body.try_send(message) {
            Ok(()) if last => self.body = None,
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(message)) => self.waiting = Some(message),
            Err(mpsc::error::TrySendError::Closed(_)) => self.drop_body(),
        }
    }

    /// Nobody wants the rest of the body (P-21).
    fn drop_body(&mut self) {
        self.body = None;
        self.waiting = None;
        if self.session.stop() {
            encode_stop(&mut self.wire.out, self.session.exchange().unwrap_or_default());
        }
    }

    /// The response direction ends: with this RESET, or with the frame that was put into `out` last.
    fn finish(&mut self, reset: Option<&Reset>) {
        if let (Some(reset), Some(id)) = (reset, self.session.exchange()) {
            reset.encode(&mut self.wire.out, id);
        }
        self.ended();
    }

    fn ended(&mut self) {
        self.work = Work::Idle;
        self.exchange = None;
        self.body = None;
        self.waiting = None;
        self.session.finish();
    }

    /// Tells work that goes on elsewhere.
    fn cancel(&mut self) {
        if let Some(exchange) = &self.exchange {
            exchange.cancel();
        }
    }
}

async fn has_room(body: Option<&mpsc::Sender<Message>>) {
    if let Some(body) = body {
        // An error is room as well: the part is thrown away.
        drop(body.reserve().await);
    }
}

async fn is_unwanted(body: Option<&mpsc::Sender<Message>>) {
    match body {
        Some(body) => body.closed().await,
        None => pending().await,
    }
}
