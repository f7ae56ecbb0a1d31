//! Groups of services that share a budget, as their services say.

use std::collections::BTreeMap;

use pilotlight_supervisor::{GroupSpec, InstanceState, Service, Status};
use serde_json::{Value, json};

use crate::options::ServiceTarget;

/// A group as it was when its services were looked at.
#[derive(Default)]
pub(super) struct Group {
    pub(super) max_running: Option<u32>,
    pub(super) max_memory: Option<u64>,
    /// Instances, those that end included.
    pub(super) running: u64,
    /// What they count for.
    pub(super) memory: u64,
    /// Requests that wait for an instance of one of its services.
    pub(super) waiting: u64,
    /// Instances that made room for another service.
    pub(super) made_room: u64,
    grace_seconds: f64,
    services: Vec<Value>,
}

/// Every group that a service is in, by its name.
pub(super) fn all<'a>(services: impl IntoIterator<Item = &'a ServiceTarget>) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for service in services {
        let ServiceTarget::Managed(service, _) = service else { continue };
        let status = service.status();
        let Some(share) = status.spec.group.clone() else { continue };
        groups.entry(share.group.name.clone()).or_default().add(&share.group, service, &status, share.memory);
    }
    groups
}

impl Group {
    fn add(&mut self, spec: &GroupSpec, service: &Service, status: &Status, memory: u64) {
        self.max_running = spec.max_running;
        self.max_memory = spec.memory;
        self.grace_seconds = spec.grace.as_secs_f64();
        let running = status.instances.iter().filter(|one| one.state != InstanceState::Ended).count() as u64;
        self.running += running;
        self.memory += running * memory;
        self.waiting += service.waiting() as u64;
        self.made_room += status.made_room;
        self.services.push(json!({
            "name": &**service.name(), "running": running, "memory_bytes": memory, "waiting": service.waiting(),
            "made_room": status.made_room, "held_back": service.held_back().as_deref(),
        }));
    }
}

/// For reports.
pub(super) fn status<'a>(services: impl IntoIterator<Item = &'a ServiceTarget>) -> Value {
    let shown = |(name, group): (String, Group)| {
        json!({
            "name": name,
            "running": group.running,
            "max_running": group.max_running,
            "memory_bytes": group.memory,
            "max_memory_bytes": group.max_memory,
            "grace_seconds": group.grace_seconds,
            "waiting": group.waiting,
            "made_room": group.made_room,
            "services": group.services,
        })
    };
    all(services).into_iter().map(shown).collect()
}
