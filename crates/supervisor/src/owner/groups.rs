//! Groups of services that share a budget: carries out what `policy::groups` decides.
//!
//! The review of a service says how many instances it wants. Here is what of that its group has room for, who has to
//! make room, and who is reviewed again when room has become free. Everything that starts an instance asks here first:
//! requests and floors (`within_budget`), successors, and releases that are tried (`has_room_beside`).

use super::group_table::Wish;
use super::instance_record::{AskedBy, Frozen, InstanceRecord, Stage};
use super::state::Owner;
use super::timers::Timer;
use crate::group::GroupSpec;
use crate::in_flight::close_if_unused;
use crate::instance::InstanceState;
use crate::policy::groups::{Group, Member, Need, Standing, Usage, Want};
use crate::policy::orders::Orders;
use crate::policy::scale::Load;
use std::sync::Arc;
use std::time::Instant;

/// What a review has found that its group has to agree to.
#[derive(Clone, Copy)]
pub(super) struct Proposal {
    pub(super) orders: Orders,
    pub(super) load: Load,
    pub(super) start_asked: bool,
    /// The instance that `orders` would have replaced.
    pub(super) replaceable: Option<u64>,
}

impl Owner {
    fn group_of(&self, service: usize) -> Option<Arc<GroupSpec>> {
        let own = &self.records[service].spec.group.as_ref()?.group;
        // One that is no longer configured keeps the settings of then.
        let configured = self.records.iter().filter(|record| !record.retired);
        let mut groups = configured.filter_map(|record| Some(&record.spec.group.as_ref()?.group));
        Some(Arc::clone(groups.find(|group| group.name == own.name).unwrap_or(own)))
    }

    /// The orders as far as the service's group has room for them.
    pub(super) fn within_budget(&mut self, service: usize, proposal: Proposal, now: Instant) -> Orders {
        let Proposal { orders, load, start_asked, replaceable } = proposal;
        let Some(spec) = self.group_of(service) else { return orders };
        let index = self.groups.index(&spec.name);
        let before = self.groups.0[index].wants.get(&service).and_then(|wish| wish.asked);
        let wish = (orders.start > 0).then(|| Wish {
            need: match load.waiting {
                0 if start_asked => Need::More,
                0 => Need::Kept,
                _ if load.ready + load.starting == 0 => Need::First,
                _ => Need::More,
            },
            count: if load.ready + load.starting == 0 { 1 } else { orders.start },
            asked: start_asked.then(|| before.unwrap_or(now)),
        });
        match wish {
            Some(wish) => self.groups.0[index].wants.insert(service, wish),
            None => self.groups.0[index].wants.remove(&service),
        };
        if orders.start == 0 && !orders.replace {
            return orders;
        }
        let group = self.group(index, &spec);
        let decision = group.decide(now);
        let granted = decision.granted(service).min(orders.start);
        if granted > 0 {
            self.groups.0[index].wants.remove(&service);
        } else if orders.start > 0 {
            self.records[service].start_asked = start_asked; // until there is room
        }
        let fits_beside = orders.replace && granted == 0 && decision.has_room(&group.budget, self.share(service));
        if orders.replace && !fits_beside && !orders.probe {
            self.replace_in_turn(service, replaceable, now);
        }
        let is_tried = granted > 0 || fits_beside;
        let keep = orders.keep.filter(|_| is_tried || !orders.probe);
        Orders { start: granted, replace: fits_beside, probe: orders.probe && is_tried, keep, ..orders }
    }

    /// There is no room for a successor beside it: it ends first.
    fn replace_in_turn(&mut self, service: usize, replaceable: Option<u64>, now: Instant) {
        let Some(id) = replaceable else { return };
        tracing::info!(service = %self.records[service].service.name(), "its group has no room for two: it is stopped before its successor is started");
        self.records[service].start_asked = true;
        self.drain(id, AskedBy::Gateway, now);
    }

    /// Whether the service's group, if it has one, has room for an instance that nobody waits for.
    pub(super) fn has_room_beside(&mut self, service: usize, now: Instant) -> Result<(), String> {
        let Some(spec) = self.group_of(service) else { return Ok(()) };
        let index = self.groups.index(&spec.name);
        let group = self.group(index, &spec);
        if group.decide(now).has_room(&group.budget, self.share(service)) {
            return Ok(());
        }
        let full = self.fullness(&group, &spec);
        Err(format!(
            "{full}, and a release is tried beside what runs; stop what has the room first (`pilotlight stop`)"
        ))
    }

    /// After a service of a group has been reviewed: makes room, and has those reviewed for whom there is room.
    pub(super) fn review_group(&mut self, service: usize, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        let Some(spec) = self.group_of(service) else { return };
        let index = self.groups.index(&spec.name);
        self.review_group_of(index, &spec, now);
    }

    /// It is time to look at a group again.
    pub(super) fn group_timer(&mut self, index: usize) {
        let Some(group) = self.groups.0.get_mut(index) else { return };
        group.look_at = None;
        let is_member = |service: &usize| {
            self.records[*service].spec.group.as_ref().is_some_and(|share| share.group.name == group.name)
        };
        let any = (0..self.records.len()).find(is_member);
        self.changed.extend(any);
    }

