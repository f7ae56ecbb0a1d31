//! Client-side caching: replies are kept here, and the server tells when their keys change (Redis, "Client-side
//! caching", RESP3).
//!
//! ```text
//!  call ─► look up ── hit ────────────────────────────────────────────► reply
//!             │ miss
//!             └► mark the key ─► one request for all ─► reply ─► kept, if the mark and the connection are still the same
//!                     ▲                                                            │
//!        invalidation ┴─── push on the connection that read the key ◄──────────────┘
//! ```
//!
//! A cache has connections of its own, on which tracking is switched on before anything else: the pushes of a
//! connection tell of exactly what was read on it. A hit touches no lane's lock.
//!
//! Invariant (fail closed): a reply is used only while the connection that read it is still there and is that to the
//! owner of its slot, nothing was told of its key since *before* it was asked for (see `coverage`), and it is younger
//! than `max_age` and than its key had to live when it was read (see `lifetime`).

mod cache;
mod cacheable;
mod call;
mod config;
mod coverage;
mod flights;
mod handle;
mod lifetime;
mod store;
mod tally;

pub use call::CachedCall;
pub use config::{CacheConfig, CacheMode};
pub use handle::Cached;
