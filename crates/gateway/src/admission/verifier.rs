//! Credentials whose verification takes long are verified on threads of their own, a few at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Runs verifications beside the workers.
pub(super) struct Verifier {
    /// One permit for each verification that may run at the same time.
    running: Semaphore,
    /// Callers whose verification runs or waits.
    waiting: AtomicUsize,
    max_waiting: usize,
}

impl Verifier {
    /// `max_running` verifications run at a time, and at most `max_waiting` callers wait for their result.
    pub(super) const fn new(max_running: usize, max_waiting: usize) -> Self {
        Self { running: Semaphore::const_new(max_running), waiting: AtomicUsize::new(0), max_waiting }
    }

    /// Runs `verify` on another thread. `None`: too many callers wait already, or `verify` panicked.
    ///
    /// # Cancel safety
    /// Dropping it leaves a verification that has begun to its end, which counts as running until then.
    pub(super) async fn run<T: Send + 'static>(
        &'static self,
        verify: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _caller = self.enter()?;
        let permit = self.running.acquire().await.ok()?;
        let verification = tokio::task::spawn_blocking(move || {
            let result = verify();
            drop(permit); // with the work, whether or not the caller still waits for it
            result
        });
        verification.await.ok()
    }

    fn enter(&self) -> Option<Caller<'_>> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let caller = Caller(&self.waiting); // dropped, it is counted down again
        (waiting < self.max_waiting).then_some(caller)
    }
}

/// A caller that is counted as waiting.
struct Caller<'a>(&'a AtomicUsize);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn callers_beyond_the_limit_get_nothing() {
        static VERIFIER: Verifier = Verifier::new(1, 2);
        let (finish, finished) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let running = tokio::spawn(VERIFIER.run(move || {
            begin.send(()).unwrap();
            finished.recv().unwrap();
            1
        }));
        begun.await.unwrap();
        let waiting = tokio::spawn(VERIFIER.run(|| 2));
        tokio::task::yield_now().await; // the second caller waits for the permit
        assert_eq!(VERIFIER.run(|| 3).await, None);
        finish.send(()).unwrap();
        assert_eq!((running.await.unwrap(), waiting.await.unwrap()), (Some(1), Some(2)));
        assert_eq!(VERIFIER.run(|| 4).await, Some(4), "those that are done are not counted any more");
    }

    #[tokio::test]
    async fn a_caller_that_leaves_is_not_counted() {
        static VERIFIER: Verifier = Verifier::new(1, 1);
        let _held = VERIFIER.running.acquire().await.unwrap();
        let waiting = tokio::spawn(VERIFIER.run(|| ()));
        tokio::task::yield_now().await;
        assert!(VERIFIER.enter().is_none());
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert!(VERIFIER.enter().is_some());
    }

    #[tokio::test]
    async fn a_panic_gives_the_permit_back() {
        static VERIFIER: Verifier = Verifier::new(1, 1);
        assert_eq!(VERIFIER.run(|| -> u8 { panic!("expected by this test") }).await, None);
        assert_eq!(VERIFIER.run(|| 1).await, Some(1));
    }
}
