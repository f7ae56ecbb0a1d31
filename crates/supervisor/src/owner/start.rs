//! From the first request to a ready instance.

use super::instance_record::{AskedBy, InstanceRecord, RuntimeKind, Stage};
use super::other_port::Probe;
use super::outputs::{Outputs, outputs, pumped};
use super::random::{new_token, random};
use super::role::{Placed, Role};
use super::runtime_api;
use super::service_record::uses_port;
use super::state::Owner;
use super::way::Way;
use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::error::{Phase, StartError};
use crate::guardian::{Inherit, LISTEN_FD, MARK, Spawn, SpawnRequest};
use crate::in_flight::{InFlightCounter, TellsIdle};
use crate::instance::{Address, Endpoint, Instance, InstanceState, Which};
use crate::isolation;
use crate::limits::NEXT_OTHER_PORT_LOOK;
use crate::listener::{Acceptance, Asks, Listener};
use crate::log::{Pump, Tail};
use crate::policy::backoff::InstanceEnd;
use crate::policy::hints::Hints;
use crate::policy::recycle::{LimitReached, RecycleLimits};
use crate::queue::{Entrance, Entrances};
use crate::runtime::Runtime;
use crate::service::Service;
use crate::service_id::ServiceId;
use crate::spec::{EarlyRequests, ServiceSpec, Transport};
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl Owner {
    pub(super) fn spawned(&mut self, id: u64, pid: Option<i32>, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.pid = pid;
        instance.spawned_at = Some(now);
        tracing::debug!(service = %self.records[instance.service].service.name(), instance = instance.handle.number(), pid, "spawned");
        match instance.stage {
            Stage::Spawning => instance.stage = Stage::Starting,
            Stage::Terminating => return self.terminate(id, now), // it was stopped while it was being spawned
            Stage::Killing => return self.kill(id, now),
            _ => return self.publish_instance(id), // its HELLO came first
        }
        match instance.handle.endpoint() {
            Endpoint::Pipe | Endpoint::RuntimeApi(_) => {}
            Endpoint::Http(Address::Tcp(address)) if uses_port(self.records[instance.service].spec.transport) => {
                let record = &self.records[instance.service];
                let name = Arc::clone(record.service.name());
                let probe = Probe {
                    instance: id,
                    address: *address,
                    pid,
                    service: name,
                    other: record.spec.other_port,
                    first_look: record.other_port_look,
                };
                instance.probe = Some(self.probes.spawn(probe.wait(Arc::clone(&instance.handle))));
            }
            Endpoint::Http(_) => return self.socket_given(id, now),
        }
        self.publish_instance(id);
    }

    /// An instance has inherited its socket and accepts when it can. While other instances serve, it gets no requests
    /// before that. Without others requests wait in its socket, because nothing is quicker.
    fn socket_given(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let record = &self.records[instance.service];
        let serves = |other: &u64| self.instances.get(other).is_some_and(|instance| instance.stage == Stage::Ready);
        let holds = record.spec.early_requests == EarlyRequests::Held
            || instance.replaces.is_some()
            || record.is_candidate(id)
            || record.members.iter().any(|other| *other != id && serves(other));
        let asks = if holds || record.service.queue.waiting() == 0 { Asks::Itself } else { Asks::Requests };
        match instance.listener.as_ref().map(|listener| Acceptance::of(listener, asks)) {
            Some(Ok(Some(acceptance))) => {
                let probe = self.probes.spawn(acceptance.wait(id));
                if let Some(instance) = self.instances.get_mut(&id) {
                    instance.probe = Some(probe);
                    instance.accepts = false;
                }
            }
            Some(Ok(None)) | None => {}
            Some(Err(error)) => tracing::error!(%error, "cannot look at a service's socket; it counts as ready"),
        }
        let waits = self.instances.get(&id).is_some_and(|instance| instance.probe.is_some());
        if holds && waits { self.publish_instance(id) } else { self.become_ready(id, now) }
    }

    /// What runs it has seen that it takes requests.
    pub(super) fn runtime_says_ready(&mut self, id: u64, endpoint: Endpoint, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        instance.handle.set_endpoint(endpoint);
        self.port_open(id, now);
    }

    pub(super) fn spawn_failed(&mut self, id: u64, reason: String, now: Instant) {
        self.fail_start(id, Phase::Spawn, reason, now);
        self.forget(id);
    }

    /// A service that only knows `PORT` listens, or one that has inherited its socket accepts.
    pub(super) fn port_open(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if instance.handle.moved_to().is_some() {
            self.records[instance.service].other_port_look = NEXT_OTHER_PORT_LOOK;
        }
        match instance.stage {
            Stage::Starting => {
                instance.accepts = true;
                instance.connected_at = Some(now);
                self.become_ready(id, now);
            }
            Stage::Ready => self.accepts(id, now),
            _ => {}
        }
    }

    /// An instance that was given requests early accepts them now.
    fn accepts(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.accepts) else { return };
        instance.accepts = true;
        instance.stop_probe();
        self.say_ready(id, now);
        self.publish_instance(id);
    }

    fn say_ready(&self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        let phases = instance.start_times(now).phases(instance.begun, now);
        tracing::info!(service = %self.records[instance.service].service.name(), instance = instance.handle.number(), pid = instance.pid,
            took = ?now.duration_since(instance.begun), %phases, "ready");
    }

    /// The instance takes exchanges; those who wait enter it, as far as there is room. The one that it replaces is
    /// drained.
    pub(super) fn become_ready(&mut self, id: u64, now: Instant) {
        if self.needs_examination(id) {
            return self.examine(id, now);
        }
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let record = &mut self.records[instance.service];
        instance.ready_at = Some(now);
        instance.stage = Stage::Ready;
        let times = instance.start_times(now);
        instance.handle.set_start_times(times);
        record.service.status_mut().starts += 1;
        instance.handle.set_state(InstanceState::Ready);
        let replaced = instance.replaces.take();
        if replaced.is_some() {
            let counts = &mut record.service.status_mut().replaced;
            *match instance.limit_reached {
                Some(LimitReached::Requests(_)) => &mut counts.requests,
                Some(LimitReached::Age(_)) => &mut counts.age,
                Some(LimitReached::Memory(_)) => &mut counts.memory,
                None => &mut counts.asked,
            } += 1;
        }
        if record.successor == Some(id) {
            record.successor = None;
            record.members.push(id);
        }
        record.window.reset();
        self.changed.insert(instance.service);
        record.publish(&self.instances); // before anybody is answered
        if let Some(instance) = self.instances.get(&id) {
            record.service.change(Some(&instance.entrances), replaced);
            if instance.accepts {
                self.say_ready(id, now); // only now: nobody waits for a line to be written
            }
        }
        if let Some(old) = replaced.filter(|old| self.instances.get(old).is_some_and(|old| old.stage == Stage::Ready)) {
            self.drain(old, AskedBy::Gateway, now);
        }
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if !instance.accepts && !instance.handle.answered() {
            let deadline = instance.begun + self.records[instance.service].spec.start_timeout;
            instance.set_deadline(Some(deadline), &mut self.timers);
        } else {
            self.start_is_over(id, now);
        }
        self.publish_instance(id);
    }

    /// HTTP: first bytes of an answer came.
    pub(super) fn answered(&mut self, id: u64, now: Instant) {
        // That of a health request is looked at when it is ready.
        let is_news = |instance: &InstanceRecord| !instance.start_over && instance.stage != Stage::Examining;
        if self.instances.get(&id).is_some_and(is_news) {
            self.accepts(id, now);
            self.start_is_over(id, now);
        }
    }

    pub(super) fn start_is_over(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.start_over = true;
        instance.settled_at = Some(now);
        instance.stop_probe(); // has a copy of the socket
        if let Some(listener) = &mut instance.listener {
            listener.release();
        }
        let record = &mut self.records[instance.service];
        record.last_failure = None;
        record.circuit.started();
        record.service.queue.set_alert(false);
        if record.spec.group.is_some() {
            self.changed.insert(instance.service); // it may make room from now on
        }
        if instance.stage == Stage::Ready {
            self.look_idle(id, now);
        }
        self.publish_instance(id);
    }

    pub(super) fn refusal(&self, service: usize, phase: Phase, reason: &str, now: Instant) -> StartError {
        StartError::new(self.records[service].service.name(), phase, reason, now)
    }

    /// Starts an instance; with `replaces` it takes the place of that one.
    pub(super) fn start(&mut self, service: usize, worker: usize, replaces: Option<u64>, now: Instant) -> Started {
        self.records[service].held = false;
        let role = replaces.map_or(Role::Member, Role::Successor);
        let Err(error) = self.try_start(service, worker, &role, now) else { return Started::Yes };
        let record = &mut self.records[service];
        record.circuit.ended(InstanceEnd::NeverReady, now, random());
        let reason = format!("the gateway cannot start it: {error}");
        let error = StartError::new(record.service.name(), Phase::Spawn, reason, now);
        let error = error.retry_after(record.circuit.wait(now).unwrap_or_default());
        tracing::error!("{error}");
        record.fail_start(error.clone());
        record.publish(&self.instances); // before anybody is answered
        if record.members.is_empty() {
            record.service.queue.refuse(0, &error);
        }
        self.changed.insert(service);
        Started::No
    }

    /// Starts an instance in a role; returns its id.
    pub(super) fn try_start(
        &mut self,
        service: usize,
        worker: usize,
        role: &Role<'_>,
        now: Instant,
    ) -> io::Result<u64> {
        let placed = Placed::of(&self.records[service].spec, role)?;
        let number = self.records[service].last_number + 1;
        let id = self.next_id();
        let transport = self.records[service].spec.transport;
        if self.records[service].spec.container.is_some() {
            return self.start_container(service, worker, role, number);
        }
        let way = Way::make(transport, &self.folder.socket_path(service, number))?;
        let token = if way.endpoint == Endpoint::Pipe { Some(new_token()?) } else { None };
        let uid = isolation::uid(&self.records[service].spec.isolation);
        if uid.is_some() && token.is_some() {
            self.folder.admit_users()?;
        }
        let which = Which { service: ServiceId(service), id, number };
        let handle = Arc::new(Instance::new(which, Some(way.endpoint.clone()), self.epoch, self.notices.clone()));
        let (outputs, mut fds) = outputs()?;
        let (inherit, socket) = way.inherited(transport)?;
        fds.extend(socket);
        let mark = new_token()?;
        let identity = Identity { token: token.as_deref(), mark: &mark };
        let request = placed.applied(self.request(&handle, identity, inherit));
        match role {
            Role::Candidate(_) => self.guardian()?.start(Spawn { request, fds })?, // a zygote has imported the current release
            Role::Member | Role::Successor(_) => self.execute(service, request, fds, now)?,
        }
        // From here on the guardian answers, so nothing may fail.
        if let Some(listener) = way.runtime_api {
            self.serve_runtime_api(&handle, listener, uid);
        }
        let begun = Begun {
            handle,
            uid,
            release: placed.release,
            mark,
            token,
            listener: way.listener,
            runtime: RuntimeKind::Process,
        };
        Ok(self.begun(begun, outputs, worker, role, now))
    }

    /// Notes an instance that something was asked to run.
    pub(super) fn begun(
        &mut self,
        begun: Begun,
        outputs: Outputs,
        worker: usize,
        role: &Role<'_>,
        now: Instant,
    ) -> u64 {
        let Begun { handle, uid, release, mark, token, listener, runtime } = begun;
        let (service, id, number) = (handle.service().0, handle.id, handle.number());
        let tail = self.pump(service, Which { service: ServiceId(service), id, number }, outputs);
        let record = &mut self.records[service];
        if let Some(token) = &token {
            self.tokens.insert(token.clone(), id);
        }
        record.last_number = number;
        match role {
            Role::Successor(_) => record.successor = Some(id),
            Role::Member => record.members.push(id),
            Role::Candidate(_) => {} // the caller has more to note of it
        }
        let recycle_limits = record.spec.recycle.jittered(random());
        let entrances = entrances(&record.spec, &record.service, &handle, &recycle_limits, self.workers.len());
        let version = record.version;
        let mut instance = InstanceRecord {
            uid,
            recycle_limits,
            group_memory: record.spec.group.as_ref().map_or(0, |share| share.memory),
            replaces: role.replaces(),
            release,
            version,
            mark,
            token,
            listener,
            tail,
            runtime,
            ..InstanceRecord::new(handle, entrances, worker, now)
        };
        instance.set_deadline(Some(now + record.spec.start_timeout), &mut self.timers);
        self.instances.insert(id, instance);
        record.publish(&self.instances);
        id
    }

    /// Reads what an instance prints; returns the last of it.
    fn pump(&mut self, service: usize, which: Which, outputs: Outputs) -> Arc<Tail> {
        let record = &self.records[service];
        let tail = Arc::new(Tail::default());
        for (output, from) in outputs {
            let service = &record.service;
            let (service, dropped_lines) = (Arc::clone(service.name()), Arc::clone(&service.dropped_lines));
            let (tail, sink) = (Arc::clone(&tail), self.log.clone());
            let hints = Hints::new(&record.spec.isolation, record.spec.dir.as_deref());
            let pump = Pump { service, dropped_lines, instance: which.number, output, tail, sink, hints };
            self.pumps.spawn(pumped(which.id, pump, from));
        }
        tail
    }

    fn request(&self, instance: &Instance, identity: Identity<'_>, inherit: Inherit) -> SpawnRequest {
        let Identity { token, mark } = identity;
        let spec = &self.records[instance.service().0].spec;
        let mut env = spec.env.clone();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        set("PILOTLIGHT_SERVICE", spec.name.clone());
        set("PILOTLIGHT_INSTANCE", instance.number().to_string());
        set(MARK, mark.to_owned());
        match (instance.endpoint(), inherit) {
            (endpoint, Inherit::Listener | Inherit::FastCgi) => {
                set("LISTEN_FDS", "1".to_owned());
                set("LISTEN_FDNAMES", listener_name(spec.transport).to_owned());
                if let (Inherit::FastCgi, Endpoint::Http(address)) = (inherit, endpoint) {
                    // What php-fpm hands to itself when it reloads; `listen = ${PILOTLIGHT_LISTEN}` is that socket.
                    set("FPM_SOCKETS", format!("{address}={LISTEN_FD}"));
                    set("PILOTLIGHT_LISTEN", address.to_string());
                }
            }
            (Endpoint::Http(Address::Tcp(address)), Inherit::Nothing) => set("PORT", address.port().to_string()),
            (Endpoint::RuntimeApi(address), _) => runtime_api::env(*address, instance.number(), spec, &mut set),
            (_, Inherit::Nothing | Inherit::Input) => {
                set("PILOTLIGHT_SOCKET", self.folder.pipe_path().to_string_lossy().into_owned());
                set("PILOTLIGHT_TOKEN", token.unwrap_or_default().to_owned());
            }
        }
        let dir = spec.dir.as_ref().map(|dir| dir.as_os_str().to_owned());
        let isolation = Some(&spec.isolation).filter(|isolation| !isolation.is_none()).cloned().map(Box::new);
        SpawnRequest {
            id: instance.id,
            argv: spec.argv.clone(),
            dir,
            inherit_env: spec.inherited(),
            env,
            inherit,
            isolation,
        }
    }
}

