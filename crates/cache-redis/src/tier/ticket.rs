//! The right to write what a fetch brings: to which names, and on what condition.

use std::sync::Arc;
use std::time::Instant;

use pilotlight_cache::{Key, Selection, Stored, WriteBehind};

use super::shared::Worker;
use crate::keys::Name;
use crate::queue::{Full, Job, Write};
use crate::record::Generation;

/// What was found of a target before its fetch begins. Given to the flight ([`pilotlight_cache::Fill::write_behind`]),
/// it writes what that stores; dropped, it gives the lease back.
#[derive(Debug)]
pub struct Ticket {
    pub(super) name: Name,
    /// What the target's record has to say for the write to happen; `None`: that there is none.
    pub(super) seen: Option<Generation>,
    /// By what the target's responses were found to vary, and what the request has there.
    pub(super) selection: Option<Selection>,
    /// Before the fetch.
    pub(super) began: Instant,
    /// Who holds the lease, if this does; also if it is not known whether it does.
    pub(super) lease: Option<u64>,
    pub(super) worker: Arc<Worker>,
}

impl WriteBehind for Ticket {
    fn stored(self: Box<Self>, key: &Key<'_>, stored: &Arc<Stored>) {
        let key = [key.scheme, key.authority, key.target, key.extra].map(Box::from);
        let worker = Arc::clone(&self.worker);
        let write = Write { ticket: *self, key, stored: Arc::clone(stored) };
        if let Err(Full(job)) = worker.queue.push(Job::Write(Box::new(write))) {
            worker.counters.dropped_writes.add_one();
            drop(job); // which gives the lease back, if there is room for that
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(token) = self.lease.take() {
            // Without room it ends by itself.
            let _ = self.worker.queue.push(Job::Release { lease: self.name.lease(), token });
        }
    }
}
