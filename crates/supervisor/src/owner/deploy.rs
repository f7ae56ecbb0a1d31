//! A release that is tried: its first instance starts beside those that serve, answers a health request, and only then
//! takes requests and the place of one of them.
//!
//! ```text
//!  start ──▶ Starting ──could be ready──▶ Examining ──healthy──▶ (the link is switched) ──▶ Ready, the others are replaced
//!               │ ended, timeout             │ not healthy, ended, timeout     │ failed
//!               └────────────────────────────┴─────────────▶ rejected ◀────────┘
//! ```
//!
//! Invariant: no request but the health request reaches an instance of a release that is not the current one, unless it
//! was that before. Its entrances are in no list until then.

use super::candidate::{Candidate, Step, Switched, tell};
use super::instance_record::Stage;
use super::role::Role;
use super::state::Owner;
use crate::command::Deploy;
use crate::deploy::{Blame, DeployError, Deployed};
use crate::event::{Examination, WorkerEvent};
use crate::instance::{Ended, InstanceState};
use crate::policy::circuit::Circuit;
use crate::queue::Entrance;
use std::time::{Duration, Instant};

/// How long beyond the health request's own time its worker may take to say what came of it.
const VERDICT_GRACE: Duration = Duration::from_secs(1);

impl Owner {
    /// Somebody wants another release.
    pub(super) fn deploy(&mut self, deploy: Deploy, now: Instant) {
        let Deploy { service, trial, reply } = deploy;
        let service = service.0;
        if let Err(reason) = self.may_deploy(service, now) {
            let _ = reply.send(Err(DeployError::not_tried(reason))); // who asked may have gone
            return;
        }
        tracing::info!(service = %self.records[service].service.name(), release = %trial.release, "a release is tried");
        match self.try_start(service, 0, &Role::Candidate(&trial), now) {
            Ok(id) => {
                let record = &mut self.records[service];
                record.candidate = Some(Candidate { id, reply, step: Step::Tried(trial) });
                record.publish(&self.instances);
            }
            Err(error) => {
                let reason = format!("the gateway cannot start it: {error}");
                tell(reply, &self.records[service].service, Err(DeployError::not_tried(reason)));
            }
        }
    }

    fn may_deploy(&mut self, service: usize, now: Instant) -> Result<(), String> {
        let record = self.records.get(service).filter(|record| !record.retired);
        let why_not = match record {
            _ if self.stopping.is_some() => "the gateway is stopping",
            None => "the service is no longer configured",
            Some(record) if record.spec.releases.is_none() => "the service has no `releases`",
            Some(record) if record.candidate.is_some() => "another release of the service is being tried",
            Some(_) => return self.has_room_beside(service, now),
        };
        Err(why_not.to_owned())
    }

    pub(super) fn needs_examination(&self, id: u64) -> bool {
        let Some(instance) = self.instances.get(&id) else { return false };
        let is_tried = |candidate: &Candidate| candidate.id == id && matches!(candidate.step, Step::Tried(_));
        self.records[instance.service].candidate.as_ref().is_some_and(is_tried)
    }

    /// An instance of a tried release could take requests: it gets one.
    pub(super) fn examine(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let record = &self.records[instance.service];
        let health = record.spec.health.clone();
        instance.stop_probe();
        instance.accepts = true;
        let until = now + health.timeout + VERDICT_GRACE;
        instance.enter_stage(Stage::Examining, Some(until), &mut self.timers);
        instance.handle.set_state(InstanceState::Ready); // for the one place that is taken here
        let worker = instance.first_worker;
        let Some(lease) = instance.entrances.get(worker).cloned().and_then(Entrance::enter) else {
            return self.reject(id, "it takes no request".to_owned(), now);
        };
        let tried = record.candidate.as_ref().and_then(|candidate| match &candidate.step {
            Step::Tried(trial) => Some(trial.dir.clone()),
            Step::Switching { .. } => None,
        });
        let moved = record.spec.dir.clone().zip(tried);
        let (service, transport) = (record.service(), record.spec.transport);
        self.tell(worker, WorkerEvent::Examine(Box::new(Examination { service, transport, health, lease, moved })));
    }

