//! The shared tier of the HTTP cache, in Redis or Valkey, standalone or as a cluster.
//!
//! What memory is to one gateway, this is to several: stored responses as records, the log of purges, and the
//! connection by which a gateway learns what others have changed. Losing Redis means fewer hits, never an error, a
//! stall or a wrong answer (docs/adr/0020).
//!
//! ```text
//!  leader of a flight ─▶ Tier::ask ── usable ──▶ Fill::adopt
//!                          │ nothing, stale
//!                          ▼
//!                       Tier::lead (lease) ── another gateway has fetched it ──▶ Fill::adopt
//!                          │ ours
//!                          ▼
//!                       the service ──▶ memory ──▶ Ticket ──▶ queue ──▶ script: write, if nobody else has since
//!  unsafe request ──▶ Cache::invalidate ──▶ Invalid ──▶ tombstone
//! ```
//!
//! Invariant: a record is written only if its target's generation in Redis is the one that was read before the fetch
//! began, so that no response from before an invalidation is stored after it. ([`script`], tested by interleavings)
//! Invariant: what one gateway has invalidated it does not take from Redis again, whether Redis has heard of it or not.
//! ([`invalid`])
//! Invariant: a request waits for Redis once for the budget, and for others' fetches up to the lease;
//! nothing else of it waits. ([`tier`])

#![forbid(unsafe_code)]

mod breaker;
mod coherence;
mod counters;
mod hints;
mod invalid;
mod keys;
mod log;
mod options;
mod queue;
pub mod record;
mod script;
mod tier;

pub use breaker::{MAX_FAILURES, PAUSE};
pub use coherence::{
    BEAT, Coherence, CoherenceStatus, Driver, LOG_COMMAND_TIMEOUT, MAX_CONFIRMATION, MAX_WAITING_PURGES, NODE_LIFETIME,
    Options as CoherenceOptions, PurgeReport, SILENCE,
};
pub use counters::{Family, Totals};
pub use keys::{DEFAULT_PREFIX, MAX_PREFIX_BYTES, is_prefix, record_name, record_name_of};
pub use log::{MAX_LOG_ENTRIES, MAX_REMEMBERED_ENTRIES};
pub use pilotlight_redis::{Config, Error as RedisError};

pub use options::{
    BODY_BYTES_PER_MS, JITTER_PERCENT, LEASE_POLL, MAX_CLOCK_SKEW, MAX_FLIGHT, MAX_INLINE_BODY_BYTES,
    MAX_INVALIDATIONS, MAX_JITTER, MAX_KEEP, MAX_RECONNECT_PAUSE, MAX_WRITES_IN_FLIGHT, Options, TOMBSTONE,
    WRITE_TIMEOUT,
};
pub use script::write_probe;
pub use tier::ask::Asked;
pub use tier::rate::{Counted, SharedRate};
pub use tier::run::{RUN_HELD, RUN_RENEWED_EVERY, Taken};
pub use tier::{SharedTier, Status, Ticket, Tier, WriteProblem, client_config};
