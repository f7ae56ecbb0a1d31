//! A cluster as a client sees it: the topology, the nodes' lanes, and the task that keeps the topology.
//!
//! Routing happens on the caller's thread: slot → node → lane, without a lock. A refresh runs in a task of its own and
//! never delays a command whose node is known.

mod refresh;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::command::CommandSpec;
use crate::config::{Config, NodeAddress, ReadFrom, WhenDown};
use crate::engine::lane::{self, DialError, Lane, Watch};
use crate::engine::lane_options::LaneOptions;
use crate::engine::node::{self, Node};
use crate::engine::readers::{may_ask_replica, reader};
use crate::error::{Error, ErrorKind, Ran};
use crate::net::connect::Purpose;
use crate::proto::handshake::ServerInfo;
use crate::proto::redirect::Redirect;
use crate::proto::refresh::{Outcome, RefreshPolicy, RefreshSchedule};
use crate::proto::retry::Refresh;
use crate::proto::slot::Slot;
use crate::proto::topology::compare::{self, Changes};
use crate::proto::topology::{NodeIndex, Role, Topology};
use crate::reply::Value;
use crate::stats::{LaneStats, TopologyStats};

/// See the module.
pub(crate) struct Cluster {
    config: Arc<Config>,
    live: ArcSwapOption<Live>,
    /// Lanes outlive topologies.
    nodes: Mutex<HashMap<(NodeAddress, Role), Arc<Node>>>,
    wanted: Mutex<RefreshSchedule>,
    /// Woken when the schedule may have changed.
    requested: Notify,
    /// Counts topologies that differ from the one before.
    changed: watch::Sender<u64>,
    /// Commands that pause until a new topology comes.
    waiting: AtomicUsize,
    task: Mutex<Task>,
    /// Shared with the questions to nodes that are under way.
    epochs: Arc<refresh::Epochs>,
    lane_options: LaneOptions,
}

#[derive(Debug)]
struct Live {
    topology: Topology,
    /// By node index: the lanes to it as what the topology takes it for.
    nodes: Vec<Arc<Node>>,
    /// By index of a primary: its replicas, if they are to answer reads.
    replicas: Vec<Vec<Arc<Node>>>,
}

#[derive(Debug, Default)]
struct Task {
    handle: Option<AbortHandle>,
    is_closed: bool,
    /// Why the last refresh failed.
    problem: Option<DialError>,
    refreshes: u64,
    failures: u64,
    /// The last answer.
    refreshed: Option<Instant>,
    /// Since when all that is answered is older than the topology.
    older_since: Option<Instant>,
}

/// Lanes in trouble make the topology doubtful. Who else watches them is told after.
struct Suspicion {
    cluster: Weak<Cluster>,
    also: Arc<dyn Watch>,
}

impl Watch for Suspicion {
    fn dialling(&self) {
        self.also.dialling();
    }

    fn up(&self, address: &NodeAddress, server: &ServerInfo) {
        self.also.up(address, server);
    }

    fn down(&self, reason: &str) {
        self.suspect();
        self.also.down(reason);
    }

    fn stalled(&self) {
        self.suspect();
        self.also.stalled();
    }

    fn pushed(&self, push: Vec<Value>) {
        self.also.pushed(push);
    }

    fn disconnected(&self) {
        self.also.disconnected();
    }
}

impl Suspicion {
    fn suspect(&self) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.want_refresh(Refresh::Urgent);
        }
    }
}

impl Cluster {
    pub(crate) fn new(config: &Arc<Config>, lane_options: &LaneOptions) -> Arc<Self> {
        Arc::new_cyclic(|weak: &Weak<Self>| Self {
            config: Arc::clone(config),
            live: ArcSwapOption::empty(),
            nodes: Mutex::default(),
            wanted: Mutex::new(RefreshSchedule::new(refresh_policy(config), fastrand::Rng::new())),
            requested: Notify::new(),
            changed: watch::Sender::new(0),
            waiting: AtomicUsize::new(0),
            task: Mutex::default(),
            epochs: Arc::default(),
            lane_options: LaneOptions {
                watch: Arc::new(Suspicion { cluster: weak.clone(), also: Arc::clone(&lane_options.watch) }),
                ..lane_options.clone()
            },
        })
    }

