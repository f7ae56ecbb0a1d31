//! One primary outside of a cluster, with its replicas if they are to answer reads.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::command::CommandSpec;
use crate::config::{Config, NodeAddress, ReadFrom, Topology};
use crate::engine::finder::Finder;
use crate::engine::lane::{self, Lane, Watch};
use crate::engine::lane_options::LaneOptions;
use crate::engine::node::{self, Node};
use crate::engine::readers::{may_ask_replica, reader};
use crate::error::{Error, ErrorKind, Ran};
use crate::net::connect::Purpose;
use crate::proto::handshake::ServerInfo;
use crate::proto::slot::Slot;
use crate::proto::topology::Role;
use crate::reply::Value;
use crate::stats::LaneStats;

/// See the module.
#[derive(Debug)]
pub(crate) struct Single {
    finder: Arc<Finder>,
    primary: Node,
    /// `None`: all reads go to the primary.
    replicas: Option<Replicas>,
    lane_options: LaneOptions,
    /// Watches the Sentinels.
    pub(super) watcher: Mutex<Watcher>,
}

#[derive(Debug, Default)]
struct Replicas {
    chosen: ArcSwap<Vec<Arc<Node>>>,
    /// Lanes outlive changes of roles.
    known: Mutex<HashMap<NodeAddress, Arc<Node>>>,
}

#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) task: Option<AbortHandle>,
    pub(super) is_closed: bool,
}

/// Hears of the primary's connections.
struct Found {
    single: OnceLock<Weak<Single>>,
    also: Arc<dyn Watch>,
}

impl Watch for Found {
    fn dialling(&self) {
        if let Some(single) = self.single() {
            single.start();
        }
        self.also.dialling();
    }

    fn up(&self, address: &NodeAddress, server: &ServerInfo) {
        if let Some(single) = self.single() {
            single.list_replicas();
        }
        self.also.up(address, server);
    }

    fn down(&self, reason: &str) {
        if let Some(single) = self.single() {
            single.list_replicas();
        }
        self.also.down(reason);
    }

    fn stalled(&self) {
        self.also.stalled();
    }

    fn pushed(&self, push: Vec<Value>) {
        self.also.pushed(push);
    }

    fn disconnected(&self) {
        self.also.disconnected();
    }
}

impl Found {
    fn single(&self) -> Option<Arc<Single>> {
        self.single.get().and_then(Weak::upgrade)
    }
}

impl Single {
    pub(crate) fn new(config: &Arc<Config>, lane_options: &LaneOptions) -> Arc<Self> {
        let finder = Arc::new(Finder::new(config));
        let found = Arc::new(Found { single: OnceLock::new(), also: Arc::clone(&lane_options.watch) });
        let primary = Node::primary(
            &finder,
            &LaneOptions { watch: Arc::clone(&found) as Arc<dyn Watch>, ..lane_options.clone() },
        );
        let is_without = config.read_from == ReadFrom::OnlyReplicas;
        let has_replicas = config.servers.len() > 1 || finder.sentinels().is_some() || is_without;
        let replicas = (config.read_from != ReadFrom::Primary && has_replicas).then(Replicas::default);
        let single =
            Arc::new(Self { finder, primary, replicas, lane_options: lane_options.clone(), watcher: Mutex::default() });
        let _ = found.single.set(Arc::downgrade(&single));
        single
    }

    pub(crate) fn finder(&self) -> &Arc<Finder> {
        &self.finder
    }

    pub(crate) fn primary(&self) -> &Node {
        &self.primary
    }

    /// The lane of all commands, if there is no other.
    #[inline]
    pub(crate) fn only_lane(&self) -> Option<&Arc<Lane>> {
        if self.replicas.is_none() { self.primary.only_lane() } else { None }
    }

    /// The lane for a command.
    #[inline]
    pub(crate) fn lane_of(&self, spec: &CommandSpec, slot: impl FnOnce() -> Option<Slot>) -> Result<Arc<Lane>, Error> {
        match &self.replicas {
            Some(replicas) if may_ask_replica(spec) => {
                let chosen = replicas.chosen.load();
                match reader(&self.finder.config().read_from, &self.primary, &chosen, slot()) {
                    Some(lane) => Ok(Arc::clone(lane)),
                    None => Err(self.no_replica(spec)),
                }
            }
            _ => Ok(Arc::clone(self.primary.lane(slot))),
        }
    }

