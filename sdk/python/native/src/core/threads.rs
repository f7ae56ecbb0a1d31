//! What a thread does: run handlers, read, wait, or leave; and the look at those that are stuck.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::MutexGuard;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{Job, Link, READ_BYTES, Shared, State};

/// How long a handler may keep others waiting before another thread takes over.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without work after which nobody looks any more.
const QUIET_TICKS: u32 = 2;
/// Reads until handlers that have waited are tried in order again.
const REMEMBERED_READS: u32 = 100;
/// A batch that took less has not waited for anything worth a second thread.
const MEANINGFUL: Duration = Duration::from_micros(200);

/// What a thread does next.
enum Step {
    Run(Job),
    Read(Vec<Arc<Link>>),
    Wait,
    Leave,
}

impl Shared {
    pub(super) fn run(self: &Arc<Self>, py: Python<'_>) {
        let mut buffer = vec![0; READ_BYTES];
        let mut batch = Batch::new();
        loop {
            let step = self.step();
            match step {
                Step::Run(job) => self.answer(py, &job),
                Step::Read(links) => {
                    self.note(batch.has_blocked());
                    let ready = py.detach(|| wait(&links, &mut buffer));
                    batch = Batch::new();
                    for (link, read) in ready {
                        match read {
                            Some(read) => self.take(py, &link, read.map(|size| &buffer[..size])),
                            None => self.read(py, &link, &mut buffer),
                        }
                    }
                    self.has_read();
                }
                Step::Wait => {
                    let links = self.state.lock().links.clone();
                    py.detach(|| self.wait(&links));
                    drop(links);
                    batch = Batch::new();
                }
                Step::Leave => break,
            }
        }
        let links = self.state.lock().links.clone();
        py.detach(|| flush(&links));
        let mut state = self.state.lock();
        state.threads -= 1;
        self.hand_over(&mut state);
        self.left.notify_all();
    }

    fn step(self: &Arc<Self>) -> Step {
        let mut state = self.state.lock();
        state.steps += 1;
        if state.is_stopped || state.threads > state.max_threads.max(1) {
            return Step::Leave;
        }
        if let Some(job) = state.queue.pop_front() {
            if state.are_blocking || self.is_parallel && !state.queue.is_empty() {
                self.hand_over(&mut state);
            } else if !state.is_watched {
                state.is_watched = true;
                self.watch.notify_one();
            }
            return Step::Run(job);
        }
        if state.is_reading || state.links.is_empty() {
            return Step::Wait;
        }
        state.is_reading = true;
        Step::Read(state.links.clone())
    }

    /// Lets another thread go on: one that waits, or a new one.
    pub(super) fn hand_over(self: &Arc<Self>, state: &mut State) {
        if state.is_stopped || state.queue.is_empty() && (state.is_reading || state.links.is_empty()) {
            return;
        }
        if state.idle > 0 {
            self.work.notify_one();
        } else if state.threads < state.max_threads {
            state.threads += 1;
            let shared = self.clone();
            let started = std::thread::Builder::new().spawn(move || Python::attach(|py| shared.run(py)));
            if started.is_err() {
                state.threads -= 1; // the system's limit: the others will do
            }
        }
    }

    /// Idle, until there is something to do. What this thread has finished leaves first: nobody else may come to do it.
    fn wait(&self, links: &[Arc<Link>]) {
        flush(links);
        let mut state = self.state.lock();
        while !state.is_stopped && state.queue.is_empty() && (state.is_reading || state.links.is_empty()) {
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Whether handlers wait for something, by what those of a batch did. It is forgotten after a while: threads that
    /// wait for each other look the same.
    fn note(&self, has_blocked: bool) {
        let mut state = self.state.lock();
        if has_blocked && !state.are_blocking {
            (state.are_blocking, state.blocking_reads) = (true, 0);
        }
        state.blocking_reads += 1;
        if state.blocking_reads > REMEMBERED_READS {
            state.are_blocking = false;
        }
    }

    fn has_read(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_reading = false;
        if state.queue.is_empty() && state.idle > 0 {
            self.work.notify_one(); // for the connections that may have come meanwhile
        }
    }

    /// A thread without Python, which looks whether handlers are stuck while there are any.
    pub(super) fn look_after(self: &Arc<Self>) {
        let (mut steps, mut quiet) = (0, 0);
        let mut state = self.state.lock();
        while !state.is_stopped {
            if state.is_reading && state.steps == steps {
                quiet += 1;
            } else {
                quiet = 0;
            }
            if quiet > QUIET_TICKS {
                state.is_watched = false;
                self.watch.wait(&mut state);
                quiet = 0;
            }
            let is_stuck = !state.is_reading && state.steps == steps;
            steps = state.steps;
            if is_stuck {
                self.hand_over(&mut state);
                let links = state.links.clone();
                MutexGuard::unlocked(&mut state, || flush(&links)); // there may be no thread left that would
            }
            self.watch.wait_for(&mut state, TICK);
        }
    }
}

/// Connections that have something, with what was read if there is only one.
type Ready = Vec<(Arc<Link>, Option<Result<usize, Errno>>)>;

/// Waits until one of the connections has something.
fn wait(links: &[Arc<Link>], buffer: &mut [u8]) -> Ready {
    flush(links);
    if let [link] = links {
        return vec![(link.clone(), Some(link.socket.read(buffer, RecvFlags::empty())))];
    }
    let mut asked: Vec<PollFd<'_>> = links.iter().map(|link| PollFd::new(&link.socket, PollFlags::IN)).collect();
    if poll(&mut asked, None).is_err() {
        return Vec::new(); // interrupted
    }
    let ready = links.iter().zip(&asked).filter(|(_, fd)| !fd.revents().is_empty());
    ready.map(|(link, _)| (link.clone(), None)).collect()
}

/// Sends what is finished; a connection that is broken is seen by who reads.
fn flush(links: &[Arc<Link>]) {
    for link in links {
        let _ = link.socket.flush();
    }
}

/// What the handlers of one read do. A thread that is only preempted does not switch by its own will.
struct Batch {
    begun: Instant,
    switches: i64,
}

impl Batch {
    fn new() -> Self {
        Self { begun: Instant::now(), switches: switches() }
    }

    fn has_blocked(&self) -> bool {
        self.begun.elapsed() > MEANINGFUL && switches() > self.switches
    }
}

fn switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}
