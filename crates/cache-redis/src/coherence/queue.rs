//! Purges of this gateway that wait to be appended to the log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pilotlight_cache::{Cache, Mode, Purge, Scope};
use tokio::sync::{Notify, oneshot};

/// Purges of this gateway that wait to be appended to the log. When there are more, they become one of everything.
pub const MAX_WAITING_PURGES: usize = 4096;
/// What became of a purge beyond this gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeReport {
    /// It is in the log.
    Logged {
        /// Its number.
        number: u64,
        /// Gateways that have applied it.
        applied: Vec<String>,
        /// Gateways that had not after [`MAX_CONFIRMATION`](crate::MAX_CONFIRMATION).
        late: Vec<String>,
        /// From the begin to the last of those that have.
        took: Duration,
    },
    /// It is not in the log yet.
    Waiting {
        /// Why.
        why: String,
        /// How many purges wait.
        waiting: usize,
    },
}

/// Purges that are applied here and not in the log yet, in their order.
#[derive(Debug)]
pub(super) struct Queue {
    instance: String,
    inner: Mutex<Inner>,
    /// PurgeReport when something was added.
    pub(super) pushed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    purges: usize,
    count: u64,
}

/// An entry to be.
#[derive(Debug)]
pub(super) struct Waiting {
    by: String,
    purges: Vec<Purge>,
    pub(super) since: Instant,
    pub(super) reply: Option<oneshot::Sender<PurgeReport>>,
}

impl Queue {
    pub(super) fn new(instance: String) -> Self {
        Self { instance, inner: Mutex::default(), pushed: Notify::new() }
    }

    pub(super) fn push(&self, cache: &Cache, purges: Vec<Purge>) {
        self.add(cache, purges, None);
    }

    /// The same for somebody who wants to know what became of it.
    pub(super) fn push_asked(&self, cache: &Cache, purges: Vec<Purge>) -> oneshot::Receiver<PurgeReport> {
        let (reply, told) = oneshot::channel();
        self.add(cache, purges, Some(reply));
        told
    }

    /// Purges that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().purges
    }

    fn add(&self, cache: &Cache, purges: Vec<Purge>, reply: Option<oneshot::Sender<PurgeReport>>) {
        let mut inner = self.lock();
        inner.push(&self.instance, purges, reply);
        if inner.purges > MAX_WAITING_PURGES {
            tracing::warn!(
                "more than {MAX_WAITING_PURGES} purges wait for Redis: other gateways will purge everything"
            );
            let (mut folded, mut replies) = (Vec::new(), Vec::new());
            for entry in inner.waiting.drain(..) {
                folded.extend(entry.purges);
                replies.extend(entry.reply);
            }
            inner.purges = 0;
            cache.purges().fold(&folded);
            inner.push(&self.instance, vec![everything()], None);
            drop(inner);
            for reply in replies {
                let _ = reply.send(PurgeReport::Waiting { why: "too many purges wait".to_owned(), waiting: 1 }); // gone
            }
        }
        self.pushed.notify_one();
    }

    /// The next to be appended.
    pub(super) fn first(&self) -> Option<(String, Vec<Purge>)> {
        self.lock().waiting.front().map(|first| (first.by.clone(), first.purges.clone()))
    }

    /// It was appended. `None`: it has been folded into another one meanwhile.
    pub(super) fn pop(&self, by: &str) -> Option<Waiting> {
        let mut inner = self.lock();
        let popped = inner.waiting.front().is_some_and(|first| first.by == by).then(|| inner.waiting.pop_front())??;
        inner.purges -= popped.purges.len();
        Some(popped)
    }

    /// Nothing can be appended now: whoever waits to hear of it does.
    pub(super) fn fail(&self, why: &str) {
        let mut inner = self.lock();
        let waiting = inner.purges;
        for reply in inner.waiting.iter_mut().filter_map(|entry| entry.reply.take()) {
            let _ = reply.send(PurgeReport::Waiting { why: why.to_owned(), waiting }); // gone
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Consistent between any two statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn push(&mut self, instance: &str, purges: Vec<Purge>, reply: Option<oneshot::Sender<PurgeReport>>) {
        self.count += 1;
        self.purges += purges.len();
        let by = format!("{instance} {}", self.count);
        self.waiting.push_back(Waiting { by, purges, since: Instant::now(), reply });
    }
}

fn everything() -> Purge {
    Purge { scope: Scope::Everything, mode: Mode::Hard }
}
