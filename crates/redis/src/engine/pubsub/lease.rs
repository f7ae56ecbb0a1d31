//! A job while a task has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hub::Hub;
use super::jobs::Job;

/// A job that a task has. Dropped before it is done, it waits for another task.
pub(super) struct Lease {
    pub(super) hub: Arc<Hub>,
    pub(super) job: Option<Job>,
}

impl Lease {
    /// The job is done.
    pub(super) fn finish(mut self) {
        self.job = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(job) = self.job.take() else { return };
        self.hub.change(|state, _| {
            if let Job::Connection(node) = &job {
                state.subscriptions.disconnected(node);
            }
            state.jobs.push(job);
        });
        self.hub.is_short_of_tasks.store(true, Ordering::Relaxed);
    }
}
