//! What the machine tells the driver to do.

use std::time::Duration;

use crate::event::BodyLeft;
use crate::handles::Handles;
use crate::wait::{Limit, Wait};

/// What to do next. The driver does one at a time, and answers with the event that names it.
pub enum Action<H: Handles> {
    /// Answer. It is the last action.
    Respond {
        /// With what.
        response: Response<H>,
        /// What becomes of the client's connection.
        connection: Connection,
    },
    /// Begin to revalidate this response beside the client, unless that is under way (RFC 5861 §3).
    Refresh(H::Stored),
    /// Join or begin the flight of the request's key.
    TakeTurn,
    /// Wait until another request's flight has landed or goes live, then take the next turn.
    Follow(H::Wait, Wait),
    /// Ask Redis, in its own time.
    AskRedis(H::Fill),
    /// Another gateway may be asking its service: wait for what it stores.
    AwaitLead(H::Fill, H::Redis, Wait),
    /// Land the flight with what Redis has.
    Adopt(H::Fill, H::Redis),
    /// Let the fill write to Redis what it stores. `Keep::Found`: keep what Redis has in memory before, so that a 304
    /// has something to update, and an error something to be replaced by.
    Prepare(H::Fill, H::Redis, Keep),
    /// Ask Redis without a flight.
    AskRedisOnly,
    /// Take the request's body, within its limit.
    OpenBody,
    /// Read a small body whole, so that a client that sends it byte by byte takes no place of the service.
    HoldBody(H::Body, Wait),
    /// Note where the cache is before a POST whose response may be stored.
    BeginPost,
    /// Get a place at an instance, which is started if need be.
    TakePlace(PlaceTurn, Wait),
    /// Send the request to the place that was taken, or to somebody else's service.
    Send {
        /// Its body.
        body: Option<H::Body>,
        /// Ask for a response other than this one only (RFC 9110 §13): this one's validators go with the request.
        condition: Option<H::Stored>,
        /// Until when. The driver tells it whose turn it is.
        wait: Wait,
    },
    /// Send it once more on a new connection to the same place, in what is left of the same wait.
    SendAgain {
        /// Its body.
        body: Option<H::Body>,
        /// As before.
        condition: Option<H::Stored>,
    },
    /// The instance takes no connections: wait no longer than this for the word that it has ended.
    AwaitEnd(Duration),
    /// The instance has exceeded its own time: tell the supervisor.
    ReportStuck,
    /// RFC 9111 §4.4: an unsafe request was answered; make invalid what it says, here and for other gateways. Which
    /// statuses count is the cache's to know.
    Invalidate(H::Fetched),
    /// Tell whether this response may be used in place of an error, as things are now (RFC 5861 §4).
    MayServeStale(H::Stored),
    /// Land the flight with an error and what is used in its place. Log the refusal: the client does not see it.
    LandFailed(H::Fill, H::Stored, Option<Refusal<H>>),
    /// Update the stored response with a 304 (RFC 9111 §4.3.4).
    Validate(H::Fill, H::Stored, H::Fetched),
    /// Decide whether a response is stored: by the rules of the route first, then by RFC 9111 §3. If it is not, the
    /// flight lands at once and those who follow it go on, each alone.
    Judge(H::Fill, H::Fetched, Judgement),
    /// Tell what is left of the request's body, here or on the connection.
    LookAtBody(Option<H::Body>),
    /// Read the rest of the body and forget it.
    Drain {
        /// At most so much.
        max_bytes: u64,
        /// At most so long.
        within: Duration,
    },
}

/// What a client is answered with.
pub enum Response<H: Handles> {
    /// A stored response.
    Stored(H::Stored, Status<H::Why>),
    /// What another request is getting, as it comes; it was forwarded for this reason, and collapsed.
    Live(H::Live, H::Why),
    /// A response that a 304 has updated, with the `Set-Cookie` of that 304.
    Validated {
        /// The response.
        stored: H::Stored,
        /// Why its update was not stored.
        unstored: Option<H::Unstored>,
        /// The 304.
        answer: H::Fetched,
        /// Why the service was asked.
        why: H::Why,
    },
    /// The service's response, stored while it is passed on.
    Recorded(H::Fetched, H::Recorder, H::Why),
    /// The service's response, with why it is not stored, if that was a question.
    Passed(H::Fetched, Option<H::Unstored>, H::Why),
    /// A response of the gateway's own.
    Failure(Refusal<H>),
}

/// Where a stored response comes from, for `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<Why> {
    /// Memory.
    Hit,
    /// Memory; it is being revalidated.
    Revalidating,
    /// Redis.
    Redis,
    /// Another request's answer.
    Collapsed(Why),
    /// Memory, in place of another request's error.
    CollapsedStale(Why),
    /// Memory, in place of an error: the service's response had this status, or there was none.
    StaleIfError(Why, Option<u16>),
}

/// Why the gateway answers by itself.
pub enum Refusal<H: Handles> {
    /// In the driver's words, with the status that goes with them.
    Given(H::Failure, u16),
    /// `only-if-cached`, and nothing is stored: 504 (RFC 9111 §5.2.1.7).
    OnlyIfCached,
    /// No response within this time: 504.
    TimedOut(Limit),
    /// The client's body did not come within this time: 408.
    BodyLate(Limit),
    /// The driver reported what no action asked for, which is a bug of ours: 500.
    Bug,
}

impl<H: Handles> Refusal<H> {
    /// The status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::Given(_, status) => *status,
            Self::OnlyIfCached | Self::TimedOut(_) => 504,
            Self::BodyLate(_) => 408,
            Self::Bug => 500,
        }
    }
}

/// What becomes of the client's connection, as far as the request's body decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// It can take a further request.
    Keep,
    /// A part of the body is still on it: close it, and say so.
    Close,
    /// Nothing was awaited: skip a body that is here already, close otherwise.
    SkipBody,
}

/// What the cache had to do with a response, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The route does not use it, or the gateway answered by itself.
    Off,
    /// Answered from memory.
    Hit,
    /// Answered from Redis.
    Redis,
    /// The service was asked.
    Miss,
    /// A stored response was validated.
    Revalidated,
    /// Another request's answer.
    Collapsed,
    /// The request is none that the cache may answer.
    Bypass,
    /// Answered from memory although stale.
    Stale,
}

impl Verdict {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::Off, Self::Hit, Self::Redis, Self::Miss, Self::Revalidated, Self::Collapsed, Self::Bypass, Self::Stale];

    /// As metrics and logs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Hit => "hit",
            Self::Redis => "redis",
            Self::Miss => "miss",
            Self::Revalidated => "revalidated",
            Self::Collapsed => "collapsed",
            Self::Bypass => "bypass",
            Self::Stale => "stale",
        }
    }
}

/// Which place a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceTurn {
    /// Any that is ready, or the next one.
    First,
    /// One that the supervisor gives, which knows of the first instance's drain or death by then.
    Again,
}

/// Whether to keep what Redis has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Keep it, if there is still a place for it.
    Found,
    /// Forget it.
    Nothing,
}

/// As what a response is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// As the response to the request that leads the flight.
    Response,
    /// As what a GET would get, which the response to a POST may say that it is (RFC 9110 §9.3.3).
    Posted,
}

impl<H: Handles> BodyLeft<H> {
    /// Nothing was sent of what there was not.
    pub const NONE: Self = Self::Whole(None);
}
