//! A worker that has nothing to do but to wait for Redis does not go to sleep at once.
//!
//! A server nearby answers in less time than it takes to wake a sleeping processor, on virtual machines above all. So
//! while one read is all that a worker waits for, its event loop looks for the answer again and again, for
//! [`BUSY_POLL`](crate::options::BUSY_POLL). Whatever else there is to do is done meanwhile. Where answers take longer
//! it is soon given up: after [`MAX_IN_VAIN`] reads in a row for [`REST`].

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Times in a row without an answer.
const MAX_IN_VAIN: u32 = 4;
/// Then none keeps it awake for so long; and from then on one in so long, until one has its answer in time.
const REST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct BusyPoll {
    patience: Option<Duration>,
    /// Reads that are waited for.
    reads: Cell<usize>,
    /// Reads so far.
    count: Cell<u64>,
    /// One has begun while there was no other.
    begun: Notify,
    luck: RefCell<Luck>,
}

impl BusyPoll {
    /// `None`: never.
    pub(super) fn new(patience: Option<Duration>) -> Self {
        Self { patience, reads: Cell::new(0), count: Cell::new(0), begun: Notify::new(), luck: RefCell::default() }
    }

    /// A read begins, at `now`; it ends when what this returns is dropped.
    pub(super) fn read(&self, now: Instant) -> Reading<'_> {
        let others = self.reads.replace(self.reads.get() + 1);
        self.count.set(self.count.get() + 1);
        if others == 0 && self.patience.is_some() && self.luck.borrow().permits(now) {
            self.begun.notify_one();
        }
        Reading(self)
    }

    /// Keeps the event loop from sleeping, for as long as it is polled: as a task of its own, as it is polled in each
    /// turn then.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost but that.
    pub(super) async fn keep_awake(&self) {
        let Some(patience) = self.patience else { return };
        loop {
            self.begun.notified().await;
            let (begun, read) = (Instant::now(), self.count.get());
            while self.is_alone(read) && begun.elapsed() < patience {
                tokio::task::yield_now().await; // behind a look at what has come
            }
            self.judge(read, Instant::now());
        }
    }

    /// Whether this read, the last one that began, is all that is waited for.
    fn is_alone(&self, read: u64) -> bool {
        self.reads.get() == 1 && self.count.get() == read
    }

    fn judge(&self, read: u64, now: Instant) {
        let mut luck = self.luck.borrow_mut();
        if self.is_alone(read) {
            luck.in_vain(now);
        } else if self.count.get() == read {
            luck.answered();
        } // Else another has begun, and nothing was learnt.
    }
}

/// A read that is waited for.
pub(super) struct Reading<'b>(&'b BusyPoll);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reads.set(self.0.reads.get() - 1);
    }
}

/// Whether answers come while somebody stays awake for them.
#[derive(Debug, Default)]
struct Luck {
    in_vain: u32,
    rests_until: Option<Instant>,
}

impl Luck {
    fn permits(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| now >= until)
    }

    fn in_vain(&mut self, now: Instant) {
        self.in_vain = self.in_vain.saturating_add(1);
        if self.in_vain >= MAX_IN_VAIN {
            self.rests_until = Some(now + REST);
        }
    }

    fn answered(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};

    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(3600));

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// One turn of the event loop: whether another one is wanted at once.
    fn turn(keeper: Pin<&mut impl Future<Output = ()>>) -> bool {
        let woken = Arc::new(Woken::default());
        assert!(keeper.poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken)))).is_pending());
        woken.0.load(Ordering::Relaxed)
    }

    #[test]
    fn one_read_keeps_the_worker_awake_until_its_answer() {
        let busy = BusyPoll::new(LONG);
        let mut keeper = pin!(busy.keep_awake());
        assert!(!turn(keeper.as_mut()), "nobody waits");
        for _ in 0..3 {
            let reading = busy.read(Instant::now());
            assert!(turn(keeper.as_mut()) && turn(keeper.as_mut()));
            drop(reading);
            assert!(!turn(keeper.as_mut()));
        }
    }

    #[test]
    fn several_do_not() {
        let busy = BusyPoll::new(LONG);
        let mut keeper = pin!(busy.keep_awake());
        let one = busy.read(Instant::now());
        assert!(turn(keeper.as_mut()));
        let other = busy.read(Instant::now());
        assert!(!turn(keeper.as_mut()));
        drop(one);
        assert!(!turn(keeper.as_mut()), "the other has waited for a while");
        drop(other);
        let _again = busy.read(Instant::now());
        assert!(turn(keeper.as_mut()));
    }

    #[test]
    fn answers_that_take_longer_are_not_stayed_awake_for() {
        let busy = BusyPoll::new(Some(Duration::ZERO));
        let mut keeper = pin!(busy.keep_awake());
        let now = Instant::now();
        for in_vain in 1..=MAX_IN_VAIN {
            let _reading = busy.read(now);
            assert!(!turn(keeper.as_mut()));
            assert_eq!(busy.luck.borrow().in_vain, in_vain);
        }
        let _reading = busy.read(now);
        assert!(!turn(keeper.as_mut()));
        assert_eq!(busy.luck.borrow().in_vain, MAX_IN_VAIN, "it was not even tried");
    }

    #[test]
    fn after_a_rest_one_is_tried() {
        let (mut luck, now) = (Luck::default(), Instant::now());
        for _ in 0..MAX_IN_VAIN {
            assert!(luck.permits(now));
            luck.in_vain(now);
        }
        assert!(!luck.permits(now) && luck.permits(now + REST));
        luck.in_vain(now + REST);
        assert!(!luck.permits(now + REST), "one try");
        luck.answered();
        luck.in_vain(now + REST);
        assert!(luck.permits(now + REST), "the count begins anew");
    }

    #[test]
    fn none_where_it_is_switched_off() {
        let busy = BusyPoll::new(None);
        let _reading = busy.read(Instant::now());
        let mut keeper = pin!(busy.keep_awake());
        assert!(keeper.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
