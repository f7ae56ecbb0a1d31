//! The requests of a service that wait for an instance, first come first served, and the leases that let them in.
//!
//! ```text
//!  worker: no instance, or all full ──▶ ┌─────────┐ ◀── supervisor: an instance is ready
//!                                       │ waiters │
//!  worker: the reply ◀───────────────── └─────────┘ ◀── any worker: an exchange ended, its place is free
//! ```
//! Only requests that wait, and those who let them in, take the lock, for a few instructions.
//! Replies are sent after it is released: a reply that nobody takes drops its lease, and that serves the next request.
//!
//! Invariant: after a place became free, every request that waits is looked at. Where exchanges are limited, a lease
//! that ends lets the next request in. Dekker's argument of `in_flight`, mirrored: either the request that has just
//! begun to wait sees the lowered count, or the lease that lowered the count sees the request.
//!
//! A lease and the queue are one module because each leads to the other: the end of a lease serves the queue, which
//! gives out leases.

use crate::error::StartError;
use crate::in_flight::InFlightCounter;
use crate::instance::Instance;
use crate::notice::Notice;
use crate::spec::{ServiceSpec, Spare};
use crate::waiting::{Waiting, WaitingLimit};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

type Reply = oneshot::Sender<Result<Lease, StartError>>;

/// The queue of one service.
#[derive(Debug)]
pub(crate) struct Queue {
    /// How many requests wait. Every request of a service with limited `concurrency` reads it; only requests that wait
    /// write it, as they do the rest, so it needs no cache line of its own.
    waiting: AtomicUsize,
    /// The supervisor has been told that somebody waits.
    wanted: AtomicBool,
    /// The supervisor has been told that the spare is in use.
    pressed: AtomicBool,
    state: Mutex<State>,
    service: usize,
    notices: UnboundedSender<Notice>,
    /// Whether the service keeps a free instance (`spare`); then the supervisor is told when there is none.
    has_spare: AtomicBool,
    /// How many may wait, here and elsewhere.
    limit: Arc<WaitingLimit>,
}

#[derive(Debug, Default)]
struct State {
    waiters: VecDeque<Waiter>,
    tickets: u64,
    /// The ready instances, oldest first: an entrance for each worker.
    ready: Vec<Entrances>,
    /// The supervisor is told of every request that waits, not only of the first.
    alert: bool,
    /// The supervisor has gone.
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    worker: usize,
    since: Instant,
    reply: Reply,
    _counted: Waiting,
}

/// What became of a request for an instance.
pub(crate) enum Joined<'a> {
    Entered(Lease),
    Waiting(QueuePlace<'a>),
    Full,
    Closed,
}

/// A place in the queue, given up when dropped.
pub(crate) struct QueuePlace<'a> {
    queue: &'a Queue,
    ticket: u64,
    pub(crate) answer: oneshot::Receiver<Result<Lease, StartError>>,
}

/// What the supervisor sees of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueView {
    pub(crate) count: usize,
    pub(crate) oldest: Option<Instant>,
    /// The worker of the first.
    pub(crate) worker: usize,
}

impl Queue {
    pub(crate) fn new(
        service: usize,
        spec: &ServiceSpec,
        limit: Arc<WaitingLimit>,
        notices: UnboundedSender<Notice>,
    ) -> Self {
        let queue = Self {
            waiting: AtomicUsize::default(),
            wanted: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            state: Mutex::default(),
            service,
            notices,
            has_spare: AtomicBool::default(),
            limit,
        };
        queue.configure(spec);
        queue
    }

