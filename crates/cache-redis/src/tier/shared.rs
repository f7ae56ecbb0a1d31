//! What the workers of a gateway share: settings, invalidations, and the sums of what they have done.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pilotlight_cache::Invalidations;
use pilotlight_redis::{Config, Error};
use tokio::sync::Notify;

use super::outage::Outage;
use super::refusals::Refusals;
use super::ticket::Worker;
use crate::breaker;
use crate::coherence::Coherence;
use crate::counters::{Counters, Totals};
use crate::invalid::Invalid;
use crate::keys::{Keys, Name};
use crate::options::Options;
use crate::queue::Queue;

/// The tier of one gateway. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct SharedTier {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    redis: Config,
    options: Options,
    keys: Keys,
    invalid: Arc<Invalid>,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// What is stored cannot be read.
    reads: Outage,
    /// Rates are not counted.
    rates: Outage,
    /// Responses are not taken.
    writes: Refusals,
    /// Invalidations are not taken.
    invalidations: Refusals,
    /// Tells other gateways what was written, where the servers do not, and knows what they have purged.
    coherence: OnceLock<Coherence>,
}

/// Why Redis, though it answers, does not write what it is to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteProblem {
    /// It refuses responses: there will be no hits, and nothing is shared. What it said last.
    Responses(Arc<str>),
    /// It refuses invalidations: other gateways may serve what this one has invalidated. What it said last.
    Invalidations(Arc<str>),
}

/// How the tier is, and what it has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Sums over all workers.
    pub totals: Totals,
    /// Breakers that are open: as many workers and ranges of slots go on without Redis.
    pub open_breakers: usize,
    /// The same of rates.
    pub open_rate_breakers: usize,
    /// Responses that wait to be written.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Invalidations that Redis has not got yet.
    pub pending_invalidations: usize,
}

impl SharedTier {
    /// The tier of a gateway, before its workers have their ends of it. `redis`: servers, credentials, TLS; what the
    /// tier depends on it sets itself, see [`client_config`](crate::client_config).
    #[must_use]
    pub fn new(redis: Config, options: Options) -> Self {
        let keys = Keys::new(&options.prefix);
        let invalid = Arc::new(Invalid::new(keys.clone()));
        let (workers, coherence) = (Mutex::default(), OnceLock::new());
        let (reads, rates) = (Outage::default(), Outage::default());
        let (writes, invalidations) = (Refusals::default(), Refusals::default());
        let inner = Inner { redis, options, keys, invalid, workers, reads, rates, writes, invalidations, coherence };
        Self { inner: Arc::new(inner) }
    }

    /// Takes the cache's invalidations ([`pilotlight_cache::Cache::tell_invalidations`]).
    #[must_use]
    pub fn invalidations(&self) -> Arc<dyn Invalidations> {
        Arc::clone(&self.inner.invalid) as _
    }

    /// Tells other gateways by this, from now on, which records are written, and asks it whether their purges are
    /// known. The first call counts.
    pub fn tell_writes(&self, coherence: Coherence) {
        let _ = self.inner.coherence.set(coherence);
    }

    pub(super) fn knows_purges(&self) -> bool {
        self.inner.coherence.get().is_none_or(Coherence::knows_purges)
    }

    pub(super) fn wrote(&self, name: &Name) {
        if let Some(coherence) = self.inner.coherence.get() {
            coherence.wrote(name.record_name());
        }
    }

    /// Where it is.
    #[must_use]
    pub fn redis(&self) -> &Config {
        &self.inner.redis
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let (_, pending_invalidations) = self.inner.invalid.len();
        let mut status = Status {
            open_breakers: self.inner.reads.open_breakers(),
            open_rate_breakers: self.inner.rates.open_breakers(),
            pending_invalidations,
            ..Status::default()
        };
        for worker in self.inner.workers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            status.totals.add(&worker.counters);
            let (jobs, bytes) = worker.queue.len();
            status.queued += jobs + worker.writing();
            status.queued_bytes += bytes;
        }
        status
    }

    /// Whether Redis answers and does not write. `None`: it writes, or does not answer at all.
    #[must_use]
    pub fn write_problem(&self) -> Option<WriteProblem> {
        let invalidations = || self.inner.invalidations.reason().map(WriteProblem::Invalidations);
        self.inner.writes.reason().map(WriteProblem::Responses).or_else(invalidations)
    }

    /// A response was written, or not.
    pub(super) fn note_write(&self, written: Result<(), &Error>) {
        match written {
            Ok(()) if self.inner.writes.taken() => tracing::info!("cache.redis takes responses again"),
            Err(error) if self.inner.writes.failed(error) => {
                tracing::warn!("cache.redis answers and takes no responses, so gateways share nothing by it: {error}");
            }
            _ => {}
        }
    }

    /// An invalidation was written, or not.
    pub(super) fn note_invalidation(&self, written: Result<(), &Error>) {
        match written {
            Ok(()) if self.inner.invalidations.taken() => tracing::info!("cache.redis takes invalidations again"),
            Err(error) if self.inner.invalidations.failed(error) => {
                tracing::warn!(
                    "cache.redis answers and takes no invalidations, so other gateways may serve what this one has \
                     invalidated: {error}"
                );
            }
            _ => {}
        }
    }

    pub(super) fn register(&self) -> Arc<Worker> {
        let options = self.options();
        let worker = Arc::new(Worker {
            counters: Counters::default(),
            queue: Queue::new(options.max_queue, options.max_queue_bytes),
            in_flight: AtomicUsize::new(0),
            rested: Notify::new(),
        });
        self.inner.workers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&worker));
        worker
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    pub(super) fn invalid(&self) -> &Invalid {
        &self.inner.invalid
    }

    pub(super) fn breaker_opened(&self, why: &dyn fmt::Display) {
        if self.inner.reads.opened() {
            Self::warn_unreachable(why);
        }
    }

    pub(super) fn say_unreachable(&self, why: &dyn fmt::Display) {
        if self.inner.reads.begins() {
            Self::warn_unreachable(why);
        }
    }

    fn warn_unreachable(why: &dyn fmt::Display) {
        let pause = breaker::PAUSE.1;
        tracing::warn!(
            "cache.redis does not answer, so requests go on without it, and it is tried again every {pause:?}: {why}"
        );
    }

    pub(super) fn breaker_closed(&self) {
        if self.inner.reads.closed() {
            tracing::info!("cache.redis answers again");
        }
    }

    pub(super) fn counts_no_more(&self, why: &dyn fmt::Display) {
        if self.inner.rates.opened() {
            let pause = breaker::PAUSE.1;
            tracing::warn!(
                "cache.redis does not count, so each gateway holds shared limits alone, and it is tried again every {pause:?}: {why}"
            );
        }
    }

    pub(super) fn counts_again(&self) {
        if self.inner.rates.closed() {
            tracing::info!("cache.redis counts again: limits are shared");
        }
    }
}
