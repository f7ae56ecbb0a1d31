//! The decisions of a shared HTTP cache, as functions of values: no clock, no socket, no lock.
//!
//! Our reading of RFC 9111, in the order in which a request meets it:
//!
//! 1. `vary`: which of the stored responses of a resource belongs to this request (§4.1).
//! 2. `control`: the directives that count (RFC 9213); `freshness`: how old it is and how long it stays fresh (§4.2);
//!    `reuse`: whether it may be used without asking (§4, §5.2.1).
//! 3. `validate`: how to ask (§4.3.1), what 304 means to a client (§4.3.2) and to the stored response (§4.3.4).
//! 4. `storing`: whether a new response may be kept (§3); `fields`: which of its fields are kept (§3.1) or updated
//!    (§3.2). `lifetimes`: what a route adds to how long.
//! 5. `range`: the part of a stored response that a request asks for (RFC 9110 §14).
//! 6. `reference`: which stored responses an unsafe request makes invalid (§4.4).

pub(crate) mod control;
mod date;
pub(crate) mod directives;
pub(crate) mod fields;
pub(crate) mod freshness;
pub(crate) mod lifetimes;
pub(crate) mod options;
pub(crate) mod range;
pub(crate) mod reference;
pub(crate) mod reuse;
pub(crate) mod storing;
pub(crate) mod time;
mod unstored;
pub(crate) mod validate;
pub(crate) mod vary;

pub use directives::{MaxStale, RequestDirectives, ResponseDirectives, Seconds};
pub use freshness::{Freshness, Source as LifetimeSource};
pub use lifetimes::{ERROR_STATUSES, ErrorLifetimes, RouteRules};
pub use options::{CDN_CACHE_CONTROL, LanguageOrder, PolicyOptions};
pub use reuse::Forward;
pub use time::{Timestamp, Timing};
pub use unstored::Unstored;
pub use vary::{MAX_VARY_FIELDS, Selection};
