//! What is special to instances that run in containers: how they are started, what their runtime says of them.

use super::instance_record::{InstanceRecord, RuntimeKind, Stage};
use super::outputs::outputs;
use super::random::new_token;
use super::role::Role;
use super::start::Begun;
use super::state::Owner;
use crate::containers::{Containers, Expected, Recipe, StartContainer};
use crate::error::Phase;
use crate::instance::{Endpoint, Instance, Which};
use crate::processes::own_uid;
use crate::runtime::{Order, Runtime};
use crate::service_id::ServiceId;
use crate::spec::Transport;
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl Owner {
    /// Makes the engine's runtime, if a service needs it; it looks at once for what runs already.
    pub(super) fn attach_engine(&mut self) {
        let is_needed = self.records.iter().any(|record| record.spec.container.is_some());
        if self.containers.is_some() || !is_needed {
            return;
        }
        let of_containers = self.records.iter().filter(|record| record.spec.container.is_some());
        let expected = of_containers.map(|record| Expected {
            recipe: Recipe {
                service: Arc::clone(record.service.name()),
                number: 0,
                spec: Arc::clone(&record.spec),
                pipe: (record.spec.transport == Transport::Pipe).then(Default::default),
                mark: String::new(),
            },
            max: record.spec.max_instances,
        });
        let expected = expected.collect();
        self.containers = Some(Containers::new(self.container_options.clone(), expected));
    }

    pub(super) fn start_container(
        &mut self,
        service: usize,
        worker: usize,
        role: &Role<'_>,
        number: u64,
    ) -> io::Result<u64> {
        let now = Instant::now();
        let id = self.next_id();
        let spec = Arc::clone(&self.records[service].spec);
        let is_pipe = spec.transport == Transport::Pipe;
        let (mark, token) = (new_token()?, is_pipe.then(new_token).transpose()?);
        if is_pipe {
            self.folder.admit_users()?; // the program may run as anybody there
        }
        let which = Which { service: ServiceId(service), id, number };
        let endpoint = is_pipe.then_some(Endpoint::Pipe);
        let handle = Arc::new(Instance::new(which, endpoint, self.epoch, self.notices.clone()));
        let (outputs, fds) = outputs()?;
        let recipe = Recipe {
            service: Arc::clone(self.records[service].service.name()),
            number,
            spec,
            pipe: token.clone().map(|token| (self.folder.pipe_path(), token)),
            mark: mark.clone(),
        };
        self.attach_engine();
        let engine = self.containers.as_mut().ok_or_else(|| io::Error::other("there is no container engine"))?;
        engine.start(StartContainer { id, recipe, outputs: fds })?;
        // From here on the engine answers, so nothing may fail.
        let runtime = RuntimeKind::Container;
        let begun = Begun { handle, uid: None, release: None, mark, token, listener: None, runtime };
        Ok(self.begun(begun, outputs, worker, role, now))
    }

    pub(super) fn order_container(&self, id: u64, order: Order) {
        if self.instances.get(&id).is_some_and(|instance| instance.is_left) {
            // Whatever becomes of it is the other gateway's to say.
            if matches!(order, Order::Terminate | Order::Kill) {
                self.containers.iter().for_each(|engine| engine.leave(id));
            }
            return;
        }
        if let Some(Err(error)) = self.containers.as_ref().map(|engine| engine.order(id, order)) {
            tracing::error!(%error, "cannot tell a container anything; it is tried again"); // by the stage's deadline
        }
    }

    pub(super) fn placed(&mut self, id: u64, container: Arc<str>) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.container = Some(container);
            instance.waits_for = None;
        }
    }

    pub(super) fn waits(&mut self, id: u64, what: String) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let service = self.records[instance.service].service.name();
        tracing::debug!(%service, instance = instance.handle.number(), "a start waits: {what}");
        instance.waits_for = Some(what);
        self.publish_instance(id);
    }

    /// Instances of a gateway before this one run: the next starts of the service get them.
    pub(super) fn found(&mut self, service: &str, count: u32, now: Instant) {
        let is_it = |record: &super::ServiceRecord| **record.service.name() == *service && !record.retired;
        let Some(index) = self.records.iter().position(is_it) else { return };
        let have = self.records[index].members.len() as u32;
        for number in have..count {
            self.start(index, number as usize % self.workers.len(), None, now);
        }
    }

    /// A container did not become ready in time. What it waited for says why.
    pub(super) fn container_timed_out(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let limit = self.records[instance.service].spec.start_timeout;
        let phase = if instance.stage == Stage::Spawning { Phase::Spawn } else { Phase::Connect };
        let what = match (&instance.waits_for, instance.is_pipe(), phase) {
            (Some(what), ..) => what.clone(),
            (None, true, Phase::Connect) => {
                "its program did not dial PILOTLIGHT_SOCKET and send HELLO; does it use the Pilotlight SDK?".to_owned()
            }
            (None, false, Phase::Connect) => "nothing in its container listens on its `port`".to_owned(),
            (None, ..) => "the container engine did not start it".to_owned(),
        };
        let reason = format!("{what} (start timeout {limit:?}); its container was ended");
        self.fail_start(id, phase, reason, now);
        self.kill(id, now);
    }

    /// Containers of this gateway go on, for the one that has taken them: each is left when its exchanges are done.
    pub(super) fn leave_containers(&mut self, containers: &[String]) {
        for instance in self.instances.values_mut() {
            let is_one = |container: &Arc<str>| containers.iter().any(|one| **one == **container);
            if instance.container.as_ref().is_some_and(is_one) {
                instance.is_left = true;
            }
        }
    }

    /// Whether a process of this user may dial in: the gateway's own, those of services, and anybody while there are
    /// containers that use the pipe, whose users may be mapped. The token decides then.
    pub(super) fn may_dial(&self, uid: u32) -> bool {
        let may = |instance: &InstanceRecord| {
            instance.uid == Some(uid) || (instance.runtime == RuntimeKind::Container && instance.is_pipe())
        };
        uid == own_uid() || self.instances.values().any(may)
    }
}
