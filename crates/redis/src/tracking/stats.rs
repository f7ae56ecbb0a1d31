//! What a cache tells of itself.

use std::fmt;

use super::Cache;
use crate::stats::{LaneStats, bytes};

/// A cache at one moment. Counters are since it was made. In OpenTelemetry (Redis' names): `redis.client.csc.requests`
/// by `redis.client.csc.result` are `hits`, and `misses` with `shared`; `redis.client.csc.items` are `entries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStats {
    /// Calls answered without the server.
    pub hits: u64,
    /// Requests to the server.
    pub misses: u64,
    /// Calls that waited for a request of another one.
    pub shared: u64,
    /// Keys of which servers told that they changed.
    pub invalidations: u64,
    /// How often all was forgotten: `FLUSHALL` and the like, and [`clear`](super::Cached::clear).
    pub flushes: u64,
    /// Connections lost, with all that had been read on them.
    pub losses: u64,
    /// Replies kept, with those that will not be used any more and are not evicted yet.
    pub entries: usize,
    /// Their memory in bytes.
    pub bytes: u64,
    /// The cache's connections.
    pub lanes: Vec<LaneStats>,
}

impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hits, misses, shared, invalidations, flushes, losses, entries, bytes: size, .. } = self;
        let calls = hits + misses + shared;
        let rate = if calls == 0 { 0.0 } else { 100.0 * *hits as f64 / calls as f64 };
        write!(
            f,
            "cache {rate:.1} % hits of {calls} calls ({hits} hits, {misses} misses, {shared} shared), {entries} replies in {}, ",
            bytes(*size)
        )?;
        write!(f, "{invalidations} invalidations, {flushes} flushes, {losses} connections lost")
    }
}

impl Cache {
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.sum(),
            misses: self.misses.sum(),
            shared: self.shared.sum(),
            invalidations: self.coverage.invalidations(),
            flushes: self.coverage.flushes(),
            losses: self.coverage.losses(),
            entries: self.store.len(),
            bytes: self.store.bytes(),
            lanes: self.client.core().lanes(),
        }
    }
}
