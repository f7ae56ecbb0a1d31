//! HTTP response cache by RFC 9111, for a *shared* cache: what one user was answered is never another user's answer.
//!
//! The crate keeps whole responses in memory, bounded in bytes, decides by the RFC's rules when one may be stored,
//! reused, validated or must go, and lets concurrent misses wait for one upstream request. It opens no socket and reads
//! no clock: every call that depends on time is told the time ([`Timestamp`], [`Timing`]).
//!
//! ```text
//!  lookup ──▶ Hit ───────────────────────────────▶ Stored::answer
//!    │  └───▶ Bypass, OnlyIfCached                    ▲
//!    ▼                                                │ Landed::turn
//!  Miss, Stale ──▶ begin ──▶ Follower(Wait) ── landed ┼───────────▶ Live::response_as (read while it is recorded)
//!                    │                                ▼
//!                    └─────▶ Leader(Fill) ── response ──▶ Store(Recorder) ── push… finish
//!                                        └── not_modified (304)          └▶ Pass(why)
//! ```
//!
//! The modules are storeys, and each uses only those below it:
//!
//! ```text
//!  parts                                  a response taken apart for other tiers, and put together
//!  cache                                  the handle
//!  turn                                   ask, wait, or use what another request got
//!  fill, recorder, live                   what becomes of a response
//!  leader                                 who may write, and how a flight lands
//!  lookup
//!  state                                  what all handles share
//!  tier, flights, flight, reasons         what is stored, what is on its way
//!  recording, second                      a body on its way, hooks of another tier
//!  stored                                 a response
//!  weight, status, purge, policy, route   decisions and order
//!  key, body, request_fields, options     plain types
//! ```
//!
//! Where this cache is stricter than the RFC allows (each is cited at its line): a response with `Set-Cookie` is never
//! stored, one with `Vary: Cookie` only under a key that has all cookies; `private` and `no-cache` with a list of
//! fields count for the whole response; a lifetime that the response does not give itself (a route's default, or
//! inferred from `Last-Modified` where the operator asks for that) never applies between requests with `Cookie` or
//! `Authorization`; a `Cache-Control` that cannot be parsed is read as `no-store`.

#![forbid(unsafe_code)]

mod body;
mod cache;
mod fill;
mod flight;
mod flights;
mod key;
mod leader;
mod live;
mod lookup;
mod options;
mod parts;
mod policy;
mod purge;
mod reasons;
mod recorder;
mod recording;
mod report;
mod request_fields;
mod route;
mod second;
mod state;
mod status;
mod stored;
mod tier;
mod turn;
mod weight;

pub use body::StoredBody;
pub use cache::{Answered, Cache, Invalidated, Place, Usage};
pub use fill::adopt::Adopted;
pub use fill::{Decision, Fill, Validated};
pub use flight::Watch;
pub use key::Key;
pub use live::{Live, LiveBody};
pub use lookup::Lookup;
pub use options::{CacheOptions, OptionsError};
pub use parts::Parts;
pub use policy::{
    CDN_CACHE_CONTROL, ERROR_STATUSES, ErrorLifetimes, Forward, Freshness, LanguageOrder, LifetimeSource,
    MAX_VARY_FIELDS, MaxStale, PolicyOptions, RequestDirectives, ResponseDirectives, RouteRules, Seconds, Selection,
    Timestamp, Timing, Unstored,
};
pub use purge::{
    Address, MAX_PURGED_PREFIXES, MAX_PURGED_TAGS, MAX_PURGED_URLS, MAX_TAG_BYTES, MAX_TAGS, Mode, Position, Purge,
    PurgeCounts, Purges, RecordName, Scope, Standing, TagFields,
};
pub use recorder::Recorder;
pub use recording::{BrokenOff, Tail};
pub use report::Report;
pub use request_fields::RequestFields;
pub use route::{
    BypassRules, ExtraTooLong, KeyRules, MAX_EXTRA_BYTES, NamePattern, NamePatterns, Parameters, PatternError,
    QueryRules, RouteControl, StatusSet, StoreRules,
};
pub use second::{Invalidations, WriteBehind};
pub use status::CacheStatus;
pub use stored::{EncodeHead, Stored};
pub use tier::MAX_VARIANTS;
pub use turn::{Landed, MAX_WAITS, Turn, Wait};
