//! What belongs to a client and has connections of its own: a cache.

use std::fmt::Debug;
use std::time::Duration;

use crate::credentials::BoxFuture;
use crate::stats::CacheStats;

/// See the module.
pub(crate) trait Attached: Debug + Send + Sync {
    /// Refuses new commands.
    fn shut(&self);
    /// Lets those in flight finish, at most for `patience`.
    fn close(&self, patience: Duration) -> BoxFuture<'_, ()>;
    /// What it tells of itself.
    fn stats(&self) -> CacheStats;
}
