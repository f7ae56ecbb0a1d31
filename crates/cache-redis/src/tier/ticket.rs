//! The right to write what a fetch brings: to which names, and on what condition. Used, it is a job in the queue of its
//! worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pilotlight_cache::{Key, Selection, Stored, WriteBehind};
use tokio::sync::Notify;

use crate::counters::Counters;
use crate::keys::Name;
use crate::queue::{Full, Queue, Weigh};
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

/// What of a worker others may see.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) counters: Counters,
    pub(super) queue: Queue<Job>,
    pub(super) in_flight: AtomicUsize,
    /// Nothing waits and nothing is on its way.
    pub(super) rested: Notify,
}

impl Worker {
    pub(super) fn writing(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// A job of the writer.
#[derive(Debug)]
pub(super) enum Job {
    Write(Box<Write>),
    /// Gives a lease back that led to nothing.
    Release {
        lease: String,
        token: u64,
    },
}

/// A response that is to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) ticket: Ticket,
    /// Scheme, authority, target, and what the route adds.
    pub(super) key: [Box<str>; 4],
    pub(super) stored: Arc<Stored>,
}

impl Weigh for Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.stored.weight(),
            Self::Release { lease, .. } => lease.len(),
        }
    }
}
