//! How many exchanges a worker has open at an instance.
//!
//! ```text
//!  worker                                   supervisor
//!  open += 1          (SeqCst)              state = draining   (SeqCst)
//!  state == ready ?   (SeqCst)              sum of open == 0 ? (SeqCst)
//!    yes: counted                               yes: stop
//!    no:  open -= 1, ask the supervisor       no:  state = ready, look again later
//! ```
//! In the one order that all of these agree on, either the worker's count comes before the sum (which sees it and does
//! not stop), or the sum, and so the state, comes before the count (and the worker sees `draining`): Dekker's argument.
//! An end of the last exchange of a draining instance is seen by the same argument, mirrored.

use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::instance::{Instance, InstanceState};
use crate::notice::Notice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One exchange in the upper part of [`InFlightCounter::counts`], where those that were ever begun are counted.
const BEGUN: u64 = 1 << OPEN_BITS;
/// Bits of the lower part, where the open ones are counted: more than there can be connections.
const OPEN_BITS: u32 = 24;
const OPEN: u64 = BEGUN - 1;

/// One worker's count of exchanges at one instance. Only that worker writes to it in the hot path, its reference count
/// included.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct InFlightCounter {
    /// Exchanges begun and exchanges open, in one number, so that both cost one instruction.
    counts: AtomicU64,
    /// Milliseconds from the instance's epoch to the end of the last exchange.
    last_use_ms: AtomicU64,
    shared_wanted: AtomicBool,
    worker: usize,
    /// Whether any of the next three is set: one check in the hot path.
    is_watched: bool,
    tells_idle: TellsIdle,
    /// After how many exchanges the supervisor is told to look at their number; 0: never.
    look_every: u64,
    /// The places that all workers share, if the service limits them.
    limiter: Option<Arc<ConcurrencyLimiter>>,
    instance: Arc<Instance>,
}

/// Whether the supervisor hears of it when the last exchange of an instance has ended that takes further ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TellsIdle {
    Never,
    /// While [`Instance::set_idle_wanted`] says so.
    WhenAsked,
}

impl InFlightCounter {
    /// `limiter`: if exchanges are limited; `look_every`: after how many the supervisor is told, 0 for never.
    pub(crate) fn new(
        instance: Arc<Instance>,
        worker: usize,
        limiter: Option<Arc<ConcurrencyLimiter>>,
        look_every: u64,
        tells_idle: TellsIdle,
    ) -> Self {
        let last_use_ms = AtomicU64::new(instance.epoch.elapsed().as_millis() as u64);
        let (counts, shared_wanted) = (AtomicU64::new(0), AtomicBool::new(false));
        let is_watched = limiter.is_some() || look_every != 0 || tells_idle == TellsIdle::WhenAsked;
        Self { counts, last_use_ms, shared_wanted, worker, is_watched, tells_idle, look_every, limiter, instance }
    }

    /// Counts an exchange if the instance is ready and has room; returns whether it did.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        if self.is_watched {
            return self.enter_watched();
        }
        self.counts.fetch_add(BEGUN + 1, Ordering::SeqCst);
        let entered = self.instance.is(InstanceState::Ready);
        if !entered {
            self.leave();
        }
        entered
    }

    #[inline(never)] // so that it costs the others nothing
    fn enter_watched(&self) -> bool {
        if self.limiter.as_ref().is_some_and(|limiter| !limiter.enter()) {
            return false;
        }
        let begun = (self.counts.fetch_add(BEGUN + 1, Ordering::SeqCst) >> OPEN_BITS) + 1;
        if !self.instance.is(InstanceState::Ready) {
            self.uncount();
            // It takes nobody any more, so nobody waits for the place.
            self.limiter.as_ref().inspect(|limiter| limiter.leave());
            return false;
        }
        if self.look_every != 0 && begun.is_multiple_of(self.look_every) {
            self.instance.notice_used();
        }
        true
    }

    /// Un-counts an exchange. Where exchanges are limited, the caller then lets a waiting request in.
    #[inline]
    pub(crate) fn leave(&self) {
        // The time first: who sees no exchange open must see when the last one ended.
        let now_ms = self.instance.epoch.elapsed().as_millis() as u64;
        self.last_use_ms.store(now_ms, Ordering::Release);
        self.uncount();
        if self.is_watched {
            self.leave_watched();
        }
    }

    #[inline(never)]
    fn leave_watched(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.leave();
        }
        // After the count was lowered: who asks looks at the counts after having asked.
        if self.tells_idle == TellsIdle::WhenAsked && self.instance.is_idle_wanted() && self.open() == 0 {
            self.instance.notice_idle();
        }
    }

    /// Whether it is worth trying to enter: ready, not told to drain, and a place is free.
    pub(crate) fn has_room(&self) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.free() > 0)
            && self.instance.is(InstanceState::Ready)
            && !self.instance.drain_announced()
    }

    pub(crate) fn limiter(&self) -> Option<&ConcurrencyLimiter> {
        self.limiter.as_deref()
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    pub(crate) fn open(&self) -> u64 {
        self.counts.load(Ordering::SeqCst) & OPEN
    }

    /// How many exchanges were begun, the ended ones included.
    pub(crate) fn begun(&self) -> u64 {
        self.counts.load(Ordering::Relaxed) >> OPEN_BITS
    }

    pub(crate) fn last_use(&self) -> Instant {
        self.instance.epoch + Duration::from_millis(self.last_use_ms.load(Ordering::SeqCst))
    }

    pub(crate) fn want_shared(&self) {
        if !self.shared_wanted.swap(true, Ordering::SeqCst) {
            self.instance.notice(Notice::WantShared { instance: self.instance.id, worker: self.worker });
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

/// Takes a ready instance out of use if no exchange is open: sets the state, then sums the counters, in the order of
/// the picture above.
pub(crate) fn close_if_unused<'a>(
    instance: &Instance,
    mut counters: impl Iterator<Item = &'a InFlightCounter>,
    state: InstanceState,
) -> bool {
    instance.set_state(state);
    let unused = counters.all(|counter| counter.open() == 0);
    if !unused {
        instance.reopen();
    }
    unused
}
