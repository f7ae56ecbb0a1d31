//! Requests that wait because their service has no server, or all of its servers have as many as they may: in order,
//! and bounded in number and time. All workers share a line.
//!
//! The first in line looks for a place when one may have become free, and from time to time: that a server is no longer
//! left out is told to nobody. Whoever comes meanwhile stands behind it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotlight_supervisor::QueueLimits;
use tokio::sync::Notify;

/// How often the first in line looks by itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Those that wait for servers of one service.
#[derive(Debug)]
pub(crate) struct Line {
    limits: QueueLimits,
    waiting: Mutex<VecDeque<Arc<Notify>>>,
    length: AtomicUsize,
    /// How often somebody has come when nobody waited.
    spells: AtomicU64,
    full: AtomicU64,
    late: AtomicU64,
}

/// A request's place in line, while this lives.
pub(crate) struct InLine<'a> {
    line: &'a Line,
    called: Arc<Notify>,
}

impl Line {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            waiting: Mutex::default(),
            length: AtomicUsize::new(0),
            spells: AtomicU64::new(0),
            full: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    pub(crate) fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// Requests that wait.
    pub(crate) fn length(&self) -> usize {
        self.length.load(Relaxed)
    }

    /// A number of the time since when somebody waits without a break; from 1 on.
    pub(crate) fn spell(&self) -> u64 {
        self.spells.load(Relaxed)
    }

    /// Requests that were turned away: the line was full, or their time was over.
    pub(crate) fn refused(&self) -> (u64, u64) {
        (self.full.load(Relaxed), self.late.load(Relaxed))
    }

    /// The last place; `None` if there is none.
    pub(crate) fn join(&self) -> Option<InLine<'_>> {
        let mut waiting = self.lock();
        if waiting.len() >= self.limits.max {
            self.full.fetch_add(1, Relaxed);
            return None;
        }
        if waiting.is_empty() {
            self.spells.fetch_add(1, Relaxed);
        }
        let called = Arc::new(Notify::new());
        waiting.push_back(Arc::clone(&called));
        self.length.store(waiting.len(), Relaxed);
        Some(InLine { line: self, called })
    }

    /// A place may have become free, or a server has come.
    pub(crate) fn call_first(&self) {
        if self.length() > 0
            && let Some(first) = self.lock().front()
        {
            first.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InLine<'_> {
    /// What `look` finds when this is the first; `None` if that takes longer than it may. `waited`: for how long the
    /// request has been in line before.
    ///
    /// # Cancel safety
    /// Dropping it takes nothing.
    pub(crate) async fn wait<T>(&self, waited: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
        let found = tokio::time::timeout(self.line.limits.timeout.saturating_sub(waited), self.look(look)).await;
        if found.is_err() {
            self.line.late.fetch_add(1, Relaxed);
        }
        found.ok()
    }

    async fn look<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            if self.is_first()
                && let Some(found) = look()
            {
                return found;
            }
            let _by_itself = tokio::time::timeout(LOOK_EVERY, self.called.notified()).await;
        }
    }

    fn is_first(&self) -> bool {
        self.line.lock().front().is_some_and(|first| Arc::ptr_eq(first, &self.called))
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut waiting = self.line.lock();
        waiting.retain(|one| !Arc::ptr_eq(one, &self.called));
        self.line.length.store(waiting.len(), Relaxed);
        // There may be room for the next one as well.
        if let Some(first) = waiting.front() {
            first.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn line(max: usize, timeout: Duration) -> Line {
        Line::new(QueueLimits { max, timeout })
    }

    #[tokio::test]
    async fn first_come_first_served() {
        let (line, room) = (line(8, LONG), Cell::new(0));
        let take = || (room.get() > 0).then(|| room.set(room.get() - 1));
        let order = std::cell::RefCell::new(Vec::new());
        let one = |number| {
            let place = line.join().unwrap();
            let (order, take) = (&order, &take);
            async move {
                place.wait(Duration::ZERO, take).await.unwrap();
                order.borrow_mut().push(number);
            }
        };
        let all = async { tokio::join!(one(0), one(1), one(2), one(3)) };
        let giving = async {
            for _ in 0..4 {
                tokio::task::yield_now().await;
                room.set(room.get() + 1);
                line.call_first();
            }
        };
        tokio::join!(all, giving);
        assert_eq!(*order.borrow(), [0, 1, 2, 3]);
        assert_eq!((line.length(), line.refused()), (0, (0, 0)));
    }

    #[tokio::test]
    async fn so_many_and_so_long() {
        let line = line(2, Duration::from_millis(1));
        let (first, second) = (line.join().unwrap(), line.join().unwrap());
        assert!(line.join().is_none());
        assert_eq!(second.wait(LONG, || None::<()>).await, None, "it has waited before");
        assert_eq!(first.wait(Duration::ZERO, || None::<()>).await, None);
        drop(first);
        assert_eq!(second.look(|| Some(7)).await, 7, "the next one is first now");
        assert_eq!(line.refused(), (1, 2));
    }

    #[tokio::test]
    async fn the_first_looks_by_itself() {
        let (line, looks) = (line(1, LONG), Cell::new(0));
        let place = line.join().unwrap();
        let found = place.wait(Duration::ZERO, || {
            looks.set(looks.get() + 1);
            (looks.get() > 2).then_some(())
        });
        assert_eq!(found.await, Some(()));
    }
}
