//! The requests of a service that wait for an instance, first come first served.
//!
//! ```text
//!  worker: no instance, or all full ──▶ ┌─────────┐ ◀── supervisor: an instance is ready
//!                                       │ waiters │
//!  worker: the reply ◀───────────────── └─────────┘ ◀── any worker: an exchange ended, its place is free
//! ```
//! The lock is held for a few instructions, and only by who has to wait or serves those who do. Replies are sent after
//! it is released: one that nobody takes gives its lease back, and that may serve the next.
//!
//! Invariant: whoever waits was looked at after the last place became free, or will be (see `concurrency_limiter`).

use crate::error::StartError;
use crate::in_flight::{InFlightCounter, Lease, pick};
use crate::instance::Notice;
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
    /// How many wait: read by every request of a service with limited `concurrency`, written by those who wait, as is
    /// the rest. So it needs no cache line of its own.
    waiting: AtomicUsize,
    /// The supervisor has been told that somebody waits.
    wanted: AtomicBool,
    /// The supervisor has been told that the spare is in use.
    pressed: AtomicBool,
    state: Mutex<State>,
    service: usize,
    notices: UnboundedSender<Notice>,
    /// Whether a free instance is kept, and the supervisor to be told when there is none.
    has_spare: AtomicBool,
    /// How many may wait, here and elsewhere.
    limit: Arc<WaitingLimit>,
}

#[derive(Debug, Default)]
struct State {
    waiters: VecDeque<Waiter>,
    tickets: u64,
    /// The ready instances, oldest first: a counter for each worker.
    ready: Vec<Arc<[Arc<InFlightCounter>]>>,
    /// Every request is told of, not only the first that waits.
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

    /// Enters an instance, or waits for one behind those who do already.
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

    /// Lets those who wait enter, as far as there is room.
    pub(crate) fn serve(&self) {
        let served = self.served(&mut self.lock());
        send(served);
    }

