//! What callers are told is true, whatever happens to nodes and connections.
//!
//! Tasks write unique values, count, and append tokens, while faults come one after the other. Afterwards the servers
//! are asked directly, past the client: what was acknowledged happened once, what was "not sent" never happened, what
//! is in doubt happened at most once, and nobody ever saw another caller's reply. A failover that loses acknowledged
//! writes is the server's own business: such faults come in a second phase, where only losses are forgiven.
//!
//! `CHAOS_SECONDS` and `CHAOS_SEED` make it longer or another one (`make soak`).

mod faults;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pilotlight_redis::config::Probe;
use pilotlight_redis::{Client, Config};
use tokio::task::JoinSet;

use crate::bed::{Bed, Proxies, SECOND, eventually, within};
use crate::lag::Lag;
use crate::spare::Single;
use faults::Loss;
use work::{Ledger, Tally, Worker};

const WORKERS: usize = 32;

/// What the tasks of a run share.
pub(crate) struct Run {
    client: Client,
    lag: Arc<Lag>,
    is_over: AtomicBool,
    /// Writes that were acknowledged may be lost.
    loss: Loss,
    lies: Mutex<Vec<String>>,
    late: Mutex<Vec<LateCall>>,
}

/// A call that was later than its deadline, to be judged when it is known how late the machine was.
struct LateCall {
    begin: Instant,
    timeout: Duration,
    took: Duration,
    what: String,
}

impl Run {
    /// Something that must never happen.
    fn lie(&self, text: String) {
        let mut lies = self.lies.lock();
        if lies.len() < 20 {
            lies.push(text);
        }
    }

    fn judge_late_calls(&self) {
        for LateCall { begin, timeout, took, what } in self.late.lock().drain(..) {
            if !self.lag.excuses(begin, timeout, took) {
                self.lie(format!("took {took:?} with a deadline of {timeout:?}: {what}"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_callers_are_told_is_true_under_chaos() {
    let seed = setting("CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let seconds = setting("CHAOS_SECONDS").unwrap_or(24);
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds}");
    let bed = Bed::single(Single::Patient).await;
    let proxies = Proxies::new(&bed).await;
    let probe = Probe { idle_ping: Some(SECOND), stall: Some(SECOND / 2) };
    let config = Config { lanes: 1 + (seed % 2) as usize, probe, address_map: proxies.address_map(), ..bed.config() };
    let client = Client::new(config).unwrap();
    let half = Duration::from_secs(seconds) / 2;
    for (number, loss) in [Loss::Never, Loss::Possible].into_iter().enumerate() {
        let rng = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
        phase(&bed, &client, &proxies, loss, rng, half).await;
    }
    client.close(5 * SECOND).await;
}

async fn phase(bed: &Bed, client: &Client, proxies: &Proxies, loss: Loss, mut rng: fastrand::Rng, length: Duration) {
    let lag = Lag::start();
    let run = Arc::new(Run {
        client: client.clone(),
        lag,
        is_over: AtomicBool::new(false),
        loss,
        lies: Mutex::default(),
        late: Mutex::default(),
    });
    // Elections that nobody asked for, on a machine that stands still for a second, would lose writes.
    let no_failover = if loss == Loss::Never { "yes" } else { "no" };
    for node in bed.nodes() {
        node.server().config_set("cluster-replica-no-failover", no_failover).unwrap();
    }
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        workers.spawn(Worker::new(Arc::clone(&run), number, rng.fork()).work());
    }
    let end = Instant::now() + length;
    let mut suffered = std::collections::BTreeMap::new();
    while Instant::now() < end {
        let fault = within(60 * SECOND, "a fault and its healing", faults::one(bed, proxies, loss, &mut rng)).await;
        *suffered.entry(fault).or_insert(0) += 1;
        tokio::time::sleep(Duration::from_millis(rng.u64(20..200))).await;
    }
    bed.run(|cluster| cluster.wait_until_agreed().unwrap()).await;
    run.is_over.store(true, Ordering::Relaxed);
    let ledgers: Vec<Ledger> = within(20 * SECOND, "the end of all calls", workers.join_all()).await;
    let tally = ledgers.iter().fold(Tally::default(), |sum, ledger| sum + ledger.tally);
    println!("{loss:?}: {suffered:?}\n  {tally:?}\n  longest lag of the runtime {:?}", run.lag.longest());
    settles(client).await;
    run.judge_late_calls();
    let lies =
        bed.run(move |cluster| ledgers.iter().flat_map(|ledger| ledger.lies(cluster, loss)).collect::<Vec<_>>()).await;
    assert!(lies.is_empty() && run.lies.lock().is_empty(), "{lies:#?} {:#?}", run.lies.lock());
    assert!(tally.acknowledged > 1000, "hardly anything was done");
}

/// Nothing is left behind.
async fn settles(client: &Client) {
    let is_settled = || {
        client.stats().lanes.iter().all(|lane| {
            let it = &lane.snapshot;
            it.cells_in_use + it.queued + it.in_flight + it.budget_used_bytes == 0
        })
    };
    let mut last = None;
    let settled = tokio::time::timeout(
        5 * SECOND,
        eventually(6 * SECOND, "cells and budget to be free", || {
            last = Some(client.stats());
            is_settled()
        }),
    );
    assert!(settled.await.is_ok(), "{last:#?}");
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
