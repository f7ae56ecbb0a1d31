//! Reads from the replicas of a cluster, counted at the servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilotlight_redis::config::{AddressMap, NodeAddress, Probe, ReadFrom};
use pilotlight_redis::{Client, Commands, Config, Error, ErrorKind};
use pilotlight_testkit::{Cluster, FaultProxy, Node};
use tokio::task::JoinSet;

use crate::spare::Kind;

const KEYS: usize = 300;
const LIMIT: Duration = Duration::from_secs(10);

async fn start() -> Arc<Cluster> {
    Arc::new(tokio::task::spawn_blocking(|| Kind::of(3, 1).start()).await.unwrap())
}

fn address(node: &Node) -> NodeAddress {
    NodeAddress::tcp("127.0.0.1", node.port())
}

fn config(bed: &Cluster, read_from: ReadFrom) -> Config {
    Config { read_from, ..Config::cluster(bed.nodes()[..1].iter().map(address)) }
}

/// A node that was gone is listed again when it has its data, and nothing tells the client of that but the next
/// refresh.
fn impatient(bed: &Cluster) -> Config {
    let mut config = config(bed, ReadFrom::PreferReplica);
    config.cluster.refresh_min_interval = Duration::from_millis(200);
    config.cluster.refresh_interval = Some(Duration::from_millis(200));
    config
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// A client whose replicas have all keys and are connected to.
async fn filled(bed: &Cluster, config: Config) -> Client {
    let writer = Client::new(self::config(bed, ReadFrom::Primary)).unwrap();
    for number in 0..KEYS {
        writer.set(key(number), number as i64).await.unwrap();
    }
    // A replica is not listed before something was replicated to it.
    let size = |node: &Node| node.server().command(&["DBSIZE"]).unwrap().integer().unwrap();
    until("the keys are copied", || bed.nodes().iter().map(size).sum::<i64>() == 2 * KEYS as i64).await;
    let is_listed = |node: &Node| {
        let slots = node.server().command(&["CLUSTER", "SLOTS"]).unwrap();
        slots.array().iter().all(|range| range.array().len() == 4)
    };
    until("all replicas are listed", || bed.nodes().iter().all(is_listed)).await;
    bed.nodes().iter().for_each(|node| node.server().command(&["CONFIG", "RESETSTAT"]).map(drop).unwrap());

    let client = Client::new(config).unwrap();
    for number in 0..KEYS {
        // Primaries are connected to when they are needed.
        client.set(key(number), number as i64).await.unwrap();
    }
    let connected = || client.stats().lanes.iter().filter(|lane| lane.snapshot.is_connected).count();
    until("all are connected to", || connected() == bed.nodes().len()).await;
    client
}

/// The first number after `field` in a line of statistics; 0 if the server has no such line.
fn count(node: &Node, line: &str, field: &str) -> u64 {
    let info = node.server().info(line).unwrap_or_default();
    info.split(',').find_map(|part| part.strip_prefix(field)).unwrap_or("0").parse().unwrap()
}

/// GETs that were answered by each node.
fn gets(bed: &Cluster) -> Vec<u64> {
    bed.nodes().iter().map(|node| count(node, "cmdstat_get", "calls=")).collect()
}

async fn read_all(client: &Client) {
    for number in 0..KEYS {
        assert_eq!(client.get(key(number)).read_as::<i64>().await.unwrap(), number as i64);
    }
}

#[tokio::test]
async fn preferred_replicas_answer_reads_and_primaries_take_writes() {
    let bed = start().await;
    let client = filled(&bed, config(&bed, ReadFrom::PreferReplica)).await;
    read_all(&client).await;
    client.set(key(0), 0).await.unwrap();
    // A cursor is its server's own; and what writes is a write, whatever it is called with.
    client.hset("hash", [("field", "value")]).await.unwrap();
    let answered = gets(&bed);
    assert_eq!(answered[..3], [0, 0, 0], "{answered:?}");
    assert_eq!(answered[3..].iter().sum::<u64>(), KEYS as u64);
    for replica in &bed.nodes()[3..] {
        // Whatever a replica does not serve it redirects.
        assert_eq!(count(replica, "errorstat_MOVED", "count="), 0);
    }
}

#[tokio::test]
async fn round_robin_asks_all() {
    let bed = start().await;
    let client = filled(&bed, config(&bed, ReadFrom::RoundRobin)).await;
    read_all(&client).await;
    let answered = gets(&bed);
    assert!(answered.iter().all(|count| *count > 20), "{answered:?}");
    assert_eq!(answered.iter().sum::<u64>(), KEYS as u64);
}

#[tokio::test]
async fn the_primary_alone_by_default() {
    let bed = start().await;
    let client = Client::new(config(&bed, ReadFrom::Primary)).unwrap();
    for number in 0..KEYS {
        client.set(key(number), number as i64).await.unwrap();
    }
    read_all(&client).await;
    let answered = gets(&bed);
    assert_eq!(answered[3..], [0, 0, 0], "{answered:?}");
    // Nothing is even connected to them.
    assert_eq!(client.stats().lanes.iter().filter(|lane| lane.snapshot.is_connected).count(), 3);
}

/// Shard 0 has a replica in the zone, shard 1 its primary, shard 2 nobody.
#[tokio::test]
async fn near_ones_first() {
    let bed = start().await;
    let zones = [(3, "here"), (0, "there"), (1, "here"), (4, "there"), (2, "there"), (5, "there")];
    let zones = zones.into_iter().map(|(node, zone)| (address(&bed.nodes()[node]), Arc::from(zone)));
    let config = Config {
        zones: Arc::new(zones.collect::<HashMap<_, _>>()),
        ..config(&bed, ReadFrom::AzAffinity { zone: "here".into() })
    };
    let client = filled(&bed, config).await;
    read_all(&client).await;
    let answered = gets(&bed);
    let asked: Vec<usize> = (0..6).filter(|&node| answered[node] > 0).collect();
    assert_eq!(asked, [1, 3, 5], "{answered:?}");
}

/// Readers until they are stopped, and their errors.
async fn while_reading(client: &Client, work: impl Future<Output = ()>) -> Vec<Error> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            let mut errors = Vec::new();
            for number in task.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                errors.extend(client.get(key(number % KEYS)).await.err());
            }
            errors
        });
    }
    work.await;
    is_over.store(true, Ordering::Relaxed);
    tasks.join_all().await.into_iter().flatten().collect()
}

