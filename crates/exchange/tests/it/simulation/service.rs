//! The service: what it does with a request, and what goes wrong with it.

use pilotlight_exchange::retry::{Delivery, Fault, Instance, Reuse};
use pilotlight_exchange::{BodyLeft, Event, Wait};

use super::client::{Client, Context, Op, Pending};
use super::model::{Content, Model, PRIVATE};

impl Client {
    pub(super) fn instance_state(&self, context: &Context<'_>) -> Instance {
        let state = context.world.0.borrow();
        let (drains, has_ended) = (state.draining.contains(&self.instance), state.ended.contains(&self.instance));
        Instance { drains, has_ended, ..Instance::default() }
    }

    fn failed(&mut self, fault: Fault, is_spent: bool, context: &Context<'_>) -> Event<Model> {
        self.faults += 1;
        self.is_suspect |= matches!(fault, Fault::Closed(Delivery::Suspect, _));
        let body = match self.sent.take() {
            Some(_) if is_spent => BodyLeft::Spent,
            body => BodyLeft::Whole(body),
        };
        let instance = self.instance_state(context);
        let nothing_done = matches!(fault, Fault::Closed(Delivery::No, _) | Fault::Refused);
        self.moves += u16::from(nothing_done && instance.drains && !instance.has_ended);
        let status = if matches!(fault, Fault::Refused | Fault::Overloaded) { 503 } else { 502 };
        Event::SendFailed { fault, failure: "no answer", status, body, instance }
    }

    /// The service reads the request, or does not.
    pub(super) fn read(&mut self, wait: Option<Wait>, context: &mut Context<'_>) -> Option<Event<Model>> {
        let state = self.instance_state(context);
        let reuse = if context.chance(50) { Reuse::Kept } else { Reuse::New };
        if state.has_ended || context.chance(4) {
            let unknown = if context.chance(50) { Delivery::No } else { Delivery::Maybe };
            let fault = if context.chance(40) { Fault::Connect } else { Fault::Closed(unknown, reuse) };
            let is_spent = fault != Fault::Connect && context.chance(40);
            return Some(self.failed(fault, is_spent, context));
        }
        if state.drains || context.chance(2) {
            return Some(self.failed(Fault::Refused, false, context));
        }
        if context.chance(3) {
            return Some(self.failed(Fault::Overloaded, false, context));
        }
        let content = self.execute(context);
        if context.chance(6) {
            let delivery = if context.chance(50) { Delivery::Maybe } else { Delivery::Suspect };
            // A kept connection that breaks after it was read looks as one that was closed before.
            let reuse = if delivery == Delivery::Maybe { reuse } else { Reuse::New };
            let is_spent = context.chance(50);
            return Some(self.failed(Fault::Closed(delivery, reuse), is_spent, context));
        }
        let at = (!context.chance(3)).then(|| context.now() + context.rng.u64(0..120));
        self.pending = Some(Pending { op: Op::Answer(content), at, wait });
        None
    }

    /// It carries the request out.
    fn execute(&mut self, context: &mut Context<'_>) -> Content {
        let (is_error, is_mismatch) = (context.chance(8), context.chance(20));
        let state = &mut *context.world.0.borrow_mut();
        let executed = state.executed.entry(self.asks.id).or_default();
        *executed += 1;
        assert!(*executed == 1 || self.asks.method.is_idempotent(), "{:?} was carried out twice", self.asks);
        let version = state.version.entry(self.asks.key).or_default();
        if !self.asks.method.is_safe() {
            *version += 1;
        }
        let is_same = self.condition.as_ref().is_some_and(|condition| condition.version == *version);
        Content {
            key: self.asks.key,
            version: *version,
            user: (self.asks.key == PRIVATE).then_some(self.asks.id),
            status: if is_error {
                503
            } else if is_same {
                304
            } else {
                200
            },
            received: state.now,
            epoch: 0,
            is_mismatch,
        }
    }

    pub(super) fn answer(&mut self, content: Content, context: &mut Context<'_>) -> Event<Model> {
        if self.instance_state(context).has_ended {
            let delivery = if context.chance(50) { Delivery::Maybe } else { Delivery::Suspect };
            let is_spent = context.chance(50);
            return self.failed(Fault::Closed(delivery, Reuse::New), is_spent, context);
        }
        self.faults += u32::from(content.status >= 500);
        let status = content.status;
        Event::Answered { answer: content, status }
    }
}
