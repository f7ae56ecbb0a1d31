//! A worker's place at an instance: the exchanges it has open there.
//!
//! ```text
//!  worker                                   supervisor
//!  open += 1          (SeqCst)              state = draining   (SeqCst)
//!  state == ready ?   (SeqCst)              sum of open == 0 ? (SeqCst)
//!    yes: lease                               yes: stop
//!    no:  open -= 1, ask the supervisor       no:  state = ready, look again later
//! ```
//! In the one order that all of these agree on, either the worker's count comes before the sum (which sees it and does
//! not stop), or the sum, and so the state, comes before the count (and the worker sees `draining`): Dekker's argument.
//! An end of the last exchange of a draining instance is seen by the same argument, mirrored.

use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::instance::{Instance, InstanceState, Notice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Keeps a value in cache lines of its own (two: processors fetch pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// One exchange in the upper part of [`InFlightCounter::counts`], where those that were ever begun are counted.
const BEGUN: u64 = 1 << OPEN_BITS;
/// Bits of the lower part, where the open ones are counted: more than there can be connections.
const OPEN_BITS: u32 = 24;
const OPEN: u64 = BEGUN - 1;

/// One worker's place at one instance. Only that worker writes to it in the hot path, its reference count included.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct InFlightCounter {
    /// Exchanges begun and exchanges open, in one number, so that both cost one instruction.
    counts: AtomicU64,
    /// Milliseconds from the instance's epoch to the end of the last exchange.
    last_use_ms: AtomicU64,
    shared_wanted: AtomicBool,
    worker: usize,
    /// Whether there is a limiter, or a number to be looked at: one question for the hot path.
    is_watched: bool,
    /// After how many exchanges the supervisor looks at their number; 0: never.
    look_every: u64,
    /// The places that all workers share, if the service limits them.
    limiter: Option<Arc<ConcurrencyLimiter>>,
    instance: Arc<Instance>,
}

impl InFlightCounter {
    /// `limiter`: if exchanges are limited; `look_every`: after how many the supervisor is told, 0 for never.
    pub(crate) fn new(
        instance: Arc<Instance>,
        worker: usize,
        limiter: Option<Arc<ConcurrencyLimiter>>,
        look_every: u64,
    ) -> Self {
        let last_use_ms = AtomicU64::new(instance.epoch.elapsed().as_millis() as u64);
        let (counts, shared_wanted) = (AtomicU64::new(0), AtomicBool::new(false));
        let is_watched = limiter.is_some() || look_every != 0;
        Self { counts, last_use_ms, shared_wanted, worker, is_watched, look_every, limiter, instance }
    }

    /// Counts an exchange if the instance is ready and has room.
    #[inline]
    pub(crate) fn enter(self: Arc<Self>) -> Option<Lease> {
        if self.is_watched {
            return self.enter_watched();
        }
        self.counts.fetch_add(BEGUN + 1, Ordering::SeqCst);
        let lease = Lease { counter: self }; // un-counts when dropped
        lease.counter.instance.is(InstanceState::Ready).then_some(lease)
    }

    #[inline(never)] // so that it costs the others nothing
    fn enter_watched(self: Arc<Self>) -> Option<Lease> {
        if self.limiter.as_ref().is_some_and(|limiter| !limiter.enter()) {
            return None;
        }
        let begun = (self.counts.fetch_add(BEGUN + 1, Ordering::SeqCst) >> OPEN_BITS) + 1;
        if !self.instance.is(InstanceState::Ready) {
            self.uncount();
            // It takes nobody any more, so nobody waits for the place: no `leave`, which could want a lock that is held
            // here.
            self.limiter.as_ref().inspect(|limiter| limiter.undo());
            return None;
        }
        if self.look_every != 0 && begun.is_multiple_of(self.look_every) {
            self.instance.notice_used();
        }
        Some(Lease { counter: self })
    }

    #[inline(never)]
    fn leave_watched(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.leave();
        }
    }

    /// Whether it is worth trying to enter: ready, not told to drain, and a place is free.
    fn has_room(&self) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.free() > 0)
            && self.instance.is(InstanceState::Ready)
            && !self.instance.drain_announced()
    }

    pub(crate) fn limiter(&self) -> Option<&ConcurrencyLimiter> {
        self.limiter.as_deref()
    }

    pub(crate) fn run(&self) -> u64 {
        self.instance.run
    }

    pub(crate) fn open(&self) -> u64 {
        self.counts.load(Ordering::SeqCst) & OPEN
    }

    /// Exchanges that were ever begun.
    pub(crate) fn begun(&self) -> u64 {
        self.counts.load(Ordering::Relaxed) >> OPEN_BITS
    }

    pub(crate) fn last_use(&self) -> Instant {
        self.instance.epoch + Duration::from_millis(self.last_use_ms.load(Ordering::SeqCst))
    }

    pub(crate) fn want_shared(&self) {
        if !self.shared_wanted.swap(true, Ordering::SeqCst) {
            self.instance.notice(Notice::WantShared { run: self.instance.run, worker: self.worker });
        }
    }

    /// The supervisor has taken the notice.
    pub(crate) fn take_wanted(&self) {
        self.shared_wanted.store(false, Ordering::SeqCst);
    }

    fn uncount(&self) {
        if self.counts.fetch_sub(1, Ordering::SeqCst) & OPEN == 1 && self.instance.is(InstanceState::Draining) {
            self.instance.notice_idle();
        }
    }
}

