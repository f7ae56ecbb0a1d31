//! How instances end, and what is said about it.

use super::instance_record::{InstanceRecord, RuntimeKind, Stage};
use super::process_group::kill_group;
use super::random::random;
use super::service_record::uses_port;
use super::state::Owner;
use crate::error::{Exit, Phase, StartError};
use crate::event::WorkerEvent;
use crate::guardian::kill_marked;
use crate::instance::{Ended, InstanceState};
use crate::limits::OUTPUT_GRACE;
use crate::listening;
use crate::policy::backoff::InstanceEnd;
use crate::spec::Transport;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

impl Owner {
    /// The process is gone, and what it left in its group is killed.
    pub(super) fn exited(&mut self, id: u64, exit: Exit, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| instance.stage != Stage::Exited) else {
            return;
        };
        instance.exit = Some(exit);
        instance.enter_stage(Stage::Exited, Some(now + OUTPUT_GRACE), &mut self.timers);
        instance.stop_probe();
        let record = &mut self.records[instance.service];
        let never_ready = !instance.start_over && !instance.stop_asked;
        if !never_ready {
            let lasted = instance.ready_at.map_or_else(Default::default, |at| now.saturating_duration_since(at));
            let end =
                if instance.stop_asked { InstanceEnd::Stopped } else { InstanceEnd::Crashed { ready_for: lasted } };
            // One of an older version says nothing about those that follow it.
            if !instance.failed && instance.version == record.version {
                record.circuit.ended(end, now, random());
            }
            if instance.stop_asked {
                let cut = instance.cut.max(instance.open_exchanges());
                let mut status = record.service.status_mut();
                status.stopped.instances += 1;
                status.stopped.finished += instance.in_flight_at_stop.saturating_sub(cut);
                status.stopped.cut += cut;
                status.stopped.killed += u64::from(instance.killed);
            }
            report_end(record.service.name(), instance, exit);
            if !instance.stop_asked {
                let limit = instance.limit_said();
                let reason = format!("it {exit} {:.1} s after it was ready{limit}", lasted.as_secs_f64());
                let error = StartError::new(record.service.name(), Phase::Answer, reason, instance.begun);
                record.last_failure =
                    Some(StartError { exit: Some(exit), output_tail: instance.tail.report(), ..error });
            }
        }
        // An instance that was never ready stays a member until its output is read, so that those who ask meanwhile get
        // the report too.
        let (outputs_open, handle) = (instance.outputs_open, Arc::clone(&instance.handle));
        if !never_ready {
            self.leave_service(id);
        }
        handle.set_state(InstanceState::Ended);
        if outputs_open == 0 {
            self.finish(id, now);
        }
    }

    pub(super) fn output_ended(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.outputs_open = instance.outputs_open.saturating_sub(1);
        if instance.outputs_open == 0 && instance.stage == Stage::Exited {
            self.finish(id, now);
        }
    }

    /// An instance has exited and all its output is read: reports a failed start and forgets the instance.
    pub(super) fn finish(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let (exit, ready, limit) = (instance.exit, instance.ready_at.is_some(), instance.limit_said());
        if !instance.start_over && !instance.stop_asked && !instance.failed {
            let (phase, when) = if ready {
                (Phase::Answer, "before the first byte of its first answer")
            } else {
                (Phase::Connect, "before it was ready")
            };
            let how = exit.map_or_else(|| "ended".to_owned(), |exit| exit.to_string());
            let hint = if instance.is_pipe() && exit == Some(Exit::Code(0)) && !ready {
                "; a pipe service must dial PILOTLIGHT_SOCKET and stay, check `transport`"
            } else {
                "; see the last lines of its output"
            };
            self.fail_start(id, phase, format!("it {how} {when}{limit}{hint}"), now);
        }
        self.forget(id);
    }

    /// It did not become ready in time.
    pub(super) fn start_timed_out(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let limit = self.records[instance.service].spec.start_timeout;
        if instance.runtime == RuntimeKind::Container {
            return self.container_timed_out(id, now);
        }
        let (phase, what) = if instance.stage == Stage::Spawning {
            (Phase::Spawn, "the guardian process did not execute it")
        } else if instance.is_pipe() {
            let what = "it did not dial PILOTLIGHT_SOCKET and send HELLO; does it use the Pilotlight SDK (`transport = \"pipe\"`)?";
            (Phase::Connect, what)
        } else if self.records[instance.service].spec.transport == Transport::Lambda {
            (
                Phase::Connect,
                "it did not ask for its first event at AWS_LAMBDA_RUNTIME_API; does `command` run a runtime client of AWS Lambda?",
            )
        } else if uses_port(self.records[instance.service].spec.transport) {
            (Phase::Connect, "nothing listens on the port in its variable PORT")
        } else {
            return self.never_accepted(id, now);
        };
        let elsewhere = instance.pid.map_or_else(String::new, listens_elsewhere);
        let reason = format!("{what}{elsewhere} (start timeout {limit:?}); it was killed");
        self.fail_start(id, phase, reason, now);
        self.kill(id, now);
    }

    /// HTTP, start timeout without an answer: the start is over if the instance has at least accepted its connections.
    pub(super) fn look_accepted(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let waiting = instance.listener.as_ref().map(|listener| listener.has_waiting());
        match waiting {
            Some(Ok(true)) => {}
            Some(Ok(false)) | None => {
                self.port_open(id, now); // it has taken what was sent, if anything was
                return self.start_is_over(id, now);
            }
            Some(Err(error)) => {
                tracing::error!(%error, "cannot look at a service's socket");
                return self.start_is_over(id, now);
            }
        }
        self.never_accepted(id, now);
    }

    fn never_accepted(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let limit = self.records[instance.service].spec.start_timeout;
        let elsewhere = instance.pid.map_or_else(String::new, listens_elsewhere);
        let reason = format!(
            "it never accepted a connection on the socket it was given as descriptor 3{elsewhere} (start timeout {limit:?}); it was killed; \
             make it listen on descriptor 3 (LISTEN_FDS), or use `socket = \"port\"`"
        );
        self.fail_start(id, Phase::Connect, reason, now);
        self.kill(id, now);
    }

    /// Notes a failed start and reports it to the requests that wait and to those that come soon.
    pub(super) fn fail_start(&mut self, id: u64, phase: Phase, reason: String, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.failed) else {
            return;
        };
        if self.records[instance.service].is_candidate(id) {
            return self.reject(id, reason, now);
        }
        instance.failed = true;
        let record = &mut self.records[instance.service];
        if instance.stop_asked {
            return; // those who waited were told then
        }
        record.circuit.ended(InstanceEnd::NeverReady, now, random());
        let error = StartError {
            exit: instance.exit,
            output_tail: instance.tail.report(),
            retry_after: record.circuit.wait(now).unwrap_or_default(),
            ..StartError::new(record.service.name(), phase, reason, instance.begun)
        };
        tracing::error!(output = ?error.output_tail, "{error}");
        record.fail_start(error.clone());
        let (service, replaces) = (instance.service, instance.replaces);
        self.leave_service(id); // shows the failure before anybody is answered
        if replaces.is_some() {
            tracing::warn!(service = %self.records[service].service.name(), "the instance that it was to replace goes on");
        }
        // Where others are ready, or are being started, those who wait have still something to wait for.
        if self.records[service].members.is_empty() {
            self.records[service].service.queue.refuse(0, &error);
        }
        let Some(instance) = self.instances.get(&id) else { return };
        instance.handle.set_ended(Ended { exit: instance.exit, start_error: Some(error) });
    }

    /// Forgets an instance that has no process.
    pub(super) fn forget(&mut self, id: u64) {
        self.leave_service(id);
        let Some(mut instance) = self.instances.remove(&id) else { return };
        self.records[instance.service].publish(&self.instances);
        instance.set_deadline(None, &mut self.timers);
        if let Some(token) = &instance.token {
            self.tokens.remove(token);
        }
        instance.handle.set_state(InstanceState::Ended);
        instance.handle.set_ended(Ended { exit: instance.exit, start_error: None });
        for worker in 0..self.workers.len() {
            self.tell(worker, WorkerEvent::Gone { instance: Arc::clone(&instance.handle) });
        }
    }

    /// The guardian is dead. Nobody would kill its services with the gateway, so they are killed now. The next start
    /// begins with a new guardian.
    pub(super) fn guardian_lost(&mut self, now: Instant) {
        let Some(link) = self.link.take() else { return };
        tracing::error!("the guardian process died; all services are killed and start anew with their next request");
        link.bury();
        let processes = || self.instances.values().filter(|instance| instance.runtime == RuntimeKind::Process);
        let marks: HashSet<String> =
            processes().map(|instance| instance.mark.clone()).chain(self.zygote_marks()).collect();
        let instances: Vec<(u64, Option<i32>)> = processes().map(|instance| (instance.id(), instance.pid)).collect();
        self.undertakers.spawn_blocking(move || kill_marked(&marks));
        self.zygotes_lost(now);
        for (id, pid) in instances {
            if let Some(pid) = pid {
                kill_group(pid);
                self.exited(id, Exit::Lost, now);
            } else {
                self.spawn_failed(id, "the guardian process died before it executed it".to_owned(), now);
            }
        }
    }
}

fn report_end(service: &Arc<str>, instance: &InstanceRecord, exit: Exit) {
    let number = instance.handle.number();
    if instance.stop_asked || instance.failed {
        tracing::info!(%service, instance = number, %exit, "stopped");
    } else {
        tracing::warn!(%service, instance = number, %exit, output = ?instance.tail.report(), "ended by itself{}", instance.limit_said());
    }
}
/// Where a service listens that was not found where it was to be, as a part of a sentence.
fn listens_elsewhere(pid: i32) -> String {
    let found = listening::of_tree(pid);
    let Some(one) = found.first() else { return String::new() };
    let at = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    format!(
        "; it listens on {at}: have it listen on $PORT instead of {}, with `transport = \"http\"` and `socket = \"port\"`",
        one.port()
    )
}
