//! The threads and workers that write the items, and look whether they are there.
//!
//! Invariant: what is on its way takes [`MAX_MEMORY_BYTES`] at most, whatever the sizes, connections and threads: there
//! are so many workers, and their batches are so large, that all of them together fit in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Config, Error, Value};
use tokio::task::JoinSet;

use super::arguments::FillArgs;
use super::item::{Items, Start, Words};
use super::kind::Kind;
use crate::load::fault::Faults;
use crate::load::interrupt::Interrupt;
use crate::load::{default_threads, progress, text, thread};

/// Of all batches that are under way.
const MAX_MEMORY_BYTES: u64 = 96 << 20;
/// A batch exists as words, as a pipeline and in a connection's buffer, and buffers that grow are larger than what is
/// in them.
const COPIES: u64 = 5;
const MAX_BATCH_BYTES: u64 = 1 << 20;
/// So that a connection has the next batch while one is answered.
const WORKERS_PER_CONNECTION: u64 = 4;
/// Of a command and its reply, beside keys and values.
const COMMAND_BYTES: u64 = 256;
/// Of an argument.
const ARGUMENT_BYTES: u64 = 64;
/// Time without a success after which a warning is printed.
const SILENCE: Duration = Duration::from_secs(5);

/// What is done with each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Write,
    /// Written if it is not there.
    Resume,
    /// Only looked at.
    Check,
}

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    work: Work,
    count: u64,
    max_errors: u64,
    /// How long a command may take.
    timeout: Duration,
    next: AtomicU64,
    good: AtomicU64,
    failed: AtomicU64,
    begun: Instant,
    /// When a command last succeeded, in milliseconds since `begun`.
    succeeded_ms: AtomicU64,
    is_stopped: AtomicBool,
    /// A server has not answered for as long as a command may take.
    is_given_up: AtomicBool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    /// Items that were tried: the first so many.
    pub(crate) tried: u64,
    pub(crate) written: u64,
    /// Items that were there already.
    pub(crate) present: u64,
    /// Items that were not written; of a check, items that are not there.
    pub(crate) failed: u64,
    /// Items that a check could not inspect.
    pub(crate) unknown: u64,
    pub(crate) faults: Faults,
    pub(crate) was_interrupted: bool,
    /// It ended because the server was silent for the whole time that a command may take.
    pub(crate) was_given_up: bool,
}

/// How the work is shared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crew {
    pub(crate) threads: u64,
    workers: u64,
    batch_items: u64,
}

impl Shared {
    pub(crate) fn new(count: u64, max_errors: u64, work: Work, timeout: Duration) -> Self {
        let zero = AtomicU64::default;
        let no = || AtomicBool::new(false);
        Self {
            work,
            count,
            max_errors,
            timeout,
            next: zero(),
            good: zero(),
            failed: zero(),
            begun: Instant::now(),
            succeeded_ms: zero(),
            is_stopped: no(),
            is_given_up: no(),
        }
    }

    /// Notes how a batch has ended. If a part of it failed after the time that a command may take, and no batch was
    /// whole in that time, a server is silent, and the work is given up.
    fn note(&self, has_succeeded: bool, has_failed: bool, took: Duration) {
        // What succeeded in a batch that failed did so at its beginning.
        let ended = if has_failed { self.begun.elapsed().saturating_sub(took) } else { self.begun.elapsed() };
        if has_succeeded {
            self.succeeded_ms.fetch_max(milliseconds(ended), Ordering::Relaxed);
        }
        // A deadline is a little less than the timeout that it follows from.
        let most = self.timeout / 2;
        let succeeded = Duration::from_millis(self.succeeded_ms.load(Ordering::Relaxed));
        if has_failed && took >= most && self.begun.elapsed().saturating_sub(succeeded) >= most {
            self.is_given_up.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self, most: u64) -> Option<std::ops::Range<u64>> {
        let has_failed = self.max_errors > 0 && self.failed.load(Ordering::Relaxed) >= self.max_errors;
        let is_over = self.is_stopped.load(Ordering::Relaxed) || self.is_given_up.load(Ordering::Relaxed);
        if is_over || (has_failed && self.work != Work::Check) {
            return None;
        }
        let first = self.next.fetch_add(most, Ordering::Relaxed);
        (first < self.count).then(|| first..(first + most).min(self.count))
    }
}

impl Crew {
    pub(crate) fn new(args: &FillArgs, item_bytes: u64, elements: u64) -> Self {
        let threads = args.threads.unwrap_or(default_threads() as u64);
        let commands = if args.kind == Kind::Stream { elements } else { 1 };
        let size = memory_of(item_bytes, commands, elements);
        let workers =
            (threads * args.connections * WORKERS_PER_CONNECTION).min(MAX_MEMORY_BYTES / COPIES / size).max(1);
        let batch_bytes = MAX_BATCH_BYTES.min(MAX_MEMORY_BYTES / COPIES / workers);
        Self {
            threads: threads.min(workers),
            workers,
            batch_items: (batch_bytes / size).min(args.pipeline / commands).max(1),
        }
    }