    /// Follows other settings.
    pub(crate) fn configure(&self, spec: &ServiceSpec) {
        self.has_spare.store(spec.spare == Spare::One, Relaxed);
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Enters an instance, or waits for one behind the requests that wait already.
    pub(crate) fn join(&self, worker: usize) -> Joined<'_> {
        let mut state = self.lock();
        if state.closed {
            return Joined::Closed;
        }
        let first = state.waiters.is_empty();
        if first && let Some(lease) = state.enter(worker) {
            self.taken(state.firsts());
            return Joined::Entered(lease);
        }
        let Some(counted) = self.limit.join() else { return Joined::Full };
        let (reply, answer) = oneshot::channel();
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiters.push_back(Waiter { ticket, worker, since: Instant::now(), reply, _counted: counted });
        self.count(&state); // before the look at the limiters: who leaves from here on sees it
        let served = self.served(&mut state);
        let tell = !state.waiters.is_empty() && (first || state.alert);
        drop(state);
        send(served);
        if tell {
            self.want();
        }
        Joined::Waiting(QueuePlace { queue: self, ticket, answer })
    }

    /// Lets waiting requests enter, as far as there is room.
    pub(crate) fn serve(&self) {
        let served = self.served(&mut self.lock());
        send(served);
    }

    /// A place was taken. With `spare` the supervisor is told when less than one whole instance is free.
    pub(crate) fn taken<'a>(&self, entrances: impl Iterator<Item = &'a Arc<Entrance>>) {
        if self.has_spare.load(Relaxed) && !self.pressed.load(Relaxed) {
            let limiters = entrances.filter_map(|entrance| entrance.counter.limiter());
            let (free, each) =
                limiters.fold((0, 0), |(free, each), limiter| (free + limiter.free(), limiter.max().max(each)));
            if free < each && !self.pressed.swap(true, SeqCst) {
                self.tell();
            }
        }
    }

    /// What the supervisor needs to know after it has taken the notice.
    pub(crate) fn look(&self) -> QueueView {
        self.wanted.store(false, SeqCst); // before the look: who comes after it tells again
        let state = self.lock();
        let first = state.waiters.front();
        QueueView {
            count: state.waiters.len(),
            oldest: first.map(|waiter| waiter.since),
            worker: first.map_or(0, |waiter| waiter.worker),
        }
    }

    /// Since when the one that waits the longest does.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.lock().waiters.front().map(|waiter| waiter.since)
    }

    /// The spare is there again, or cannot be.
    pub(crate) fn relieve(&self) {
        self.pressed.store(false, SeqCst);
    }

    /// Whether to tell the supervisor of each request that waits, because some are to be refused.
    pub(crate) fn set_alert(&self, alert: bool) {
        self.lock().alert = alert;
    }

    /// Adds an instance, removes one, or both at once, calls `publish` with the new list, and then lets waiting
    /// requests enter.
    pub(crate) fn change(&self, add: Option<Entrances>, remove: Option<u64>, publish: impl FnOnce(&[Entrances])) {
        let mut state = self.lock();
        if let Some(id) = remove {
            state.ready.retain(|entrances| entrances.first().is_none_or(|one| one.counter.instance().id != id));
        }
        state.ready.extend(add);
        publish(&state.ready);
        self.relieve(); // before anybody enters, who may press again
        let served = self.served(&mut state);
        drop(state);
        send(served);
    }

    /// Refuses all waiting requests but the first `keep`; returns how many were refused.
    pub(crate) fn refuse(&self, keep: usize, error: &StartError) -> usize {
        let refused: Vec<Waiter> = {
            let mut state = self.lock();
            let from = keep.min(state.waiters.len());
            let refused = state.waiters.drain(from..).collect();
            self.count(&state);
            refused
        };
        let count = refused.len();
        for waiter in refused {
            let elapsed = waiter.since.elapsed().max(error.elapsed);
            // A caller that has gone away needs no answer.
            let _ = waiter.reply.send(Err(StartError { elapsed, ..error.clone() }));
        }
        count
    }

    /// The supervisor has stopped: waiting requests learn that no reply will come.
    pub(crate) fn close(&self) {
        let waiters = {
            let mut state = self.lock();
            state.closed = true;
            self.waiting.store(0, SeqCst);
            std::mem::take(&mut state.waiters)
        };
        drop(waiters); // they see that their reply will not come
    }

    fn want(&self) {
        if !self.wanted.swap(true, SeqCst) {
            self.tell();
        }
    }

    fn tell(&self) {
        // A closed queue is a supervisor that has stopped: there is nobody left to act on the notice.
        let _ = self.notices.send(Notice::Wanted { service: self.service });
    }

    fn served(&self, state: &mut State) -> Vec<(Reply, Lease)> {
        let mut served = Vec::new();
        while let Some(lease) = state.waiters.front().and_then(|first| state.enter(first.worker)) {
            if let Some(first) = state.waiters.pop_front() {
                served.push((first.reply, lease));
            }
        }
        if !served.is_empty() {
            self.taken(state.firsts());
        }
        self.count(state);
        served
    }

    fn count(&self, state: &State) {
        self.waiting.store(state.waiters.len(), SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&self, worker: usize) -> Option<Lease> {
        // A worker that does not exist shares the first's entrance.
        pick(&self.ready.iter().filter_map(|entrances| entrances.get(worker).or(entrances.first())))
    }

    /// An entrance of each instance: all have the same limiter.
    fn firsts(&self) -> impl Iterator<Item = &Arc<Entrance>> {
        self.ready.iter().filter_map(|entrances| entrances.first())
    }
}

