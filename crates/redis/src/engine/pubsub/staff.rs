//! The tasks of a hub: one for each connection, and one that follows the cluster. A runtime that is shut down drops its
//! tasks; they begin anew on the next one that the client is used on.
//!
//! Invariant: tasks are spawned without the hub's lock: a runtime that is shutting down drops a new task at once, and
//! that takes the lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;

use super::hub::Hub;
use super::jobs::Job;
use super::lease::Lease;
use super::{link, route};

impl Hub {
    /// Starts tasks for the jobs that wait for one, if there is a runtime on this thread.
    pub(super) fn staff(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        self.is_short_of_tasks.store(false, Ordering::Relaxed);
        let mut tasks = self.tasks.lock();
        let jobs = {
            let mut state = self.state.lock();
            if state.is_closed {
                return;
            }
            std::mem::take(&mut state.jobs)
        };
        while tasks.try_join_next().is_some() {}
        for job in jobs {
            let lease = Lease { hub: Arc::clone(self), job: Some(job.clone()) };
            match (job, &self.cluster) {
                (Job::Connection(node), _) => {
                    let wake = self.state.lock().links.entry(node.clone()).or_default().clone();
                    tasks.spawn_on(link::run(Arc::clone(self), node, wake, lease), &runtime)
                }
                (Job::Cluster, Some(cluster)) => {
                    let follower = route::follow(Arc::clone(self), Arc::clone(cluster), lease);
                    tasks.spawn_on(follower, &runtime)
                }
                (Job::Cluster, None) => continue,
            };
        }
    }

    /// As [`Hub::staff`], at no cost if nothing waits.
    pub(crate) fn staff_if_short(self: &Arc<Self>) {
        if self.is_short_of_tasks.load(Ordering::Relaxed) {
            self.staff();
        }
    }
}
