//! How many instances a service has: carries out what `policy::scale`, `policy::circuit` and `policy::recycle` decide.
//!
//! Every action that concerns a service marks it as changed, and after each action the changed services are reviewed.
//! So instances are started in one place, which no action can forget.

use super::groups::Proposal;
use super::instance_record::{AskedBy, InstanceRecord, Stage};
use super::service_record::scale_of;
use super::start::Started;
use super::state::Owner;
use super::timers::Timer;
use crate::error::{Phase, StartError};
use crate::policy::orders::{Orders, Situation, decide};
use crate::policy::recycle::{LimitReached, Reached};
use crate::policy::scale::{Load, Scale};
use crate::queue::QueueView;
use crate::spec::{RestartOrder, Transport};
use std::sync::Arc;
use std::time::Instant;

/// A ready instance that is to be replaced.
struct Replaceable {
    id: u64,
    number: u64,
    /// The limit that it has reached; `None`: an operator asked, or its settings have changed.
    limit: Option<LimitReached>,
    /// Its settings have changed.
    outdated: bool,
}

impl Replaceable {
    fn reason(&self) -> String {
        let asked = if self.outdated { "its settings have changed" } else { "a restart was asked for" };
        self.limit.map_or(asked.to_owned(), |limit| limit.to_string())
    }
}

impl Owner {
    pub(super) fn review_changed(&mut self, now: Instant) {
        while let Some(service) = self.changed.pop_first() {
            self.review(service, now);
            self.review_group(service, now);
        }
    }

    /// Decides on the number of a service's instances, and when to decide again.
    fn review(&mut self, service: usize, now: Instant) {
        if self.stopping.is_some() {
            let error = self.refusal(service, Phase::Stopping, "the gateway is stopping", now);
            self.records[service].service.queue.refuse(0, &error);
            return;
        }
        if self.records[service].outdated {
            return; // until it is renewed
        }
        if self.awaits_end(service) {
            return; // its end is the next time
        }
        let waiting = self.records[service].service.queue.look();
        if waiting.count > 0 {
            self.thaw_for(service, &waiting, now);
            self.records[service].service.queue.serve();
        }
        let waiting = if waiting.count > 0 { self.records[service].service.queue.look() } else { waiting };
        let load = self.load(service, &waiting);
        let replaceable = self.replaceable(service, now);
        let record = &mut self.records[service];
        let scale = scale_of(&record.spec, record.held);
        let start_asked = std::mem::take(&mut record.start_asked);
        let (replacing, circuit) = (record.successor.is_some(), &record.circuit);
        let situation =
            Situation { scale: &scale, circuit, load, start_asked, replaceable: replaceable.is_some(), replacing };
        let orders = decide(&situation, now);
        let proposal = Proposal { orders, load, start_asked, replaceable: replaceable.as_ref().map(|one| one.id) };
        let orders = self.within_budget(service, proposal, now);
        let look_down = self.look_down(service, &scale, &load, now);
        self.follow(service, orders, replaceable.filter(|_| orders.replace), waiting.worker, now);
        if orders.start == 0 && load.ready + load.starting < scale.max {
            self.records[service].service.queue.relieve();
        }
        self.watch_memory(service, now);
        let next = [orders.look_at, self.next_too_old(service, now), look_down].into_iter().flatten().min();
        self.timers.set(Timer::Review(service), &mut self.records[service].review_at, next);
    }

    fn follow(
        &mut self,
        service: usize,
        orders: Orders,
        replaceable: Option<Replaceable>,
        worker: usize,
        now: Instant,
    ) {
        let record = &mut self.records[service];
        if orders.probe {
            record.circuit.probe();
            record.service.queue.set_alert(true); // until it has started, all but one are refused as they come
        }
        if let Some(keep) = orders.keep
            && record.service.queue.waiting() > keep
        {
            let error = self.circuit_error(service, now);
            let service = &self.records[service].service;
            let refused = service.queue.refuse(keep, &error);
            service.waiting.count_refused_by_circuit(refused);
        }
        self.start_some(service, orders.start, worker, now);
        match (replaceable, self.records[service].spec.restart) {
            (None, _) => {}
            (Some(replaceable), RestartOrder::StartFirst) => self.start_successor(service, &replaceable, now),
            (Some(replaceable), RestartOrder::StopFirst) => self.stop_first(service, &replaceable, now),
        }
    }

