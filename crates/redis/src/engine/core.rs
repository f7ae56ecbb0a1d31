//! What all clones of a client share: configuration and the way to the lanes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::command::{Command, CommandSpec, Flags};
use crate::config::{Config, NodeAddress, ReadFrom, Topology, WhenDown};
use crate::engine::attached::Attached;
use crate::engine::cluster::Cluster;
use crate::engine::credential_refresh::CredentialRefresh;
use crate::engine::lane::Lane;
use crate::engine::lane_options::LaneOptions;
use crate::engine::large::LargeReplies;
use crate::engine::observe;
use crate::engine::pool::Pool;
use crate::engine::pubsub::Hub;
use crate::engine::request::Payload;
use crate::engine::route::Target;
use crate::engine::single::Single;
use crate::error::{Error, ErrorKind, Ran};
use crate::proto::asked::{Asked, Security};
use crate::proto::redirect::{Redirect, RedirectKind};
use crate::proto::retry::{Next, Refresh, RetryPolicy};
use crate::proto::slot::Slot;
use crate::reply::Value;
use crate::stats::{LaneStats, Stats, Totals};

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    config: Arc<Config>,
    retry: RetryPolicy,
    servers: Servers,
    pool: Arc<Pool>,
    pubsub: Arc<Hub>,
    is_closed: AtomicBool,
    caches: Mutex<Vec<Weak<dyn Attached>>>,
    credential_refresh: Arc<CredentialRefresh>,
    totals: Totals,
    /// `None`: nothing is kept apart by its size.
    large: Option<LargeReplies>,
}

#[derive(Debug)]
enum Servers {
    Single(Arc<Single>),
    Cluster(Arc<Cluster>),
}

impl Core {
    pub(crate) fn new(config: Config, lane_options: &LaneOptions) -> Self {
        let config = Arc::new(config);
        let servers = match config.topology {
            Topology::Cluster => Servers::Cluster(Cluster::new(&config, lane_options)),
            Topology::Standalone | Topology::Sentinel(_) => Servers::Single(Single::new(&config, lane_options)),
        };
        let retry = RetryPolicy { max_redirects: config.cluster.max_redirects, ..RetryPolicy::default() };
        let (finder, cluster) = match &servers {
            Servers::Single(single) => (Some(Arc::clone(single.finder())), None),
            Servers::Cluster(cluster) => (None, Some(Arc::clone(cluster))),
        };
        let pool = Pool::new(&config);
        let credential_refresh = Arc::clone(&lane_options.credential_refresh);
        let pubsub = Hub::new(&config, finder, cluster, &credential_refresh);
        let large = config.large_bytes.map(LargeReplies::new);
        Self {
            large,
            config,
            retry,
            servers,
            pool,
            pubsub,
            is_closed: AtomicBool::new(false),
            caches: Mutex::default(),
            credential_refresh,
            totals: Totals::default(),
        }
    }

