//! What the tier is told.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Limits and names of the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Before all keys, so that several caches can share one Redis: [`crate::is_prefix`]. `pilotlight` by default.
    pub prefix: Box<str>,
    /// How long a request waits for Redis before it goes to the service; 5 ms by default. For a body that is apart it
    /// is longer by a millisecond for each [`BODY_BYTES_PER_MS`].
    pub budget: Duration,
    /// How long a request waits for the response that another gateway is fetching, and how long that one may keep
    /// others waiting; 3 s by default. `None`: nobody waits for other gateways.
    pub lease: Option<Duration>,
    /// Responses of one worker that wait to be written; 1,024 by default.
    pub max_queue: usize,
    /// Their bytes; 16 MiB by default.
    pub max_queue_bytes: usize,
    /// How long a response that can be validated is kept when it is stale; 1 minute by default.
    pub keep_stale: Duration,
}

impl Options {
    /// Values of `budget`.
    pub const BUDGET: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);
    /// Values of `lease`.
    pub const LEASE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
    /// Values of `max_queue`.
    pub const MAX_QUEUE: RangeInclusive<usize> = 1..=1_000_000;
    /// Values of `max_queue_bytes`.
    pub const MAX_QUEUE_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 30;
    /// Values of `keep_stale`.
    pub const KEEP_STALE: RangeInclusive<Duration> = Duration::ZERO..=MAX_KEEP;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: crate::keys::DEFAULT_PREFIX.into(),
            budget: Duration::from_millis(5),
            lease: Some(Duration::from_secs(3)),
            max_queue: 1024,
            max_queue_bytes: 16 << 20,
            keep_stale: Duration::from_secs(60),
        }
    }
}

/// Bodies up to this length are in the record, longer ones apart: a request that only has to validate, or is for
/// another variant, does not read those.
pub const MAX_INLINE_BODY_BYTES: usize = 64 * 1024;
/// What a network is expected to carry at least.
pub const BODY_BYTES_PER_MS: usize = 100_000;
/// How long an invalidation is remembered in Redis at least.
pub const TOMBSTONE: Duration = Duration::from_secs(60);
/// A response whose fetch began longer ago is not written: an invalidation since then might be forgotten. Shorter than
/// [`TOMBSTONE`] by more than a write takes.
pub const MAX_FLIGHT: Duration = Duration::from_secs(45);
/// The longest time a record is kept, whatever its lifetime says.
pub const MAX_KEEP: Duration = Duration::from_secs(30 * 24 * 3600);
/// Records of the same lifetime that were written together expire apart: each is kept longer by up to so many parts of
/// 100 of its time, but at most …
pub const JITTER_PERCENT: u64 = 10;
/// … by so much.
pub const MAX_JITTER: Duration = Duration::from_secs(30);
/// Invalidations that are remembered on a gateway. Beyond it, all that was stored in Redis before is distrusted.
pub const MAX_INVALIDATIONS: usize = 65_536;
/// How far the clocks of gateways may be apart, where such a mass distrust compares them.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);
/// The deadline of one write.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Writes of one worker that are on their way at a time.
pub const MAX_WRITES_IN_FLIGHT: usize = 32;
/// Bounds of the pause between looks at a response that another gateway fetches.
pub const LEASE_POLL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(25));
/// The longest pause before a lost connection is tried again.
pub const MAX_RECONNECT_PAUSE: Duration = Duration::from_millis(250);
