//! From a ready instance to none: idleness, drain, SIGTERM, SIGKILL.

use super::record::{AskedBy, Frozen, Run, Stage, scale_of};
use super::state::{Owner, StopPhase, Stopping};
use super::timers::Timer;
use crate::error::Phase;
use crate::event::WorkerEvent;
use crate::guardian::GroupSignal;
use crate::in_flight::close_if_unused;
use crate::instance::InstanceState;
use crate::limits::{DRAIN_SETTLE, EXIT_GRACE, KILL_TIMEOUT, LINK_GRACE};
use crate::policy::idle::{Idle, IdleLimits};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Owner {
    /// The deadline of a run's stage has come.
    pub(super) fn run_timer(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.deadline = None;
        match run.stage {
            Stage::Spawning | Stage::Starting => self.start_timed_out(id, now),
            Stage::Ready if !run.start_over => self.look_accepted(id, now),
            Stage::Ready => self.look_idle(id, now),
            Stage::Draining => self.drain_goes_on(id, now),
            Stage::Terminating => self.kill(id, now),
            Stage::Killing => {
                tracing::error!(service = %self.records[run.service].service.name(), pid = run.pid, "still there after SIGKILL");
                self.kill(id, now);
            }
            Stage::Exited => self.finish(id, now),
        }
    }

    /// Freezes or stops the instance if it has been idle for long enough, or looks again when that can be so.
    pub(super) fn look_idle(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let spec = &self.records[run.service].spec;
        // With a floor, what is too many is for `scale_down_after`.
        let stop_after = spec.idle_timeout.filter(|_| scale_of(spec, false).floor() == 0);
        let limits = IdleLimits { freeze_after: spec.freeze_after, stop_after };
        let frozen = run.frozen == Frozen::Yes;
        match limits.decide(now, run.open_exchanges(), run.last_use(), frozen) {
            Idle::Stop if frozen || close_if_unused(&run.instance, run.counters(), InstanceState::Draining) => {
                tracing::info!(service = %self.records[run.service].service.name(), idle = ?stop_after, "idle: stopping");
                self.drain(id, AskedBy::Gateway, now);
            }
            Idle::Stop => {
                run.set_deadline(stop_after.map(|after| now + after), &mut self.timers); // one came just now
                self.changed.insert(run.service); // another may have found it closed, and waits
            }
            Idle::Freeze => self.freeze(id, now),
            Idle::LookAgain(at) => run.set_deadline(Some(at), &mut self.timers),
            Idle::Never => run.set_deadline(None, &mut self.timers),
        }
    }

    /// Somebody wants the service stopped until it is asked for. What failed before is forgotten.
    pub(super) fn stop_by_hand(&mut self, service: usize, now: Instant) {
        let Some(record) = self.records.get_mut(service) else { return };
        record.held = true;
        record.circuit.close();
        self.stop_service(service, now);
        self.records[service].publish(&self.runs);
    }

    /// Stops all that runs of the service.
    pub(super) fn stop_service(&mut self, service: usize, now: Instant) {
        let runs: Vec<u64> = self.runs.values().filter(|run| run.service == service).map(Run::id).collect();
        for id in runs {
            self.stop_run(id, now);
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
        let runs: Vec<u64> = self.runs.keys().copied().collect();
        for id in runs {
            self.kill(id, now);
        }
    }

    /// The service sent DRAIN (P-32).
    pub(super) fn service_drains(&mut self, id: u64, now: Instant) {
        if self.runs.get(&id).is_some_and(|run| run.stage == Stage::Ready) {
            self.drain(id, AskedBy::Service, now);
        }
    }

    /// No exchange of a draining run is open.
    pub(super) fn exchanges_done(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.instance.take_idle_notice();
        if run.stage == Stage::Draining && run.open_exchanges() == 0 {
            self.drained(id, now);
        }
    }

    /// A shared connection ended. The last one is the instance's death (P-33).
    pub(super) fn link_closed(&mut self, id: u64, worker: usize, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.links[worker] = run.links[worker].saturating_sub(1);
        if run.stage == Stage::Ready && run.links.iter().all(|links| *links == 0) {
            // Usually it is exiting just now; then its own exit status is worth more than that of a signal.
            self.leave_service(id);
            let Some(run) = self.runs.get_mut(&id) else { return };
            run.enter_stage(Stage::Draining, Some(now + LINK_GRACE), &mut self.timers);
        }
    }

    /// SIGTERM to the process group.
    pub(super) fn terminate(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let grace = self.records[run.service].spec.stop_grace;
        run.cut = run.open_exchanges(); // before the signal: workers may see the end of the process before it is reported
        run.enter_stage(Stage::Terminating, Some(now + grace), &mut self.timers);
        self.signal(id, GroupSignal::Terminate);
    }

    /// SIGKILL to the process group.
    pub(super) fn kill(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.stage != Stage::Exited) else {
            return;
        };
        run.killed = true;
        run.cut = run.cut.max(run.open_exchanges());
        run.enter_stage(Stage::Killing, Some(now + KILL_TIMEOUT), &mut self.timers);
        self.leave_service(id);
        self.signal(id, GroupSignal::Kill);
    }

    /// The run takes no exchanges any more; others do, or the next request starts one.
    pub(super) fn leave_service(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.instance.set_state(InstanceState::Draining);
        run.stop_probe();
        let service = run.service;
        let record = &mut self.records[service];
        record.members.retain(|member| *member != id);
        match record.successor {
            Some(successor) if successor == id => record.successor = None,
            // What was to take its place has a place now.
            Some(successor) if self.runs.get(&successor).is_some_and(|run| run.replaces == Some(id)) => {
                record.successor = None;
                record.members.push(successor);
                if let Some(run) = self.runs.get_mut(&successor) {
                    run.replaces = None;
                }
            }
            _ => {}
        }
        record.window.reset();
        record.publish(&self.runs);
        record.service.change(None, Some(id));
        self.changed.insert(service);
    }

    /// Ends a start. Nobody is refused for that: those who wait for it wait on.
    pub(super) fn give_up(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.stop_asked = true;
        let (service, spawned) = (run.service, run.pid.is_some());
        self.leave_service(id);
        if spawned {
            self.terminate(id, now);
        } else if let Some(run) = self.runs.get_mut(&id) {
            // The signal is sent when there is a process to send it to.
            let grace = self.records[service].spec.stop_grace;
            run.enter_stage(Stage::Terminating, Some(now + grace), &mut self.timers);
        }
    }

    fn stop_run(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match run.stage {
            Stage::Ready => self.drain(id, AskedBy::Gateway, now),
            Stage::Spawning | Stage::Starting => {
                let (service, begun) = (run.service, run.begun);
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
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.stop_asked = true;
        run.in_flight_at_stop = run.open_exchanges();
        let until = now + self.records[run.service].spec.drain_timeout;
        run.drain_until = Some(until);
        // The service's own DRAIN is answered when its exchanges are done (P-32), the gateway's is sent a little later.
        let settles = run.is_pipe() && asked_by == AskedBy::Gateway;
        let deadline = if settles { until.min(now + DRAIN_SETTLE) } else { until };
        run.enter_stage(Stage::Draining, Some(deadline), &mut self.timers);
        if run.open_exchanges() == 0 {
            self.drained(id, now);
        } else if settles {
            let run = &self.runs[&id];
            // Who waits for a first connection to it goes elsewhere.
            for worker in (0..run.links.len()).filter(|worker| run.links[*worker] == 0) {
                self.tell(worker, WorkerEvent::Drain { instance: Arc::clone(&run.instance), grace: until - now });
            }
        }
    }

    /// Exchanges are still open. A pipe service may end its streams early when it knows.
    fn drain_goes_on(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match run.drain_until.filter(|until| *until > now && !run.drain_sent) {
            Some(until) => {
                run.set_deadline(Some(until), &mut self.timers);
                self.send_drain(id, until - now);
            }
            None => self.terminate(id, now),
        }
    }

    fn drained(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.is_pipe() {
            // Nothing is in progress, so all that is left to do for the service is to exit. Who comes too late and
            // turns back is told as the last one, too: once is enough.
            let Some(until) = run.drain_until.take() else { return };
            let left = until.saturating_duration_since(now).min(EXIT_GRACE);
            run.enter_stage(Stage::Draining, Some(now + left), &mut self.timers);
            self.send_drain(id, left);
        } else {
            self.terminate(id, now);
        }
    }

    /// P-31: once, to every worker that has a shared connection.
    fn send_drain(&mut self, id: u64, grace: Duration) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if std::mem::replace(&mut run.drain_sent, true) || !run.is_pipe() {
            return;
        }
        let run = &self.runs[&id];
        for worker in (0..run.links.len()).filter(|worker| run.links[*worker] > 0) {
            self.tell(worker, WorkerEvent::Drain { instance: Arc::clone(&run.instance), grace });
        }
    }
}
