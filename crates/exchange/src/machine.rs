//! The state of one exchange, and which part decides about which event.

use std::mem;
use std::time::Instant;

use crate::action::{Action, Connection, Refusal, Response, Status, Verdict};
use crate::event::{Event, Stale};
use crate::handles::Handles;
use crate::request::Request;
use crate::retry::{BodyState, Fault, Tries};
use crate::wait::{Limit, Setting, Wait};

mod failed;
mod fetch;
mod lookup;
mod response;
mod rest;
mod second_tier;

/// One request on its way to its response.
pub struct Exchange<H: Handles> {
    request: Request,
    state: State<H>,
    body: Body<H>,
    verdict: Verdict,
    /// The route's `timeout`, and when it is over. Known with the first event.
    whole: Option<(Limit, Instant)>,
    /// It was not sent again for want of budget.
    over_budget: bool,
}

/// Which event is awaited.
enum State<H: Handles> {
    New,
    Refreshing(H::Stored),
    Turn(Asking<H>, Wait),
    Redis(Asking<H>),
    Lead(Asking<H>),
    Adopting(Asking<H>),
    Preparing(Asking<H>),
    RedisOnly,
    BeginningPost(H::Why),
    Fetch(Purpose<H>, Step<H>),
    Invalidating(H::Why, Option<H::Fill>),
    MayServeStale { fill: H::Fill, stale: Stale<H>, why: H::Why, fetched: Fetched<H> },
    LandingFailed { stored: H::Stored, why: H::Why, answered: Option<u16> },
    Validating(H::Why),
    Judging(H::Why),
    LookingAtBody(Response<H>),
    Draining(Response<H>),
    Done,
}

/// A request that the cache forwards.
struct Asking<H: Handles> {
    why: H::Why,
    stale: Option<Stale<H>>,
}

/// For whom the service is asked.
enum Purpose<H: Handles> {
    /// For this client alone, past the cache; a POST's fill is not begun before its body was opened.
    Post { why: H::Why },
    /// For this client alone, past the cache.
    Pass { why: H::Why, post: Option<H::Fill>, invalidates: bool },
    /// For the cache, and perhaps for others. `stale`: what is validated, and stands in for an error.
    Fill { fill: H::Fill, why: H::Why, stale: Option<Stale<H>> },
}

/// How far a fetch is.
enum Step<H: Handles> {
    OpeningBody,
    HoldingBody(Wait),
    Placing(Tries, Wait),
    Sending(Tries, Wait),
    AwaitingEnd(Tries, Failed<H>),
    Reporting(Refusal<H>),
}

/// A try that failed.
struct Failed<H: Handles> {
    fault: Fault,
    body: BodyState,
    refusal: Refusal<H>,
    wait: Wait,
}

/// What a fetch came to.
enum Fetched<H: Handles> {
    Response(H::Fetched, u16),
    Refused(Refusal<H>),
}

/// The body of the request.
enum Body<H: Handles> {
    Nothing,
    /// On the client's connection.
    Unopened,
    Whole(H::Body),
    /// Sent, or lost in part.
    Gone,
}

impl<H: Handles> Exchange<H> {
    /// An exchange that has not begun.
    pub fn new(request: Request) -> Self {
        let body = if request.has_body { Body::Unopened } else { Body::Nothing };
        Self { request, state: State::New, body, verdict: Verdict::Off, whole: None, over_budget: false }
    }

    /// What the cache has had to do with it so far.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether the request would have been sent again, had there not been too many.
    pub fn is_over_budget(&self) -> bool {
        self.over_budget
    }

    /// The fill for which the service is being asked: only then an exchange may go on without its client
    /// ([`Abandoned::leaving`](crate::Abandoned::leaving)).
    pub fn leads(&self) -> Option<&H::Fill> {
        match &self.state {
            State::Fetch(Purpose::Fill { .. }, Step::OpeningBody) => None,
            State::Fetch(Purpose::Fill { fill, .. }, _) | State::MayServeStale { fill, .. } => Some(fill),
            _ => None,
        }
    }

    /// What is to be done, now that this has happened.
    pub fn step(&mut self, event: Event<H>, now: Instant) -> Action<H> {
        match (mem::replace(&mut self.state, State::Done), event) {
            (State::New, Event::Begin { lookup, redis }) => {
                self.begin(now);
                self.look(lookup, redis, now)
            }
            (State::Refreshing(stored), Event::Refreshing) => {
                self.at_once(Response::Stored(stored, Status::Revalidating))
            }
            (State::Turn(asking, wait), Event::Turn(turn)) => self.turn(asking, wait, turn),
            // It has waited for another one long enough.
            (State::Turn(asking, _), Event::TimeOver { .. }) => self.pass(asking.why, false),
            (State::Redis(asking), Event::Redis(fill, answer)) => self.redis(asking, fill, answer, now),
            (State::Lead(asking), Event::Lead(fill, redis, found)) => self.led(asking, fill, redis, found),
            (State::Adopting(asking), Event::Adopted(adopted)) => self.adopted(asking, adopted),
            (State::Preparing(asking), Event::Prepared(fill, kept)) => self.prepared(asking, fill, kept),
            (State::RedisOnly, Event::RedisOnly(stored)) => self.redis_only(stored),
            (State::BeginningPost(why), Event::PostBegun(post)) => self.pass_with(why, post),
            (State::Fetch(purpose, step), event) => self.fetch_step(purpose, step, event, now),
            (State::LookingAtBody(response), Event::RestOfBody(rest)) => self.rest(response, rest),
            (State::Draining(response), Event::Drained(whole)) => {
                let connection = if whole { Connection::Keep } else { Connection::Close };
                Action::Respond { response, connection }
            }
            (state, event) => self.answer_step(state, event),
        }
    }

    fn begin(&mut self, now: Instant) {
        self.whole = self.request.limits.timeout.and_then(|after| {
            let begun = now.checked_sub(self.request.already_took).unwrap_or(now);
            Some((Limit { after, setting: Setting::RouteTimeout }, begun.checked_add(after)?))
        });
    }

    /// A wait that begins now: the whole exchange's time runs, the service's not before it is its turn.
    fn wait(&self) -> Wait {
        Wait::new(self.request.limits.response(), self.whole)
    }

    /// The same for somebody who asks a service as this request would: that takes as long as this one may.
    fn wait_for_other(&self, now: Instant) -> Wait {
        let mut wait = self.wait();
        wait.service_turn(now);
        wait
    }

    /// Answers what nobody had to be awaited for.
    fn at_once(&self, response: Response<H>) -> Action<H> {
        let connection = if self.request.has_body { Connection::SkipBody } else { Connection::Keep };
        Action::Respond { response, connection }
    }

    fn bug() -> Action<H> {
        Action::Respond { response: Response::Failure(Refusal::Bug), connection: Connection::Close }
    }
}