/// One worker's way into one instance: its count of exchanges there, and the queue that the end of one serves.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) counter: InFlightCounter,
    /// Where exchanges are limited: who leaves hands the place on.
    queue: Option<Arc<Queue>>,
}

/// The entrances of all workers to one instance.
pub(crate) type Entrances = Arc<[Arc<Entrance>]>;

impl Entrance {
    pub(crate) fn new(counter: InFlightCounter, queue: &Arc<Queue>) -> Self {
        let queue = counter.limiter().map(|_| Arc::clone(queue));
        Self { counter, queue }
    }

    /// Counts an exchange if the instance is ready and has room.
    #[inline]
    pub(crate) fn enter(self: Arc<Self>) -> Option<Lease> {
        self.counter.enter().then(|| Lease { entrance: self })
    }
}

/// One open exchange with an instance. While it is held the instance is not stopped for idleness; hold it until both
/// directions of the exchange have ended (or the upgraded connection is closed).
#[derive(Debug)]
pub struct Lease {
    entrance: Arc<Entrance>,
}

impl Lease {
    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &Arc<Instance> {
        self.entrance.counter.instance()
    }

    /// Pipe: this worker has no shared connection to the instance; one is asked for and comes as
    /// [`WorkerEvent::Connected`](crate::WorkerEvent::Connected). Does nothing if one was asked for less than
    /// [`HELLO_TIMEOUT`](crate::limits::HELLO_TIMEOUT) ago.
    pub fn want_shared(&self) {
        self.entrance.counter.want_shared();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.entrance.counter.leave();
        if let Some(queue) = self.entrance.queue.as_ref().filter(|queue| queue.waiting() > 0) {
            queue.serve();
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if let Ok(index) = state.waiters.binary_search_by_key(&self.ticket, |waiter| waiter.ticket) {
            state.waiters.remove(index);
            self.queue.count(&state);
        }
    }
}

fn send(served: Vec<(Reply, Lease)>) {
    for (reply, lease) in served {
        // A caller that has gone away needs no answer; the lease in it is given back by its drop.
        let _ = reply.send(Ok(lease));
    }
}

/// Enters the instance with the fewest exchanges, the oldest of several: younger ones are used only under load.
pub(crate) fn pick<'a>(entrances: &(impl Iterator<Item = &'a Arc<Entrance>> + Clone)) -> Option<Lease> {
    /// Tries, each lost to another worker.
    const MAX_TRIES: usize = 8;
    for _ in 0..MAX_TRIES {
        let load = |one: &&Arc<Entrance>| one.counter.limiter().map_or(0, |limiter| limiter.in_use());
        let best = entrances.clone().filter(|one| one.counter.has_room()).min_by_key(load)?;
        if let Some(lease) = Arc::clone(best).enter() {
            return Some(lease);
        }
    }
    None
}

#[cfg(test)]
mod tests;
