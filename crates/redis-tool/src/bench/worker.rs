//! A worker: batch after batch, or by a schedule.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pilotlight_redis::Client;

use super::batch::Batch;
use super::pacer::Pacer;
use super::plan::Plan;
use crate::load::fault::Faults;

/// Latencies above it are counted as this one.
const MAX_LATENCY: Duration = Duration::from_secs(120);
/// Of latencies: 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
/// How late Ctrl-C may be noticed by a worker that waits for its next start.
const NOTICE: Duration = Duration::from_millis(100);

/// For commands that were due before the end, and still wait for their worker then.
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(1);

/// When what happens.
pub(crate) struct Times {
    pub(crate) start: Instant,
    pub(crate) measured_from: Instant,
    pub(crate) end: Instant,
    /// Ctrl-C.
    pub(crate) is_stopped: AtomicBool,
}

impl Times {
    pub(crate) fn new(plan: &Plan) -> Self {
        let start = Instant::now();
        let measured_from = start + plan.warmup;
        Self { start, measured_from, end: measured_from + plan.duration, is_stopped: AtomicBool::new(false) }
    }

    #[inline]
    fn are_over(&self, now: Instant) -> bool {
        now >= self.end || self.is_stopped.load(Ordering::Relaxed)
    }
}

/// What one thread has counted so far, for those who watch. In a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Watched {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// What is counted of commands whose start, or intended start, is within the measured time.
pub(crate) struct Tally {
    pub(crate) done: u64,
    pub(crate) faults: Faults,
    /// In nanoseconds, of commands that succeeded.
    pub(crate) latency: Histogram<u64>,
    /// By the schedule they were due, and time was up.
    pub(crate) unsent: u64,
    /// By the schedule: the last reply.
    pub(crate) last: Option<Instant>,
}

impl Tally {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let latency = Histogram::new_with_bounds(1, MAX_LATENCY.as_nanos() as u64, SIGNIFICANT_DIGITS)?;
        Ok(Self { done: 0, faults: Faults::default(), latency, unsent: 0, last: None })
    }

    pub(crate) fn merge(&mut self, other: Self) -> anyhow::Result<()> {
        self.done += other.done;
        self.unsent += other.unsent;
        self.last = self.last.max(other.last);
        self.faults.merge(other.faults);
        self.latency.add(other.latency)?;
        Ok(())
    }
}

/// One of the callers.
pub(crate) struct Worker {
    pub(crate) number: u64,
    pub(crate) plan: Arc<Plan>,
    pub(crate) times: Arc<Times>,
    pub(crate) watched: Arc<Watched>,
    /// Of the thread: nobody else ever waits for it.
    pub(crate) tally: Arc<Mutex<Tally>>,
    pub(crate) client: Client,
}

impl Worker {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let batch = Batch::new(&self.plan, self.number);
        match self.plan.rate {
            None => self.closed(batch).await,
            Some(rate) => return self.open(batch, rate).await,
        }
        Ok(())
    }

    async fn closed(self, mut batch: Batch) {
        loop {
            batch.draw(self.plan.pipeline);
            let begun = Instant::now();
            if self.times.are_over(begun) {
                return;
            }
            let mut faults = Faults::default();
            let done = batch.send(&self.client, &mut faults).await;
            self.watch(done, &faults);
            if begun < self.times.measured_from {
                continue;
            }
            let latency = nanoseconds(begun.elapsed());
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.done += done;
            tally.latency.saturating_record_n(latency, done);
            if faults.total() > 0 {
                tally.faults.merge(faults);
            }
        }
    }

    async fn open(self, mut batch: Batch, rate: u64) -> anyhow::Result<()> {
        let schedule = Schedule { start: self.times.start, worker: self.number, workers: self.plan.workers, rate };
        let pacer = Pacer::new()?;
        let mut next = 0;
        loop {
            let intended = schedule.at(next);
            let now = Instant::now();
            let is_stopped = self.times.is_stopped.load(Ordering::Relaxed);
            if intended >= self.times.end || is_stopped || now >= self.times.end + BACKLOG_TIMEOUT {
                break;
            }
            if intended > now {
                pacer.until(intended.min(now + NOTICE)).await?;
                continue;
            }
            let due = schedule.due(next, now, self.plan.pipeline, self.times.end);
            batch.draw(due);
            let mut faults = Faults::default();
            let done = batch.send(&self.client, &mut faults).await;
            self.watch(done, &faults);
            self.record(&schedule, next..next + due, done, faults);
            next += due;
        }
        let over = Instant::now().min(self.times.end);
        let first = schedule.first_from(next, self.times.measured_from);
        let unsent = schedule.first_from(first, over) - first;
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).unsent += unsent;
        Ok(())
    }

    /// Each command from its own intended start. Of a batch with faults it is not known here which ones they were: the
    /// last ones' times are left out.
    fn record(&self, schedule: &Schedule, commands: std::ops::Range<u64>, done: u64, faults: Faults) {
        let now = Instant::now();
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.last = Some(now);
        let measured = schedule.first_from(commands.start, self.times.measured_from).min(commands.end);
        if measured > commands.start {
            // The batch in which the measurement begins: only those that are within count, and they count as they are.
            if faults.total() > 0 {
                return;
            }
        } else {
            tally.faults.merge(faults);
        }
        let end = commands.end.min(measured + done);
        for command in measured..end {
            tally.latency.saturating_record(nanoseconds(now.saturating_duration_since(schedule.at(command))));
        }
        tally.done += end - measured;
    }

    fn watch(&self, done: u64, faults: &Faults) {
        self.watched.done.fetch_add(done, Ordering::Relaxed);
        if faults.total() > 0 {
            self.watched.failed.fetch_add(faults.total(), Ordering::Relaxed);
        }
    }
}