    /// Does it, shows how far it is, and ends early at Ctrl-C or after too many errors.
    pub(crate) async fn run(
        &self,
        config: &Config,
        items: &Arc<Items>,
        shared: &Arc<Shared>,
        item_bytes: u64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Sum> {
        let crew = *self;
        let handles = thread::spawn(self.threads as usize, config, {
            let (items, shared) = (Arc::clone(items), Arc::clone(shared));
            move |number, client| crew.thread(number as u64, client, Arc::clone(&items), Arc::clone(&shared))
        })?;
        let bar = progress::bar(shared.count);
        let begun = Instant::now();
        let (mut last, mut since, mut is_silent) = (0, begun, false);
        while tokio::time::timeout(progress::EVERY, thread::ended(&handles)).await.is_err() {
            shared.is_stopped.store(interrupt.is_asked(), Ordering::Relaxed);
            let (good, failed) = (shared.good.load(Ordering::Relaxed), shared.failed.load(Ordering::Relaxed));
            if good != last {
                (last, since, is_silent) = (good, Instant::now(), false);
            } else if since.elapsed() >= SILENCE && !is_silent {
                is_silent = true;
                let (silence, timeout) = (SILENCE.as_secs(), shared.timeout.as_secs_f64());
                bar.suspend(|| {
                    eprintln!("fill: no command has succeeded for {silence} s; each may take {timeout} s (--timeout)");
                });
            }
            let rate = text::rate(good * item_bytes, begun.elapsed());
            let what = if shared.work == Work::Check { "checking" } else { "filling" };
            let wrong = if shared.work == Work::Check { "missing" } else { "errors" };
            bar.set_position(good + failed);
            bar.set_message(format!("{what}, {}/s, {} {wrong}", text::bytes(rate as u64), text::grouped(failed)));
        }
        bar.finish_and_clear();
        let mut sum = Sum::default();
        for more in thread::join(handles)? {
            sum.add(more);
        }
        sum.was_interrupted = interrupt.is_asked();
        sum.was_given_up = shared.is_given_up.load(Ordering::Relaxed);
        Ok(sum)
    }

    async fn thread(self, number: u64, client: Client, items: Arc<Items>, shared: Arc<Shared>) -> anyhow::Result<Sum> {
        let mut workers = JoinSet::new();
        for _ in (number..self.workers).step_by(self.threads as usize) {
            let worker = Worker {
                client: client.clone(),
                items: Arc::clone(&items),
                shared: Arc::clone(&shared),
                words: Words::default(),
                sum: Sum::default(),
            };
            workers.spawn(worker.run(self.batch_items));
        }
        let mut sum = Sum::default();
        while let Some(ended) = workers.join_next().await {
            sum.add(ended?);
        }
        Ok(sum)
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.tried = self.tried.max(other.tried);
        self.written += other.written;
        self.present += other.present;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.faults.merge(other.faults);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What an item takes, of each of the copies.
fn memory_of(item_bytes: u64, commands: u64, elements: u64) -> u64 {
    item_bytes + commands * COMMAND_BYTES + elements * ARGUMENT_BYTES
}

struct Worker {
    client: Client,
    items: Arc<Items>,
    shared: Arc<Shared>,
    words: Words,
    sum: Sum,
}

impl Worker {
    async fn run(mut self, batch_items: u64) -> Sum {
        while let Some(range) = self.shared.take(batch_items) {
            self.sum.tried = range.end;
            let all: Vec<u64> = range.collect();
            let (good_before, failed_before) = (self.sum.written + self.sum.present, self.sum.failed);
            let (begun, unknown_before) = (Instant::now(), self.sum.unknown);
            match self.shared.work {
                Work::Write => self.write(&all, Start::Fresh).await,
                Work::Check => {
                    let Looked { missing, unknown } = self.look(&all).await;
                    self.sum.failed += missing.len() as u64;
                    self.sum.unknown += unknown.len() as u64;
                    self.sum.present += (all.len() - missing.len() - unknown.len()) as u64;
                }
                Work::Resume => {
                    let Looked { mut missing, unknown } = self.look(&all).await;
                    self.sum.present += (all.len() - missing.len() - unknown.len()) as u64;
                    missing.extend(unknown);
                    if !missing.is_empty() {
                        self.write(&missing, Start::Over).await;
                    }
                }
            }
            self.shared.good.fetch_add(self.sum.written + self.sum.present - good_before, Ordering::Relaxed);
            self.shared.failed.fetch_add(self.sum.failed - failed_before, Ordering::Relaxed);
            let has_succeeded = self.sum.written + self.sum.present > good_before;
            let has_failed = self.sum.failed + self.sum.unknown > failed_before + unknown_before;
            self.shared.note(has_succeeded, has_failed, begun.elapsed());
        }
        self.sum
    }

    async fn write(&mut self, all: &[u64], start: Start) {
        self.words.clear();
        all.iter().for_each(|&index| self.items.spell(index, &mut self.words));
        let mut pipeline = self.client.pipeline();
        if start == Start::Over || self.items.kind().may_repeat() {
            pipeline = pipeline.retryable();
        }
        let mut commands_each = 0;
        for (at, &index) in all.iter().enumerate() {
            let first = at * self.items.word_count();
            commands_each = self.items.queue(&mut pipeline, index, &self.words, first, start);
        }
        let mut replies = match pipeline.run().await {
            Ok(replies) => replies.into_values(),
            Err(error) => {
                self.sum.faults.add_error(&error, all.len() as u64);
                self.sum.failed += all.len() as u64;
                return;
            }
        };
        for _ in all {
            // An item counts once, with the first of its errors; all of its replies are read.
            let mut fault = None;
            for reply in replies.by_ref().take(commands_each) {
                if let (Err(error), None) = (reply, &fault) {
                    fault = Some(error);
                }
            }
            match fault {
                None => self.sum.written += 1,
                Some(error) => {
                    self.sum.failed += 1;
                    self.sum.faults.add_error(&error, 1);
                }
            }
        }
    }

    /// Which of these items are not there, or are of another length, and of which that is unknown.
    async fn look(&mut self, all: &[u64]) -> Looked {
        self.words.clear();
        all.iter().for_each(|&index| self.items.spell_key(index, &mut self.words));
        let mut pipeline = self.client.pipeline();
        for at in 0..all.len() {
            self.items.queue_length(&mut pipeline, &self.words, at);
        }
        let replies: Vec<Result<Value, Error>> = match pipeline.run().await {
            Ok(replies) => replies.into_values().collect(),
            Err(error) => {
                self.sum.faults.add_error(&error, all.len() as u64);
                return Looked { missing: Vec::new(), unknown: all.to_vec() };
            }
        };
        let mut looked = Looked::default();
        for (&index, reply) in all.iter().zip(replies) {
            match reply {
                Ok(length) if self.items.is_length(&length) => {}
                Ok(_) => looked.missing.push(index),
                // A key of another type is not there, either; it is written anew.
                Err(error) if error.server().is_some_and(|server| server.code() == "WRONGTYPE") => {
                    looked.missing.push(index);
                }
                Err(error) => {
                    self.sum.faults.add_error(&error, 1);
                    looked.unknown.push(index);
                }
            }
        }
        looked
    }
}

/// Inspected items that are not there as they should be.
#[derive(Debug, Default)]
struct Looked {
    missing: Vec<u64>,
    /// The server did not tell.
    unknown: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_bounded() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: FillArgs,
        }
        for line in
            ["-n 1 -P 1", "-n 256 -P 256 --pipeline 65536", "-n 7 -P 3 --type stream", "--type stream --pipeline 1"]
        {
            let words = ["fill", "--count", "1"].into_iter().chain(line.split(' '));
            let args = <Only as clap::Parser>::parse_from(words).args;
            for (item_bytes, elements) in [(2, 1), (1024, 10), (10_000, 10_000), (1 << 20, 1), (8 << 20, 10_000)] {
                let Crew { threads, workers, batch_items } = Crew::new(&args, item_bytes, elements);
                let commands = if args.kind == Kind::Stream { elements } else { 1 };
                let all = workers * batch_items * memory_of(item_bytes, commands, elements) * COPIES;
                assert!(all <= MAX_MEMORY_BYTES, "{line}, {item_bytes}, {elements}: {all}");
                assert!(threads >= 1 && threads <= workers && batch_items >= 1);
            }
        }
    }
}
