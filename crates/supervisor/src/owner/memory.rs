//! The memory of instances that are recycled by it, looked at once a second, on a thread that may block.

use super::instance_record::{InstanceRecord, Stage};
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
            let ready = |instance: &&InstanceRecord| instance.service == service && instance.stage == Stage::Ready;
            for instance in self.instances.values().filter(ready) {
                let (id, limit) = (instance.id(), instance.recycle_limits.max_memory);
                if let (Some(pid), Some(limit)) = (instance.pid, limit) {
                    self.samples.spawn_blocking(move || Sample { instance: id, bytes: of_tree(pid, limit) });
                }
            }
        }
        self.watch_memory(service, now);
    }

    pub(super) fn sampled(&mut self, sample: Sample) {
        let Some(instance) = self.instances.get_mut(&sample.instance) else { return };
        instance.memory = sample.bytes.unwrap_or(0);
        if instance.recycle_limits.max_memory.is_some_and(|max| instance.memory >= max) {
            self.changed.insert(instance.service);
        }
    }
}