    #[inline]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Connections that are not shared.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn retry_policy(&self) -> &RetryPolicy {
        &self.retry
    }

    /// How the addresses in an answer of `address` are to be read.
    pub(crate) fn asked<'c>(&'c self, address: &'c NodeAddress) -> Asked<'c> {
        let security = if self.config.tls.is_some() { Security::Tls } else { Security::Plain };
        Asked { security, ..Asked::plain(address) }
    }

    /// Whether a command is not to wait for a server that cannot be reached.
    pub(crate) fn fails_fast(&self) -> bool {
        self.config.when_down == WhenDown::FailFast
    }

    /// Whether slots are spread over nodes.
    #[inline]
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The lane for a command: that of its key, so that commands of one key keep their order.
    #[inline]
    pub(crate) fn lane_for(&self, command: &Command<'_>) -> Result<Arc<Lane>, Error> {
        match &self.servers {
            Servers::Single(single) => single.lane_of(command.spec(), || command.slot()),
            Servers::Cluster(cluster) => cluster.lane_of(command.spec(), command.slot()),
        }
    }

    /// Of the lanes to the same node, that for what the payload has or will bring.
    #[inline]
    pub(crate) fn fitting(&self, lane: Arc<Lane>, payload: Payload<'_, '_>) -> Arc<Lane> {
        match &self.large {
            Some(large) => {
                let brings_much = matches!(payload, Payload::Command(command) if large.expects(command));
                Arc::clone(lane.fitting(|| if brings_much { usize::MAX } else { payload.size() }))
            }
            None => lane,
        }
    }

    /// Remembers whether a command's reply was large.
    #[inline]
    pub(crate) fn note_reply(&self, command: &Command<'_>, reply: &Value) {
        if let Some(large) = &self.large {
            large.note(command, reply);
        }
    }

    /// The lane of all commands that go their usual way, if it is the same for each.
    #[inline]
    pub(crate) fn only_lane(&self) -> Option<&Arc<Lane>> {
        match &self.servers {
            Servers::Single(single) if self.large.is_none() => single.only_lane(),
            _ => None,
        }
    }

    /// The lane for a command of which only the slot is known.
    #[inline]
    pub(crate) fn lane_of(&self, spec: &CommandSpec, slot: Option<Slot>) -> Result<Arc<Lane>, Error> {
        match &self.servers {
            Servers::Single(single) => single.lane_of(spec, || slot),
            Servers::Cluster(cluster) => cluster.lane_of(spec, slot),
        }
    }

    /// The lane to a slot's primary, whoever else might read it.
    pub(crate) fn primary_lane(&self, spec: &CommandSpec, slot: Option<Slot>) -> Result<Arc<Lane>, Error> {
        match &self.servers {
            Servers::Single(single) => Ok(Arc::clone(single.primary().lane(|| slot))),
            Servers::Cluster(cluster) => cluster.primary_lane(spec, slot),
        }
    }

    /// Whether `lane` is one of those that are asked for a slot, as far as is known now.
    #[inline]
    pub(crate) fn may_serve(&self, lane: &Arc<Lane>, slot: Slot) -> bool {
        match &self.servers {
            Servers::Single(_) => true,
            Servers::Cluster(cluster) => cluster.may_serve(lane, slot),
        }
    }

    /// The lane to a target.
    pub(crate) fn lane_by(&self, target: &Target, spec: &CommandSpec, slot: Option<Slot>) -> Result<Arc<Lane>, Error> {
        match (target, &self.servers) {
            (Target::Usual, _) => self.lane_of(spec, slot),
            (Target::Primary(slot), _) => self.primary_lane(spec, *slot),
            (Target::Node(lane), _) => Ok(Arc::clone(lane)),
            (Target::Replica(slot), Servers::Cluster(cluster)) => cluster.replica_lane(spec, *slot),
            (Target::Replica(slot), Servers::Single(single)) => single.replica_lane(*slot).ok_or_else(|| {
                Error::new(ErrorKind::Cluster("no replica is connected".into()), Ran::NotSent, spec.name)
            }),
        }
    }

    /// The lane to the node at an address.
    pub(crate) fn lane_to(&self, address: &NodeAddress, spec: &CommandSpec) -> Result<Arc<Lane>, Error> {
        match &self.servers {
            Servers::Cluster(cluster) => Ok(cluster.lane_to(address)),
            Servers::Single(single) => single.lane_to(address).ok_or_else(|| {
                let unknown = ErrorKind::Cluster(format!("{address} is no server of this client").into());
                Error::new(unknown, Ran::NotSent, spec.name)
            }),
        }
    }

    /// Whether a read that a replica does not answer may be asked of its primary.
    pub(crate) fn may_leave_replica(&self, spec: &CommandSpec) -> bool {
        !matches!(self.config.read_from, ReadFrom::Primary | ReadFrom::OnlyReplicas) && spec.flags.has(Flags::READONLY)
    }

    /// A lane to every primary, with one of its slots where there are slots. None: the topology is not known yet.
    pub(crate) fn primaries(&self) -> Vec<(Arc<Lane>, Option<Slot>)> {
        match &self.servers {
            Servers::Single(single) => vec![(Arc::clone(single.primary().lane(|| None)), None)],
            Servers::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// A lane to every node. None: the topology is not known yet.
    pub(crate) fn all_nodes(&self) -> Vec<Arc<Lane>> {
        match &self.servers {
            Servers::Single(single) => single.all_nodes(),
            Servers::Cluster(cluster) => cluster.all_nodes(),
        }
    }

    /// The lane to where a redirect points. A slot that has moved is noted.
    pub(crate) fn redirected(&self, to: &Redirect, slot: Option<Slot>) -> Option<Arc<Lane>> {
        match &self.servers {
            Servers::Single(single) if to.kind == RedirectKind::Primary => {
                single.moved(&to.announced, "the server names another primary");
                Some(Arc::clone(single.primary().lane(|| slot)))
            }
            Servers::Single(_) => None,
            Servers::Cluster(cluster) => cluster.redirected(to, slot),
        }
    }

    pub(crate) fn want_refresh(&self, refresh: Refresh) {
        if let Servers::Cluster(cluster) = &self.servers {
            cluster.want_refresh(refresh);
        }
    }

    /// Pauses; shorter if it waits for another topology than that of `version`, and that comes or has come.
    pub(crate) async fn pause_or_new_topology(&self, pause: Duration, refresh: Refresh, version: u64) {
        match &self.servers {
            Servers::Cluster(cluster) if refresh == Refresh::Urgent => {
                cluster.pause_or_new_topology(pause, version).await;
            }
            _ => tokio::time::sleep(pause).await,
        }
    }

    /// Changes with the topology.
    pub(crate) fn topology_version(&self) -> u64 {
        match &self.servers {
            Servers::Single(_) => 0,
            Servers::Cluster(cluster) => cluster.topology_version(),
        }
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.servers {
            Servers::Single(_) => None,
            Servers::Cluster(cluster) => Some(cluster),
        }
    }

    pub(crate) fn pubsub(&self) -> &Arc<Hub> {
        &self.pubsub
    }

    /// Takes note of a cache that belongs to this client.
    pub(crate) fn register(&self, cache: &Arc<dyn Attached>) {
        let mut caches = self.caches.lock();
        caches.retain(|known| known.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    fn caches(&self) -> Vec<Arc<dyn Attached>> {
        self.caches.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes note of what is done about an error.
    pub(crate) fn note(&self, command: &'static str, error: &Error, next: &Next) {
        match next {
            Next::Fail(_) => return,
            Next::Redirect { to, .. } if matches!(to.kind, RedirectKind::Ask(_)) => Totals::add_one(&self.totals.asked),
            Next::Redirect { .. } => Totals::add_one(&self.totals.moved),
            _ => Totals::add_one(&self.totals.retries),
        }
        observe::follow_up(command, error, next);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            lanes: self.lanes(),
            redirects_moved: Totals::read(&self.totals.moved),
            redirects_ask: Totals::read(&self.totals.asked),
            retries: Totals::read(&self.totals.retries),
            topology: self.cluster().map(|cluster| cluster.topology_stats()),
            pool: self.pool.stats(),
            caches: self.caches().iter().map(|cache| cache.stats()).collect(),
        }
    }

    pub(crate) fn lanes(&self) -> Vec<LaneStats> {
        match &self.servers {
            Servers::Single(single) => single.stats(),
            Servers::Cluster(cluster) => cluster.stats(),
        }
    }

    pub(crate) async fn close(&self, patience: Duration) {
        self.shut();
        // Before the wait for any of them.
        let caches = self.caches();
        caches.iter().for_each(|cache| cache.shut());
        let ended = async {
            self.pubsub.ended().await;
            for cache in &caches {
                cache.close(patience).await;
            }
            match &self.servers {
                Servers::Single(single) => single.ended().await,
                Servers::Cluster(cluster) => cluster.ended().await,
            }
            self.pool.all_returned().await;
        };
        if tokio::time::timeout(patience, ended).await.is_err() {
            match &self.servers {
                Servers::Single(single) => single.abort(),
                Servers::Cluster(cluster) => cluster.abort(),
            }
        }
        self.pool.cut();
    }

    pub(crate) fn shut(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.credential_refresh.end();
        self.pool.close();
        self.pubsub.close();
        match &self.servers {
            Servers::Single(single) => single.close(),
            Servers::Cluster(cluster) => cluster.close(),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.shut();
        self.pool.cut();
    }
}
