//! A node in trouble costs the commands of other nodes nothing. The figures are those of `examples/isolation.rs`; here
//! a bound that no machine misses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_redis::config::{AddressMap, NodeAddress, Probe};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Accepting, Ending, FaultProxy, Faults};

use crate::bed::{Bed, SECOND, address, preimages};
use crate::spare::Single;

const ROUNDS: usize = 3;

/// The 99th percentile of one task's commands on the second shard for a while.
async fn p99(client: &Client, key: &str, length: Duration) -> Duration {
    let mut took = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        let begin = Instant::now();
        client.get(key).await.unwrap();
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Commands that wait for the first shard, whatever comes of them.
fn callers_of_the_first(client: &Client, key: &str) -> tokio::task::JoinSet<()> {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (client, key) = (client.clone(), key.to_owned());
        calls.spawn(async move {
            loop {
                let _ = client.set(&key, "v").timeout(SECOND).await;
                tokio::task::yield_now().await;
            }
        });
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_and_refreshes_that_hang_delay_no_other_node() {
    let bed = Bed::single(Single::Unsuspecting).await;
    // Only before the first node: the proxy's own timers are coarser than what is measured.
    let proxy = FaultProxy::to(bed.nodes()[0].server().addr()).await.unwrap();
    let map = HashMap::from([(address(&bed.nodes()[0]), NodeAddress::tcp("127.0.0.1", proxy.port()))]);
    let probe = Probe { stall: Some(SECOND / 5), ..Probe::default() };
    let client = Client::new(Config { probe, address_map: AddressMap::Table(Arc::new(map)), ..bed.config() }).unwrap();
    let keys = preimages();
    let (first, second) = (&keys[0], &keys[8000]);
    for key in [first, second] {
        client.set(key, "v").await.unwrap();
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(p99(&client, second, SECOND / 2).await);
        // Open connections are silent, new ones never get an answer: whoever asks this node for the map waits as long
        // as it may.
        proxy.set(|faults| (faults.to_client.is_paused, faults.to_server.is_paused) = (true, true));
        proxy.set_accepting(Accepting::Swallow).await.unwrap();
        let calls = callers_of_the_first(&client, first);
        with.push(p99(&client, second, SECOND / 2).await);
        drop(calls);
        proxy.set(|faults| *faults = Faults::default());
        proxy.set_accepting(Accepting::Forward).await.unwrap();
        proxy.end_all(Ending::Close);
        client.get(first).await.unwrap();
    }
    println!("p99 without {without:?}, with {with:?}");
    let best = |rounds: &[Duration]| rounds.iter().min().copied().unwrap();
    assert!(best(&with) < best(&without) * 3 + Duration::from_millis(5), "without {without:?}, with {with:?}");
}

/// The first map comes from whoever answers: silent seeds cost a tenth of a second, not a connect time-out each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_seeds_do_not_delay_the_first_map() {
    let bed = Bed::start(3, 0).await;
    let mut seeds = Vec::new();
    let mut silent = Vec::new();
    for _ in 0..5 {
        let proxy = FaultProxy::to(bed.nodes()[0].server().addr()).await.unwrap();
        proxy.set_accepting(Accepting::Swallow).await.unwrap();
        seeds.push(NodeAddress::tcp("127.0.0.1", proxy.port()));
        silent.push(proxy);
    }
    seeds.push(address(&bed.nodes()[0]));
    let client = Client::new(Config::cluster(seeds)).unwrap();
    let begin = Instant::now();
    client.set("k", "v").await.unwrap();
    println!("{:?}", begin.elapsed());
    assert!(begin.elapsed() < 2 * SECOND, "{:?}", begin.elapsed());
}