    /// Whether an instance has yet to end before another one may start.
    fn awaits_end(&self, service: usize) -> bool {
        let ends =
            |instance: &InstanceRecord| matches!(instance.stage, Stage::Draining | Stage::Terminating | Stage::Killing);
        self.records[service].spec.restart == RestartOrder::StopFirst
            && self.instances.values().any(|instance| instance.service == service && ends(instance))
    }

    /// Ends an instance that must not run beside another one. When it has ended, its successor starts.
    fn stop_first(&mut self, service: usize, replaceable: &Replaceable, now: Instant) {
        let reason = replaceable.reason();
        tracing::info!(service = %self.records[service].service.name(), instance = replaceable.number, "stops, then starts anew: {reason}");
        self.records[service].start_asked = true;
        self.drain(replaceable.id, AskedBy::Gateway, now);
    }

    fn start_some(&mut self, service: usize, count: u32, worker: usize, now: Instant) {
        for number in 0..count as usize {
            // Each worker is the first of one: it needs no further connection to serve those who wait there.
            let worker = (worker + number) % self.workers.len();
            if self.start(service, worker, None, now) == Started::No {
                break;
            }
        }
        if count > 0 {
            self.records[service].window.reset();
        }
    }

    /// Starts the successor of one instance. No other instance is replaced before this successor is ready
    /// or has failed.
    fn start_successor(&mut self, service: usize, replaceable: &Replaceable, now: Instant) {
        let Replaceable { id, number, limit, .. } = replaceable;
        let reason = replaceable.reason();
        tracing::info!(service = %self.records[service].service.name(), instance = number, "to be replaced: {reason}");
        let worker = *id as usize % self.workers.len();
        if self.start(service, worker, Some(*id), now) == Started::Yes
            && let Some(instance) = self.records[service].successor.and_then(|id| self.instances.get_mut(&id))
        {
            instance.limit_reached = *limit;
        }
    }

    fn load(&self, service: usize, waiting: &QueueView) -> Load {
        let members = &self.records[service].members;
        let ready =
            || members.iter().filter_map(|id| self.instances.get(id)).filter(|instance| instance.stage == Stage::Ready);
        let count = ready().count();
        Load {
            ready: count as u32,
            starting: (members.len() - count) as u32,
            in_use: ready().filter_map(InstanceRecord::limiter).map(|limiter| u64::from(limiter.in_use())).sum(),
            waiting: waiting.count as u64,
            oldest: waiting.oldest,
        }
    }

    /// A ready instance that is to be replaced, if none is being replaced already.
    fn replaceable(&self, service: usize, now: Instant) -> Option<Replaceable> {
        let record = &self.records[service];
        if record.successor.is_some() {
            return None;
        }
        let ready = record
            .members
            .iter()
            .filter_map(|id| self.instances.get(id))
            .filter(|instance| instance.stage == Stage::Ready);
        let mut candidates = ready.filter_map(|instance| {
            let requests = instance.begun_exchanges();
            let reached = Reached { requests, ready_at: instance.ready_at.unwrap_or(now), memory: instance.memory };
            let limit = instance.recycle_limits.reached(&reached, now);
            let outdated = instance.version != record.version;
            let is_due = limit.is_some() || instance.replace_asked || outdated;
            is_due.then(|| Replaceable { id: instance.id(), number: instance.handle.number(), limit, outdated })
        });
        candidates.next()
    }

    fn next_too_old(&self, service: usize, now: Instant) -> Option<Instant> {
        let instances = self.records[service].members.iter().filter_map(|id| self.instances.get(id));
        instances
            .filter_map(|instance| instance.recycle_limits.too_old_at(instance.ready_at?))
            .filter(|at| *at > now)
            .min()
    }

