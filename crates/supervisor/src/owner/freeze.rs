//! Frozen instances: SIGSTOP to the process group of an idle one, SIGCONT before it is used again.
//!
//! Freezing closes an instance to exchanges like a stop for idleness does (`in_flight`), so one with an open exchange
//! is never frozen. Who finds no open instance waits in the queue, which thaws one: the signal is given to the guardian
//! before a request is let in.
//!
//! Invariant: what is asked to end is thawed first; a frozen process would not hear of it.

use super::instance_record::{Frozen, InstanceRecord, Stage};
use super::state::Owner;
use crate::in_flight::close_if_unused;
use crate::instance::InstanceState;
use crate::policy::idle::thaws;
use crate::queue::QueueView;
use crate::runtime::Order;
use std::time::Instant;

impl Owner {
    /// Freezes an instance that has no exchange; looks again later if one came just now.
    pub(super) fn freeze(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let service = instance.service;
        let Some(after) = self.records[service].spec.freeze_after else { return };
        if !close_if_unused(&instance.handle, instance.counters(), InstanceState::Frozen) {
            instance.set_deadline(Some(now + after), &mut self.timers);
            // Who found it closed in between waits.
            self.changed.insert(service);
            return;
        }
        instance.frozen = Frozen::Yes;
        tracing::debug!(service = %self.records[service].service.name(), instance = instance.handle.number(), pid = instance.pid, idle = ?after, "frozen");
        self.order(id, Order::Freeze);
        self.publish_instance(id);
        self.changed.insert(service); // somebody may have come between its closing and now
        self.look_idle(id, now); // when to stop it
    }

    /// Lets a frozen instance go on, if it is one.
    pub(super) fn thaw(&mut self, id: u64, now: Instant) {
        if self.wake(id) == Frozen::No {
            return;
        }
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.thawed_at = Some(now);
            instance.handle.set_state(InstanceState::Ready);
        }
        self.publish_instance(id);
    }

    /// Its processes go on, whatever becomes of it; whether it was frozen.
    pub(super) fn wake(&mut self, id: u64) -> Frozen {
        let Some(instance) = self.instances.get_mut(&id) else { return Frozen::No };
        let was = std::mem::replace(&mut instance.frozen, Frozen::No);
        if was == Frozen::Yes {
            self.order(id, Order::Thaw);
        }
        was
    }

    /// Thaws as many as those who wait need, and lets them in.
    pub(super) fn thaw_for(&mut self, service: usize, waiting: &QueueView, now: Instant) {
        let record = &self.records[service];
        let members = || {
            record
                .members
                .iter()
                .filter_map(|id| self.instances.get(id))
                .filter(|instance| instance.stage == Stage::Ready)
        };
        let frozen: Vec<u64> =
            members().filter(|instance| instance.frozen == Frozen::Yes).map(InstanceRecord::id).collect();
        if frozen.is_empty() {
            return;
        }
        let awake = || members().filter(|instance| instance.frozen == Frozen::No);
        let free = match record.spec.concurrency {
            Some(_) => awake().filter_map(InstanceRecord::limiter).map(|limiter| u64::from(limiter.free())).sum(),
            None => awake().map(|_| u64::MAX).next().unwrap_or(0),
        };
        let count = thaws(waiting.count as u64, free, frozen.len() as u32, record.spec.concurrency);
        for id in frozen.into_iter().take(count as usize) {
            self.thaw(id, now);
            self.look_idle(id, now); // counts from its next exchange, or from now
        }
    }
}