    /// A place was taken. The supervisor is told if there is to be a spare and less is free than one whole instance.
    pub(crate) fn taken<'a>(&self, counters: impl Iterator<Item = &'a Arc<InFlightCounter>>) {
        if self.has_spare.load(Relaxed) && !self.pressed.load(Relaxed) {
            let limiters = counters.filter_map(|counter| counter.limiter());
            let (free, each) =
                limiters.fold((0, 0), |(free, each), limiter| (free + limiter.free(), limiter.max().max(each)));
            if free < each && !self.pressed.swap(true, SeqCst) {
                self.tell();
            }
        }
    }

    /// What the supervisor needs to know, who has taken the notice.
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

    /// The spare is there again, or cannot be.
    pub(crate) fn relieve(&self) {
        self.pressed.store(false, SeqCst);
    }

    /// Whether to tell the supervisor of each request that waits, because some are to be refused.
    pub(crate) fn set_alert(&self, alert: bool) {
        self.lock().alert = alert;
    }

    /// Puts an instance in, in the place of another if there is one to go, and lets those who wait enter. `publish` is
    /// called with the new list before that.
    pub(crate) fn change(
        &self,
        add: Option<Arc<[Arc<InFlightCounter>]>>,
        remove: Option<u64>,
        publish: impl FnOnce(&[Arc<[Arc<InFlightCounter>]>]),
    ) {
        let mut state = self.lock();
        if let Some(run) = remove {
            state.ready.retain(|counters| counters.first().is_none_or(|counter| counter.run() != run));
        }
        state.ready.extend(add);
        publish(&state.ready);
        self.relieve(); // before anybody enters, who may press again
        let served = self.served(&mut state);
        drop(state);
        send(served);
    }

    /// Refuses all who wait but the first `keep`; how many those are.
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

    /// Nobody serves it any more.
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
        // A worker that does not exist shares the first's counter.
        pick(&self.ready.iter().filter_map(|counters| counters.get(worker).or(counters.first())))
    }

    /// A counter of each instance: all have the same limiter.
    fn firsts(&self) -> impl Iterator<Item = &Arc<InFlightCounter>> {
        self.ready.iter().filter_map(|counters| counters.first())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::concurrency_limiter::ConcurrencyLimiter;
    use crate::instance::{Endpoint, Instance, InstanceState, Which};
    use crate::service::ServiceId;
    use crate::spec::Transport;
    use std::sync::atomic::AtomicU32;
    use tokio::sync::mpsc;

    /// An instance with one place, and the queue before it.
    fn one_place(workers: usize) -> (Arc<Queue>, Arc<[Arc<InFlightCounter>]>, mpsc::UnboundedReceiver<Notice>) {
        let (notices, noticed) = mpsc::unbounded_channel();
        let spec = ServiceSpec::new("x", vec!["x".into()], Transport::Pipe);
        let limit = Arc::new(WaitingLimit::new(&"x".into(), spec.queue));
        let queue = Arc::new(Queue::new(0, &spec, limit, notices.clone()));
        let instance =
            Instance::new(Which { service: ServiceId(0), run: 1, number: 1 }, Endpoint::Pipe, Instant::now(), notices);
        instance.set_state(InstanceState::Ready);
        let (instance, limiter) = (Arc::new(instance), Arc::new(ConcurrencyLimiter::new(1, Arc::clone(&queue))));
        let counter =
            |worker| Arc::new(InFlightCounter::new(Arc::clone(&instance), worker, Some(Arc::clone(&limiter)), 0));
        let counters: Arc<[_]> = (0..workers).map(counter).collect();
        queue.change(Some(Arc::clone(&counters)), None, |_| {});
        (queue, counters, noticed)
    }

    /// One leaves just as another begins to wait: whoever is second serves. With the count taken after the look at the
    /// place, or the place given back after the look at the count, somebody is forgotten within a few thousand rounds
    /// on two processors.
    #[test]
    fn nobody_is_forgotten() {
        const ROUNDS: u32 = 20_000;
        let (queue, counters, _noticed) = one_place(2);
        let (round, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let meet = |counter: &AtomicU32, at: u32| {
            let begun = Instant::now();
            while counter.load(SeqCst) < at {
                assert!(begun.elapsed() < Duration::from_secs(20), "the other thread does not come");
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ROUNDS {
                    let lease = Arc::clone(&counters[0]).enter();
                    assert!(lease.is_some(), "the place was lost");
                    round.store(number, SeqCst);
                    (0..number % 64).for_each(|_| std::hint::spin_loop());
                    drop(lease);
                    meet(&done, number);
                }
            });
            let forgotten = (1..=ROUNDS).find(|number| {
                meet(&round, *number);
                let forgotten = match queue.join(1) {
                    Joined::Waiting(mut place) => {
                        let begun = Instant::now();
                        loop {
                            match place.answer.try_recv() {
                                Ok(lease) => break lease.is_err(),
                                Err(_) if begun.elapsed() > Duration::from_secs(5) => break true,
                                Err(_) => std::hint::spin_loop(),
                            }
                        }
                    }
                    Joined::Entered(_) => false,
                    Joined::Full | Joined::Closed => true,
                };
                done.store(if forgotten { ROUNDS } else { *number }, SeqCst);
                forgotten
            });
            round.store(ROUNDS, SeqCst);
            assert_eq!(forgotten, None, "a request waits beside a free place");
        });
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn the_first_that_waits_is_told_and_all_in_an_alert() {
        let (queue, counters, mut noticed) = one_place(1);
        let _full = Arc::clone(&counters[0]).enter();
        let first = queue.join(0);
        assert!(matches!(noticed.try_recv(), Ok(Notice::Wanted { service: 0 })));
        assert_eq!(queue.look().count, 1);
        let second = queue.join(0);
        assert!(noticed.try_recv().is_err());
        queue.set_alert(true);
        let third = queue.join(0);
        assert!(noticed.try_recv().is_ok());
        assert_eq!(queue.look().count, 3);
        drop((first, third));
        assert_eq!(queue.look().count, 1);
        drop(second);
        assert!(queue.look().oldest.is_none());
    }
}
