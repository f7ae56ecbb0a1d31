//! Coarse deadlines for connections and exchanges: one sweep for all of them instead of one timer each.
//!
//! A timer of the runtime costs a lock and a place in a wheel every time it is moved, and a gateway moves several per
//! request. Here moving a deadline is one store; a task looks at all of them every [`TICK`] while there are any, and
//! does nothing while there are none. A deadline is never early and at most two ticks late.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;

/// How often deadlines are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(TICK_MS as u64);
const TICK_MS: u32 = 100;
/// There is a whole number of them in a second.
const TICKS_PER_SECOND: u64 = (1000 / TICK_MS) as u64;

const NEVER: u64 = u64::MAX;

struct Slot {
    due: u64,
    expired: bool,
    waker: Option<Waker>,
}

/// All deadlines of one worker.
pub(crate) struct Deadlines {
    slots: RefCell<Slab<Slot>>,
    tick: Cell<u64>,
    first: Notify,
}

impl Deadlines {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { slots: RefCell::new(Slab::new()), tick: Cell::new(0), first: Notify::new() })
    }

    /// A deadline that is not set.
    pub(crate) fn deadline(self: &Rc<Self>) -> Deadline {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            self.first.notify_one();
        }
        let key = slots.insert(Slot { due: NEVER, expired: false, waker: None });
        Deadline { owner: Rc::clone(self), key }
    }

    /// Looks at the deadlines for as long as it is polled; runs as a task of the worker.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost but the sweep itself.
    pub(crate) async fn sweep(self: Rc<Self>) {
        loop {
            while self.slots.borrow().is_empty() {
                self.first.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.advance();
        }
    }

    /// Wakes every task that waits for a deadline, so that it looks at what else has changed.
    pub(crate) fn wake_all(&self) {
        for (_, slot) in self.slots.borrow().iter() {
            if let Some(waker) = &slot.waker {
                waker.wake_by_ref();
            }
        }
    }

    fn advance(&self) {
        let now = self.tick.get() + 1;
        self.tick.set(now);
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            if slot.due <= now {
                slot.due = NEVER;
                slot.expired = true;
                // A wake only queues the task, so no slot is touched while this borrow lasts.
                if let Some(waker) = slot.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

/// Ticks until so much time has passed. One more than it has, because the next tick may be due at once.
fn ticks(time: Duration) -> u64 {
    // In parts: the whole time in milliseconds has 128 bits, and they are slow to divide.
    let more = u64::from(time.subsec_millis().div_ceil(TICK_MS));
    time.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(more + 1)
}

/// One deadline; gone when dropped.
pub(crate) struct Deadline {
    owner: Rc<Deadlines>,
    key: usize,
}

impl Deadline {
    /// Due `after` from now; replaces what was set before.
    pub(crate) fn set(&self, after: Duration) {
        let due = self.owner.tick.get().saturating_add(ticks(after));
        if let Some(slot) = self.owner.slots.borrow_mut().get_mut(self.key) {
            slot.due = due;
            slot.expired = false;
        }
    }

    /// Due `after` from now, or never.
    pub(crate) fn set_or_clear(&self, after: Option<Duration>) {
        match after {
            Some(after) => self.set(after),
            None => self.clear(),
        }
    }

    /// Never due.
    pub(crate) fn clear(&self) {
        if let Some(slot) = self.owner.slots.borrow_mut().get_mut(self.key) {
            slot.due = NEVER;
            slot.expired = false;
        }
    }

    /// Ready once the deadline has passed; wakes the task then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut slots = self.owner.slots.borrow_mut();
        let Some(slot) = slots.get_mut(self.key) else { return Poll::Pending };
        if slot.expired {
            return Poll::Ready(());
        }
        match &slot.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => slot.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.owner.slots.borrow_mut().try_remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(deadline: &Deadline) -> bool {
        deadline.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn due_after_its_time_and_not_before() {
        let all = Deadlines::new();
        let one = all.deadline();
        one.set(TICK * 3);
        for _ in 0..3 {
            all.advance();
            assert!(!expired(&one));
        }
        all.advance();
        assert!(expired(&one));
    }

    #[test]
    fn whole_ticks_and_one_more() {
        for (time_ms, expected) in [(0, 1), (1, 2), (100, 2), (101, 3), (999, 11), (1000, 11), (60_001, 602)] {
            assert_eq!(ticks(Duration::from_millis(time_ms)), expected, "{time_ms} ms");
        }
        let all = Deadlines::new();
        let one = all.deadline();
        (0..2).for_each(|_| all.advance());
        one.set(Duration::MAX);
        all.advance();
        assert!(!expired(&one));
    }

    #[test]
    fn never_early_between_ticks() {
        let all = Deadlines::new();
        let one = all.deadline();
        one.set(TICK * 3 / 2);
        (0..2).for_each(|_| all.advance()); // the first may come at once: hardly more than one tick has gone by
        assert!(!expired(&one));
        all.advance();
        assert!(expired(&one));
    }

    #[test]
    fn moved_and_cleared() {
        let all = Deadlines::new();
        let one = all.deadline();
        one.set(Duration::ZERO);
        one.set(TICK * 5);
        all.advance();
        assert!(!expired(&one));
        one.clear();
        (0..10).for_each(|_| all.advance());
        assert!(!expired(&one));
    }

    #[test]
    fn dropped_deadlines_leave_nothing() {
        let all = Deadlines::new();
        drop(all.deadline());
        assert!(all.slots.borrow().is_empty());
    }
}
