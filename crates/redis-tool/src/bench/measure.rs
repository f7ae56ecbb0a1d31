//! One measurement: threads, their workers, the time, the sum.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::ProgressBar;
use pilotlight_redis::{Client, Commands, Config};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::plan::Plan;
use super::worker::{Tally, Times, Watched, Worker};
use crate::load::interrupt::Interrupt;
use crate::load::{progress, text, thread};

/// So many keys lie on all nodes and lanes, more or less.
const KEYS_FOR_WARMTH: u64 = 256;

/// What was measured of one operation.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) rate: Option<u64>,
    /// The measured time.
    pub(crate) elapsed: Duration,
    pub(crate) tally: Tally,
    /// Of this process, all threads, in the measured time.
    pub(crate) cpu: Duration,
    pub(crate) was_interrupted: bool,
}

impl Row {
    pub(crate) fn operations_per_second(&self) -> f64 {
        text::rate(self.tally.done, self.elapsed)
    }

    pub(crate) fn cpu_us_per_operation(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.tally.done.max(1) as f64
    }

    /// Whether everything was done, and rightly.
    pub(crate) fn is_flawless(&self) -> bool {
        self.tally.done > 0 && self.tally.faults.total() == 0 && self.tally.unsent == 0 && !self.was_interrupted
    }
}

type Threads = Vec<JoinHandle<anyhow::Result<Tally>>>;

/// Measures one operation.
pub(crate) async fn measure(
    config: &Config,
    plan: &Arc<Plan>,
    threads: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Row> {
    let watched: Vec<Arc<Watched>> = (0..threads).map(|_| Arc::default()).collect();
    let (go, started) = watch::channel(None::<Arc<Times>>);
    let (ready, mut are_ready) = mpsc::channel(threads as usize);
    let handles: Threads = thread::spawn(threads as usize, config, {
        let (plan, watched) = (Arc::clone(plan), watched.clone());
        move |number, client| {
            let (plan, ready, mut started) = (Arc::clone(&plan), ready.clone(), started.clone());
            let watched = watched.get(number).map(Arc::clone).unwrap_or_default();
            async move {
                warm(&client, &plan, number).await?;
                ready.send(()).await?;
                drop(ready);
                let times = started.wait_for(Option::is_some).await.ok().and_then(|times| times.clone());
                // Without a start another thread has failed, and says why.
                let Some(times) = times else { return Tally::new() };
                work(client, plan, times, watched, number as u64, threads).await
            }
        }
    })?;
    if !all_are_ready(&mut are_ready, &handles).await {
        drop(go);
        thread::join(handles)?;
        anyhow::bail!("not all threads have a connection");
    }
    let times = Arc::new(Times::new(plan));
    go.send_replace(Some(Arc::clone(&times)));
    let (elapsed, cpu, was_interrupted) = watch_over(plan, &times, &watched, interrupt).await;
    thread::ended(&handles).await;
    let mut sum = Tally::new()?;
    for tally in thread::join(handles)? {
        sum.merge(tally)?;
    }
    // The backlog of a schedule took longer than the schedule.
    let elapsed = sum.last.map_or(elapsed, |last| elapsed.max(last.saturating_duration_since(times.measured_from)));
    Ok(Row { name: plan.operation.to_string(), rate: plan.rate, elapsed, tally: sum, cpu, was_interrupted })
}

/// False: one has ended already, with an error.
async fn all_are_ready(are_ready: &mut mpsc::Receiver<()>, threads: &Threads) -> bool {
    let mut waited_for = threads.len();
    while waited_for > 0 {
        tokio::select! {
            _ = are_ready.recv() => waited_for -= 1,
            () = thread::any_ended(threads) => return false,
        }
    }
    true
}

/// Has connections to all nodes before time counts.
async fn warm(client: &Client, plan: &Plan, number: usize) -> anyhow::Result<()> {
    let mut pipeline = client.pipeline();
    for key in 0..KEYS_FOR_WARMTH {
        let mut name = Vec::new();
        plan.append_key((number as u64 * KEYS_FOR_WARMTH + key) % plan.keys, &mut name);
        pipeline.exists(Bytes::from(name));
    }
    pipeline.run().await?;
    Ok(())
}

/// The workers of one thread.
async fn work(
    client: Client,
    plan: Arc<Plan>,
    times: Arc<Times>,
    watched: Arc<Watched>,
    thread: u64,
    threads: u64,
) -> anyhow::Result<Tally> {
    let tally = Arc::new(Mutex::new(Tally::new()?));
    let mut workers = JoinSet::new();
    for number in (thread..plan.workers).step_by(threads as usize) {
        let worker = Worker {
            number,
            plan: Arc::clone(&plan),
            times: Arc::clone(&times),
            watched: Arc::clone(&watched),
            tally: Arc::clone(&tally),
            client: client.clone(),
        };
        workers.spawn(worker.run());
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let tally = std::mem::replace(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner), Tally::new()?);
    Ok(tally)
}

/// Waits for the end, or Ctrl-C, and shows how it goes: the measured time, the processor's time in it, whether it was
/// cut short.
async fn watch_over(
    plan: &Plan,
    times: &Times,
    watched: &[Arc<Watched>],
    interrupt: &Interrupt,
) -> (Duration, Duration, bool) {
    let line = progress::line();
    let mut cpu_before = None;
    let mut shown = Shown::default();
    let was_interrupted = loop {
        let now = Instant::now();
        if cpu_before.is_none() && now >= times.measured_from {
            cpu_before = Some(cpu_time());
        }
        if now >= times.end {
            break false;
        }
        let until = if now < times.measured_from { times.measured_from } else { times.end };
        tokio::select! {
            () = tokio::time::sleep_until(until.min(now + progress::EVERY).into()) => {}
            () = interrupt.asked() => {
                times.is_stopped.store(true, Ordering::Relaxed);
                break true;
            }
        }
        shown.show(&line, plan, times, watched);
    };
    let over = Instant::now().min(times.end);
    let cpu = cpu_before.map_or(Duration::ZERO, |before| cpu_time().saturating_sub(before));
    line.finish_and_clear();
    (over.saturating_duration_since(times.measured_from), cpu, was_interrupted)
}

/// What the line said last.
#[derive(Default)]
struct Shown {
    last: Option<(Instant, u64)>,
}

impl Shown {
    fn show(&mut self, line: &ProgressBar, plan: &Plan, times: &Times, watched: &[Arc<Watched>]) {
        let now = Instant::now();
        let sum = |of: fn(&Watched) -> u64| watched.iter().map(|counts| of(counts)).sum::<u64>();
        let done = sum(|counts| counts.done.load(Ordering::Relaxed));
        let failed = sum(|counts| counts.failed.load(Ordering::Relaxed));
        let (then, before) = self.last.replace((now, done)).unwrap_or((times.start, 0));
        let rate = text::rate(done - before, now.saturating_duration_since(then));
        let what = if now < times.measured_from { "warming up" } else { "measuring" };
        line.set_message(format!(
            "{}: {what}, {} a second, {} errors, {:.0} s left",
            plan.operation,
            text::grouped(rate as u64),
            text::grouped(failed),
            times.end.saturating_duration_since(now).as_secs_f64().ceil(),
        ));
        line.tick();
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
