//! What keeps the memory of one gateway in agreement with what the others do: the log of purges is followed, purges are
//! appended to it, and records that others replace are noticed.
//!
//! ```text
//!  purge ─▶ memory at once ─▶ queue ─▶ XADD ─▶ log ─▶ XREAD BLOCK of every gateway ─▶ Purges::apply_logged ─▶ its number ─▶ node:NAME
//!                                                                                                                 │
//!                        answer: number, who has applied it ◀─────────────────────────────────────────────────────┘
//!  another gateway's write ─▶ CLIENT TRACKING BCAST on a connection to each primary (or a channel) ─▶ Purges::replaced
//! ```
//!
//! Invariant: while one of these connections is missing, no response is used for longer than [`Options::uncovered`]
//! without having been validated, and what was stored before it was back is validated once more ([`coverage`]).
//! Invariant: a purge that could not be appended waits in a bounded queue; when that is full, it becomes a purge of
//! everything.

mod coverage;
mod follow;
mod publish;
mod queue;
mod shared;
mod tracking;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pilotlight_cache::{Cache, Purge};
use pilotlight_redis::config::WhenDown;
use pilotlight_redis::{Client, Config, Error};
use tokio::sync::{mpsc, watch};

use crate::log::Names;
use coverage::{Coverage, Gap};
use queue::Queue;
use shared::Shared;

pub use queue::{MAX_WAITING_PURGES, PurgeReport};
pub use shared::{BEAT, LOG_COMMAND_TIMEOUT, MAX_CONFIRMATION, NODE_LIFETIME, Options, SILENCE};

/// Replaced records that wait to be told, where servers do not tell.
const MAX_UNTOLD: usize = 1024;

/// How the agreement stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoherenceStatus {
    /// Every connection is there.
    pub is_covered: bool,
    /// The number of the last purge of the log that was applied.
    pub applied: u64,
    /// Purges of this gateway that wait to be told.
    pub waiting: usize,
    /// How often coverage was lost.
    pub losses: u64,
    /// Records that were replaced, by others or (where the servers tell of it) by this gateway itself.
    pub replaced: u64,
    /// The servers refuse client tracking: gateways tell each other.
    pub by_channel: bool,
}

/// A handle; clones are the same.
#[derive(Debug, Clone)]
pub struct Coherence {
    shared: Arc<Shared>,
    wrote: mpsc::Sender<u64>,
    stopped: watch::Sender<bool>,
}

/// What does the work; see [`Driver::run`].
pub struct Driver {
    shared: Arc<Shared>,
    wrote: mpsc::Receiver<u64>,
    stopped: watch::Receiver<bool>,
    /// Of the log, and of the records.
    gaps: (Gap, Gap),
}

impl Coherence {
    /// Prepares it; the [`Driver`] does the work.
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: &Config, cache: Cache, options: Options) -> Result<(Self, Driver), Error> {
        let mut config = Config {
            connect_timeout: LOG_COMMAND_TIMEOUT,
            command_timeout: Some(LOG_COMMAND_TIMEOUT),
            when_down: WhenDown::FailFast,
            client_name: Some("pilotlight-coherence".into()),
            lanes: 1,
            ..config.clone()
        };
        config.reconnect.max = config.reconnect.max.min(BEAT);
        let instance = format!("{}:{:016x}", options.node, random());
        let shared = Arc::new(Shared {
            coverage: Coverage::new(cache.clone()),
            cache,
            client: Client::new(config)?,
            names: Names::new(&options.prefix),
            options,
            queue: Queue::new(instance.clone()),
            instance,
            applied: watch::Sender::new(0),
            replaced: AtomicU64::new(0),
            by_channel: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
        });
        let (wrote, written) = mpsc::channel(MAX_UNTOLD);
        let (stopped, stops) = watch::channel(false);
        let gaps = (shared.coverage.first(), shared.coverage.first());
        let driver = Driver { shared: Arc::clone(&shared), wrote: written, stopped: stops, gaps };
        Ok((Self { shared, wrote, stopped }, driver))
    }

    /// Tells the other gateways of purges that this one has applied, and says which of them have as well.
    ///
    /// # Cancel safety
    /// Once polled, the purges are told, whether the response is awaited or not.
    pub async fn publish(&self, purges: Vec<Purge>) -> PurgeReport {
        let told = self.shared.queue.push_asked(&self.shared.cache, purges);
        told.await.unwrap_or_else(|_| PurgeReport::Waiting { why: "the gateway is stopping".to_owned(), waiting: 0 })
    }

    /// The same without a response, from a thread that must not wait.
    pub fn publish_behind(&self, purges: Vec<Purge>) {
        if !purges.is_empty() {
            self.shared.queue.push(&self.shared.cache, purges);
        }
    }

    /// Whether purges of other gateways are known. While they are not, what is read from Redis may have been purged.
    pub fn knows_purges(&self) -> bool {
        self.shared.is_followed.load(Ordering::Acquire)
    }

    /// This gateway has written or removed a record. Others are told by the server, or by this where it refuses to.
    pub fn wrote(&self, record_name: u64) {
        if self.shared.by_channel.load(Ordering::Relaxed) && self.wrote.try_send(record_name).is_err() {
            tracing::debug!("a replaced record was not told to other gateways: they use theirs until it is stale");
        }
    }

    /// Ends the [`Driver`]. What waits is not told.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// How it stands.
    pub fn status(&self) -> CoherenceStatus {
        let shared = &self.shared;
        CoherenceStatus {
            is_covered: shared.coverage.is_whole(),
            applied: *shared.applied.borrow(),
            waiting: shared.queue.len(),
            losses: shared.coverage.losses(),
            replaced: shared.replaced.load(Ordering::Relaxed),
            by_channel: shared.by_channel.load(Ordering::Relaxed),
        }
    }
}

impl Driver {
    /// Follows, appends and listens until it is [stopped](Coherence::stop), or every [`Coherence`] is gone.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections; nothing that was applied is undone.
    pub async fn run(self) {
        let shared = &*self.shared;
        tokio::select! {
            () = follow::follow(shared, self.gaps.0) => {}
            () = follow::tell_applied(shared) => {}
            () = tracking::watch(&self.shared, self.gaps.1) => {}
            () = shared.coverage.keep(shared.options.uncovered) => {}
            () = publish::tell_writes(shared, self.wrote) => {}
            () = publish::publish(shared) => {}
            () = ended(self.stopped) => {}
        }
        follow::leave(shared).await;
        shared.client.close(Duration::ZERO).await;
    }
}

/// Until somebody says so, or every handle is gone.
async fn ended(mut stopped: watch::Receiver<bool>) {
    // The error says that they are gone.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// A number that no other process has.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
