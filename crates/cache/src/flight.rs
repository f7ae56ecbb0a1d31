//! One flight: a request on its way upstream, and how its leader tells those who follow it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::recording::LiveResponse;
use crate::stored::Stored;

/// How a flight ended.
#[derive(Debug, Clone)]
pub(crate) enum FlightOutcome {
    /// With a response that was stored, or could not be kept for lack of room but is as good.
    Stored(Arc<Stored>),
    /// Not yet, but a part of a response is here that will be stored if it becomes whole.
    Live(LiveResponse),
    /// With an error in whose place the leader used this stale response (RFC 5861 §4).
    Failed(Arc<Stored>),
    /// With a response that is not to be shared: everybody asks alone, at the same time.
    Passed,
    /// The leader went away: someone else leads.
    Abandoned,
}

/// A request on its way upstream that others may wait for.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) epoch: u32,
    outcome: OnceLock<FlightOutcome>,
    /// A response that is under way, of which a part has come.
    live: OnceLock<LiveResponse>,
    /// Told of both.
    landed: Notify,
    /// Who waits for it, or reads what there is of it.
    followers: AtomicUsize,
    /// It began before a purge that forbids its response: nobody follows it any more.
    is_outdated: AtomicBool,
}

impl Flight {
    pub(crate) fn new(epoch: u32) -> Self {
        let (outcome, live) = (OnceLock::new(), OnceLock::new());
        Self {
            epoch,
            outcome,
            live,
            landed: Notify::new(),
            followers: AtomicUsize::new(0),
            is_outdated: AtomicBool::new(false),
        }
    }

    pub(crate) fn may_be_followed(&self, epoch: u32) -> bool {
        self.epoch == epoch && !self.is_outdated.load(Ordering::Relaxed)
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Nobody follows it from now on.
    pub(crate) fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
    }

    /// Lets followers read a response of which a part is here.
    pub(crate) fn publish(&self, answer: LiveResponse) {
        if self.live.set(answer).is_ok() {
            self.landed.notify_waiters();
        }
    }

    /// Tells followers how it ended; the first call counts.
    pub(crate) fn land(&self, outcome: FlightOutcome) {
        let _ = self.outcome.set(outcome);
        self.landed.notify_waiters();
    }

    /// Waits for its end, or for a part of a response.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub(crate) async fn landed(&self) -> FlightOutcome {
        loop {
            // Made before the look at the outcome: it is then told of any leader after it.
            let notified = self.landed.notified();
            if let Some(outcome) = self.outcome.get() {
                return outcome.clone();
            }
            if let Some(live) = self.live.get() {
                return FlightOutcome::Live(live.clone());
            }
            notified.await;
        }
    }
}

/// A follower's place in a flight, given back when dropped.
#[derive(Debug)]
pub(crate) struct FollowerGuard(Arc<Flight>);

impl FollowerGuard {
    pub(crate) fn take(flight: &Arc<Flight>) -> Self {
        flight.followers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(flight))
    }
}

impl FollowerGuard {
    pub(crate) fn flight(&self) -> &Flight {
        &self.0
    }
}

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells whether others wait for what a leader is doing.
#[derive(Debug, Clone)]
pub struct Watch(pub(crate) Option<Arc<Flight>>);

impl Watch {
    /// Whether anybody could wait: what is asked for is one response for all.
    pub fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// Whether anybody waits for the response, or reads what has come of it.
    pub fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|flight| flight.is_awaited())
    }
}