    /// It is the primary's connection by which the replicas are learnt.
    #[cold]
    fn no_replica(&self, spec: &CommandSpec) -> Error {
        self.primary.open();
        Error::new(ErrorKind::Cluster("no replica is connected".into()), Ran::NotSent, spec.name)
    }

    /// The lane to a replica that is connected.
    pub(crate) fn replica_lane(&self, slot: Slot) -> Option<Arc<Lane>> {
        let mut replicas = self.replicas();
        fastrand::shuffle(&mut replicas);
        replicas.iter().map(|node| node.lane(|| Some(slot))).find(|lane| lane.is_up()).cloned()
    }

    /// The lane to the server at an address: the primary, wherever it is, if it is the only one.
    pub(crate) fn lane_to(&self, address: &NodeAddress) -> Option<Arc<Lane>> {
        let config = self.finder.config();
        let is_only = matches!(config.topology, Topology::Standalone) && config.servers == [address.clone()];
        let lane = self.primary.lane(|| None);
        if is_only || lane.address() == *address {
            return Some(Arc::clone(lane));
        }
        self.replicas().iter().map(|node| node.lane(|| None)).find(|lane| lane.address() == *address).cloned()
    }

    /// A lane to every server that is known.
    pub(crate) fn all_nodes(&self) -> Vec<Arc<Lane>> {
        let replicas = self.replicas();
        [&self.primary]
            .into_iter()
            .chain(replicas.iter().map(|node| &**node))
            .map(|node| Arc::clone(node.lane(|| None)))
            .collect()
    }

    /// The primary is said to be at `address`.
    pub(crate) fn moved(&self, address: &NodeAddress, reason: &str) {
        self.finder.hear(address);
        self.primary.lanes().for_each(|lane| lane.move_to(address, reason));
    }

    /// Of several configured servers, those that are not the primary are its replicas.
    fn list_replicas(&self) {
        let config = self.finder.config();
        if matches!(config.topology, Topology::Standalone) && config.servers.len() > 1 {
            self.set_replicas(&config.servers);
        }
    }

    /// These servers are the primary's replicas; the primary may be among them.
    pub(crate) fn set_replicas(&self, addresses: &[NodeAddress]) {
        let Some(replicas) = &self.replicas else { return };
        let primary = self.finder.last();
        let mut known = replicas.known.lock();
        if self.watcher.lock().is_closed {
            return;
        }
        let mut gone = std::mem::take(&mut *known);
        for address in addresses.iter().filter(|&address| primary.as_ref() != Some(address)) {
            let node = gone.remove(address).unwrap_or_else(|| Arc::new(self.replica(address)));
            node.open();
            known.insert(address.clone(), node);
        }
        replicas.chosen.store(Arc::new(known.values().cloned().collect()));
        drop(known);
        gone.values().for_each(|node| node.close());
    }

    fn replica(&self, address: &NodeAddress) -> Node {
        let config = self.finder.config();
        let settings = node::settings(config, lane::WhenDown::Fail, Role::Replica);
        Node::new(config, address, Purpose::Replica, &settings, &self.lane_options)
    }

    pub(crate) fn stats(&self) -> Vec<LaneStats> {
        let mut stats = self.primary.stats();
        stats.extend(self.replicas().iter().flat_map(|node| node.stats()));
        stats
    }

    pub(crate) fn close(&self) {
        {
            let mut watcher = self.watcher.lock();
            watcher.is_closed = true;
            if let Some(task) = watcher.task.take() {
                task.abort();
            }
        }
        self.primary.close();
        if let Some(replicas) = &self.replicas {
            replicas.known.lock().values().for_each(|node| node.close());
        }
    }

    /// Ends all lanes at once.
    pub(crate) fn abort(&self) {
        self.primary.abort();
        if let Some(replicas) = &self.replicas {
            replicas.known.lock().values().for_each(|node| node.abort());
        }
    }

    pub(crate) async fn ended(&self) {
        self.primary.ended().await;
        for node in self.replicas() {
            node.ended().await;
        }
    }

    fn replicas(&self) -> Vec<Arc<Node>> {
        self.replicas.as_ref().map(|replicas| replicas.chosen.load().to_vec()).unwrap_or_default()
    }
}