async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_replica_costs_nobody_an_error() {
    let bed = start().await;
    let client = filled(&bed, impatient(&bed)).await;
    let errors = while_reading(&client, async {
        bed.nodes()[3].server().kill().unwrap();
        until("the primary answers in its place", || gets_of(&bed.nodes()[0]) > 100).await;
        bed.nodes()[3].server().restart().unwrap();
        until("the replica answers again", || gets_of(&bed.nodes()[3]) > 100).await;
    })
    .await;
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_replica_costs_each_reader_one_stall() {
    let bed = start().await;
    let probe = Probe { stall: Some(Duration::from_millis(300)), ..Probe::default() };
    let config = Config { probe, connect_timeout: Duration::from_secs(1), ..impatient(&bed) };
    let client = filled(&bed, config).await;
    let errors = while_reading(&client, async {
        bed.nodes()[3].server().stop().unwrap();
        until("the primary answers in its place", || gets_of(&bed.nodes()[0]) > 1000).await;
        bed.nodes()[3].server().cont().unwrap();
        until("the replica answers again", || gets_of(&bed.nodes()[3]) > 100).await;
    })
    .await;
    assert!(errors.is_empty(), "{errors:?}");
}

fn gets_of(node: &Node) -> u64 {
    count(node, "cmdstat_get", "calls=")
}

#[tokio::test]
async fn only_replicas_answer_where_only_they_may() {
    let bed = start().await;
    let client = filled(&bed, config(&bed, ReadFrom::OnlyReplicas)).await;
    read_all(&client).await;
    let counted = gets(&bed);
    assert_eq!(counted[..3], [0; 3], "primaries: {counted:?}");
    assert_eq!(counted[3..].iter().sum::<u64>(), KEYS as u64);
    // Without replicas there is nobody to ask, until they are back.
    bed.nodes()[3..].iter().for_each(|node| node.server().kill().unwrap());
    let error = client.get(key(1)).timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Cluster(_) | ErrorKind::Connection(_) | ErrorKind::Connect(_)),
        "{error}"
    );
    client.set(key(1), 1).await.unwrap();
    assert_eq!(gets(&bed)[..3], [0; 3]);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get(key(1)).read_as::<i64>().timeout(3 * LIMIT).await }
    });
    bed.nodes()[3..].iter().for_each(|node| node.server().restart().unwrap());
    assert_eq!(tokio::time::timeout(3 * LIMIT, waiting).await.unwrap().unwrap().unwrap(), 1);
    assert_eq!(gets(&bed)[..3], [0; 3]);
}

