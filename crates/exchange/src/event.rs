//! What the driver tells the machine: what came of the action before.

use crate::handles::Handles;
use crate::retry::{Fault, Instance};
use crate::wait::WaitsFor;

/// What happened.
pub enum Event<H: Handles> {
    /// The request's head was read, and memory was asked.
    Begin {
        /// What memory has for it.
        lookup: Lookup<H>,
        /// Redis was asked before there was an exchange, for this very key, and this fill leads.
        redis: Option<(H::Fill, RedisReply<H>)>,
    },
    /// After `Refresh`: the refresh has begun, or none was needed.
    Refreshing,
    /// After `TakeTurn` or `Follow`.
    Turn(Turn<H>),
    /// After `AskRedis`.
    Redis(H::Fill, RedisReply<H>),
    /// After `AwaitLead`: with what is known now, however the wait has ended.
    Lead(H::Fill, H::Redis, Option<Found>),
    /// After `Adopt`.
    Adopted(Adopted<H>),
    /// After `Prepare`: the response that was kept to be validated, if one was to be and memory has kept it.
    Prepared(H::Fill, Option<Stale<H>>),
    /// After `AskRedisOnly`: a stored response that answers the request.
    RedisOnly(Option<H::Stored>),
    /// After `OpenBody`: `None` if the body turned out empty.
    BodyOpened(Option<H::Body>),
    /// After `HoldBody`.
    BodyHeld(H::Body),
    /// After `BeginPost`: `None` if the route keeps the request away from the cache.
    PostBegun(Option<H::Fill>),
    /// After `TakePlace`.
    Placed,
    /// After `Send` or `SendAgain`: the head of a final response.
    Answered {
        /// The response.
        answer: H::Fetched,
        /// Its status.
        status: u16,
    },
    /// After `Send` or `SendAgain`: no response.
    SendFailed {
        /// What went wrong, for whoever decides.
        fault: Fault,
        /// What went wrong, for whoever reads.
        failure: H::Failure,
        /// The status of a response that says so.
        status: u16,
        /// What is left of the body that was sent.
        body: BodyLeft<H>,
        /// The instance that was asked.
        instance: Instance,
    },
    /// After `OpenBody`, `HoldBody`, `TakePlace`: it failed.
    Failed {
        /// What went wrong.
        failure: H::Failure,
        /// The status of a response that says so.
        status: u16,
        /// The body that was held, if one was.
        body: Option<H::Body>,
    },
    /// After an action with a [`Wait`](crate::Wait): it is over.
    TimeOver {
        /// [`Wait::waits_for`](crate::Wait::waits_for).
        waits_for: WaitsFor,
        /// What is left of the body that the action had.
        body: BodyLeft<H>,
    },
    /// After `AwaitEnd`.
    Instance(Instance),
    /// After `ReportStuck`.
    Reported,
    /// After `Invalidate`.
    Invalidated(H::Fetched),
    /// After `MayServeStale`.
    MayServeStale(bool),
    /// After `LandFailed`.
    LandedFailed,
    /// After `Validate`: answer from this response, which was stored unless something is in the way. The response of
    /// the service is here for its `Set-Cookie`.
    Validated(H::Stored, Option<H::Unstored>, H::Fetched),
    /// After `Validate`: the 304 is not about the stored response.
    Mismatched(H::Fill),
    /// After `Judge`: it is stored while it is passed on.
    Store(H::Fetched, H::Recorder),
    /// After `Judge`: it is not.
    Unstored(H::Fetched, H::Unstored),
    /// After `LookAtBody`.
    RestOfBody(RestOfBody),
    /// After `Drain`: whether the rest has been read to its end.
    Drained(bool),
}

/// What memory has for a request.
pub enum Lookup<H: Handles> {
    /// The request cannot be forwarded: no route, no valid host.
    Refused {
        /// Why.
        failure: H::Failure,
        /// The status of a response that says so.
        status: u16,
    },
    /// The route does not use the cache, or the response may be another protocol.
    Off(H::Why),
    /// Fresh, or as stale as the request accepts.
    Hit(H::Stored),
    /// Stale, and usable now if it is validated soon (RFC 5861 §3).
    StaleWhileRevalidate(H::Stored),
    /// Usable after validation.
    Stale(Stale<H>, H::Why),
    /// Nothing usable.
    Miss(H::Why),
    /// The response is not to be stored as that of a GET.
    Bypass {
        /// Why.
        why: H::Why,
        /// Whether the only reason is the method, and no rule of the route.
        is_by_method: bool,
    },
    /// The request wants a stored response or none, and memory has none.
    OnlyIfCached(OnlyIfCached),
    /// Not a client's request but a refresh beside one, with its turn taken.
    Refresh(H::Fill, Tier, Stale<H>, H::Why),
}

/// Whether a leader asks Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// There is a tier in Redis, and the response is worth sharing.
    AsksRedis,
    /// The service is asked at once.
    AsksService,
}

/// What a request with `only-if-cached` may be answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnlyIfCached {
    /// There is no tier in Redis, the request has no key, or a rule sends it past the cache, of which no tier answers
    /// then.
    MemoryOnly,
    /// What Redis has is stored as well.
    RedisToo,
}

/// A stored response that needs validation.
pub struct Stale<H: Handles> {
    /// The response.
    pub stored: H::Stored,
    /// Whether it can be validated: a request with its validators is conditional.
    pub has_validator: bool,
    /// When it was received, in milliseconds of any one clock.
    pub received_ms: u64,
}

/// What a request without a usable stored response does.
pub enum Turn<H: Handles> {
    /// A response was stored a moment ago.
    Hit(H::Stored),
    /// It asks, for all that wait.
    Lead(H::Fill, Tier),
    /// Another one asks.
    Follow(H::Wait),
    /// Another one is getting the response, and a part of it is here.
    Live(H::Live),
    /// Another one was answered by an error: this is usable in its place (RFC 5861 §4).
    Failed(H::Stored),
    /// The request has no key.
    Alone,
}

/// What Redis said.
pub enum RedisReply<H: Handles> {
    /// Nothing, or nothing in time: it is not known what may be written there, either.
    Silent,
    /// Something.
    Answered {
        /// The response.
        redis: H::Redis,
        /// Whether others may wait for the fill.
        is_shared: bool,
        /// What it found.
        found: Option<Found>,
    },
}

/// A stored response from Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether it answers this request as it is.
    pub serves: bool,
    /// Whether it was made for a request like this one (`Vary`).
    pub is_selected: bool,
    /// Whether it has a validator, or may be used in place of an error: it is of no use otherwise once it is stale.
    pub is_of_use: bool,
    /// When it was received, by the clock of [`Stale::received_ms`].
    pub received_ms: u64,
}

/// What became of a response from Redis in memory.
pub enum Adopted<H: Handles> {
    /// The flight has landed with it.
    Landed(H::Stored),
    /// It was invalidated meanwhile.
    Invalidated(H::Fill, H::Redis),
}

/// The body of a request after it was sent.
pub enum BodyLeft<H: Handles> {
    /// There was none, or it is untouched or held whole.
    Whole(Option<H::Body>),
    /// Part of it is gone.
    Spent,
}

/// The rest of a request's body on the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestOfBody {
    /// Nothing of it has been taken.
    Untouched {
        /// Whether it has ended, that is, it is empty.
        is_ended: bool,
        /// How long it is, if it says so.
        remaining: Option<u64>,
    },
    /// Part of it has been taken, and the rest cannot be had any more.
    Touched {
        /// Whether all of it has come.
        received_all: bool,
    },
}
