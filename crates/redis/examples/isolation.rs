//! What a node in trouble costs the commands of the others: nothing that can be measured.
//!
//! ```text
//! cargo run --release -p pilotlight-redis --example isolation [rounds] [seconds per condition]
//! ```
//!
//! A cluster of three, the first node behind a proxy. Tasks read from the second node one command at a time, while the
//! first is
//!
//! - well;
//! - silent: its connections neither answer nor end, and new ones are accepted and left alone;
//! - dead: connections are refused, and the map is asked for again and again;
//! - dead while every new connection, to whichever node, is left alone: each refresh of the map hangs until the connect
//!   time-out of 5 s.
//!
//! 64 other tasks want something of the first all the time. Conditions alternate within each round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilotlight_redis::config::{AddressMap, NodeAddress, Probe};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Accepting, Cluster, Ending, FaultProxy, Faults};
use tokio::task::JoinSet;

const READERS: usize = 8;
const CALLERS: usize = 64;
/// Keys of slots of the first and of the second node of three.
const FIRST: &str = "{b}";
const SECOND: &str = "{c}";

#[derive(Debug, Clone, Copy)]
enum Condition {
    Well,
    Silent,
    Dead,
    Hangs,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (rounds, seconds) = (arguments.next().unwrap_or(5), arguments.next().unwrap_or(3));
    let builder = Cluster::builder().config("cluster-require-full-coverage no").node_timeout(Duration::from_secs(300));
    let cluster = tokio::task::spawn_blocking(move || builder.start()).await??;
    let (first, second) = (cluster.node_for_key(FIRST)?.0, cluster.node_for_key(SECOND)?.0);
    assert_ne!(first.id(), second.id(), "the keys are of different nodes");
    // Only before the first: the proxy's own timers are coarser than what is measured.
    let proxy = FaultProxy::to(first.server().addr()).await?;
    let local = |port| NodeAddress::tcp("127.0.0.1", port);
    // Nobody accepts here; the kernel does.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0")?;
    let hole = local(nowhere.local_addr()?.port());
    let (outer, inner) = (local(first.port()), local(proxy.port()));
    let hangs = Arc::new(AtomicBool::new(false));
    let map = {
        let hangs = Arc::clone(&hangs);
        move |announced: &NodeAddress| match (*announced == outer, hangs.load(Ordering::Relaxed)) {
            (true, _) => Some(inner.clone()),
            (false, true) => Some(hole.clone()),
            (false, false) => None,
        }
    };
    let seeds: Vec<_> = cluster.nodes().iter().map(|node| local(node.port())).collect();
    let probe = Probe { stall: Some(Duration::from_millis(200)), ..Probe::default() };
    let config = Config { probe, address_map: AddressMap::Function(Arc::new(map)), ..Config::cluster(seeds) };
    let client = Client::new(config)?;
    for key in [FIRST, SECOND] {
        client.set(key, "v").await?;
    }
    println!(
        "{:>5}  {:<8} {:>9} {:>9} {:>9} {:>9}  map asked for",
        "round", "first is", "commands", "p50", "p99", "p99.9"
    );
    for round in 1..=rounds {
        for condition in [Condition::Well, Condition::Silent, Condition::Dead, Condition::Hangs] {
            hangs.store(matches!(condition, Condition::Hangs), Ordering::Relaxed);
            harm(&proxy, condition).await?;
            let asked = asked(&cluster)?;
            let took = measure(&client, Duration::from_secs(seconds)).await;
            hangs.store(false, Ordering::Relaxed);
            heal(&proxy).await?;
            let asked = self::asked(&cluster)? - asked;
            let at = |per_mille: usize| took[took.len() * per_mille / 1000];
            println!(
                "{round:>5}  {:<8} {:>9} {:>9.1?} {:>9.1?} {:>9.1?}  {asked}",
                format!("{condition:?}"),
                took.len(),
                at(500),
                at(990),
                at(999)
            );
            client.get(FIRST).timeout(Duration::from_secs(30)).await?;
        }
    }
    Ok(())
}

async fn harm(proxy: &FaultProxy, condition: Condition) -> Result<(), Failure> {
    match condition {
        Condition::Well => {}
        Condition::Silent => {
            proxy.set(|faults| (faults.to_client.is_paused, faults.to_server.is_paused) = (true, true));
            proxy.set_accepting(Accepting::Swallow).await?;
        }
        Condition::Dead | Condition::Hangs => {
            proxy.set_accepting(Accepting::Refuse).await?;
            proxy.end_all(Ending::Reset);
        }
    }
    Ok(())
}

async fn heal(proxy: &FaultProxy) -> Result<(), Failure> {
    proxy.set(|faults| *faults = Faults::default());
    proxy.set_accepting(Accepting::Forward).await?;
    proxy.end_all(Ending::Close);
    Ok(())
}

/// The times of all reads from the second node, sorted.
async fn measure(client: &Client, length: Duration) -> Vec<Duration> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        callers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                // Its failures are not what is measured; when it is well, it is to be no load either.
                let _ = client.set(FIRST, "v").timeout(Duration::from_secs(1)).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    let end = Instant::now() + length;
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let client = client.clone();
        readers.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < end {
                let begin = Instant::now();
                if client.get(SECOND).await.is_ok() {
                    took.push(begin.elapsed());
                }
            }
            took
        });
    }
    let mut took: Vec<Duration> = readers.join_all().await.into_iter().flatten().collect();
    is_over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    took.sort_unstable();
    took
}

/// How often nodes were asked for the map so far.
fn asked(cluster: &Cluster) -> Result<u64, Failure> {
    let mut sum = 0;
    for node in cluster.nodes() {
        let line = node.server().info("cmdstat_cluster|slots").unwrap_or_default();
        sum += line.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap_or("0").parse::<u64>()?;
    }
    Ok(sum)
}
