//! What it costs callers that slots move: the time of their commands, and not one that fails.
//!
//! ```text
//! cargo run --release -p pilotlight-redis --example resharding [rounds] [slots]
//! ```
//!
//! A cluster of three with 100,000 keys of 64 bytes. 256 callers read keys at random, one command after the other each,
//! while
//!
//! - nothing moves, for two seconds;
//! - slots move that nobody reads from: what the servers' own work costs on this machine, with no redirection at all;
//! - slots move that are read from: `ASK` for keys that went ahead, `MOVED` for each slot once it went.
//!
//! Slots move from the first node to the second and, in the next turn, back, one after the other with their keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config, Slot};
use pilotlight_testkit::Cluster;
use tokio::task::JoinSet;

const CALLERS: usize = 256;
const KEYS: usize = 100_000;
const VALUE: [u8; 64] = [b'v'; 64];
const CALM: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moves {
    Nothing,
    NotRead,
    Read,
}

/// What callers saw.
#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    failed: Vec<String>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (rounds, slots) = (arguments.next().unwrap_or(5), arguments.next().unwrap_or(1000));
    let cluster = Arc::new(tokio::task::spawn_blocking(|| Cluster::builder().start()).await??);
    let seeds: Vec<_> = cluster.nodes().iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port())).collect();
    let client = Client::new(Config::cluster(seeds))?;
    let keys: Arc<[String]> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    for chunk in keys.chunks(1000) {
        let mut pipeline = client.pipeline();
        for key in chunk {
            pipeline.set(key, VALUE.as_slice());
        }
        pipeline.run().await?;
    }
    // The first node of three has the first third of the slots.
    let moved = 0..u16::try_from(slots)?;
    let is_moved = |key: &String| moved.contains(&Slot::of(key.as_bytes()).number());
    let others: Arc<[String]> = keys.iter().filter(|key| !is_moved(key)).cloned().collect();
    let mut ends = [0, 1];
    println!(
        "{:>5}  {:<9} {:>8} {:>9} {:>9} {:>9} {:>6}  failed",
        "round", "moves", "took", "commands", "p50", "p99", "ratio"
    );
    for round in 1..=rounds {
        let mut calm = Duration::ZERO;
        for moves in [Moves::Nothing, Moves::NotRead, Moves::Read] {
            let read = if moves == Moves::NotRead { &others } else { &keys };
            let (length, Seen { took, failed }) = if moves == Moves::Nothing {
                measure(&client, read, async {
                    tokio::time::sleep(CALM).await;
                    Ok(())
                })
                .await?
            } else {
                let (cluster, to, moved) = (Arc::clone(&cluster), ends[1], moved.clone());
                ends.reverse();
                let moving = tokio::task::spawn_blocking(move || cluster.move_slots(moved, &cluster.nodes()[to]));
                measure(&client, read, async { Ok(moving.await??) }).await?
            };
            let at = |percent: usize| took[took.len() * percent / 100];
            if moves == Moves::Nothing {
                calm = at(99);
            }
            println!(
                "{round:>5}  {:<9} {length:>8.1?} {:>9} {:>9.1?} {:>9.1?} {:>6.2}  {}",
                format!("{moves:?}"),
                took.len(),
                at(50),
                at(99),
                at(99).as_secs_f64() / calm.as_secs_f64(),
                failed.len()
            );
            for failure in failed.iter().take(3) {
                println!("       {failure}");
            }
        }
    }
    Ok(())
}

/// Reads until that has ended; how long it took, and what the callers saw, sorted.
async fn measure(
    client: &Client,
    keys: &Arc<[String]>,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(Duration, Seen), Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, keys, is_over) = (client.clone(), Arc::clone(keys), Arc::clone(&is_over));
        callers.spawn(async move {
            let mut seen = Seen::default();
            while !is_over.load(Ordering::Relaxed) {
                let key = &keys[fastrand::usize(..keys.len())];
                let begin = Instant::now();
                match client.get(key).await {
                    Ok(Some(value)) if value == VALUE.as_slice() => seen.took.push(begin.elapsed()),
                    Ok(other) => seen.failed.push(format!("{key}: {other:?}")),
                    Err(error) => seen.failed.push(format!("{key}: {error}")),
                }
            }
            seen
        });
    }
    let begin = Instant::now();
    let done = work.await;
    let length = begin.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let mut all = Seen::default();
    while let Some(seen) = callers.join_next().await {
        let seen = seen?;
        all.took.extend(seen.took);
        all.failed.extend(seen.failed);
    }
    done?;
    all.took.sort_unstable();
    Ok((length, all))
}
