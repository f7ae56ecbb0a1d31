//! The way of a command into a lane, which starts the driver if there is none.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::MutexGuard;
use tokio::runtime::Handle;

use super::body::{Lane, Phase, Refused, Shared};
use super::driver::Driver;
use super::settings::{WhenDown, WhenFull};
use super::state::Ticket;
use crate::engine::submission::Submission;
use crate::out::{Cursor, Out};

/// Most bytes that a caller writes by itself: it holds the lane's lock meanwhile.
const MAX_INLINE_BYTES: usize = 64 * 1024;

impl Lane {
    /// Connects, if that was not begun, and there is a runtime to do it on.
    pub(crate) fn begin(self: &Arc<Self>) {
        let shared = self.shared.lock();
        if let Ok(Some(runtime)) = self.check_phase(&shared) {
            self.start(shared, &runtime);
        }
    }

    /// Accepts what `encode` appends. `waker` is woken when the outcome is there.
    #[inline]
    pub(crate) fn submit(
        self: &Arc<Self>,
        submission: Submission,
        waker: Option<&Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Result<Ticket, Refused> {
        let shared = self.shared.lock();
        let limit_bytes = shared.limit_bytes;
        self.accept(shared, limit_bytes, submission, waker, encode)
    }

    #[inline]
    pub(super) fn accept(
        self: &Arc<Self>,
        mut shared: MutexGuard<'_, Shared>,
        limit_bytes: usize,
        submission: Submission,
        waker: Option<&Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Result<Ticket, Refused> {
        let mut runtime = None;
        loop {
            if !matches!(shared.phase, Phase::Up) {
                runtime = self.check_phase(&shared)?;
            }
            if shared.state.budget_used() < limit_bytes {
                break;
            }
            shared = self.make_room(shared)?;
        }
        let was_idle = shared.state.is_idle();
        shared.state.advance_for(submission.timeout, was_idle);
        let ticket = shared.state.submit(submission, waker.cloned(), encode);
        // Alone on an idle lane, the caller writes by itself: no task is woken for it. Where callers come in crowds
        // that would cut up their wave. What has no time left is not sent.
        let has_time = submission.timeout != Some(Duration::ZERO);
        let is_written = was_idle && has_time && shared.state.last_batch <= 1 && shared.write_inline();
        let driver = if is_written && shared.ticking { None } else { shared.driver.take() };
        if let Some(runtime) = runtime {
            self.start(shared, &runtime);
        } else {
            drop(shared);
        }
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(ticket)
    }

    /// The byte budget is used up: those who wait longest give way, if they are to and there are any.
    #[cold]
    fn make_room<'g>(&self, mut shared: MutexGuard<'g, Shared>) -> Result<MutexGuard<'g, Shared>, Refused> {
        let mut wakers = Vec::new();
        if self.settings.when_full == WhenFull::Shed {
            shared.state.shed(self.settings.max_queued_bytes, &mut wakers);
        }
        let used = shared.state.budget_used();
        if used >= self.settings.max_queued_bytes || self.settings.when_full == WhenFull::Refuse {
            drop(shared);
            wakers.into_iter().for_each(Waker::wake);
            return Err(Refused::Full(used));
        }
        MutexGuard::unlocked(&mut shared, || wakers.into_iter().for_each(Waker::wake));
        Ok(shared)
    }

    /// The runtime to run the driver on, if there is no driver yet.
    #[cold]
    fn check_phase(&self, shared: &Shared) -> Result<Option<Handle>, Refused> {
        match &shared.phase {
            Phase::New => Handle::try_current().map(Some).map_err(|_| Refused::NoRuntime),
            Phase::Down(Some(reason)) if self.settings.when_down == WhenDown::Fail => {
                Err(Refused::Down(reason.clone()))
            }
            Phase::Down(_) | Phase::Up => Ok(None),
            Phase::Draining | Phase::Closed => Err(Refused::Closed),
        }
    }

    /// Starts the driver.
    #[cold]
    fn start(self: &Arc<Self>, mut shared: MutexGuard<'_, Shared>, runtime: &Handle) {
        shared.phase = Phase::Down(None);
        drop(shared);
        // Not under the lock: a runtime that is shutting down drops the driver at once, and that takes the lock.
        runtime.spawn(Driver::new(Arc::clone(self)).run());
    }
}

impl Shared {
    /// The lane was idle, and one command is queued: writes it. False: not all of it.
    fn write_inline(&mut self) -> bool {
        let Some(inline) = self.inline.as_ref().filter(|_| self.condemned.is_none()) else { return false };
        let Some(bytes) = self.state.out.contiguous(Cursor::default()) else { return false };
        if bytes.len() > MAX_INLINE_BYTES {
            return false;
        }
        match inline.try_write(bytes) {
            Ok(written) => {
                let is_complete = written == bytes.len();
                self.state.wrote_inline(written);
                is_complete
            }
            // Full, or broken: the driver will find out.
            Err(_) => false,
        }
    }
}