    /// Stops instances that were not needed for a whole `scale_down_after`; returns when to look again.
    fn look_down(&mut self, service: usize, scale: &Scale, load: &Load, now: Instant) -> Option<Instant> {
        let least = scale.floor().max(1);
        let record = &mut self.records[service];
        if load.ready <= least {
            record.window.reset();
            return None;
        }
        if load.waiting > 0 {
            record.window.reset();
        }
        if record.window.is_due(now) {
            let ready = record
                .members
                .iter()
                .filter_map(|id| self.instances.get(id))
                .filter(|instance| instance.stage == Stage::Ready);
            let peak = ready.filter_map(InstanceRecord::limiter).map(|limiter| u64::from(limiter.take_peak())).sum();
            let surplus = record.window.note(scale, peak, now).map_or(0, |peak| scale.surplus(load.ready, peak));
            for _ in 0..surplus {
                self.retire_one(service, now);
            }
        }
        self.records[service].window.next()
    }

    /// Stops the instance with the fewest exchanges, the youngest of several.
    fn retire_one(&mut self, service: usize, now: Instant) {
        let ready = self.records[service].members.iter().filter_map(|id| self.instances.get(id));
        let ready = ready.filter(|instance| instance.stage == Stage::Ready);
        let Some(instance) = ready.rev().min_by_key(|instance| instance.open_exchanges()) else { return };
        let id = instance.id();
        tracing::info!(service = %self.records[service].service.name(), instance = instance.handle.number(), "one less is enough: stopping");
        self.drain(id, AskedBy::Gateway, now);
    }

    /// The instance has been given a part of its `max_requests`.
    pub(super) fn used(&mut self, id: u64) {
        let Some(instance) = self.instances.get(&id) else { return };
        instance.handle.take_used_notice();
        if instance.recycle_limits.max_requests.is_some_and(|max| instance.begun_exchanges() >= max) {
            self.changed.insert(instance.service);
        }
    }

    /// A request got no answer in time.
    pub(super) fn stuck(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id).filter(|instance| instance.stage == Stage::Ready) else { return };
        let what = match self.records[instance.service].spec.transport {
            Transport::Lambda => "an invocation missed its deadline: the instance is replaced",
            _ => "a request took longer than max_request_time: the instance is ended when its others are done",
        };
        tracing::warn!(service = %self.records[instance.service].service.name(), instance = instance.handle.number(), pid = instance.pid,
            others = instance.open_exchanges(), "{what}");
        self.records[instance.service].service.status_mut().stuck += 1;
        self.drain(id, AskedBy::Gateway, now);
    }

    /// An operator starts the service.
    pub(super) fn start_service(&mut self, service: usize, now: Instant) {
        self.records[service].circuit.close();
        self.records[service].start_asked = true;
        self.records[service].publish(&self.instances);
        self.changed.insert(service);
        tracing::debug!(service = %self.records[service].service.name(), ?now, "a start was asked for");
    }

    /// An operator wants new instances: each one is replaced. An instance that is starting is replaced once it is
    /// ready, because it may have read its files before they were changed.
    pub(super) fn restart_service(&mut self, service: usize, now: Instant) {
        let record = &self.records[service];
        for id in record.members.iter().chain(&record.successor).copied().collect::<Vec<_>>() {
            if let Some(instance) = self.instances.get_mut(&id) {
                instance.replace_asked = true;
            }
        }
        self.restart_zygote(service, now);
        self.start_service(service, now);
        self.records[service].start_asked = false;
    }

    /// Why requests are refused while the circuit is open.
    fn circuit_error(&self, service: usize, now: Instant) -> StartError {
        let record = &self.records[service];
        let failures = record.circuit.failures();
        let last = record.last_failure.as_ref();
        let reason = last.map_or("it ended soon after its start", |last| &last.reason);
        let wait = record.circuit.wait(now).unwrap_or_default();
        let next = if wait.is_zero() {
            "the next is under way".to_owned()
        } else {
            format!("next attempt in {:.1} s", wait.as_secs_f64())
        };
        let reason =
            format!("{failures} instances in a row failed to start or ended early, {next}; the last: {reason}");
        let mut error = self.refusal(service, Phase::Backoff, &reason, now).retry_after(wait);
        if let Some(last) = last {
            error.exit = last.exit;
            error.output_tail = Arc::clone(&last.output_tail);
        }
        error
    }
}
