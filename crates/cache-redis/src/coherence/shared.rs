//! What the tasks of a gateway's coherence share, and their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime};

use pilotlight_cache::{Cache, Timestamp};
use pilotlight_redis::Client;
use tokio::sync::watch;

use super::coverage::Coverage;
use super::queue::Queue;
use crate::log::Names;

/// How long a response to a purge waits for the other gateways to have applied it.
pub const MAX_CONFIRMATION: Duration = Duration::from_secs(1);
/// How long one command of the log may take.
pub const LOG_COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a connection that is only listened on is asked whether it is there.
pub const BEAT: Duration = Duration::from_millis(250);
/// A connection from which nothing has come for so long is lost.
pub const SILENCE: Duration = Duration::from_secs(1);
/// How long a gateway counts as one after its last sign of life.
pub const NODE_LIFETIME: Duration = Duration::from_secs(3);
/// How a gateway takes part.
#[derive(Debug, Clone)]
pub struct Options {
    /// The prefix of all names in Redis.
    pub prefix: String,
    /// What this gateway is called where people read it.
    pub node: String,
    /// How long a stored response is used without validation while it cannot be known what was purged. Default: 1 s.
    pub uncovered: Duration,
}

impl Options {
    /// The usual ones.
    pub fn new(prefix: &str, node: &str) -> Self {
        Self { prefix: prefix.to_owned(), node: node.to_owned(), uncovered: Duration::from_secs(1) }
    }
}

/// What the tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cache: Cache,
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) names: Names,
    /// This process's own name: that for people is not unique.
    pub(super) instance: String,
    pub(super) coverage: Arc<Coverage>,
    pub(super) applied: watch::Sender<u64>,
    pub(super) queue: Queue,
    pub(super) replaced: AtomicU64,
    pub(super) by_channel: AtomicBool,
    /// Every purge of the log is applied as it comes.
    pub(super) is_followed: AtomicBool,
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}
