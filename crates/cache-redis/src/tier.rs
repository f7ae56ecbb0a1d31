//! A worker's end of the tier: asks Redis within the budget, and writes behind.
//!
//! Each worker has connections of its own, which live on its own thread: nothing is handed from one thread to another,
//! and commands of requests that are answered in the same turn of the event loop go out in one write.

pub(crate) mod ask;
mod budget;
mod lease;
mod outage;
pub(crate) mod rate;
mod refusals;
pub(crate) mod run;
mod shared;
mod ticket;
mod write;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_cache::Cache;
use pilotlight_redis::config::{Overload, ReadFrom, Topology, WhenDown};
use pilotlight_redis::{Client, Commands, Config, Error, Route};

pub use shared::{SharedTier, Status, WriteProblem};
pub use ticket::Ticket;

use crate::breaker::Breakers;
use crate::hints::Hints;
use crate::options::{MAX_RECONNECT_PAUSE, WRITE_TIMEOUT};
use ticket::Worker;

/// See the module.
#[derive(Debug)]
pub struct Tier {
    shared: SharedTier,
    cache: Cache,
    client: Client,
    breakers: RefCell<Breakers>,
    /// Those of rates.
    rates: RefCell<Breakers>,
    hints: RefCell<Hints>,
    own: Arc<Worker>,
}

/// The client's settings as the tier needs them: commands fail at once while there is no connection, nothing waits for
/// room, the primary is asked (what a write was compared with must not be stale), and a lost connection is tried again
/// soon.
#[must_use]
pub fn client_config(config: &Config) -> Config {
    let mut config = config.clone();
    config.when_down = WhenDown::FailFast;
    config.overload = Overload::Reject;
    config.read_from = ReadFrom::Primary;
    config.command_timeout = Some(WRITE_TIMEOUT);
    config.reconnect.max = config.reconnect.max.min(MAX_RECONNECT_PAUSE);
    config
}

impl Tier {
    /// The end of one worker, behind `cache`, which was made by [`Cache::shared`] with
    /// [`record_name`](crate::record_name). It connects when it is first used, or [run](Self::run), on the runtime of
    /// its caller.
    ///
    /// # Errors
    /// The client's configuration makes no sense.
    pub fn new(shared: &SharedTier, cache: &Cache) -> Result<Rc<Self>, Error> {
        let client = Client::new(client_config(shared.redis()))?;
        let is_cluster = matches!(shared.redis().topology, Topology::Cluster);
        let own = shared.register();
        let [breakers, rates] = [(); 2].map(|()| RefCell::new(Breakers::new(is_cluster)));
        let hints = RefCell::default();
        let (shared, cache) = (shared.clone(), cache.clone());
        Ok(Rc::new(Self { shared, cache, client, breakers, rates, hints, own }))
    }

    /// Connects, and writes until it is dropped.
    ///
    /// # Cancel safety
    /// Dropping it ends the writes on their way; what waits in the queue stays there.
    pub async fn run(self: Rc<Self>) {
        // Requests that come meanwhile ask for themselves. A cluster's map and all connections are there before the
        // first of them, mostly.
        let greeted = self.client.ping().on(Route::AllPrimaries).read_as::<()>().timeout(WRITE_TIMEOUT).await;
        if let Err(error) = greeted {
            self.shared.say_unreachable(&error);
        }
        tokio::join!(self.write(), self.send_invalidations());
    }

    /// Waits until what is in the queue was written, at most for `timeout`, and closes the connections.
    ///
    /// # Cancel safety
    /// Dropping it leaves the rest unwritten.
    pub async fn close(&self, timeout: Duration) {
        let begun = Instant::now();
        while !self.is_idle() && begun.elapsed() < timeout {
            self.own.rested.notified().await;
        }
        self.client.close(timeout.saturating_sub(begun.elapsed())).await;
    }

    fn is_idle(&self) -> bool {
        self.own.queue.len().0 == 0 && self.own.writing() == 0
    }

    fn note_answer(&self, name: &str) {
        let closed = self.breakers.borrow_mut().of(name).succeeded();
        if closed {
            self.shared.breaker_closed();
        }
    }

    fn note_failure(&self, name: &str, why: &dyn std::fmt::Display) {
        let opened = self.breakers.borrow_mut().of(name).failed(Instant::now());
        if opened {
            self.shared.breaker_opened(why);
        }
    }
}
