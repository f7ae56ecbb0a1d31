//! What waits to be written, of one worker: bounded in bytes and in count; what has no room is dropped and counted, as
//! Redis is then slower than what is stored, and the next to miss it will store it again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilotlight_cache::Stored;
use tokio::sync::Notify;

use crate::tier::Ticket;

/// A job of the writer.
#[derive(Debug)]
pub(crate) enum Job {
    Write(Box<Write>),
    /// Gives a lease back that led to nothing.
    Release {
        lease: String,
        token: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) ticket: Ticket,
    /// Scheme, authority, target, and what the route adds.
    pub(crate) key: [Box<str>; 4],
    pub(crate) stored: Arc<Stored>,
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.stored.weight(),
            Self::Release { lease, .. } => lease.len(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    max: usize,
    max_bytes: usize,
    pub(crate) wanted: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    bytes: usize,
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) Job);

impl Queue {
    pub(crate) fn new(max: usize, max_bytes: usize) -> Self {
        Self { waiting: Mutex::default(), max, max_bytes, wanted: Notify::new() }
    }

    pub(crate) fn push(&self, job: Job) -> Result<(), Full> {
        let bytes = job.bytes();
        {
            let mut waiting = self.lock();
            if waiting.jobs.len() >= self.max || waiting.bytes + bytes > self.max_bytes {
                return Err(Full(job));
            }
            waiting.bytes += bytes;
            waiting.jobs.push_back(job);
        }
        self.wanted.notify_one();
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<Job> {
        let mut waiting = self.lock();
        let job = waiting.jobs.pop_front()?;
        waiting.bytes -= job.bytes();
        Some(job)
    }

    /// Jobs and their bytes.
    pub(crate) fn len(&self) -> (usize, usize) {
        let waiting = self.lock();
        (waiting.jobs.len(), waiting.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Consistent between any two statements.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