/// Enters the instance with the fewest exchanges; the first of several, so that those behind are used only when need
/// be.
pub(crate) fn pick<'a>(counters: &(impl Iterator<Item = &'a Arc<InFlightCounter>> + Clone)) -> Option<Lease> {
    /// Tries, each lost to another worker.
    const MAX_TRIES: usize = 8;
    for _ in 0..MAX_TRIES {
        let load = |counter: &&Arc<InFlightCounter>| counter.limiter.as_ref().map_or(0, |limiter| limiter.in_use());
        let best = counters.clone().filter(|counter| counter.has_room()).min_by_key(load)?;
        if let Some(lease) = Arc::clone(best).enter() {
            return Some(lease);
        }
    }
    None
}

/// Takes a ready instance out of use, into another state, if no exchange is open, in the order that the picture above
/// needs.
pub(crate) fn close_if_unused(instance: &Instance, counters: &[Arc<InFlightCounter>], state: InstanceState) -> bool {
    instance.set_state(state);
    let unused = counters.iter().all(|counter| counter.open() == 0);
    if !unused {
        instance.reopen();
    }
    unused
}

/// One open exchange with an instance. While it is held the instance is not stopped for idleness; hold it until both
/// directions of the exchange have ended (or the upgraded connection is closed).
#[derive(Debug)]
pub struct Lease {
    counter: Arc<InFlightCounter>,
}

impl Lease {
    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.counter.instance
    }

    /// Pipe: this worker has no shared connection to the instance; one is asked for and comes as
    /// [`WorkerEvent::Connected`](crate::WorkerEvent::Connected). Does nothing if one was asked for less than
    /// [`HELLO_TIMEOUT`](crate::limits::HELLO_TIMEOUT) ago.
    pub fn want_shared(&self) {
        self.counter.want_shared();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let counter = &*self.counter;
        // The time first: who sees no exchange open must see when the last one ended.
        let now_ms = counter.instance.epoch.elapsed().as_millis() as u64;
        counter.last_use_ms.store(now_ms, Ordering::Release);
        counter.uncount();
        if counter.is_watched {
            counter.leave_watched();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::{Endpoint, Which};
    use crate::service::ServiceId;
    use tokio::sync::mpsc;

    fn instance(notices: mpsc::UnboundedSender<Notice>) -> Arc<Instance> {
        let which = Which { service: ServiceId(0), run: 1, number: 1 };
        Arc::new(Instance::new(which, Endpoint::Pipe, Instant::now(), notices))
    }

    /// Before its 504 is sent, whatever the supervisor's thread is doing just then.
    #[test]
    fn nobody_enters_an_instance_that_was_reported_as_stuck() {
        let (notices, mut noticed) = mpsc::unbounded_channel();
        let instance = instance(notices);
        instance.set_state(InstanceState::Ready);
        let counter = Arc::new(InFlightCounter::new(Arc::clone(&instance), 0, None, 0));
        let stuck = Arc::clone(&counter).enter().unwrap();
        instance.report_stuck();
        assert!(Arc::clone(&counter).enter().is_none());
        assert!(!close_if_unused(&instance, &[Arc::clone(&counter)], InstanceState::Draining), "a request is open");
        assert!(Arc::clone(&counter).enter().is_none());
        assert!(noticed.try_recv().is_ok());
        drop(stuck);
    }

    /// Two workers enter and leave while the instance is closed and opened: nobody is inside while it is closed. With
    /// the two steps of `close_if_unused` exchanged this fails within milliseconds on two processors.
    #[test]
    fn nobody_is_inside_a_closed_instance() {
        let (notices, mut noticed) = mpsc::unbounded_channel();
        let instance = instance(notices);
        instance.set_state(InstanceState::Ready);
        let counters: Vec<_> =
            (0..2).map(|worker| Arc::new(InFlightCounter::new(Arc::clone(&instance), worker, None, 0))).collect();
        let (closed, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let entered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for counter in &counters {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        if let Some(lease) = Arc::clone(counter).enter() {
                            assert!(!closed.load(Ordering::SeqCst), "inside a closed instance");
                            entered.fetch_add(1, Ordering::SeqCst);
                            drop(lease);
                        }
                        std::hint::spin_loop();
                    }
                });
            }
            let (mut closings, begun) = (0, Instant::now());
            while closings < 20_000 && begun.elapsed() < Duration::from_secs(5) {
                if close_if_unused(&instance, &counters, InstanceState::Draining) {
                    closed.store(true, Ordering::SeqCst);
                    for _ in 0..50 {
                        std::hint::spin_loop();
                    }
                    closings += 1;
                    closed.store(false, Ordering::SeqCst);
                    instance.set_state(InstanceState::Ready);
                }
                while noticed.try_recv().is_ok() {
                    instance.take_idle_notice();
                }
            }
            done.store(true, Ordering::SeqCst);
            assert!(closings > 100, "{closings}");
        });
        assert!(entered.load(Ordering::SeqCst) > 100);
    }

    #[test]
    fn the_end_of_the_last_exchange_of_a_draining_instance_is_told() {
        let (notices, mut noticed) = mpsc::unbounded_channel();
        let instance = instance(notices);
        instance.set_state(InstanceState::Ready);
        let counter = Arc::new(InFlightCounter::new(Arc::clone(&instance), 0, None, 0));
        let (first, second) = (Arc::clone(&counter).enter().unwrap(), Arc::clone(&counter).enter().unwrap());
        assert!(!close_if_unused(&instance, std::slice::from_ref(&counter), InstanceState::Frozen));
        instance.set_state(InstanceState::Draining);
        drop(first);
        assert!(noticed.try_recv().is_err());
        drop(second);
        assert!(matches!(noticed.try_recv(), Ok(Notice::Idle { run: 1 })));
        assert!(Arc::clone(&counter).enter().is_none());
    }
}
