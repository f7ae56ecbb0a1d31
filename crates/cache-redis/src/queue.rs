//! What waits to be written, of one worker: bounded in bytes and in count; what has no room is dropped and counted, as
//! Redis is then slower than what is stored, and the next to miss it will store it again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What can wait.
pub(crate) trait Weigh {
    /// Bytes that it counts for.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
pub(crate) struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    max: usize,
    max_bytes: usize,
    pub(crate) wanted: Notify,
}

#[derive(Debug)]
struct Waiting<J> {
    jobs: VecDeque<J>,
    bytes: usize,
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Full<J>(pub(crate) J);

impl<J: Weigh> Queue<J> {
    pub(crate) fn new(max: usize, max_bytes: usize) -> Self {
        Self { waiting: Mutex::new(Waiting { jobs: VecDeque::new(), bytes: 0 }), max, max_bytes, wanted: Notify::new() }
    }

    pub(crate) fn push(&self, job: J) -> Result<(), Full<J>> {
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

    pub(crate) fn pop(&self) -> Option<J> {
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

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        // Consistent between any two statements.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
