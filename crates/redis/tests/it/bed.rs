//! What the cluster tests share: a cluster and clients of it, keys by slot, and load.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pilotlight_redis::config::{AddressMap, NodeAddress};
use pilotlight_redis::{Client, Commands, Config, Error};
use pilotlight_testkit::{Cluster, FaultProxy, Node};
use tokio::task::JoinSet;

use crate::spare::{Kind, Single};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const SLOTS: u16 = 16_384;

/// A cluster, shared with the threads that wait for it.
#[derive(Clone)]
pub(crate) struct Bed(Arc<Cluster>);

impl Deref for Bed {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl Bed {
    pub(crate) async fn start(masters: usize, replicas: usize) -> Self {
        Self::of(Kind::of(masters, replicas)).await
    }

    /// Goes on when slots have no node.
    pub(crate) async fn start_lenient() -> Self {
        Self::of(Kind { needs_all_slots: false, ..Kind::of(3, 0) }).await
    }

    async fn of(kind: Kind) -> Self {
        let cluster = tokio::task::spawn_blocking(move || kind.start()).await.unwrap();
        Self(Arc::new(cluster))
    }

    pub(crate) async fn single(single: Single) -> Self {
        Self(Arc::new(tokio::task::spawn_blocking(move || single.start()).await.unwrap()))
    }

    /// Runs blocking work of the testkit beside the test.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
        let cluster = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&cluster)).await.unwrap()
    }

    pub(crate) fn config(&self) -> Config {
        Config::cluster(self.nodes().iter().map(address))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }

    /// Answers with this code that all nodes together have given.
    pub(crate) fn errors(&self, code: &str) -> u64 {
        self.sum(&format!("errorstat_{code}"), "count=")
    }

    /// Calls of this command (`cluster|slots`) on all nodes together.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        self.sum(&format!("cmdstat_{command}"), "calls=")
    }

    fn sum(&self, line: &str, field: &str) -> u64 {
        let count = |node: &Node| {
            let info = node.server().info(line).unwrap_or_default();
            let text = info.split(',').find_map(|part| part.strip_prefix(field)).unwrap_or("0").to_owned();
            text.parse::<u64>().unwrap()
        };
        self.nodes().iter().map(count).sum()
    }
}

/// A proxy before each node, for clients whose address map leads to them.
pub(crate) struct Proxies {
    all: Vec<FaultProxy>,
    map: Arc<HashMap<NodeAddress, NodeAddress>>,
}

impl Proxies {
    pub(crate) async fn new(bed: &Bed) -> Self {
        let (mut all, mut map) = (Vec::new(), HashMap::new());
        for node in bed.nodes() {
            let proxy = FaultProxy::to(node.server().addr()).await.unwrap();
            map.insert(address(node), NodeAddress::tcp("127.0.0.1", proxy.port()));
            all.push(proxy);
        }
        Self { all, map: Arc::new(map) }
    }

    /// In the order of the nodes.
    pub(crate) fn all(&self) -> &[FaultProxy] {
        &self.all
    }

    pub(crate) fn address_map(&self) -> AddressMap {
        AddressMap::Table(Arc::clone(&self.map))
    }
}

pub(crate) fn address(node: &Node) -> NodeAddress {
    NodeAddress::tcp("127.0.0.1", node.port())
}

/// For each slot a key. Computed bit by bit, apart from the client's table.
pub(crate) fn preimages() -> Vec<String> {
    static ALL: LazyLock<Vec<String>> = LazyLock::new(compute_preimages);
    ALL.clone()
}

fn compute_preimages() -> Vec<String> {
    let mut keys = vec![String::new(); usize::from(SLOTS)];
    let mut missing = keys.len();
    for number in 0_u32.. {
        let key = format!("k{number}");
        let place = &mut keys[usize::from(slot_of(key.as_bytes()))];
        if place.is_empty() {
            *place = key;
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    keys
}

pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let crc = key.iter().fold(0_u16, |crc, &byte| (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| step(crc)));
    crc % SLOTS
}

/// Fails the test if `work` takes longer.
pub(crate) async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Looks every few milliseconds until it is so.
pub(crate) async fn eventually(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    within(limit, what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Repeats `attempt` until it succeeds; when it did.
pub(crate) async fn until_ok<T, F: Future<Output = Result<T, Error>>>(
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Instant {
    let end = Instant::now() + limit;
    loop {
        match attempt().await {
            Ok(_) => return Instant::now(),
            Err(error) => assert!(Instant::now() < end, "still after {limit:?}: {error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Tasks that write unique values and read them back until they are told to stop.
pub(crate) struct Load {
    tasks: JoinSet<Vec<Failed>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    done: AtomicU64,
}

/// A command of the load that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) slot: u16,
    pub(crate) error: Error,
    pub(crate) took: Duration,
}

impl Load {
    /// So many tasks, each with keys of its own that `keys` lists round robin.
    pub(crate) fn start(client: &Client, tasks: usize, keys: Vec<String>) -> Self {
        let shared = Arc::new(Shared::default());
        let mut set = JoinSet::new();
        let keys = Arc::new(keys);
        for task in 0..tasks {
            set.spawn(work(client.clone(), Arc::clone(&shared), Arc::clone(&keys), task, tasks));
        }
        Self { tasks: set, shared }
    }

    pub(crate) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Waits until so many more commands were done.
    pub(crate) async fn more(&self, count: u64) {
        let end = self.done() + count;
        within(Duration::from_secs(30), "progress of the load", async {
            while self.done() < end {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Ends it; what failed. A read of another value than the last one written fails the test.
    pub(crate) async fn stop(mut self) -> Vec<Failed> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        while let Some(of_task) = within(Duration::from_secs(10), "the end of the load", self.tasks.join_next()).await {
            failed.extend(of_task.unwrap());
        }
        failed
    }
}

async fn work(client: Client, shared: Arc<Shared>, keys: Arc<Vec<String>>, task: usize, tasks: usize) -> Vec<Failed> {
    let mut failed = Vec::new();
    let own: Vec<&String> = keys.iter().skip(task).step_by(tasks).collect();
    for number in 0_u64.. {
        if shared.is_over.load(Ordering::Relaxed) || own.is_empty() {
            break;
        }
        let key = own[(number % own.len() as u64) as usize];
        let value = format!("{key}/{number}");
        let begin = Instant::now();
        let result = async {
            client.set(key, &value).await?;
            client.get(key).await
        };
        match result.await {
            // A failover may lose what was written; another key's value it must not be.
            Ok(read) => {
                let read = read.map(|read| String::from_utf8_lossy(&read).into_owned());
                assert!(read.as_ref().is_none_or(|read| read.starts_with(&format!("{key}/"))), "{key} is {read:?}");
                shared.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => failed.push(Failed { slot: slot_of(key.as_bytes()), error, took: begin.elapsed() }),
        }
    }
    failed
}