/// An instance that something was asked to run.
pub(super) struct Begun {
    pub(super) handle: Arc<Instance>,
    pub(super) uid: Option<u32>,
    pub(super) release: Option<Arc<str>>,
    pub(super) mark: String,
    pub(super) token: Option<String>,
    pub(super) listener: Option<Listener>,
    pub(super) runtime: RuntimeKind,
}

/// What an instance is known by.
#[derive(Clone, Copy, Debug)]
struct Identity<'a> {
    /// By the gateway, when it dials.
    token: Option<&'a str>,
    /// By the guardian, with all that it starts.
    mark: &'a str,
}

/// Whether a start was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Started {
    Yes,
    No,
}

/// An entrance for each worker to a new instance.
fn entrances(
    spec: &ServiceSpec,
    service: &Service,
    instance: &Arc<Instance>,
    recycle_limits: &RecycleLimits,
    workers: usize,
) -> Entrances {
    let limiter = spec.concurrency.map(|max| Arc::new(ConcurrencyLimiter::new(max)));
    let look_every = recycle_limits.look_every(workers);
    let tells_idle = if spec.group.is_some() { TellsIdle::WhenAsked } else { TellsIdle::Never };
    let counter = |worker| InFlightCounter::new(Arc::clone(instance), worker, limiter.clone(), look_every, tells_idle);
    (0..workers).map(|worker| Arc::new(Entrance::new(counter(worker), &service.queue))).collect()
}

/// `LISTEN_FDNAMES`.
fn listener_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Pipe | Transport::Stdio | Transport::Lambda | Transport::Http(_) | Transport::H2c(_) => "http",
        Transport::FastCgi(_) => "fastcgi",
        Transport::Scgi(_) => "scgi",
        Transport::Uwsgi(_) => "uwsgi",
    }
}
