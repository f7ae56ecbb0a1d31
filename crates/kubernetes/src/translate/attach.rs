//! Which doors a route has, by its parents.

use super::hosts;
use super::listeners::Doors;
use crate::api::{GROUP, HttpRouteSpec, ParentRef};
use crate::conditions::Condition;
use crate::snapshot::{Key, Snapshot};

/// One parent of a route that is a Gateway of ours.
pub(super) struct Attachment {
    pub(super) parent: ParentRef,
    /// Doors by index, with the hosts that the route has there.
    pub(super) doors: Vec<(usize, Vec<Option<String>>)>,
    /// Why there are none.
    pub(super) refused: Option<Condition>,
}

/// The parents of a route that are Gateways of ours.
pub(super) fn attach(snapshot: &Snapshot, doors: &Doors, key: &Key, route: &HttpRouteSpec) -> Vec<Attachment> {
    route.parent_refs.iter().filter_map(|parent| one(snapshot, doors, key, route, parent)).collect()
}

fn one(snapshot: &Snapshot, doors: &Doors, key: &Key, route: &HttpRouteSpec, parent: &ParentRef) -> Option<Attachment> {
    let is_gateway = parent.group.as_deref().is_none_or(|group| group == GROUP)
        && parent.kind.as_deref().is_none_or(|kind| kind == "Gateway");
    let gateway = Key::new(parent.namespace.as_deref().unwrap_or(&key.namespace), &parent.name);
    let of_gateway: Vec<usize> = doors
        .all
        .iter()
        .enumerate()
        .filter(|(_, door)| is_gateway && door.gateway == gateway)
        .map(|(index, _)| index)
        .collect();
    if of_gateway.is_empty() {
        return None;
    }
    let refused = |reason: &'static str, message: &str| {
        let refused = Some(Condition::no("Accepted", reason, message));
        Some(Attachment { parent: parent.clone(), doors: Vec::new(), refused })
    };
    let named = of_gateway.into_iter().filter(|index| {
        let door = &doors.all[*index];
        parent.section_name.as_ref().is_none_or(|name| *name == door.name)
            && parent.port.is_none_or(|port| port == door.port)
    });
    let named: Vec<usize> = named.collect();
    if named.is_empty() {
        return refused("NoMatchingParent", "the Gateway has no listener of this name and port");
    }
    let allowed: Vec<usize> =
        named.into_iter().filter(|index| doors.all[*index].allows(snapshot, &key.namespace)).collect();
    if allowed.is_empty() {
        return refused("NotAllowedByListeners", "no listener allows routes of this kind from this namespace");
    }
    let with_hosts = allowed.into_iter().map(|index| {
        let hosts = hosts::shared(doors.all[index].hostname.as_deref(), &route.hostnames);
        (index, hosts)
    });
    let with_hosts: Vec<_> = with_hosts.filter(|(_, hosts)| !hosts.is_empty()).collect();
    if with_hosts.is_empty() {
        return refused("NoMatchingListenerHostname", "no listener is for one of the route's hosts");
    }
    Some(Attachment { parent: parent.clone(), doors: with_hosts, refused: None })
}