    /// The lane for a slot, or, without one, to any primary.
    #[inline]
    pub(crate) fn lane_of(self: &Arc<Self>, spec: &CommandSpec, slot: Option<Slot>) -> Result<Arc<Lane>, Error> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else { return Err(self.no_topology(spec)) };
        let owner = match slot {
            Some(slot) => live.topology.owner(slot),
            None => live.any_primary(),
        };
        let Some(owner) = owner else { return Err(self.no_owner(spec, slot)) };
        if self.config.read_from != ReadFrom::Primary && may_ask_replica(spec) {
            let (primary, replicas) = (&live.nodes[owner.get()], &live.replicas[owner.get()]);
            return match reader(&self.config.read_from, primary, replicas, slot) {
                Some(lane) => Ok(Arc::clone(lane)),
                None => Err(self.no_replica(spec, slot)),
            };
        }
        Ok(Arc::clone(live.nodes[owner.get()].lane(|| slot)))
    }

    /// The lane to the primary of a slot.
    pub(crate) fn primary_lane(self: &Arc<Self>, spec: &CommandSpec, slot: Option<Slot>) -> Result<Arc<Lane>, Error> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else { return Err(self.no_topology(spec)) };
        let owner = slot.map_or_else(|| live.any_primary(), |slot| live.topology.owner(slot));
        owner.map(|owner| Arc::clone(live.nodes[owner.get()].lane(|| slot))).ok_or_else(|| self.no_owner(spec, slot))
    }

    /// Whether `lane` is one of those that are asked for a slot, as far as is known now.
    pub(crate) fn may_serve(&self, lane: &Arc<Lane>, slot: Slot) -> bool {
        let live = self.live.load();
        let Some((live, owner)) = live.as_deref().and_then(|live| Some((live, live.topology.owner(slot)?))) else {
            return false;
        };
        let is_it = |node: &Arc<Node>| Arc::ptr_eq(node.lane(|| Some(slot)), lane);
        is_it(&live.nodes[owner.get()]) || live.replicas[owner.get()].iter().any(is_it)
    }

    /// The lane to where a redirect points; a slot that has moved is noted, and the topology asked for again.
    pub(crate) fn redirected(self: &Arc<Self>, to: &Redirect, slot: Option<Slot>) -> Option<Arc<Lane>> {
        self.note_redirect(to);
        Some(Arc::clone(self.node(&to.announced, Role::Primary).lane(|| slot)))
    }

    /// Notes a slot that has moved, and asks for the topology.
    pub(crate) fn note_redirect(self: &Arc<Self>, to: &Redirect) {
        if let Some(moved) = to.moved() {
            self.patch(moved, to);
            self.want_refresh(Refresh::Soon);
        }
    }

    /// The primary of a slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeAddress> {
        let live = self.live.load();
        let topology = &live.as_deref()?.topology;
        topology.node(topology.owner(slot)?).map(|node| node.announced.clone())
    }

    /// The addresses of all primaries.
    pub(crate) fn primary_addresses(&self) -> Vec<NodeAddress> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else { return Vec::new() };
        let nodes = live.topology.primaries().filter_map(|index| live.topology.node(index));
        nodes.map(|node| node.announced.clone()).collect()
    }

    /// Whether the topology has this node, whatever its role.
    pub(crate) fn knows(&self, address: &NodeAddress) -> bool {
        self.live.load().as_deref().is_some_and(|live| live.topology.find(address).is_some())
    }

    /// Tells of topologies that differ from the one before.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn patch(self: &Arc<Self>, slot: Slot, to: &Redirect) {
        let Some(live) = self.live.load_full() else { return };
        match live.topology.find(&to.announced) {
            Some(index) if live.nodes[index.get()].role() == Role::Primary => live.topology.patch(slot, index),
            // A node that the topology does not know, or knows as a replica: the topology that is asked for will tell.
            _ => self.want_refresh(Refresh::Urgent),
        }
    }

    /// The lanes to a node, made when they are first needed.
    fn node(self: &Arc<Self>, announced: &NodeAddress, role: Role) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let node = nodes.entry((announced.clone(), role)).or_insert_with(|| {
            let purpose = if role == Role::Primary { Purpose::Data } else { Purpose::Replica };
            let settings = node::settings(&self.config, lane::WhenDown::Fail, role);
            Arc::new(Node::new(&self.config, announced, purpose, &settings, &self.lane_options))
        });
        Arc::clone(node)
    }

    /// Replaces the topology. Nodes that it does not name any more finish what is in flight and end.
    fn install(self: &Arc<Self>, topology: Topology) -> Outcome {
        let old = self.live.load_full();
        let old = old.as_deref().map(|old| &old.topology);
        let changes = old.map(|old| compare::diff(old, &topology));
        let is_same = changes.as_ref().is_some_and(Changes::is_empty);
        let nodes: Vec<_> = topology.nodes().iter().map(|it| self.node(&it.announced, it.role)).collect();
        for (told, node) in topology.nodes().iter().zip(&nodes) {
            told.availability_zone.iter().for_each(|zone| node.set_zone(zone));
        }
        let replicas = topology.indexed().map(|(index, _)| self.replicas(&topology, &nodes, index)).collect();
        let mut gone = Vec::new();
        self.nodes.lock().retain(|(address, _), node| {
            // Redirects name nodes that no topology has: those that are about to get their first slot.
            let is_told_of = topology.find(address).is_none() && old.is_none_or(|old| old.find(address).is_none());
            let is_needed = nodes.iter().any(|it| Arc::ptr_eq(it, node)) || (is_told_of && node.is_busy());
            if !is_needed {
                gone.push((address.clone(), Arc::clone(node)));
            }
            is_needed
        });
        self.live.store(Some(Arc::new(Live { topology, nodes, replicas })));
        for (address, node) in gone {
            match self.knows(&address) {
                true => node.replace(),
                false => node.retire(),
            }
        }
        if is_same {
            return Outcome::Unchanged;
        }
        if let Some(Changes { came, gone, kept, moved }) = &changes {
            let roles = kept.iter().filter(|change| change.role).count();
            tracing::info!(
                came = came.len(),
                gone = gone.len(),
                roles,
                slot_ranges = moved.len(),
                "the cluster's topology has changed"
            );
        }
        self.changed.send_modify(|count| *count += 1);
        Outcome::Renewed
    }

    /// The replicas of a primary, if they are to answer reads. Their lanes are opened now: only what is connected is
    /// chosen.
    fn replicas(&self, topology: &Topology, nodes: &[Arc<Node>], index: NodeIndex) -> Vec<Arc<Node>> {
        let shard = topology.shard_of(index).filter(|shard| shard.primary == Some(index));
        let Some(shard) = shard.filter(|_| self.config.read_from != ReadFrom::Primary) else { return Vec::new() };
        let replicas: Vec<_> = shard.replicas.iter().map(|index| Arc::clone(&nodes[index.get()])).collect();
        replicas.iter().for_each(|node| node.open());
        if self.config.read_from == ReadFrom::LowestLatency {
            nodes[index.get()].open();
        }
        replicas
    }

    /// Asks for the topology again, in the background.
    pub(crate) fn want_refresh(self: &Arc<Self>, refresh: Refresh) {
        if refresh == Refresh::No {
            return;
        }
        self.start();
        self.wanted.lock().request(Instant::now(), refresh);
        self.requested.notify_one();
    }

    pub(crate) fn topology_version(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Waits for another topology than that of `version`, at most for `pause`. Meanwhile the topology is asked for at
    /// the urgent pace.
    pub(crate) async fn pause_or_new_topology(&self, pause: Duration, version: u64) {
        let _waiter = Waiter::new(&self.waiting);
        let mut changed = self.changed.subscribe();
        let _ = tokio::time::timeout(pause, changed.wait_for(|&now| now != version)).await;
    }

    /// Whether commands wait for a topology that is better than the last one: paused, or at a node that does not
    /// answer. Those that a new topology has woken will ask by themselves.
    fn is_awaited(&self, last: Outcome) -> bool {
        let is_paused = last != Outcome::Renewed && self.waiting.load(Ordering::Relaxed) > 0;
        is_paused || self.nodes.lock().values().any(|node| node.is_stalled())
    }

    /// Looks at the topology, if there is one.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Topology) -> T) -> Option<T> {
        self.live.load().as_deref().map(|live| at(&live.topology))
    }

    /// The lane to a replica of a slot's primary, one that is not known to be down if there is one.
    pub(crate) fn replica_lane(self: &Arc<Self>, spec: &CommandSpec, slot: Slot) -> Result<Arc<Lane>, Error> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else { return Err(self.no_topology(spec)) };
        let shard = live.topology.owner(slot).and_then(|owner| live.topology.shard_of(owner));
        let Some(shard) = shard else { return Err(self.no_owner(spec, Some(slot))) };
        let mut replicas: Vec<_> = shard.replicas.iter().map(|index| &live.nodes[index.get()]).collect();
        fastrand::shuffle(&mut replicas);
        match replicas.iter().find(|node| !node.is_down()).or(replicas.first()) {
            Some(node) => Ok(Arc::clone(node.lane(|| Some(slot)))),
            None => {
                self.want_refresh(Refresh::Soon);
                let text = format!("slot {slot} has no replica");
                Err(Error::new(ErrorKind::Cluster(text.into()), Ran::NotSent, spec.name))
            }
        }
    }

    /// The lane to the node that announces `address`, in the topology or not.
    pub(crate) fn lane_to(self: &Arc<Self>, address: &NodeAddress) -> Arc<Lane> {
        let live = self.live.load();
        let known = live.as_deref().and_then(|live| Some(Arc::clone(&live.nodes[live.topology.find(address)?.get()])));
        let node = known.unwrap_or_else(|| self.node(address, Role::Primary));
        Arc::clone(node.lane(|| None))
    }

    /// A lane to every primary that has slots, and one of those.
    pub(crate) fn primaries(self: &Arc<Self>) -> Vec<(Arc<Lane>, Option<Slot>)> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else {
            self.want_refresh(Refresh::Urgent);
            return Vec::new();
        };
        let mut seen = vec![false; live.nodes.len()];
        let first_of_each = Slot::all().filter_map(|slot| {
            let owner = live.topology.owner(slot)?.get();
            (!std::mem::replace(&mut seen[owner], true))
                .then(|| (Arc::clone(live.nodes[owner].lane(|| None)), Some(slot)))
        });
        first_of_each.collect()
    }

    /// A lane to every node that the topology knows.
    pub(crate) fn all_nodes(self: &Arc<Self>) -> Vec<Arc<Lane>> {
        let live = self.live.load();
        let Some(live) = live.as_deref() else {
            self.want_refresh(Refresh::Urgent);
            return Vec::new();
        };
        live.nodes.iter().map(|node| Arc::clone(node.lane(|| None))).collect()
    }

    #[cold]
    fn no_topology(self: &Arc<Self>, spec: &CommandSpec) -> Error {
        self.want_refresh(Refresh::Urgent);
        let kind = match &self.task.lock().problem {
            Some(DialError { text, is_final: true }) => ErrorKind::Rejected(text.clone()),
            Some(DialError { text, .. }) if self.config.when_down == WhenDown::FailFast => {
                ErrorKind::Connect(text.clone())
            }
            Some(DialError { text, .. }) => {
                ErrorKind::Cluster(text.told(format!("the topology of the cluster is not known: {text}")))
            }
            None => ErrorKind::Cluster("the topology of the cluster is not known yet".into()),
        };
        Error::new(kind, Ran::NotSent, spec.name)
    }

    #[cold]
    fn no_owner(self: &Arc<Self>, spec: &CommandSpec, slot: Option<Slot>) -> Error {
        self.want_refresh(Refresh::Urgent);
        let text = slot.map_or_else(|| "no node is known".to_owned(), |slot| format!("no node serves slot {slot}"));
        Error::new(ErrorKind::Cluster(text.into()), Ran::NotSent, spec.name)
    }

    #[cold]
    fn no_replica(self: &Arc<Self>, spec: &CommandSpec, slot: Option<Slot>) -> Error {
        self.want_refresh(Refresh::Soon);
        let of = slot.map_or_else(String::new, |slot| format!(" of slot {slot}"));
        Error::new(ErrorKind::Cluster(format!("no replica{of} is connected").into()), Ran::NotSent, spec.name)
    }

    pub(crate) fn topology_stats(&self) -> TopologyStats {
        let task = self.task.lock();
        TopologyStats {
            refreshes: task.refreshes,
            failures: task.failures,
            changes: *self.changed.borrow(),
            age: task.refreshed.map(|at| at.elapsed()),
        }
    }

    pub(crate) fn stats(&self) -> Vec<LaneStats> {
        let mut stats: Vec<_> = self.nodes.lock().values().flat_map(|node| node.stats()).collect();
        stats.sort_by(|a, b| (&a.node, a.lane).cmp(&(&b.node, b.lane)));
        stats
    }

    pub(crate) fn close(&self) {
        {
            let mut task = self.task.lock();
            task.is_closed = true;
            if let Some(handle) = task.handle.take() {
                handle.abort();
            }
        }
        self.nodes.lock().values().for_each(|node| node.close());
    }

    pub(crate) fn abort(&self) {
        self.nodes.lock().values().for_each(|node| node.abort());
    }

    pub(crate) async fn ended(&self) {
        let nodes: Vec<_> = self.nodes.lock().values().cloned().collect();
        for node in nodes {
            node.ended().await;
        }
    }
}

fn refresh_policy(config: &Config) -> RefreshPolicy {
    RefreshPolicy {
        min_interval: config.cluster.refresh_min_interval,
        interval: config.cluster.refresh_interval,
        ..RefreshPolicy::default()
    }
}

/// Counted while it lives.
struct Waiter<'c>(&'c AtomicUsize);

impl<'c> Waiter<'c> {
    fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    fn any_primary(&self) -> Option<NodeIndex> {
        let primaries = self.topology.primaries().count();
        self.topology.primaries().nth(fastrand::usize(..primaries.max(1)))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("topology", &self.live.load()).finish_non_exhaustive()
    }
}
