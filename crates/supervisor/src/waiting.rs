//! How many requests may wait for a service, and for how long: `queue.max` and `queue.timeout`.
//!
//! A request may wait for an instance (in `queue`), for a place in the backlog of an instance's socket, or for room on
//! the connections of an instance. Each is counted here, so the settings bound the sum. Which request goes on next is
//! decided where it waits.

use crate::error::{Phase, StartError};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a refused client may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits of the requests that wait for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How many; more are refused ([`Phase::Queue`]). Default 4096.
    pub max: usize,
    /// For how long. Default 30 s.
    pub timeout: Duration,
}

impl QueueLimits {
    /// Values of `max`.
    pub const MAX: RangeInclusive<usize> = 1..=1_000_000;
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { max: 4096, timeout: Duration::from_secs(30) }
    }
}

/// The limit of one service, and how many wait.
#[derive(Debug)]
pub(crate) struct WaitingLimit {
    service: Arc<str>,
    count: AtomicUsize,
    max: AtomicUsize,
    timeout_ms: AtomicU64,
    full: AtomicU64,
    timeout: AtomicU64,
    circuit: AtomicU64,
    /// Why no instance is started, if the group of the service has no room for one.
    held_back: Mutex<Option<Arc<str>>>,
}

/// Requests that got no instance, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// `queue.max` waited already.
    pub full: u64,
    /// `queue.timeout` was over.
    pub timeout: u64,
    /// The circuit was open.
    pub circuit: u64,
}

/// A request that waits for a service; it counts until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    limit: Arc<WaitingLimit>,
}

impl WaitingLimit {
    pub(crate) fn new(service: &Arc<str>, limits: QueueLimits) -> Self {
        let limit = Self {
            service: Arc::clone(service),
            count: AtomicUsize::new(0),
            max: AtomicUsize::new(0),
            timeout_ms: AtomicU64::new(0),
            full: AtomicU64::new(0),
            timeout: AtomicU64::new(0),
            circuit: AtomicU64::new(0),
            held_back: Mutex::default(),
        };
        limit.configure(limits);
        limit
    }

    /// Follows other settings; a request that waits already keeps its time.
    pub(crate) fn configure(&self, limits: QueueLimits) {
        self.max.store(limits.max.min(*QueueLimits::MAX.end()), Relaxed);
        self.timeout_ms.store(u64::try_from(limits.timeout.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How many requests wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Counts one more request; `None` if as many wait as may, which the caller answers with [`full`](Self::full).
    pub(crate) fn join(self: &Arc<Self>) -> Option<Waiting> {
        let max = self.max.load(Relaxed);
        let joined = self.count.fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1));
        joined.is_ok().then(|| Waiting { limit: Arc::clone(self) })
    }

    /// Counts a request that may not wait, and says why.
    pub(crate) fn full(&self) -> StartError {
        self.full.fetch_add(1, Relaxed);
        let max = self.max.load(Relaxed);
        self.refused(format!("{max} requests wait for it already (queue.max)"), Duration::ZERO)
    }

    /// Waits for `work` at most for `queue.timeout`; the error then says what was `missing`.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub(crate) async fn within<T>(&self, missing: &str, work: impl Future<Output = T>) -> Result<T, StartError> {
        let timeout = Duration::from_millis(self.timeout_ms.load(Relaxed));
        tokio::time::timeout(timeout, work).await.map_err(|_| {
            self.timeout.fetch_add(1, Relaxed);
            self.refused(format!("{missing} within queue.timeout ({} s)", timeout.as_secs_f32()), timeout)
        })
    }

    /// Counts requests that were refused because the circuit is open.
    pub(crate) fn count_refused_by_circuit(&self, requests: usize) {
        self.circuit.fetch_add(requests as u64, Relaxed);
    }

    /// Requests that were refused, since the gateway started.
    pub(crate) fn refused_requests(&self) -> Refused {
        let Self { full, timeout, circuit, .. } = self;
        Refused { full: full.load(Relaxed), timeout: timeout.load(Relaxed), circuit: circuit.load(Relaxed) }
    }

    /// What those are told who give up waiting.
    pub(crate) fn set_held_back(&self, reason: Option<Arc<str>>) {
        *self.held_back.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Why no instance is started, if its group has no room for one.
    pub(crate) fn held_back(&self) -> Option<Arc<str>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refused(&self, reason: String, waited: Duration) -> StartError {
        let reason = match self.held_back() {
            Some(held_back) => format!("{reason}; {held_back}"),
            None => reason,
        };
        let error = StartError::new(&self.service, Phase::Queue, reason, Instant::now());
        StartError { elapsed: waited, ..error }.retry_after(RETRY_AFTER)
    }
}

impl Waiting {
    /// Waits for `work` at most for `queue.timeout`; the error then says what was `missing`, as "no instance was free".
    ///
    /// # Errors
    /// The time is over.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its time enabled.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub async fn within<T>(&self, missing: &str, work: impl Future<Output = T>) -> Result<T, StartError> {
        self.limit.within(missing, work).await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.limit.count.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(max: usize, timeout: Duration) -> Arc<WaitingLimit> {
        Arc::new(WaitingLimit::new(&"x".into(), QueueLimits { max, timeout }))
    }

    #[test]
    fn as_many_wait_as_may_and_a_place_is_given_back() {
        let limit = limit(2, Duration::ZERO);
        let (first, second) = (limit.join(), limit.join());
        assert!(first.is_some() && second.is_some() && limit.join().is_none());
        assert_eq!(
            limit.full().to_string(),
            "service `x` has too much to do: 2 requests wait for it already (queue.max)"
        );
        drop(first);
        assert_eq!(limit.count(), 1);
        assert!(limit.join().is_some());
        assert_eq!(limit.refused_requests(), Refused { full: 1, timeout: 0, circuit: 0 });
    }

    #[test]
    fn other_settings_count_at_once() {
        let limit = limit(1, Duration::ZERO);
        let first = limit.join();
        limit.configure(QueueLimits { max: 2, timeout: Duration::ZERO });
        let second = limit.join();
        assert!(second.is_some());
        limit.configure(QueueLimits { max: usize::MAX, timeout: Duration::ZERO });
        assert_eq!(limit.max.load(Relaxed), 1_000_000);
        limit.configure(QueueLimits { max: 1, timeout: Duration::ZERO });
        drop(first);
        assert!(limit.join().is_none(), "the second waits still");
    }

    #[tokio::test]
    async fn a_request_waits_for_the_timeout_and_no_longer() {
        let limit = limit(1, Duration::from_millis(50));
        let waiting = limit.join().unwrap();
        assert_eq!(waiting.within("nothing", async { 7 }).await.unwrap(), 7);
        let late = waiting.within("no room was free", std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(&*late.reason, "no room was free within queue.timeout (0.05 s)");
        assert_eq!(
            (late.phase, late.elapsed, late.retry_after),
            (Phase::Queue, Duration::from_millis(50), RETRY_AFTER)
        );
        assert_eq!(limit.refused_requests(), Refused { full: 0, timeout: 1, circuit: 0 });
    }
}
