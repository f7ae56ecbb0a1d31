//! One server as a client sees it: its lanes, and how their connections are made.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::command::Command;
use crate::config::{Config, Credentials, DEFAULT_PORT, NodeAddress, WhenDown};
use crate::net::connect::{Connection, Purpose, connect, connect_with};
use crate::net::lane::{self, Dial, DialError, Lane, Settings, Watch};
use crate::proto::slot::Slot;
use crate::proto::topology::Role;
use crate::stats::LaneStats;

/// What the lanes of a client have beyond its configuration.
#[derive(Clone)]
pub(crate) struct Outfit {
    /// Sent at the end of each handshake; each has to succeed.
    pub(crate) setup: Arc<[Command<'static>]>,
    /// Is told what happens to the lanes.
    pub(crate) watch: Arc<dyn Watch>,
    /// Runs while there are lanes.
    pub(crate) upkeep: Arc<Upkeep>,
}

/// Keeps the credentials fresh: runs their provider's [`maintain`](crate::config::CredentialProvider::maintain), from the first dial to the client's end.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    task: Mutex<Option<AbortHandle>>,
    is_over: AtomicBool,
}

impl Upkeep {
    /// Begins, unless it runs already. To be called on the runtime.
    fn begin(&self, config: &Config) {
        let Some(provider) = &config.credentials else { return };
        let mut task = self.task.lock();
        // A runtime that has ended took its tasks along.
        if self.is_over.load(Ordering::Relaxed) || task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        *task = Arc::clone(provider).maintain().map(|work| tokio::spawn(work).abort_handle());
    }

    pub(crate) fn end(&self) {
        let mut task = self.task.lock();
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.end();
    }
}

impl Default for Outfit {
    fn default() -> Self {
        Self { setup: Arc::new([]), watch: Arc::new(()), upkeep: Arc::default() }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    lanes: Box<[Arc<Lane>]>,
}

impl Node {
    /// The lanes of a standalone server, or of whichever of several can be reached first.
    pub(crate) fn standalone(config: &Arc<Config>, outfit: &Outfit) -> Self {
        let settings = settings(
            config,
            match config.when_down {
                WhenDown::Queue => lane::WhenDown::Queue,
                WhenDown::FailFast => lane::WhenDown::Fail,
            },
            Role::Primary,
        );
        Self::new(config, &config.servers, Purpose::Data, &settings, outfit)
    }

    pub(crate) fn new(
        config: &Arc<Config>,
        addresses: &[NodeAddress],
        purpose: Purpose,
        settings: &Settings,
        outfit: &Outfit,
    ) -> Self {
        let address = addresses.first().cloned().unwrap_or_else(|| NodeAddress::tcp("localhost", DEFAULT_PORT));
        let lane = |_| {
            let dial = dialler(config, addresses, purpose, outfit);
            Lane::new(address.clone(), settings.clone(), dial, Arc::clone(&outfit.watch))
        };
        Self { lanes: (0..config.lanes.max(1)).map(lane).collect() }
    }

    /// The lane of a slot; without a slot, the first.
    #[inline]
    pub(crate) fn lane(&self, slot: impl FnOnce() -> Option<Slot>) -> &Arc<Lane> {
        match &*self.lanes {
            [only] => only,
            lanes => &lanes[slot().map_or(0, |slot| usize::from(slot.number()) % lanes.len())],
        }
    }

    pub(crate) fn stats(&self) -> Vec<LaneStats> {
        let stats = |(lane, it): (usize, &Arc<Lane>)| LaneStats {
            node: Arc::clone(it.node()),
            role: it.role(),
            lane,
            snapshot: it.snapshot(),
        };
        self.lanes.iter().enumerate().map(stats).collect()
    }

    pub(crate) fn close(&self) {
        self.lanes.iter().for_each(|lane| lane.close());
    }

    /// Ends all lanes at once.
    pub(crate) fn abort(&self) {
        self.lanes.iter().for_each(|lane| lane.abort());
    }

    /// Ends the lanes to a node that is not what it was: what was not written goes elsewhere.
    pub(crate) fn retire(&self) {
        self.lanes.iter().for_each(|lane| lane.retire("the node has left the cluster or has another role"));
    }

    /// Whether replies are overdue.
    pub(crate) fn is_stalled(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_stalled())
    }

    /// Waits until all lanes have ended.
    pub(crate) async fn ended(&self) {
        for lane in &self.lanes {
            lane.ended().await;
        }
    }

    /// Whether no connection can be made, as far as is known.
    pub(crate) fn is_down(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_down())
    }

    /// Whether any command is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_busy())
    }

    pub(crate) fn role(&self) -> Role {
        self.lanes[0].role()
    }
}

/// A lane's settings, by the configuration.
pub(crate) fn settings(config: &Config, when_down: lane::WhenDown, role: Role) -> Settings {
    Settings {
        role,
        max_queued_bytes: config.max_queued_bytes,
        when_down,
        backoff: config.reconnect,
        idle_ping: config.probe.idle_ping,
        stall: config.probe.stall,
    }
}

/// Makes connections to the first of `addresses` that can be reached.
pub(crate) fn dialler(
    config: &Arc<Config>,
    addresses: &[NodeAddress],
    purpose: Purpose,
    outfit: &Outfit,
) -> Box<dyn Dial> {
    let (setup, upkeep) = (Arc::clone(&outfit.setup), Arc::clone(&outfit.upkeep));
    Box::new(Dialler { config: Arc::clone(config), addresses: addresses.into(), purpose, setup, upkeep })
}

struct Dialler {
    config: Arc<Config>,
    addresses: Box<[NodeAddress]>,
    purpose: Purpose,
    setup: Arc<[Command<'static>]>,
    upkeep: Arc<Upkeep>,
}

impl Dialler {
    async fn connect(&self) -> Result<Connection, DialError> {
        self.upkeep.begin(&self.config);
        let mut problem = DialError { text: "no server is configured".into(), is_final: true };
        for address in &self.addresses {
            match connect_with(&self.config, address, self.purpose, &self.setup).await {
                Ok(connection) => return Ok(connection),
                Err(error) => problem = DialError { text: error.to_string().into(), is_final: error.is_permanent() },
            }
        }
        Err(problem)
    }
}

impl Dial for Dialler {
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>> {
        Box::pin(self.connect())
    }

    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        self.config.credentials.as_ref()?.changes()
    }

    fn probe(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        // The handshake is a round trip: a node that is stopped accepts the connection and does not answer.
        Box::pin(async {
            let Some(address) = self.addresses.first() else { return false };
            let patience = self.config.connect_timeout.min(Duration::from_secs(2));
            matches!(
                tokio::time::timeout(patience, connect(&self.config, address, Purpose::Management)).await,
                Ok(Ok(_))
            )
        })
    }
}
