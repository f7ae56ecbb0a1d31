//! The memory of instances that are recycled by it, looked at once a second, on a thread that may block.

use super::record::{Run, Stage};
use super::state::Owner;
use super::timers::Timer;
use crate::limits::MEMORY_LOOK;
use crate::memory::{Sample, of_tree};
use std::time::Instant;

impl Owner {
    /// Begins to look at a service's instances, if they are recycled by memory.
    pub(super) fn watch_memory(&mut self, service: usize, now: Instant) {
        let record = &mut self.records[service];
        if record.spec.recycle.max_memory.is_some() && record.memory_at.is_none() && !record.members.is_empty() {
            self.timers.set(Timer::Memory(service), &mut record.memory_at, Some(now + MEMORY_LOOK));
        }
    }

    pub(super) fn look_at_memory(&mut self, service: usize, now: Instant) {
        self.records[service].memory_at = None;
        if self.samples.is_empty() {
            let ready = |run: &&Run| run.service == service && run.stage == Stage::Ready;
            for run in self.runs.values().filter(ready) {
                let (id, limit) = (run.id(), run.recycle_limits.max_memory);
                if let (Some(pid), Some(limit)) = (run.pid, limit) {
                    self.samples.spawn_blocking(move || Sample { run: id, bytes: of_tree(pid, limit) });
                }
            }
        }
        self.watch_memory(service, now);
    }

    pub(super) fn sampled(&mut self, sample: Sample) {
        let Some(run) = self.runs.get_mut(&sample.run) else { return };
        run.memory = sample.bytes.unwrap_or(0);
        if run.recycle_limits.max_memory.is_some_and(|max| run.memory >= max) {
            self.changed.insert(run.service);
        }
    }
}
