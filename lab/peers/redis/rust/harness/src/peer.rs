//! The loop that every client on tokio runs under.
use crate::{BATCH, KEYS, Kind, Measurement, Options, Random, Step, Tally, published_key};
use futures_util::future::join_all;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

/// A client under measurement. A command that fails ends the program: what it measured would be worth nothing.
pub trait Peer: Clone + Send + Sync + 'static {
    /// The length of the value; 0 if there is none.
    fn get(&mut self, key: &'static str) -> impl Future<Output = usize> + Send;
    fn set(&mut self, key: &'static str, value: &'static [u8]) -> impl Future<Output = ()> + Send;
    /// GETs issued together, then all awaited; returns how many values had the length that is wanted.
    fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> impl Future<Output = usize> + Send;
}

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// Connects a client and runs the workload of this process's arguments on it, on the runtime named by `rt=ct` or
/// `rt=mtN`.
pub fn run<P: Peer, F: Future<Output = P>>(connect: impl FnOnce(Options) -> F) -> ! {
    let options = Options::parse();
    runtime(options.tuning("rt").unwrap_or("ct")).block_on(async {
        let peer = connect(options.clone()).await;
        measure(&options, &peer).await;
    });
    process::exit(0) // clients with threads of their own would keep the process alive
}

fn runtime(name: &str) -> Runtime {
    let runtime = match name.strip_prefix("mt") {
        Some(workers) => {
            let workers = workers.parse().expect("rt=mtN: a number of workers");
            Builder::new_multi_thread().worker_threads(workers).enable_all().build()
        }
        None => Builder::new_current_thread().enable_all().build(),
    };
    runtime.expect("the system gives threads and an event queue")
}

async fn measure<P: Peer>(options: &Options, peer: &P) {
    let workload = options.workload;
    let keys: &'static [&'static str] = workload.keys().into_iter().map(|key| &*key.leak()).collect::<Vec<_>>().leak();
    let value: &'static [u8] = workload.value().leak();
    let phase = Arc::new(AtomicU8::new(WARM_UP));
    let task = |id| {
        let task = Task { options: options.clone(), id, keys, value, phase: Arc::clone(&phase) };
        tokio::spawn(task.run(peer.clone()))
    };
    let tasks: Vec<_> = (0..workload.tasks).map(task).collect();

    sleep(options.warm_up).await;
    let measurement = Measurement::start();
    phase.store(MEASURED, Relaxed);
    sleep(options.measured).await;
    phase.store(OVER, Relaxed);
    let measured = measurement.stop();

    let mut tallies = Vec::with_capacity(tasks.len());
    for task in tasks {
        tallies.push(task.await.expect("a task that panics has ended the process"));
    }
    measured.print(options, &tallies);
}

struct Task {
    options: Options,
    id: usize,
    keys: &'static [&'static str],
    value: &'static [u8],
    phase: Arc<AtomicU8>,
}

impl Task {
    async fn run(self, mut peer: impl Peer) -> Tally {
        let workload = self.options.workload;
        let mut random = Random::seeded(self.id as u64 + 1);
        let mut tally = Tally::default();
        tally.times_ns.reserve(if workload.tasks == 1 { 1 << 20 } else { 1 << 13 });
        let mut issued = 0;
        let mut count = self.id as u32; // so that the tasks do not all time the same turn
        loop {
            let phase = self.phase.load(Relaxed);
            if phase == OVER {
                return tally;
            }
            count = count.wrapping_add(1);
            let begun = count.is_multiple_of(workload.timed_every).then(Instant::now);
            let (asked, right) = match workload.kind {
                Kind::Batch => (BATCH, self.batch(&mut peer, &mut random).await),
                Kind::Single { .. } => (1, self.single(&mut peer, &mut random).await),
                Kind::Published { .. } => (BATCH, self.published(&peer, &mut issued).await),
            };
            tally.errors += (asked - right) as u64;
            if phase == MEASURED {
                tally.answers += asked as u64;
                begun.into_iter().for_each(|begun| tally.time(begun.elapsed()));
            }
        }
    }

    async fn batch(&self, peer: &mut impl Peer, random: &mut Random) -> usize {
        let keys = (0..BATCH).map(|_| self.keys[random.below(KEYS)]).collect();
        peer.batch(keys, self.value.len()).await
    }

    /// Single commands, all at once.
    async fn published<P: Peer>(&self, peer: &P, issued: &mut usize) -> usize {
        let kind = self.options.workload.kind;
        let commands = (*issued..*issued + BATCH).map(|count| {
            let (key, mut peer) = (self.keys[published_key(self.id, count)], peer.clone());
            async move {
                match kind.published_step(count) {
                    Step::Set => {
                        peer.set(key, self.value).await;
                        true
                    }
                    Step::Get => kind.is_right(peer.get(key).await, self.value.len()),
                }
            }
        });
        *issued += BATCH;
        join_all(commands).await.into_iter().filter(|right| *right).count()
    }

    async fn single(&self, peer: &mut impl Peer, random: &mut Random) -> usize {
        let key = self.keys[random.below(KEYS)];
        match self.options.workload.kind.step(random) {
            Step::Set => {
                peer.set(key, self.value).await;
                1
            }
            Step::Get => usize::from(peer.get(key).await == self.value.len()),
        }
    }
}
