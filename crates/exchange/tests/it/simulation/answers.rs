//! What a client does with a response, and what is checked of its response.

use std::rc::Rc;

use super::client::{Client, Context};
use super::model::{Content, Fill, Model, Outcome};
use pilotlight_exchange::{Action, Connection, Event, Judgement, Refusal, Response, RestOfBody, Status};

impl Client {
    pub(super) fn act_on_answer(&mut self, action: Action<Model>, context: &mut Context<'_>) -> Event<Model> {
        match action {
            Action::Invalidate(answer) => {
                if answer.status < 400 {
                    let state = &mut *context.world.0.borrow_mut();
                    state.invalidate(answer.key);
                    let floor = state.floor.entry(answer.key).or_default();
                    *floor = answer.version.max(*floor);
                }
                self.has_invalidated = true;
                Event::Invalidated(answer)
            }
            Action::MayServeStale(stored) => Event::MayServeStale(context.world.0.borrow().serves_if_error(&stored)),
            Action::LandFailed(fill, stored, _) => {
                fill.land(Outcome::Failed(stored));
                Event::LandedFailed
            }
            Action::Validate(fill, stored, answer) => self.validate(fill, &stored, answer, context),
            Action::Judge(fill, answer, judgement) => judge(fill, answer, judgement, context),
            Action::LookAtBody(body) => Event::RestOfBody(match body {
                Some(_) => RestOfBody::Untouched { is_ended: false, remaining: Some(context.rng.u64(0..100_000)) },
                None => RestOfBody::Touched { received_all: context.chance(50) },
            }),
            _ => panic!("an action that waits"),
        }
    }

    fn validate(&mut self, fill: Fill, old: &Content, answer: Content, context: &Context<'_>) -> Event<Model> {
        if answer.is_mismatch {
            self.has_mismatched = true;
            (self.tries, self.moves) = (0, 0);
            return Event::Mismatched(fill);
        }
        assert_eq!(old.version, answer.version, "a 304 confirms what it was asked about");
        let (epoch, status) = (fill.epoch, 200);
        let updated = Rc::new(Content { epoch, status, ..answer.clone() });
        match store(fill, &updated, context, Outcome::Stored(Rc::clone(&updated))) {
            true => Event::Validated(updated, None, answer),
            false => Event::Validated(updated, Some("invalidated"), answer),
        }
    }

    pub(super) fn respond(&mut self, response: Response<Model>, connection: Connection, context: &Context<'_>) {
        self.responses += 1;
        let asks = self.asks;
        let now = context.world.0.borrow().now;
        if let Some(timeout) = self.timeout {
            assert!(
                now <= self.begun + timeout + self.unbounded_ms,
                "{asks:?} was answered at {now}, begun at {}",
                self.begun
            );
        }
        if asks.method.is_safe() {
            assert_eq!(connection, Connection::Keep, "{asks:?} has no body");
        }
        let content = match response {
            Response::Failure(refusal) => return self.check_refusal(&refusal),
            Response::Stored(content, status) => {
                if matches!(status, Status::StaleIfError(..)) {
                    assert!(self.faults > 0, "{asks:?} was answered with {status:?} without an error");
                    assert!(
                        context.world.0.borrow().serves_if_error(&content),
                        "{asks:?} was answered with what is purged"
                    );
                }
                content
            }
            Response::Live(content, ()) => content,
            Response::Validated { stored, .. } => stored,
            Response::Recorded(content, (), ()) => Rc::new(content),
            Response::Passed(content, ..) => {
                if !asks.method.is_safe() {
                    assert!(self.has_invalidated, "{asks:?} has invalidated nothing");
                }
                Rc::new(content)
            }
        };
        assert_eq!(content.key, asks.key, "{asks:?} got another resource");
        assert!(content.user.is_none_or(|user| user == asks.id), "{asks:?} got what is user {:?}'s", content.user);
        assert!(content.version >= self.floor, "{asks:?} got version {} after {}", content.version, self.floor);
    }

    fn check_refusal(&self, refusal: &Refusal<Model>) {
        let asks = self.asks;
        match refusal {
            Refusal::Bug => panic!("{asks:?} met a bug"),
            Refusal::OnlyIfCached => assert!(asks.only_if_cached, "{asks:?} did not say only-if-cached"),
            Refusal::Given(..) | Refusal::TimedOut(_) | Refusal::BodyLate(_) => {
                assert!(self.faults > 0, "{asks:?} was refused without a fault");
            }
        }
    }
}

/// Stores and lands; whether it was stored.
fn store(fill: Fill, content: &Rc<Content>, context: &Context<'_>, outcome: Outcome) -> bool {
    let is_valid = {
        let state = &mut *context.world.0.borrow_mut();
        let is_valid = state.epoch(fill.key) == content.epoch;
        if is_valid {
            state.memory.insert(fill.key, Rc::clone(content));
            if state.redis_is_up {
                state.redis.insert(fill.key, Rc::clone(content));
            }
        }
        is_valid
    };
    // Who follows a fill that was invalidated finds out by itself.
    fill.land(outcome);
    is_valid
}

fn judge(fill: Fill, answer: Content, judgement: Judgement, context: &mut Context<'_>) -> Event<Model> {
    let is_stored = answer.status == 200 && answer.user.is_none();
    // What is posted is stored only if it says that it is what a GET gets, and the request's own invalidation is no
    // reason against it.
    let (is_stored, epoch) = match judgement {
        Judgement::Response => (is_stored, fill.epoch),
        Judgement::Posted => (is_stored && context.chance(50), fill.epoch + 1),
    };
    if !is_stored {
        fill.land(Outcome::Passed);
        return Event::Unstored(answer, "not to be stored");
    }
    let stored = Rc::new(Content { epoch, ..answer.clone() });
    let outcome =
        if context.chance(30) { Outcome::Live(Rc::clone(&stored)) } else { Outcome::Stored(Rc::clone(&stored)) };
    match store(fill, &stored, context, outcome) {
        true => Event::Store(answer, ()),
        false => Event::Unstored(answer, "invalidated"),
    }
}
