//! Frozen instances: SIGSTOP to the process group of an idle one, SIGCONT before it is used again.
//!
//! Freezing closes an instance to exchanges like a stop for idleness does (`in_flight`), so one with an open exchange
//! is never frozen. Who finds no open instance waits in the queue, which thaws one: the signal is given to the guardian
//! before a request is let in.
//!
//! Invariant: what is asked to end is thawed first; a frozen process would not hear of it.

use super::record::{Frozen, Run, Stage};
use super::state::Owner;
use crate::guardian::GroupSignal;
use crate::in_flight::close_if_unused;
use crate::instance::InstanceState;
use crate::policy::idle::thaws;
use crate::queue::QueueView;
use std::time::Instant;

impl Owner {
    /// Freezes an instance that has no exchange; looks again later if one came just now.
    pub(super) fn freeze(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let service = run.service;
        let Some(after) = self.records[service].spec.freeze_after else { return };
        if !close_if_unused(&run.instance, run.counters(), InstanceState::Frozen) {
            run.set_deadline(Some(now + after), &mut self.timers);
            // Who found it closed in between waits.
            self.changed.insert(service);
            return;
        }
        run.frozen = Frozen::Yes;
        tracing::debug!(service = %self.records[service].service.name(), instance = run.instance.number(), pid = run.pid, idle = ?after, "frozen");
        self.signal(id, GroupSignal::Freeze);
        self.publish_run(id);
        self.changed.insert(service); // somebody may have come between its closing and now
        self.look_idle(id, now); // when to stop it
    }

    /// Lets a frozen instance go on, if it is one.
    pub(super) fn thaw(&mut self, id: u64, now: Instant) {
        if self.wake(id) == Frozen::No {
            return;
        }
        if let Some(run) = self.runs.get_mut(&id) {
            run.thawed_at = Some(now);
            run.instance.set_state(InstanceState::Ready);
        }
        self.publish_run(id);
    }

    /// Its processes go on, whatever becomes of it; whether it was frozen.
    pub(super) fn wake(&mut self, id: u64) -> Frozen {
        let Some(run) = self.runs.get_mut(&id) else { return Frozen::No };
        let was = std::mem::replace(&mut run.frozen, Frozen::No);
        if was == Frozen::Yes {
            self.signal(id, GroupSignal::Thaw);
        }
        was
    }

    /// Thaws as many as those who wait need, and lets them in.
    pub(super) fn thaw_for(&mut self, service: usize, waiting: &QueueView, now: Instant) {
        let record = &self.records[service];
        let members =
            || record.members.iter().filter_map(|id| self.runs.get(id)).filter(|run| run.stage == Stage::Ready);
        let frozen: Vec<u64> = members().filter(|run| run.frozen == Frozen::Yes).map(Run::id).collect();
        if frozen.is_empty() {
            return;
        }
        let awake = || members().filter(|run| run.frozen == Frozen::No);
        let free = match record.spec.concurrency {
            Some(_) => awake().filter_map(Run::limiter).map(|limiter| u64::from(limiter.free())).sum(),
            None => awake().map(|_| u64::MAX).next().unwrap_or(0),
        };
        let count = thaws(waiting.count as u64, free, frozen.len() as u32, record.spec.concurrency);
        for id in frozen.into_iter().take(count as usize) {
            self.thaw(id, now);
            self.look_idle(id, now); // counts from its next exchange, or from now
        }
    }
}
