//! A request to its service: the body, the place, the try.

use std::mem;
use std::time::Instant;

use super::{Asking, Body, Exchange, Fetched, Purpose, State, Step};
use crate::action::{Action, PlaceTurn, Refusal};
use crate::event::{BodyLeft, Event};
use crate::handles::Handles;
use crate::request::Upstream;
use crate::retry::{BodyState, Tries};
use crate::wait::Wait;

impl<H: Handles> Exchange<H> {
    /// Past the cache, which only learns what becomes invalid. RFC 9111 §4.4: an unsafe request makes invalid what is
    /// stored, by whatever route it comes.
    pub(super) fn pass(&mut self, why: H::Why, has_cache: bool) -> Action<H> {
        let invalidates = has_cache && !self.request.method.is_safe();
        self.open_body(Purpose::Pass { why, post: None, invalidates })
    }

    /// A POST whose response may be stored. The body comes first: one that is too large begins nothing.
    pub(super) fn begin_post(&mut self, why: H::Why) -> Action<H> {
        self.open_body(Purpose::Post { why })
    }

    pub(super) fn pass_with(&mut self, why: H::Why, post: Option<H::Fill>) -> Action<H> {
        self.hold_body(Purpose::Pass { why, post, invalidates: true })
    }

    /// To the service, and its response into the cache if it may be stored.
    pub(super) fn fill(&mut self, asking: Asking<H>, fill: H::Fill) -> Action<H> {
        let Asking { why, stale } = asking;
        self.open_body(Purpose::Fill { fill, why, stale })
    }

    /// RFC 9111 §4.3.3: the 304 was about another response. No second condition, so no third question.
    pub(super) fn ask_once_more(&mut self, fill: H::Fill, why: H::Why) -> Action<H> {
        self.hold_body(Purpose::Fill { fill, why, stale: None })
    }

    fn open_body(&mut self, purpose: Purpose<H>) -> Action<H> {
        match self.body {
            Body::Unopened => self.go_to(purpose, Step::OpeningBody, Action::OpenBody),
            Body::Nothing | Body::Whole(_) | Body::Gone => self.opened(purpose),
        }
    }

    fn opened(&mut self, purpose: Purpose<H>) -> Action<H> {
        match purpose {
            Purpose::Post { why } => {
                self.state = State::BeginningPost(why);
                Action::BeginPost
            }
            purpose => self.hold_body(purpose),
        }
    }

    /// A small body is awaited before the place, so that a client that sends it byte by byte takes none.
    fn hold_body(&mut self, purpose: Purpose<H>) -> Action<H> {
        match mem::replace(&mut self.body, Body::Gone) {
            Body::Whole(body) if self.request.upstream == Upstream::Managed => {
                let wait = self.wait();
                self.go_to(purpose, Step::HoldingBody(wait), Action::HoldBody(body, wait))
            }
            body => {
                self.body = body;
                self.place(purpose, Tries::first(), PlaceTurn::First)
            }
        }
    }

    pub(super) fn place(&mut self, purpose: Purpose<H>, tries: Tries, turn: PlaceTurn) -> Action<H> {
        let wait = self.wait();
        match self.request.upstream {
            Upstream::Managed => self.go_to(purpose, Step::Placing(tries, wait), Action::TakePlace(turn, wait)),
            Upstream::External => self.send(purpose, tries, wait),
        }
    }

    pub(super) fn send(&mut self, purpose: Purpose<H>, tries: Tries, wait: Wait) -> Action<H> {
        let (body, condition) = (self.take_body(), purpose.condition());
        self.go_to(purpose, Step::Sending(tries, wait), Action::Send { body, condition, wait })
    }

    pub(super) fn go_to(&mut self, purpose: Purpose<H>, step: Step<H>, action: Action<H>) -> Action<H> {
        self.state = State::Fetch(purpose, step);
        action
    }

    /// A body that is sent is the machine's no more, until what is left of it comes back.
    pub(super) fn take_body(&mut self) -> Option<H::Body> {
        match mem::replace(&mut self.body, Body::Gone) {
            Body::Whole(body) => Some(body),
            Body::Nothing => {
                self.body = Body::Nothing;
                None
            }
            Body::Unopened | Body::Gone => None,
        }
    }

    pub(super) fn take_back(&mut self, left: BodyLeft<H>) -> BodyState {
        match left {
            BodyLeft::Whole(Some(body)) => self.body = Body::Whole(body),
            BodyLeft::Whole(None) => {}
            BodyLeft::Spent => {
                // Of no body nothing is gone, but the driver says that the request cannot be sent again.
                if !matches!(self.body, Body::Nothing) {
                    self.body = Body::Gone;
                }
                return BodyState::Spent;
            }
        }
        BodyState::Whole
    }

    pub(super) fn fetch_step(
        &mut self,
        purpose: Purpose<H>,
        step: Step<H>,
        event: Event<H>,
        now: Instant,
    ) -> Action<H> {
        match (step, event) {
            (Step::OpeningBody, Event::BodyOpened(body)) => {
                self.body = body.map_or(Body::Nothing, Body::Whole);
                self.opened(purpose)
            }
            (Step::HoldingBody(_), Event::BodyHeld(body)) => {
                self.body = Body::Whole(body);
                self.place(purpose, Tries::first(), PlaceTurn::First)
            }
            (Step::HoldingBody(wait), Event::TimeOver { body, .. }) => {
                self.take_back(body);
                self.fetched(purpose, Fetched::Refused(Refusal::BodyLate(wait.late())))
            }
            (Step::Placing(tries, wait), Event::Placed) => self.send(purpose, tries, wait),
            (Step::Placing(_, wait), Event::TimeOver { .. }) => {
                self.fetched(purpose, Fetched::Refused(Refusal::TimedOut(wait.over(now))))
            }
            (
                step @ (Step::OpeningBody | Step::HoldingBody(_) | Step::Placing(..)),
                Event::Failed { failure, status, body },
            ) => {
                match body {
                    Some(body) => self.body = Body::Whole(body),
                    None if matches!(step, Step::Placing(..)) => {}
                    None => self.body = Body::Gone,
                }
                self.fetched(purpose, Fetched::Refused(Refusal::Given(failure, status)))
            }
            (step, event) => self.sending_step(purpose, step, event, now),
        }
    }
}
