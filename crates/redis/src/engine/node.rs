//! One server as a client sees it: its lanes, how their connections are made, and how near it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::address::{DEFAULT_PORT, NodeAddress};
use crate::config::{Config, Overload, ReadFrom, WhenDown};
use crate::engine::dialler::{dialler, primary_dialler};
use crate::engine::finder::Finder;
use crate::engine::lane::{self, Dial, Lane, Settings, Watch, WhenFull};
use crate::engine::lane_options::LaneOptions;
use crate::net::connect::Purpose;
use crate::proto::handshake::ServerInfo;
use crate::proto::slot::Slot;
use crate::proto::topology::Role;
use crate::reply::Value;
use crate::stats::LaneStats;

/// Longest pause between two attempts to connect to the primary that Sentinels name.
const MAX_SENTINEL_PAUSE: Duration = Duration::from_secs(1);

/// How often it is measured how long a node takes to answer, if reads go by that.
const LATENCY_EVERY: Duration = Duration::from_secs(1);

/// Deadlines are not looked at meanwhile.
const MAX_FLUSH_DELAY: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    lanes: Box<[Arc<Lane>]>,
    /// For commands and replies that would delay others.
    large: Option<Arc<Lane>>,
    place: Arc<Place>,
}

/// Where a node is, as far as it matters who is asked for reads; on the way, whoever else watches its lanes is told.
struct Place {
    /// The client's own zone.
    home: Option<Arc<str>>,
    /// The node's zone, as others told it.
    told: Mutex<Option<Arc<str>>>,
    config: Arc<Config>,
    is_near: AtomicBool,
    next: Arc<dyn Watch>,
}

impl Node {
    /// The lanes to one server.
    pub(crate) fn new(
        config: &Arc<Config>,
        address: &NodeAddress,
        purpose: Purpose,
        settings: &Settings,
        lane_options: &LaneOptions,
    ) -> Self {
        Self::dialled(config, address, settings, lane_options, || dialler(config, address, purpose, lane_options))
    }

    /// The lanes to the primary outside of a cluster, wherever it is.
    pub(crate) fn primary(finder: &Arc<Finder>, lane_options: &LaneOptions) -> Self {
        let config = finder.config();
        let when_down = match config.when_down {
            WhenDown::Queue => lane::WhenDown::Queue,
            WhenDown::FailFast => lane::WhenDown::Fail,
        };
        let mut settings = settings(config, when_down, Role::Primary);
        if finder.sentinels().is_some() {
            // Sentinels are asked for a new primary at each attempt: it should not be known to them for long and not to
            // us.
            settings.backoff.max = settings.backoff.max.min(MAX_SENTINEL_PAUSE);
        }
        let first = config.servers.first().cloned().unwrap_or_else(|| NodeAddress::tcp("localhost", DEFAULT_PORT));
        Self::dialled(config, &first, &settings, lane_options, || primary_dialler(finder, Purpose::Data, lane_options))
    }

    fn dialled(
        config: &Arc<Config>,
        address: &NodeAddress,
        settings: &Settings,
        lane_options: &LaneOptions,
        dial: impl Fn() -> Box<dyn Dial>,
    ) -> Self {
        let home = match &config.read_from {
            ReadFrom::AzAffinity { zone } => Some(Arc::clone(zone)),
            ReadFrom::Primary
            | ReadFrom::PreferReplica
            | ReadFrom::OnlyReplicas
            | ReadFrom::LowestLatency
            | ReadFrom::RoundRobin => None,
        };
        let place = Arc::new(Place {
            home,
            told: Mutex::default(),
            config: Arc::clone(config),
            is_near: AtomicBool::new(false),
            next: Arc::clone(&lane_options.watch),
        });
        let lane = |large| {
            let watch = Arc::clone(&place) as Arc<dyn Watch>;
            Lane::new(address.clone(), settings.clone(), dial(), watch, large)
        };
        let large = config.large_bytes.map(|_| lane(None));
        Self { lanes: (0..config.lanes.max(1)).map(|_| lane(large.clone())).collect(), large, place }
    }

    /// The lane of a slot; without a slot, the first.
    #[inline]
    pub(crate) fn lane(&self, slot: impl FnOnce() -> Option<Slot>) -> &Arc<Lane> {
        match &*self.lanes {
            [only] => only,
            lanes => &lanes[slot().map_or(0, |slot| usize::from(slot.number()) % lanes.len())],
        }
    }

