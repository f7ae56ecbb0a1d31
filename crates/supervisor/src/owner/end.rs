//! How runs end, and what is said about it.

use super::process_group::kill_group;
use super::random::random;
use super::record::{Run, Stage, uses_port};
use super::state::Owner;
use crate::error::{Exit, Phase, StartError};
use crate::event::WorkerEvent;
use crate::guardian::kill_marked;
use crate::instance::{Ended, InstanceState};
use crate::limits::OUTPUT_GRACE;
use crate::policy::backoff::RunEnd;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

impl Owner {
    /// The process is gone, and what it left in its group is killed.
    pub(super) fn exited(&mut self, id: u64, exit: Exit, now: Instant) {
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.stage != Stage::Exited) else {
            return;
        };
        run.exit = Some(exit);
        run.enter_stage(Stage::Exited, Some(now + OUTPUT_GRACE), &mut self.timers);
        run.stop_probe();
        let record = &mut self.records[run.service];
        let never_ready = !run.start_over && !run.stop_asked;
        if !never_ready {
            let lasted = run.ready_at.map_or_else(Default::default, |at| now.saturating_duration_since(at));
            let end = if run.stop_asked { RunEnd::Stopped } else { RunEnd::Crashed { ready_for: lasted } };
            if !run.failed {
                record.circuit.ended(end, now, random());
            }
            if run.stop_asked {
                let cut = run.cut.max(run.open_exchanges());
                let mut status = record.service.status_mut();
                status.stopped.instances += 1;
                status.stopped.finished += run.in_flight_at_stop.saturating_sub(cut);
                status.stopped.cut += cut;
                status.stopped.killed += u64::from(run.killed);
            }
            report_end(record.service.name(), run, exit);
            if !run.stop_asked {
                let limit = run.limit_said();
                let reason = format!("it {exit} {:.1} s after it was ready{limit}", lasted.as_secs_f64());
                let error = StartError::new(record.service.name(), Phase::Answer, reason, run.begun);
                record.last_failure = Some(StartError { exit: Some(exit), output_tail: run.tail.report(), ..error });
            }
        }
        // A run that was never ready stays a member until its output is read, so that those who ask meanwhile get the
        // report too.
        let (outputs_open, instance) = (run.outputs_open, Arc::clone(&run.instance));
        if !never_ready {
            self.leave_service(id);
        }
        instance.set_state(InstanceState::Ended);
        if outputs_open == 0 {
            self.finish(id, now);
        }
    }

    pub(super) fn output_ended(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.outputs_open = run.outputs_open.saturating_sub(1);
        if run.outputs_open == 0 && run.stage == Stage::Exited {
            self.finish(id, now);
        }
    }

    /// An instance that has exited, with all its output read: the last word on it.
    pub(super) fn finish(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get(&id) else { return };
        let (exit, ready, limit) = (run.exit, run.ready_at.is_some(), run.limit_said());
        if !run.start_over && !run.stop_asked && !run.failed {
            let (phase, when) = if ready {
                (Phase::Answer, "before the first byte of its first answer")
            } else {
                (Phase::Connect, "before it was ready")
            };
            let how = exit.map_or_else(|| "ended".to_owned(), |exit| exit.to_string());
            let hint = if run.is_pipe() && exit == Some(Exit::Code(0)) && !ready {
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
        let Some(run) = self.runs.get(&id) else { return };
        let limit = self.records[run.service].spec.start_timeout;
        let (phase, what) = if run.stage == Stage::Spawning {
            (Phase::Spawn, "the guardian process did not execute it")
        } else if run.is_pipe() {
            (
                Phase::Connect,
                "it did not dial PILOTLIGHT_SOCKET and send HELLO; does it use the Pilotlight SDK (`transport = \"pipe\"`)?",
            )
        } else if uses_port(self.records[run.service].spec.transport) {
            (Phase::Connect, "nothing listens on the port in its variable PORT")
        } else {
            return self.never_accepted(id, now);
        };
        let reason = format!("{what} (start timeout {limit:?}); it was killed");
        self.fail_start(id, phase, reason, now);
        self.kill(id, now);
    }

    /// HTTP, start timeout: nothing came back yet. Has it at least taken what was sent?
    pub(super) fn look_accepted(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get(&id) else { return };
        let waiting = run.listener.as_ref().map(|listener| listener.has_waiting());
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
        let Some(run) = self.runs.get(&id) else { return };
        let limit = self.records[run.service].spec.start_timeout;
        let reason = format!(
            "it never accepted a connection on the socket it was given as descriptor 3 (start timeout {limit:?}); it was killed; \
             make it listen on descriptor 3 (LISTEN_FDS), or use `socket = \"port\"`"
        );
        self.fail_start(id, Phase::Connect, reason, now);
        self.kill(id, now);
    }

    /// Notes and reports a failed start, to those who wait for it and to those who will ask soon.
    pub(super) fn fail_start(&mut self, id: u64, phase: Phase, reason: String, now: Instant) {
        let Some(run) = self.runs.get_mut(&id).filter(|run| !run.failed) else {
            return;
        };
        run.failed = true;
        let record = &mut self.records[run.service];
        if run.stop_asked {
            return; // those who waited were told then
        }
        record.circuit.ended(RunEnd::NeverReady, now, random());
        record.service.status_mut().failed_starts += 1;
        let error = StartError {
            exit: run.exit,
            output_tail: run.tail.report(),
            retry_after: record.circuit.wait(now).unwrap_or_default(),
            ..StartError::new(record.service.name(), phase, reason, run.begun)
        };
        tracing::error!(output = ?error.output_tail, "{error}");
        record.last_failure = Some(error.clone());
        let (service, replaces) = (run.service, run.replaces);
        self.leave_service(id); // shows the failure before anybody is answered
        if replaces.is_some() {
            tracing::warn!(service = %self.records[service].service.name(), "the instance that it was to replace goes on");
        }
        // Where others are ready, or are being started, those who wait have still something to wait for.
        if self.records[service].members.is_empty() {
            self.records[service].service.queue.refuse(0, &error);
        }
        let Some(run) = self.runs.get(&id) else { return };
        run.instance.set_ended(Ended { exit: run.exit, start_error: Some(error) });
    }

    /// Lets go of a run that has no process.
    pub(super) fn forget(&mut self, id: u64) {
        self.leave_service(id);
        let Some(mut run) = self.runs.remove(&id) else { return };
        self.records[run.service].publish(&self.runs);
        run.set_deadline(None, &mut self.timers);
        if let Some(token) = &run.token {
            self.tokens.remove(token);
        }
        run.instance.set_state(InstanceState::Ended);
        run.instance.set_ended(Ended { exit: run.exit, start_error: None });
        for worker in 0..self.workers.len() {
            self.tell(worker, WorkerEvent::Gone { instance: Arc::clone(&run.instance) });
        }
    }

    /// The guardian is dead: its services have nobody who would kill them with the gateway, so they end now. The next
    /// start has a new guardian.
    pub(super) fn guardian_lost(&mut self, now: Instant) {
        let Some(link) = self.link.take() else { return };
        tracing::error!("the guardian process died; all services are killed and start anew with their next request");
        link.bury();
        let marks: HashSet<String> =
            self.runs.values().map(|run| run.mark.clone()).chain(self.zygote_marks()).collect();
        self.undertakers.spawn_blocking(move || kill_marked(&marks));
        self.zygotes_lost(now);
        let runs: Vec<(u64, Option<i32>)> = self.runs.values().map(|run| (run.id(), run.pid)).collect();
        for (id, pid) in runs {
            if let Some(pid) = pid {
                kill_group(pid);
                self.exited(id, Exit::Lost, now);
            } else {
                self.spawn_failed(id, "the guardian process died before it executed it".to_owned(), now);
            }
        }
    }
}

fn report_end(service: &Arc<str>, run: &Run, exit: Exit) {
    let number = run.instance.number();
    if run.stop_asked || run.failed {
        tracing::info!(%service, instance = number, %exit, "stopped");
    } else {
        tracing::warn!(%service, instance = number, %exit, output = ?run.tail.report(), "ended by itself{}", run.limit_said());
    }
}