/// Intended starts: commands of all workers together come at even distances.
struct Schedule {
    start: Instant,
    worker: u64,
    workers: u64,
    rate: u64,
}

impl Schedule {
    /// The intended start of a worker's command.
    fn at(&self, command: u64) -> Instant {
        let number = u128::from(command) * u128::from(self.workers) + u128::from(self.worker);
        let nanoseconds = number * 1_000_000_000 / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX / 2))
    }

    /// The first command, from `command` on, that is not intended before `moment`.
    fn first_from(&self, command: u64, moment: Instant) -> u64 {
        let elapsed = moment.saturating_duration_since(self.start).as_nanos();
        let number = (elapsed * u128::from(self.rate)).div_ceil(1_000_000_000);
        let first = number.saturating_sub(u128::from(self.worker)).div_ceil(u128::from(self.workers));
        let mut first = u64::try_from(first).unwrap_or(u64::MAX);
        // Both divisions round: the neighbours decide.
        while first > 0 && self.at(first - 1) >= moment {
            first -= 1;
        }
        while self.at(first) < moment {
            first += 1;
        }
        first.max(command)
    }

    /// How many commands, from `next` on, are due: at least one, at most `most`, none that is intended for `end` or
    /// later.
    fn due(&self, next: u64, now: Instant, most: u64, end: Instant) -> u64 {
        let last = (next..next + most).take_while(|&command| {
            let intended = self.at(command);
            intended <= now && intended < end
        });
        last.count().max(1) as u64
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_even_over_all_workers() {
        let start = Instant::now();
        for (workers, rate) in [(1, 1000), (3, 1000), (16, 50_000), (7, 33)] {
            let mut all: Vec<Instant> = Vec::new();
            for worker in 0..workers {
                let schedule = Schedule { start, worker, workers, rate };
                all.extend((0..100).map(|command| schedule.at(command)));
                for command in [0, 1, 50, 99] {
                    let at = schedule.at(command);
                    assert_eq!(schedule.first_from(0, at), command);
                    assert_eq!(schedule.first_from(0, at + Duration::from_nanos(1)), command + 1);
                    assert_eq!(schedule.first_from(command + 5, at), command + 5);
                }
                assert_eq!(schedule.due(0, schedule.at(9), 64, schedule.at(1000)), 10);
                assert_eq!(schedule.due(0, schedule.at(99), 64, schedule.at(1000)), 64);
                assert_eq!(schedule.due(5, schedule.at(99), 64, schedule.at(8)), 3);
            }
            all.sort_unstable();
            let wanted = 1_000_000_000 / u128::from(rate);
            assert!(all.windows(2).all(|pair| (pair[1] - pair[0]).as_nanos().abs_diff(wanted) <= 1));
        }
    }
}
