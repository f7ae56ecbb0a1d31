//! From a ready instance to none: idleness, drain, SIGTERM, SIGKILL.

use super::instance_record::{AskedBy, Frozen, InstanceRecord, RuntimeKind, Stage};
use super::service_record::scale_of;
use super::state::{Owner, StopPhase, Stopping};
use super::timers::Timer;
use crate::error::Phase;
use crate::event::WorkerEvent;
use crate::in_flight::close_if_unused;
use crate::instance::InstanceState;
use crate::limits::{DRAIN_SETTLE, EXIT_GRACE, KILL_TIMEOUT, LINK_GRACE};
use crate::policy::idle::{Idle, IdleLimits};
use crate::runtime::Order;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Owner {
    /// The deadline of an instance's stage has come.
    pub(super) fn instance_timer(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.deadline = None;
        match instance.stage {
            Stage::Spawning | Stage::Starting => self.start_timed_out(id, now),
            Stage::Examining => self.examination_over(id, now),
            Stage::Ready if !instance.start_over => self.look_accepted(id, now),
            Stage::Ready => self.look_idle(id, now),
            Stage::Draining => self.drain_goes_on(id, now),
            Stage::Terminating => self.kill(id, now),
            Stage::Killing => {
                tracing::error!(service = %self.records[instance.service].service.name(), pid = instance.pid, "still there after SIGKILL");
                self.kill(id, now);
            }
            Stage::Exited => self.finish(id, now),
        }
    }

    /// Freezes or stops the instance if it has been idle for long enough; else sets the timer for when it could be.
    pub(super) fn look_idle(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let spec = &self.records[instance.service].spec;
        // With a floor, what is too many is for `scale_down_after`.
        let stop_after = spec.idle_timeout.filter(|_| scale_of(spec, false).floor() == 0);
        let limits = IdleLimits { freeze_after: spec.freeze_after, stop_after };
        let frozen = instance.frozen == Frozen::Yes;
        match limits.decide(now, instance.open_exchanges(), instance.last_use(), frozen) {
            Idle::Stop if frozen || close_if_unused(&instance.handle, instance.counters(), InstanceState::Draining) => {
                tracing::info!(service = %self.records[instance.service].service.name(), idle = ?stop_after, "idle: stopping");
                self.drain(id, AskedBy::Gateway, now);
            }
            Idle::Stop => {
                instance.set_deadline(stop_after.map(|after| now + after), &mut self.timers); // one came just now
                self.changed.insert(instance.service); // another may have found it closed, and waits
            }
            Idle::Freeze => self.freeze(id, now),
            Idle::LookAgain(at) => instance.set_deadline(Some(at), &mut self.timers),
            Idle::Never => instance.set_deadline(None, &mut self.timers),
        }
    }

    /// An operator stops the service until a request or a command starts it. Earlier failures are forgotten.
    pub(super) fn stop_by_hand(&mut self, service: usize, now: Instant) {
        let Some(record) = self.records.get_mut(service) else { return };
        record.held = true;
        record.start_asked = false;
        record.circuit.close();
        self.stop_service(service, now);
        self.records[service].publish(&self.instances);
    }

    /// Stops all instances of the service, and its zygote.
    pub(super) fn stop_service(&mut self, service: usize, now: Instant) {
        let instances: Vec<u64> =
            self.instances.values().filter(|instance| instance.service == service).map(InstanceRecord::id).collect();
        for id in instances {
            self.stop_instance(id, now);
        }
        self.stop_zygote(service, now);
    }

    /// The gateway stops.
    pub(super) fn shut_down(&mut self, until: Instant, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        let mut stopping = Stopping { phase: StopPhase::Asked, until: None };
        self.timers.set(Timer::Shutdown, &mut stopping.until, Some(until));
        self.stopping = Some(stopping);
        for service in 0..self.records.len() {
            self.stop_service(service, now);
        }
    }

    pub(super) fn kill_everything(&mut self, now: Instant) {
        let instances: Vec<u64> = self.instances.keys().copied().collect();
        for id in instances {
            self.kill(id, now);
        }
    }

    /// The service sent DRAIN (P-32).
    pub(super) fn service_drains(&mut self, id: u64, now: Instant) {
        if self.instances.get(&id).is_some_and(|instance| instance.stage == Stage::Ready) {
            self.drain(id, AskedBy::Service, now);
        }
    }

    /// No exchange of a draining instance is open.
    pub(super) fn exchanges_done(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.handle.take_idle_notice();
        if instance.stage == Stage::Draining && instance.open_exchanges() == 0 {
            self.drained(id, now);
        } else if instance.handle.is_idle_wanted() {
            self.changed.insert(instance.service); // it may make room
        }
    }

    /// A shared connection ended. An instance without one counts as dead (P-33).
    pub(super) fn link_closed(&mut self, id: u64, worker: usize, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.links[worker] = instance.links[worker].saturating_sub(1);
        if instance.stage == Stage::Ready && instance.links.iter().all(|links| *links == 0) {
            // Usually it is exiting just now; then its own exit status is worth more than that of a signal.
            self.leave_service(id);
            let Some(instance) = self.instances.get_mut(&id) else { return };
            instance.enter_stage(Stage::Draining, Some(now + LINK_GRACE), &mut self.timers);
        }
    }

    /// SIGTERM to the process group.
    pub(super) fn terminate(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let grace = self.records[instance.service].spec.stop_grace;
        instance.cut = instance.open_exchanges(); // before the signal: workers may see the end of the process before it is reported
        instance.enter_stage(Stage::Terminating, Some(now + grace), &mut self.timers);
        self.order(id, Order::Terminate);
    }

    /// SIGKILL to the process group.
    pub(super) fn kill(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| instance.stage != Stage::Exited) else {
            return;
        };
        instance.killed = true;
        instance.cut = instance.cut.max(instance.open_exchanges());
        instance.enter_stage(Stage::Killing, Some(now + KILL_TIMEOUT), &mut self.timers);
        self.leave_service(id);
        self.order(id, Order::Kill);
    }

    /// The instance takes no exchanges any more; others do, or the next request starts one.
    pub(super) fn leave_service(&mut self, id: u64) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.handle.set_state(InstanceState::Draining);
        instance.stop_probe();
        let service = instance.service;
        let record = &mut self.records[service];
        record.members.retain(|member| *member != id);
        record.lose_candidate(id);
        match record.successor {
            Some(successor) if successor == id => record.successor = None,
            // What was to take its place has a place now.
            Some(successor) if self.instances.get(&successor).is_some_and(|instance| instance.replaces == Some(id)) => {
                record.successor = None;
                record.members.push(successor);
                if let Some(instance) = self.instances.get_mut(&successor) {
                    instance.replaces = None;
                }
            }
            _ => {}
        }
        record.window.reset();
        record.publish(&self.instances);
        record.service.change(None, Some(id));
        self.changed.insert(service);
    }

    /// Ends a start. Requests that wait for it go on waiting.
    pub(super) fn give_up(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.stop_asked = true;
        let spawned = instance.pid.is_some() || instance.runtime == RuntimeKind::Container; // which may be told at once
        let service = instance.service;
        self.leave_service(id);
        if spawned {
            self.terminate(id, now);
        } else if let Some(instance) = self.instances.get_mut(&id) {
            // The signal is sent when there is a process to send it to.
            let grace = self.records[service].spec.stop_grace;
            instance.enter_stage(Stage::Terminating, Some(now + grace), &mut self.timers);
        }
    }

    fn stop_instance(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        match instance.stage {
            Stage::Ready => self.drain(id, AskedBy::Gateway, now),
            Stage::Spawning | Stage::Starting | Stage::Examining => {
                let (service, begun) = (instance.service, instance.begun);
                let error = self.refusal(service, Phase::Stopping, "it was stopped while it was starting", begun);
                self.give_up(id, now);
                if self.records[service].members.is_empty() {
                    self.records[service].service.queue.refuse(0, &error);
                }
            }
            Stage::Draining | Stage::Terminating | Stage::Killing | Stage::Exited => {}
        }
    }

    /// Lets open exchanges end; the process ends by itself (pipe) or by SIGTERM when they have (HTTP).
    pub(super) fn drain(&mut self, id: u64, asked_by: AskedBy, now: Instant) {
        self.leave_service(id);
        self.wake(id);
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.stop_asked = true;
        instance.in_flight_at_stop = instance.open_exchanges();
        let until = now + self.records[instance.service].spec.drain_timeout;
        instance.drain_until = Some(until);
        // The service's own DRAIN is answered when its exchanges are done (P-32), the gateway's is sent a little later.
        let settles = instance.is_pipe() && asked_by == AskedBy::Gateway;
        let deadline = if settles { until.min(now + DRAIN_SETTLE) } else { until };
        instance.enter_stage(Stage::Draining, Some(deadline), &mut self.timers);
        if instance.open_exchanges() == 0 {
            self.drained(id, now);
        } else if settles {
            let instance = &self.instances[&id];
            // Who waits for a first connection to it goes elsewhere.
            for worker in (0..instance.links.len()).filter(|worker| instance.links[*worker] == 0) {
                self.tell(worker, WorkerEvent::Drain { instance: Arc::clone(&instance.handle), grace: until - now });
            }
        }
    }

    /// Exchanges are still open. After DRAIN a pipe service may end its streams early.
    fn drain_goes_on(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        match instance.drain_until.filter(|until| *until > now && !instance.drain_sent) {
            Some(until) => {
                instance.set_deadline(Some(until), &mut self.timers);
                self.send_drain(id, until - now);
            }
            None => self.terminate(id, now),
        }
    }

    fn drained(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if instance.is_pipe() {
            // No exchange is open, so the service only has to exit. A worker that enters too late and turns back
            // reports the last exchange once more: one DRAIN is enough.
            let Some(until) = instance.drain_until.take() else { return };
            let left = until.saturating_duration_since(now).min(EXIT_GRACE);
            instance.enter_stage(Stage::Draining, Some(now + left), &mut self.timers);
            self.send_drain(id, left);
        } else {
            self.terminate(id, now);
        }
    }

    /// P-31: once, to every worker that has a shared connection.
    fn send_drain(&mut self, id: u64, grace: Duration) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if std::mem::replace(&mut instance.drain_sent, true) || !instance.is_pipe() {
            return;
        }
        let instance = &self.instances[&id];
        for worker in (0..instance.links.len()).filter(|worker| instance.links[*worker] > 0) {
            self.tell(worker, WorkerEvent::Drain { instance: Arc::clone(&instance.handle), grace });
        }
    }
}