    /// What came of the health request.
    pub(super) fn examined(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| instance.stage == Stage::Examining) else {
            return;
        };
        let status = match instance.handle.health() {
            Some(Ok(status)) => *status,
            Some(Err(reason)) => {
                let reason = reason.clone();
                return self.reject(id, reason, now);
            }
            None => return,
        };
        instance.set_deadline(None, &mut self.timers);
        let service = instance.service;
        let Some(candidate) = self.records[service].candidate.as_mut().filter(|candidate| candidate.id == id) else {
            return;
        };
        if let Step::Tried(trial) = std::mem::replace(&mut candidate.step, Step::Switching { status }) {
            self.switches.spawn_blocking(move || Switched { service, instance: id, result: (trial.switch)() });
        }
    }

    /// Nothing was heard of the health request.
    pub(super) fn examination_over(&mut self, id: u64, now: Instant) {
        self.reject(id, "its health request had no end".to_owned(), now);
    }

    /// The release is the current one, or cannot be.
    pub(super) fn switched(&mut self, switched: Switched, now: Instant) {
        let Switched { service, instance: id, result } = switched;
        let Some(candidate) = self.records[service].candidate.take_if(|candidate| candidate.id == id) else { return };
        let Step::Switching { status } = candidate.step else { return };
        if let Err(error) = result {
            let reason = format!("it is healthy, but cannot be made the current release: {error}");
            tracing::error!(service = %self.records[service].service.name(), "a release is not used: {reason}");
            tell(candidate.reply, &self.records[service].service, Err(DeployError::not_tried(reason)));
            return self.end_examined(id, now);
        }
        let record = &mut self.records[service];
        record.version += 1;
        record.circuit = Circuit::new(record.spec.max_failures); // what failed was something else
        record.last_failure = None;
        record.held = false;
        let version = record.version;
        let is_serving = |id: &&u64| self.instances.get(*id).is_some_and(|instance| instance.stage == Stage::Ready);
        let replaces = record.members.iter().find(is_serving).copied();
        let mut deployed = Deployed { instance: 0, status, took: Duration::ZERO };
        if let Some(instance) = self.instances.get_mut(&id) {
            deployed.instance = instance.handle.number();
            deployed.took = now - instance.begun;
            // One that has ended meanwhile is followed by another one of its release.
            if instance.stage == Stage::Examining {
                instance.version = version;
                instance.replaces = replaces;
                record.members.push(id);
                self.become_ready(id, now);
            }
        }
        tracing::info!(service = %self.records[service].service.name(), instance = deployed.instance, "its release is the current one");
        self.restart_zygote(service, now);
        self.follow_settings(service, now);
        tell(candidate.reply, &self.records[service].service, Ok(deployed));
    }

    /// The release is not used: its instance failed.
    pub(super) fn reject(&mut self, id: u64, reason: String, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.failed) else { return };
        let record = &mut self.records[instance.service];
        // Once its link is being switched, its end is that of an instance of the current release.
        let is_tried = |candidate: &mut Candidate| candidate.id == id && matches!(candidate.step, Step::Tried(_));
        let Some(candidate) = record.candidate.take_if(is_tried) else { return };
        let (exit, output_tail) = (instance.exit, instance.tail.report());
        tracing::error!(service = %record.service.name(), instance = instance.handle.number(), output = ?output_tail,
            "a release is not used: {reason}; what served before goes on");
        let error = DeployError { reason, exit, output_tail, blame: Blame::Release };
        tell(candidate.reply, &record.service, Err(error));
        self.end_examined(id, now);
    }

    /// It gets no requests, and ends; one that has not come so far is ended by whoever says so.
    fn end_examined(&mut self, id: u64, now: Instant) {
        self.leave_service(id);
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.failed = true;
        instance.handle.set_ended(Ended { exit: instance.exit, start_error: None });
        if instance.stage == Stage::Examining {
            self.terminate(id, now);
        }
    }

    /// The release that is tried is not waited for any more.
    pub(super) fn abandon_candidate(&mut self, service: usize, reason: &str, now: Instant) {
        let is_tried = |candidate: &mut Candidate| matches!(candidate.step, Step::Tried(_));
        let Some(candidate) = self.records[service].candidate.take_if(is_tried) else { return };
        tell(candidate.reply, &self.records[service].service, Err(DeployError::not_tried(reason)));
        self.give_up(candidate.id, now);
    }
}
