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
//!  Miss, Stale ──▶ begin ──▶ Follower(Wait) ── landed ┼───────────▶ Live::answer_as (read while it is recorded)
//!                    │                                ▼
//!                    └─────▶ Leader(Fill) ── response ──▶ Store(Recorder) ── push… finish
//!                                        └── not_modified (304)          └▶ Pass(why)
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
mod collapse;
mod fill;
mod key;
mod live;
mod parts;
mod policy;
mod purge;
mod reasons;
mod recorder;
mod report;
mod request_fields;
mod route;
mod second;
mod status;
mod stored;
mod tier;
mod weight;

pub use body::StoredBody;
pub use cache::{Cache, CacheOptions, Invalidated, Lookup, MAX_WAITS, OptionsError, Place, Turn, Usage};
pub use collapse::{Landed, Wait, Watch};
pub use fill::{Adopted, Decision, Fill, Validated};
pub use key::Key;
pub use live::{BrokenOff, Live, LiveBody, Tail};
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
pub use report::Report;
pub use request_fields::RequestFields;
pub use route::{
    BypassRules, ExtraTooLong, KeyRules, MAX_EXTRA_BYTES, NamePattern, NamePatterns, Parameters, PatternError,
    QueryRules, RouteControl, StatusSet, StoreRules,
};
pub use second::{Invalidations, WriteBehind};
pub use status::CacheStatus;
pub use stored::Stored;
pub use tier::MAX_VARIANTS;