    /// The lane for every slot, if there is no other.
    #[inline]
    pub(crate) fn only_lane(&self) -> Option<&Arc<Lane>> {
        match &*self.lanes {
            [only] => Some(only),
            _ => None,
        }
    }

    /// All lanes, that for large commands last.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().chain(&self.large)
    }

    /// Connects all lanes, if there is a runtime to do it on.
    pub(crate) fn open(&self) {
        self.lanes.iter().for_each(Lane::begin);
    }

    pub(crate) fn stats(&self) -> Vec<LaneStats> {
        let stats = |(lane, it): (usize, &Arc<Lane>)| LaneStats {
            node: it.node(),
            role: it.role(),
            lane,
            snapshot: it.snapshot(),
        };
        self.lanes().enumerate().map(stats).collect()
    }

    pub(crate) fn close(&self) {
        self.lanes().for_each(|lane| lane.close());
    }

    /// Ends all lanes at once.
    pub(crate) fn abort(&self) {
        self.lanes().for_each(|lane| lane.abort());
    }

    /// Ends the lanes to a node that is gone: what was not written goes elsewhere.
    pub(crate) fn retire(&self) {
        self.lanes().for_each(|lane| lane.retire("the node has left the cluster"));
    }

    /// Ends the lanes to a node that has another role.
    pub(crate) fn replace(&self) {
        self.lanes().for_each(|lane| lane.replace("the node has another role"));
    }

    /// Whether replies are overdue.
    pub(crate) fn is_stalled(&self) -> bool {
        self.lanes().any(|lane| lane.is_stalled())
    }

    /// Waits until all lanes have ended.
    pub(crate) async fn ended(&self) {
        for lane in self.lanes() {
            lane.ended().await;
        }
    }

    /// Whether no connection can be made, as far as is known.
    pub(crate) fn is_down(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_down())
    }

    /// Whether any command is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.lanes().any(|lane| lane.is_busy())
    }

    pub(crate) fn role(&self) -> Role {
        self.lanes[0].role()
    }

    /// Whether it is known to be in the client's own availability zone.
    pub(crate) fn is_near(&self) -> bool {
        self.place.is_near.load(Ordering::Relaxed)
    }

    /// The topology of the cluster tells the node's zone.
    pub(crate) fn set_zone(&self, zone: &Arc<str>) {
        *self.place.told.lock() = Some(Arc::clone(zone));
        self.place.set(Some(zone));
    }
}

/// A lane's settings, by the configuration.
pub(crate) fn settings(config: &Config, when_down: lane::WhenDown, role: Role) -> Settings {
    let measures = config.read_from == ReadFrom::LowestLatency;
    let idle_ping = config.probe.idle_ping;
    Settings {
        role,
        max_queued_bytes: config.max_queued_bytes,
        max_waiting: config.max_waiting_commands,
        when_full: match config.overload {
            Overload::Wait | Overload::Reject => WhenFull::Refuse,
            Overload::Shed => WhenFull::Shed,
        },
        when_down,
        backoff: config.reconnect,
        idle_ping: if measures {
            Some(idle_ping.map_or(LATENCY_EVERY, |ping| ping.min(LATENCY_EVERY)))
        } else {
            idle_ping
        },
        stall: config.probe.stall,
        busy_ping: measures.then_some(LATENCY_EVERY),
        flush_delay: config.flush_delay.map(|delay| delay.min(MAX_FLUSH_DELAY)),
        large_bytes: config.large_bytes.unwrap_or(usize::MAX),
    }
}

impl Place {
    fn set(&self, zone: Option<&str>) {
        self.is_near.store(zone.is_some() && self.home.as_deref() == zone, Ordering::Relaxed);
    }
}

impl Watch for Place {
    fn dialling(&self) {
        self.next.dialling();
    }

    fn up(&self, address: &NodeAddress, server: &ServerInfo) {
        if self.home.is_some() {
            let told = self.told.lock().clone();
            let zone = server.availability_zone.as_ref().or(told.as_ref()).or_else(|| self.config.zones.get(address));
            self.set(zone.map(|zone| &**zone));
        }
        self.next.up(address, server);
    }

    fn down(&self, reason: &str) {
        self.next.down(reason);
    }

    fn stalled(&self) {
        self.next.stalled();
    }

    fn pushed(&self, push: Vec<Value>) {
        self.next.pushed(push);
    }

    fn disconnected(&self) {
        self.next.disconnected();
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("home", &self.home).field("is_near", &self.is_near).finish_non_exhaustive()
    }
}