#[tokio::test]
async fn a_lone_server_has_no_replica_to_be_asked() {
    let server = tokio::task::spawn_blocking(|| pilotlight_testkit::Server::start().unwrap()).await.unwrap();
    let config = Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()));
    let client = Client::new(Config { read_from: ReadFrom::OnlyReplicas, ..config }).unwrap();
    client.set("k", "v").await.unwrap();
    let error = client.get("k").timeout(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cluster(_)), "{error}");
    assert_eq!(error.ran(), pilotlight_redis::Ran::NotSent);
}

/// Whoever answers soonest is asked, as long as it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nearest_answers() {
    const FAR: Duration = Duration::from_millis(150);
    let bed = start().await;
    let mut proxies = Vec::new();
    let mut map = HashMap::new();
    for node in bed.nodes() {
        let proxy = FaultProxy::to(node.server().addr()).await.unwrap();
        map.insert(address(node), NodeAddress::tcp("127.0.0.1", proxy.port()));
        proxies.push(proxy);
    }
    let set = |nodes: std::ops::Range<usize>, delay| {
        proxies[nodes].iter().for_each(|proxy| proxy.set(|faults| faults.to_client.delay = delay));
    };
    let config = config(&bed, ReadFrom::LowestLatency);
    let client = filled(&bed, Config { address_map: AddressMap::Table(Arc::new(map)), ..config }).await;
    set(0..3, FAR);
    until_answered_by(&bed, &client, 3..6).await;

    // Those are far now, and the others near.
    set(0..3, Duration::ZERO);
    set(3..6, 3 * FAR);
    until_answered_by(&bed, &client, 0..3).await;
}

/// Reads until nine of ten answers are of these nodes. Not all at the first try: a machine that stands still for a
/// moment makes a near one look far, until it is measured again.
async fn until_answered_by(bed: &Cluster, client: &Client, nodes: std::ops::Range<usize>) {
    const AT_ONCE: usize = 30;
    let since = Instant::now();
    loop {
        let before = gets(bed);
        for first in (0..KEYS).step_by(AT_ONCE) {
            let reads = (first..first + AT_ONCE).map(|number| {
                let client = client.clone();
                async move { client.get(key(number)).read_as::<i64>().await.unwrap() }
            });
            reads.collect::<JoinSet<_>>().join_all().await;
        }
        let answered: Vec<u64> = gets(bed).iter().zip(&before).map(|(now, then)| now - then).collect();
        if answered[nodes.clone()].iter().sum::<u64>() > KEYS as u64 * 9 / 10 {
            return;
        }
        assert!(since.elapsed() < 3 * LIMIT, "{answered:?}: {}", client.stats());
    }
}

/// No topology tells that it is gone.
#[tokio::test]
async fn what_a_frozen_replica_does_not_answer_the_primary_is_asked() {
    let start = || tokio::task::spawn_blocking(|| pilotlight_testkit::Server::start().unwrap());
    let (primary, replica) = (start().await.unwrap(), start().await.unwrap());
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    let servers = [&primary, &replica].map(|server| NodeAddress::tcp("127.0.0.1", server.port()));
    let client = Client::new(Config {
        servers: servers.to_vec(),
        read_from: ReadFrom::PreferReplica,
        probe: Probe { stall: Some(Duration::from_millis(300)), ..Probe::default() },
        // Who waits for it waits longer than the test may take.
        command_timeout: Some(10 * LIMIT),
        ..Config::default()
    })
    .unwrap();
    client.set("k", "v").await.unwrap();
    let calls = || replica.info("cmdstat_get").unwrap_or_default();
    let since = Instant::now();
    while !calls().contains("calls=") || client.get("k").await.unwrap().is_none() {
        assert!(since.elapsed() < LIMIT, "the replica is not asked: {}", calls());
        client.get("k").await.unwrap();
    }
    replica.stop().unwrap();
    let mut pipeline = client.pipeline();
    let queued = [pipeline.get("k"), pipeline.get("k")];
    let both = async { tokio::join!(client.get("k"), pipeline.run()) };
    let (alone, replies) = tokio::time::timeout(2 * LIMIT, both).await.unwrap();
    assert_eq!(alone.unwrap().unwrap(), "v");
    let mut replies = replies.unwrap();
    for queued in queued {
        assert_eq!(replies.take(queued).unwrap().unwrap(), "v");
    }
    replica.cont().unwrap();
}
