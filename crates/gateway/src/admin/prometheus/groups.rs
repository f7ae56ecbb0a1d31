//! Metrics of groups, if there are any.

use super::super::groups::{Group, all};
use super::text::{Text, labels};
use crate::options::ServiceTarget;

/// What of a group a metric says.
type Value = fn(&Group) -> Option<u64>;

const GAUGES: [(&str, &str, Value); 5] = [
    ("pilotlight_group_running", "Instances of the group, those that end included.", |one| Some(one.running)),
    ("pilotlight_group_max_running", "The limit of pilotlight_group_running.", |one| one.max_running.map(u64::from)),
    ("pilotlight_group_memory_bytes", "What they count for.", |one| Some(one.memory)),
    ("pilotlight_group_max_memory_bytes", "The limit of pilotlight_group_memory_bytes.", |one| one.max_memory),
    ("pilotlight_group_waiting_requests", "Requests that wait for its services.", |one| Some(one.waiting)),
];

pub(super) fn groups(text: &mut Text, services: &[ServiceTarget]) {
    let groups = all(services);
    if groups.is_empty() {
        return;
    }
    for (name, help, value) in GAUGES {
        text.family(name, "gauge", help);
        for (group, one) in &groups {
            if let Some(value) = value(one) {
                text.sample(name, &labels(&[("group", group)]), &value);
            }
        }
    }
    let name = "pilotlight_group_made_room_total";
    text.family(name, "counter", "Instances that were stopped because another service of the group needed their room.");
    for (group, one) in &groups {
        text.sample(name, &labels(&[("group", group)]), &one.made_room);
    }
}
