//! A try and what becomes of it. One that failed, or took too long: what has to be done before it is tried again or
//! given up.

use std::time::Instant;

use super::{Exchange, Failed, Fetched, Purpose, Step};
use crate::action::{Action, PlaceTurn, Refusal};
use crate::event::Event;
use crate::handles::Handles;
use crate::request::Upstream;
use crate::retry::{Again, END_NOTICE, Fault, Instance, Tries};
use crate::wait::{Setting, Wait, WaitsFor};

impl<H: Handles> Exchange<H> {
    pub(super) fn sending_step(
        &mut self,
        purpose: Purpose<H>,
        step: Step<H>,
        event: Event<H>,
        now: Instant,
    ) -> Action<H> {
        match (step, event) {
            (Step::Sending(..), Event::Answered { answer, status }) => {
                self.fetched(purpose, Fetched::Response(answer, status))
            }
            (Step::Sending(_, wait), Event::TimeOver { waits_for, body }) => {
                self.take_back(body);
                self.over(purpose, wait, waits_for, now)
            }
            (Step::Sending(tries, wait), Event::SendFailed { fault, failure, status, body, instance }) => {
                let body = self.take_back(body);
                let failed = Failed { fault, body, refusal: Refusal::Given(failure, status), wait };
                self.send_failed(purpose, tries, failed, instance)
            }
            (Step::AwaitingEnd(tries, failed), Event::Instance(instance)) => {
                self.decide(purpose, tries, failed, instance)
            }
            (Step::Reporting(refusal), Event::Reported) => self.fetched(purpose, Fetched::Refused(refusal)),
            (_, _) => Self::bug(),
        }
    }

    fn send_failed(&mut self, purpose: Purpose<H>, tries: Tries, failed: Failed<H>, instance: Instance) -> Action<H> {
        // Nobody accepts there any more: the supervisor is about to learn it, too.
        if failed.fault == Fault::Connect && self.request.upstream == Upstream::Managed {
            return self.go_to(purpose, Step::AwaitingEnd(tries, failed), Action::AwaitEnd(END_NOTICE));
        }
        self.decide(purpose, tries, failed, instance)
    }

    /// Sends it again or gives it up.
    fn decide(&mut self, purpose: Purpose<H>, mut tries: Tries, failed: Failed<H>, instance: Instance) -> Action<H> {
        let Failed { fault, body, refusal, wait } = failed;
        match tries.again(fault, self.request.method.is_idempotent(), body, instance) {
            Again::OverBudget => {
                self.over_budget = true;
                self.fetched(purpose, Fetched::Refused(refusal))
            }
            Again::Never => self.fetched(purpose, Fetched::Refused(refusal)),
            Again::AnotherPlace => self.place(purpose, tries, PlaceTurn::Again),
            Again::SameInstance => {
                let (body, condition) = (self.take_body(), purpose.condition());
                self.go_to(purpose, Step::Sending(tries, wait), Action::SendAgain { body, condition })
            }
        }
    }

    /// No response in time. Never tried again: what has taken so long may still be carried out.
    fn over(&mut self, purpose: Purpose<H>, wait: Wait, waits_for: WaitsFor, now: Instant) -> Action<H> {
        if waits_for == WaitsFor::Client {
            return self.fetched(purpose, Fetched::Refused(Refusal::BodyLate(wait.late())));
        }
        let limit = wait.over(now);
        let refusal = Refusal::TimedOut(limit);
        if limit.setting == Setting::MaxRequestTime && self.request.upstream == Upstream::Managed {
            return self.go_to(purpose, Step::Reporting(refusal), Action::ReportStuck);
        }
        self.fetched(purpose, Fetched::Refused(refusal))
    }
}
