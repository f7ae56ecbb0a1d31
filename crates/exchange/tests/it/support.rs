//! Handles of tests, and actions by name.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use pilotlight_exchange::{
    Action, Connection, Handles, Judgement, Keep, Limits, Method, PlaceTurn, Refusal, Request, Response, Stale, Status,
    Upstream,
};

/// Numbers and texts as handles.
pub(crate) struct Plain;

impl Handles for Plain {
    type Stored = u32;
    type Fill = Fill;
    type Wait = ();
    type Live = ();
    type Redis = ();
    type Body = &'static str;
    type Fetched = u16;
    type Recorder = ();
    type Unstored = &'static str;
    type Failure = &'static str;
    type Why = ();
}

/// Fills that are there.
pub(crate) type Count = Rc<Cell<u32>>;

/// Counts while it lives.
pub(crate) struct Fill(Count);

impl Fill {
    pub(crate) fn new(count: &Count) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A GET without a body to a service of ours, with a cache and without limits.
pub(crate) const GET: Request = Request {
    method: Method::Safe,
    has_body: false,
    expects_continue: false,
    has_cache: true,
    upstream: Upstream::Managed,
    limits: Limits { timeout: None, route_response: None, general_response: None, max_request_time: None },
    already_took: Duration::ZERO,
};

/// A POST with a body.
pub(crate) const POST: Request = Request { method: Method::Post, has_body: true, ..GET };

pub(crate) fn stale(has_validator: bool) -> Stale<Plain> {
    Stale { stored: 1, has_validator, received_ms: 1_000 }
}

/// What is to be done, in few words.
pub(crate) fn name(action: &Action<Plain>) -> String {
    match action {
        Action::Respond { response, connection: Connection::Keep } => response_name(response),
        Action::Respond { response, connection } => format!("{}, {connection:?}", response_name(response)),
        Action::Refresh(stored) => format!("refresh {stored}"),
        Action::TakeTurn => "turn".into(),
        Action::Follow(..) => "follow".into(),
        Action::AskRedis(_) => "ask Redis".into(),
        Action::AwaitLead(..) => "await lead".into(),
        Action::Adopt(..) => "adopt".into(),
        Action::Prepare(.., Keep::Found) => "keep found".into(),
        Action::Prepare(.., Keep::Nothing) => "keep nothing".into(),
        Action::AskRedisOnly => "ask Redis only".into(),
        Action::OpenBody => "open body".into(),
        Action::HoldBody(..) => "hold body".into(),
        Action::BeginPost => "begin post".into(),
        Action::TakePlace(PlaceTurn::First, _) => "place".into(),
        Action::TakePlace(PlaceTurn::Again, _) => "place again".into(),
        Action::Send { body, condition, .. } => format!("send{}", with(*body, *condition)),
        Action::SendAgain { body, condition } => format!("send again{}", with(*body, *condition)),
        Action::AwaitEnd(_) => "await end".into(),
        Action::ReportStuck => "stuck".into(),
        Action::Invalidate(_) => "invalidate".into(),
        Action::MayServeStale(_) => "may serve stale?".into(),
        Action::LandFailed(..) => "land failed".into(),
        Action::Validate(..) => "validate".into(),
        Action::Judge(.., Judgement::Response) => "judge".into(),
        Action::Judge(.., Judgement::Posted) => "judge posted".into(),
        Action::LookAtBody(Some(_)) => "look at what is kept".into(),
        Action::LookAtBody(None) => "look at body".into(),
        Action::Drain { .. } => "drain".into(),
    }
}

fn with(body: Option<&str>, condition: Option<u32>) -> String {
    let body = body.map(|body| format!(" {body}")).unwrap_or_default();
    body + condition.map(|_| " conditionally").unwrap_or_default()
}

fn response_name(response: &Response<Plain>) -> String {
    match response {
        Response::Stored(stored, status) => {
            let status = match status {
                Status::Hit => "hit",
                Status::Revalidating => "revalidating",
                Status::Redis => "Redis",
                Status::Collapsed(()) => "collapsed",
                Status::CollapsedStale(()) => "collapsed stale",
                Status::StaleIfError(..) => "stale if error",
            };
            format!("stored {stored}: {status}")
        }
        Response::Live(..) => "live".into(),
        Response::Validated { stored, .. } => format!("validated {stored}"),
        Response::Recorded(answer, ..) => format!("recorded {answer}"),
        Response::Passed(answer, ..) => format!("passed {answer}"),
        Response::Failure(refusal) => match refusal {
            Refusal::Given(why, status) => format!("{status}: {why}"),
            Refusal::Bug => "bug".into(),
            refusal => format!("{}", refusal.status()),
        },
    }
}
