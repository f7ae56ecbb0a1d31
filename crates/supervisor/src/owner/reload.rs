//! Other settings while services run: new services, changed ones, and those that are no longer configured.
//!
//! A changed service keeps its queue, its counters and its instances. Settings that the supervisor itself follows
//! count at once. Other settings make its instances outdated: each is replaced like one that has reached a limit, so
//! the old one is drained when the new one is ready. If the new one does not start, the old one goes on.

use super::instance_record::{AskedBy, Stage};
use super::service_record::ServiceRecord;
use super::state::Owner;
use super::timers::Timer;
use crate::command::Configure;
use crate::policy::circuit::Circuit;
use crate::service::Service;
use crate::service_id::ServiceId;
use crate::spec::{MinInstances, ServiceSpec, Spare};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an instance of a service that is no longer configured may stay without an exchange: only requests that were
/// on their way when the routes changed can start one.
const RETIRED_IDLE: Duration = Duration::from_secs(1);

impl Owner {
    /// Makes new services and changes those that there are.
    pub(super) fn configure(&mut self, wanted: Configure, now: Instant) {
        let Configure { specs, reply } = wanted;
        let mut services = Vec::with_capacity(specs.len());
        for (id, spec) in specs {
            let known = id.filter(|id| self.records.get(id.0).is_some_and(|record| !record.retired));
            let id = match known {
                Some(ServiceId(id)) => self.change(id, spec, now),
                None => self.add(spec, now),
            };
            services.push(self.records[id].service());
        }
        let _ = reply.send(services); // who asked has given up: the settings count all the same
    }

    fn add(&mut self, spec: ServiceSpec, now: Instant) -> usize {
        let free = (0..self.records.len()).find(|id| self.is_free(*id));
        let id = free.unwrap_or(self.records.len());
        let spec = Arc::new(spec);
        let service = Service::new(id, &spec, self.workers.len(), self.notices.clone(), self.log.clone());
        let record = ServiceRecord::new(Arc::new(service), spec);
        match self.records.get_mut(id) {
            Some(place) => {
                self.timers.set(Timer::Review(id), &mut place.review_at, None);
                self.timers.set(Timer::Memory(id), &mut place.memory_at, None);
                *place = record;
            }
            None => self.records.push(record),
        }
        self.changed.insert(id);
        self.boot_early(id, now);
        id
    }

    /// Whether nothing refers to the service with this number any more, so that another service may have it.
    fn is_free(&self, id: usize) -> bool {
        let record = &self.records[id];
        record.retired
            && Arc::strong_count(&record.service) == 1
            && self.instances.values().all(|instance| instance.service != id)
    }

    fn change(&mut self, id: usize, spec: ServiceSpec, now: Instant) -> usize {
        let record = &mut self.records[id];
        if *record.spec == spec {
            return id;
        }
        let outdated = spec.needs_new_instances(&record.spec);
        record.circuit.set_max_failures(spec.max_failures);
        record.service.configure(&spec);
        record.spec = Arc::new(spec);
        if outdated {
            record.version += 1;
            record.circuit = Circuit::new(record.spec.max_failures); // what failed was something else
            record.last_failure = None;
            self.restart_zygote(id, now);
            self.abandon_candidate(id, "the settings of the service have changed meanwhile; deploy again", now);
        }
        let record = &self.records[id];
        tracing::info!(service = %record.service.name(), outdated, "its settings have changed");
        self.follow_settings(id, now);
        id
    }

    pub(super) fn follow_settings(&mut self, id: usize, now: Instant) {
        let record = &self.records[id];
        let outdated =
            |member: &u64| self.instances.get(member).is_some_and(|instance| instance.version != record.version);
        let members: Vec<(u64, bool)> =
            record.members.iter().chain(&record.successor).map(|member| (*member, outdated(member))).collect();
        for (member, outdated) in members {
            match self.instances.get(&member).map(|instance| (instance.stage, instance.start_over)) {
                Some((Stage::Ready, true)) => self.look_idle(member, now),
                // Those who wait for it get one that is started with the new settings.
                Some((Stage::Spawning | Stage::Starting, _)) if outdated => self.give_up(member, now),
                _ => {}
            }
        }
        self.records[id].publish(&self.instances);
        self.changed.insert(id);
    }

    /// The services are no longer configured: their instances are drained. Requests on their way to one are still
    /// answered.
    pub(super) fn retire(&mut self, services: &[ServiceId], now: Instant) {
        for ServiceId(id) in services.iter().copied() {
            let Some(record) = self.records.get_mut(id).filter(|record| !record.retired) else { continue };
            record.retired = true;
            record.spec = Arc::new(ServiceSpec {
                min_instances: MinInstances::Zero,
                spare: Spare::None,
                idle_timeout: Some(RETIRED_IDLE),
                preload: None,
                ..(*record.spec).clone()
            });
            record.service.configure(&record.spec);
            tracing::info!(service = %record.service.name(), "no longer configured: stopping");
            self.stop_zygote(id, now);
            self.abandon_candidate(id, "the service is no longer configured", now);
            let record = &self.records[id];
            let waiting = record.service.queue.waiting();
            for member in record.members.iter().chain(&record.successor).copied().collect::<Vec<_>>() {
                match self.instances.get(&member).map(|instance| instance.stage) {
                    Some(Stage::Ready) => self.drain(member, AskedBy::Gateway, now),
                    Some(Stage::Spawning | Stage::Starting) if waiting == 0 => self.give_up(member, now),
                    _ => {}
                }
            }
            self.changed.insert(id);
        }
    }
}