    fn review_group_of(&mut self, index: usize, spec: &GroupSpec, now: Instant) {
        let group = self.group(index, spec);
        let decision = group.decide(now);
        let record = &mut self.groups.0[index];
        record.over_since = decision.is_over.then(|| record.over_since.unwrap_or(now));
        self.timers.set(Timer::Group(index), &mut record.look_at, decision.look_at);
        self.say_who_waits(index, &group, spec);
        self.changed.extend(decision.grants.iter().map(|(service, _)| *service));
        for id in decision.drain {
            self.make_room(id, now);
        }
    }

    /// The group as it is now. Who is asked for room says when it is idle.
    fn group(&self, index: usize, spec: &GroupSpec) -> Group {
        let record = &self.groups.0[index];
        let is_member = |service: usize| self.share_in(service, &spec.name).is_some();
        let instances = || self.instances.values().filter(|one| one.stage != Stage::Exited && is_member(one.service));
        let wants: Vec<Want> =
            record.wants.iter().filter_map(|(service, wish)| self.want(*service, *wish, spec)).collect();
        let is_asked = !wants.is_empty() || record.over_since.is_some();
        instances().for_each(|one| one.handle.set_idle_wanted(is_asked)); // before the look at what is open
        let mut members: Vec<Member> = instances().map(|one| self.group_member(one)).collect();
        members.sort_unstable_by_key(|member| member.id);
        Group { budget: spec.budget(), members, wants, over_since: record.over_since }
    }

    fn want(&self, service: usize, wish: Wish, spec: &GroupSpec) -> Option<Want> {
        let Wish { need, count, asked } = wish;
        let record = self.records.get(service).filter(|record| !record.outdated)?;
        let memory = self.share_in(service, &spec.name)?;
        let waits_since = record.service.queue.oldest();
        let since = match need {
            Need::First => waits_since?, // they may have gone
            Need::More => waits_since.or(asked)?,
            Need::Kept => record.service.queue.oldest().unwrap_or(self.epoch),
        };
        Some(Want { service, need, since, count, memory })
    }

    fn group_member(&self, instance: &InstanceRecord) -> Member {
        let record = &self.records[instance.service];
        let share = record.spec.group.as_ref().map_or(0, |share| share.memory);
        let standing = match instance.stage {
            Stage::Spawning | Stage::Starting | Stage::Examining => Standing::Starting,
            Stage::Ready if !instance.start_over => Standing::Starting,
            Stage::Ready => Standing::Ready {
                since: instance.settled_at.or(instance.ready_at).unwrap_or(instance.begun),
                last_use: instance.last_use(),
                is_busy: instance.open_exchanges() > 0,
                waited_for: record.service.queue.oldest(),
            },
            Stage::Draining | Stage::Terminating | Stage::Killing | Stage::Exited => Standing::Ending,
        };
        // One that was started with other settings takes what they allowed it.
        let memory = if instance.version == record.version { share } else { instance.group_memory };
        Member { id: instance.id(), service: instance.service, memory, standing }
    }

    fn share(&self, service: usize) -> u64 {
        self.records[service].spec.group.as_ref().map_or(0, |share| share.memory)
    }

    fn share_in(&self, service: usize, group: &str) -> Option<u64> {
        let share = self.records.get(service)?.spec.group.as_ref()?;
        (share.group.name == group).then_some(share.memory)
    }

    /// An instance is stopped so that another service can start.
    fn make_room(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id).filter(|one| one.stage == Stage::Ready) else { return };
        let service = instance.service;
        let open = instance.open_exchanges();
        let is_closed = open > 0
            || instance.frozen == Frozen::Yes
            || close_if_unused(&instance.handle, instance.counters(), InstanceState::Draining);
        self.changed.insert(service); // also if one came just now: another may have found it closed, and waits
        if !is_closed {
            return;
        }
        let name = self.records[service].service.name();
        tracing::info!(service = %name, instance = instance.handle.number(), open, "makes room in its group: stopping");
        self.records[service].service.status_mut().made_room += 1;
        self.drain(id, AskedBy::Gateway, now);
    }

    /// Whoever gives up waiting for room is told what it waited for.
    fn say_who_waits(&self, index: usize, group: &Group, spec: &GroupSpec) {
        let wants = &self.groups.0[index].wants;
        let of_group = (0..self.records.len()).filter(|service| self.share_in(*service, &spec.name).is_some());
        let mut full: Option<Arc<str>> = None;
        for service in of_group {
            let reason = wants
                .get(&service)
                .filter(|wish| wish.need != Need::Kept)
                .map(|_| Arc::clone(full.get_or_insert_with(|| self.fullness(group, spec).into())));
            self.records[service].service.waiting.set_held_back(reason);
        }
    }

    fn fullness(&self, group: &Group, spec: &GroupSpec) -> String {
        let Usage { running, memory } = group.used();
        let mut names: Vec<&str> =
            group.members.iter().map(|member| &**self.records[member.service].service.name()).collect();
        names.dedup();
        format!(
            "the group `{}` has no room ({}; in use: {running} running, {} MiB, by {})",
            spec.name,
            spec.said(),
            memory >> 20,
            names.join(", ")
        )
    }
}
