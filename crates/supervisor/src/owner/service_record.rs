//! What the supervisor's thread knows of a service.

use super::candidate::{Candidate, Step, tell};
use super::instance_record::InstanceRecord;
use super::reported_bounds::ReportedBounds;
use crate::deploy::DeployError;
use crate::error::StartError;
use crate::instance::InstanceState;
use crate::limits::OTHER_PORT_LOOK;
use crate::policy::circuit::Circuit;
use crate::policy::scale::{Scale, Window};
use crate::policy::zygote::Zygotes;
use crate::service::Service;
use crate::spec::{HttpSocket, MinInstances, ServiceSpec, Spare, Transport};
use crate::status::{InstanceStatus, ServiceState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A service.
#[derive(Debug)]
pub(crate) struct ServiceRecord {
    pub(super) service: Arc<Service>,
    pub(super) spec: Arc<ServiceSpec>,
    pub(super) circuit: Circuit,
    /// The instances that are starting or ready, oldest first.
    pub(super) members: Vec<u64>,
    /// An instance that starts to take the place of a ready one.
    pub(super) successor: Option<u64>,
    /// An instance of a release that is being tried.
    pub(super) candidate: Option<Candidate>,
    pub(super) last_number: u64,
    pub(super) last_failure: Option<StartError>,
    /// After how long it is looked whether an instance listens elsewhere than on its `PORT`.
    pub(super) other_port_look: Duration,
    pub(super) window: Window,
    /// When the number of instances is decided on again.
    pub(super) review_at: Option<Instant>,
    /// When their memory is looked at.
    pub(super) memory_at: Option<Instant>,
    /// Somebody asked for a start: an instance is started without a request.
    pub(super) start_asked: bool,
    /// Somebody stopped it: an instance is started for a request or a command, but not for `min_instances` or `spare`.
    pub(super) held: bool,
    /// Decides what its zygotes are used for.
    pub(super) zygotes: Zygotes,
    /// The zygote that runs.
    pub(super) zygote: Option<u64>,
    /// Counts the settings that only new instances follow.
    pub(super) version: u64,
    /// It is no longer configured.
    pub(super) retired: bool,
    /// Its program changes: nothing is started until it is renewed.
    pub(super) outdated: bool,
    /// An instance is started when it is renewed.
    pub(super) start_renewed: bool,
    /// What has been logged about its bounds.
    pub(super) reported: ReportedBounds,
}

impl ServiceRecord {
    pub(crate) fn new(service: Arc<Service>, spec: Arc<ServiceSpec>) -> Self {
        Self {
            service,
            circuit: Circuit::new(spec.max_failures),
            spec,
            members: Vec::new(),
            successor: None,
            candidate: None,
            last_number: 0,
            last_failure: None,
            other_port_look: OTHER_PORT_LOOK,
            window: Window::default(),
            review_at: None,
            memory_at: None,
            start_asked: false,
            held: false,
            zygotes: Zygotes::default(),
            zygote: None,
            version: 0,
            retired: false,
            outdated: false,
            start_renewed: false,
            reported: ReportedBounds::default(),
        }
    }

    pub(crate) fn service(&self) -> Arc<Service> {
        Arc::clone(&self.service)
    }

    pub(super) fn is_candidate(&self, id: u64) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.id == id)
    }

    /// The instance is of no use any more: whoever waits for the release is told, unless that has become the current
    /// one already.
    pub(super) fn lose_candidate(&mut self, id: u64) {
        let is_lost = |candidate: &mut Candidate| candidate.id == id && matches!(candidate.step, Step::Tried(_));
        if let Some(candidate) = self.candidate.take_if(is_lost) {
            let error = DeployError::not_tried("it was stopped before it took requests");
            tell(candidate.reply, &self.service, Err(error));
        }
    }

    /// Counts a start that failed. Its reason is published with the count, because `pilotlight restart` reports it as
    /// soon as the count has changed.
    pub(super) fn fail_start(&mut self, error: StartError) {
        let mut status = self.service.status_mut();
        status.failed_starts += 1;
        status.last_error = Some(error.clone());
        drop(status);
        self.last_failure = Some(error);
    }

    /// Publishes the state, for reports.
    pub(super) fn publish(&self, instances: &HashMap<u64, InstanceRecord>) {
        let service = self.service.id().0;
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.id);
        let serving = || self.members.iter().chain(&self.successor).chain(candidate);
        let mut ending: Vec<&InstanceRecord> =
            instances.values().filter(|instance| instance.service == service).collect();
        ending.retain(|instance| !serving().any(|id| *id == instance.id()));
        ending.sort_unstable_by_key(|instance| instance.id());
        let ending = ending.into_iter().map(|instance| match instance.status() {
            ended @ InstanceStatus { state: InstanceState::Ended, .. } => ended,
            status => InstanceStatus { state: InstanceState::Draining, ..status }, // also on the way to that stage
        });
        let instances: Vec<InstanceStatus> =
            serving().filter_map(|id| instances.get(id)).map(InstanceRecord::status).chain(ending).collect();
        let first = |state| instances.iter().find(|one| one.state == state);
        let first = first(InstanceState::Ready).or(first(InstanceState::Frozen)).or(first(InstanceState::Starting));
        let mut status = self.service.status_mut();
        status.state = match first.map(|one| one.state) {
            Some(InstanceState::Ready) => ServiceState::Ready,
            Some(InstanceState::Frozen) => ServiceState::Frozen,
            Some(_) => ServiceState::Starting,
            None => ServiceState::Stopped,
        };
        status.instance = self.last_number;
        status.pid = first.and_then(|one| one.pid);
        status.instances = instances;
        status.failures = self.circuit.failures();
        status.circuit = self.circuit.state();
        status.next_attempt = self.circuit.next_attempt();
        status.spec = Arc::clone(&self.spec);
        status.last_error.clone_from(&self.last_failure);
    }
}

impl Drop for ServiceRecord {
    fn drop(&mut self) {
        self.service.queue.close(); // also when the supervisor's thread panics
    }
}

/// Whether the service listens by itself.
pub(super) fn uses_port(transport: Transport) -> bool {
    transport.socket() == Some(HttpSocket::Port)
}

/// The settings that decide about the number of a service's instances. One that is held is not started for its floor.
pub(super) fn scale_of(spec: &ServiceSpec, held: bool) -> Scale {
    Scale {
        min: u32::from(spec.min_instances == MinInstances::One && !held),
        max: spec.max_instances,
        spare: u32::from(spec.spare == Spare::One && !held),
        concurrency: spec.concurrency,
        up_after: spec.scale_up_after,
        down_after: spec.scale_down_after,
    }
}
