//! The time that reads may take: one queue for all of a worker's, instead of a timer for each.
//!
//! All have the same time, so the one that begins first is late first: the queue is in order as it is. What is over is
//! taken from its front by whoever comes next, and one task wakes up for what is not.
//!
//! A timer of the runtime costs a place in its wheel for each read, and aligns every future that has one within to two
//! lines of the processor's cache.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// No answer within the budget.
pub(super) struct Late;

/// See the module.
#[derive(Debug)]
pub(super) struct Budget {
    time: Duration,
    waits: RefCell<VecDeque<(Instant, Rc<Wait>)>>,
    /// Told when there is something in the queue again.
    first: Notify,
    /// Somebody looks at the queue.
    is_watched: Cell<bool>,
}

#[derive(Debug)]
struct Wait {
    is_late: Cell<bool>,
    /// None: it is over.
    waker: RefCell<Option<Waker>>,
}

impl Budget {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, waits: RefCell::default(), first: Notify::new(), is_watched: Cell::new(false) }
    }

    /// Waits for a future for the budget, from `began` on. What has become ready in the same turn of the event loop as
    /// the time was over counts as in time.
    ///
    /// # Cancel safety
    /// That of the future.
    pub(super) async fn within<T>(&self, began: Instant, future: impl Future<Output = T>) -> Result<T, Late> {
        if !self.is_watched.get() {
            return Box::pin(within(self.time, future)).await;
        }
        let mut future = pin!(future);
        let (mut place, mut is_last_look) = (None, false);
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            let Place(wait) = place.get_or_insert_with(|| self.enter(began, cx.waker()));
            if !wait.is_late.get() {
                wait.wakes(cx);
            } else if std::mem::replace(&mut is_last_look, true) {
                return Poll::Ready(Err(Late));
            } else {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// Tells those that are late, for as long as it is polled.
    ///
    /// # Cancel safety
    /// Dropped, it tells all that wait that they are late; later ones have a timer each.
    pub(super) async fn watch(&self) {
        let _watch = Watch::begin(self);
        loop {
            match self.next(Instant::now()) {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => self.first.notified().await,
            }
        }
    }

    fn enter(&self, began: Instant, waker: &Waker) -> Place {
        let mut waits = self.waits.borrow_mut();
        while waits.front().is_some_and(|(_, wait)| wait.is_over()) {
            waits.pop_front();
        }
        if waits.is_empty() {
            self.first.notify_one();
        }
        let wait = Rc::new(Wait { is_late: Cell::new(false), waker: RefCell::new(Some(waker.clone())) });
        waits.push_back((began + self.time, Rc::clone(&wait)));
        Place(wait)
    }

    /// Tells those that are late by now, and says when the next one will be.
    fn next(&self, now: Instant) -> Option<Instant> {
        let mut waits = self.waits.borrow_mut();
        while let Some((due, wait)) = waits.front() {
            if *due > now && !wait.is_over() {
                return Some(*due);
            }
            // A wake only queues the task, so nothing is borrowed twice.
            wait.late();
            waits.pop_front();
        }
        None
    }
}

impl Wait {
    fn is_over(&self) -> bool {
        self.waker.borrow().is_none()
    }

    fn late(&self) {
        self.is_late.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wakes(&self, cx: &Context<'_>) {
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *known = Some(cx.waker().clone());
        }
    }
}

/// A place in the queue; over when dropped.
struct Place(Rc<Wait>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waker.take();
    }
}

struct Watch<'b>(&'b Budget);

impl<'b> Watch<'b> {
    fn begin(budget: &'b Budget) -> Self {
        budget.is_watched.set(true);
        Self(budget)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.is_watched.set(false);
        self.0.waits.take().into_iter().for_each(|(_, wait)| wait.late());
    }
}

/// The same with a timer of its own, for other times.
pub(super) async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Result<T, Late> {
    let mut future = pin!(future);
    if let Ok(value) = tokio::time::timeout(time, &mut future).await {
        return Ok(value);
    }
    tokio::task::yield_now().await;
    tokio::select! {
        biased;
        value = &mut future => Ok(value),
        () = std::future::ready(()) => Err(Late),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const TIME: Duration = Duration::from_millis(5);

    /// Polls once.
    fn look<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn late_after_its_time_and_not_before_and_only_after_another_look() {
        let (budget, now) = (Budget::new(TIME), Instant::now());
        let _watch = Watch::begin(&budget);
        let mut one = pin!(budget.within(now, pending::<()>()));
        let mut other = pin!(budget.within(now + TIME, pending::<()>()));
        assert!(look(one.as_mut()).is_pending() && look(other.as_mut()).is_pending());
        assert_eq!(budget.next(now), Some(now + TIME));
        assert!(look(one.as_mut()).is_pending());
        assert_eq!(budget.next(now + TIME), Some(now + TIME * 2));
        assert!(look(one.as_mut()).is_pending(), "what has come in the same turn counts");
        assert!(matches!(look(one.as_mut()), Poll::Ready(Err(Late))));
        assert!(look(other.as_mut()).is_pending());
    }

    #[test]
    fn what_is_over_leaves_the_queue_when_the_next_one_comes() {
        let (budget, now) = (Budget::new(TIME), Instant::now());
        let _watch = Watch::begin(&budget);
        assert!(matches!(look(pin!(budget.within(now, ready(1)))), Poll::Ready(Ok(1))));
        assert!(budget.waits.borrow().is_empty(), "it did not wait");
        for _ in 0..100 {
            assert!(look(pin!(budget.within(now, pending::<()>()))).is_pending());
        }
        assert_eq!(budget.waits.borrow().len(), 1);
        assert_eq!(budget.next(now), None);
    }

    #[test]
    fn nobody_waits_for_ever_when_nobody_watches_any_more() {
        let (budget, now) = (Budget::new(TIME), Instant::now());
        let watch = Watch::begin(&budget);
        let mut one = pin!(budget.within(now, pending::<()>()));
        assert!(look(one.as_mut()).is_pending());
        drop(watch);
        assert!(look(one.as_mut()).is_pending());
        assert!(matches!(look(one.as_mut()), Poll::Ready(Err(Late))));
    }
}
