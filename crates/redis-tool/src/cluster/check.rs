//! Whether a cluster is whole: what its nodes say, compared.

use std::collections::{BTreeMap, BTreeSet};

use pilotlight_redis::{SLOTS, Slot, SlotSet};
use serde::Serialize;

use super::nodes::Nodes;
use super::view::{View, Way};

/// Something that is wrong.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Unreachable,
    Failed,
    Unlinked,
    Disagreement,
    OpenSlot,
    Uncovered,
    Contested,
    ReplicaWithoutPrimary,
}

/// One node: its name, its id, and what it sees or why it does not answer.
pub(super) struct Told<'v> {
    pub(super) name: String,
    pub(super) id: &'v str,
    pub(super) view: Result<&'v View, &'v str>,
}

/// What is wrong with these nodes.
pub(super) fn check(nodes: &Nodes) -> Vec<Finding> {
    let told = nodes.list.iter().map(|node| Told {
        name: node.name(),
        id: &node.member.id,
        view: node.view.as_ref().map_err(String::as_str),
    });
    findings(&told.collect::<Vec<_>>())
}

pub(super) fn findings(told: &[Told<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let views: Vec<(&Told<'_>, &View)> = told.iter().filter_map(|one| Some((one, one.view.ok()?))).collect();
    for one in told {
        if let Err(why) = one.view {
            found.push(Finding { kind: Kind::Unreachable, message: format!("{} does not answer: {why}", one.name) });
        }
    }
    doubts(told, &views, &mut found);
    disagreements(&views, &mut found);
    open_slots(told, &views, &mut found);
    coverage(&views, &mut found);
    found
}

fn name_of<'t>(told: &'t [Told<'_>], id: &'t str) -> &'t str {
    told.iter().find(|one| one.id == id).map_or(id, |one| one.name.as_str())
}

/// What nodes think of each other: who is lost, by how many of them.
fn doubts(told: &[Told<'_>], views: &[(&Told<'_>, &View)], found: &mut Vec<Finding>) {
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unlinked: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, view) in views {
        for member in &view.members {
            if ["fail", "fail?", "noaddr", "handshake"].iter().any(|flag| member.has(flag)) {
                *failed.entry(&member.id).or_default() += 1;
            } else if !member.is_linked && !member.has("myself") {
                *unlinked.entry(&member.id).or_default() += 1;
            }
            if member.has("myself")
                && let Some(primary) = &member.primary
                && view.find(primary).is_none_or(|primary| !primary.is_primary())
            {
                let message = format!("{} follows {primary}, which is no primary", name_of(told, &member.id));
                found.push(Finding { kind: Kind::ReplicaWithoutPrimary, message });
            }
        }
    }
    let of = views.len();
    for (id, by) in failed {
        let message = format!("{} has failed, say {by} of the {of} nodes that answer", name_of(told, id));
        found.push(Finding { kind: Kind::Failed, message });
    }
    for (id, by) in unlinked {
        let message = format!("{by} of the {of} nodes that answer have no link to {}", name_of(told, id));
        found.push(Finding { kind: Kind::Unlinked, message });
    }
}

/// Whether all see the same nodes, with the same slots.
fn disagreements(views: &[(&Told<'_>, &View)], found: &mut Vec<Finding>) {
    let Some((first, reference)) = views.first() else { return };
    let all: BTreeSet<&str> = reference.members.iter().map(|member| member.id.as_str()).collect();
    let expected = owners(reference);
    for (one, view) in &views[1..] {
        let theirs: BTreeSet<&str> = view.members.iter().map(|member| member.id.as_str()).collect();
        if theirs != all {
            let (known, by_others) = (all.len(), theirs.len());
            let message =
                format!("{} knows {known} nodes and {} {by_others}, not all of them the same", first.name, one.name);
            found.push(Finding { kind: Kind::Disagreement, message });
        }
        let slots = owners(view);
        if slots != expected {
            let owner = |owners: &BTreeMap<&str, &SlotSet>, slot| {
                owners.iter().find(|(_, slots)| slots.contains(slot)).map(|(id, _)| (*id).to_owned())
            };
            let differing: SlotSet =
                Slot::all().filter(|slot| owner(&expected, *slot) != owner(&slots, *slot)).collect();
            let message = format!("{} and {} disagree on the owners of the slots {differing}", first.name, one.name);
            found.push(Finding { kind: Kind::Disagreement, message });
        }
    }
}

fn owners(view: &View) -> BTreeMap<&str, &SlotSet> {
    let owners = view.members.iter().filter(|member| !member.slots.is_empty());
    owners.map(|member| (member.id.as_str(), &member.slots)).collect()
}

fn open_slots(told: &[Told<'_>], views: &[(&Told<'_>, &View)], found: &mut Vec<Finding>) {
    for (one, view) in views {
        for open in view.myself().into_iter().flat_map(|myself| &myself.open) {
            let (way, other) = (open.way, name_of(told, &open.other));
            let message = match way {
                Way::Migrating => format!("slot {} is open: {} is giving it to {other}", open.slot, one.name),
                Way::Importing => format!("slot {} is open: {} is taking it from {other}", open.slot, one.name),
            };
            found.push(Finding { kind: Kind::OpenSlot, message });
        }
    }
}

/// Whether each slot has exactly one node that says it is its own.
fn coverage(views: &[(&Told<'_>, &View)], found: &mut Vec<Finding>) {
    let mut claims: Vec<Vec<&str>> = vec![Vec::new(); usize::from(SLOTS)];
    for (one, view) in views {
        for slot in view.myself().into_iter().flat_map(|myself| myself.slots.iter()) {
            claims[usize::from(slot.number())].push(&one.name);
        }
    }
    let none: SlotSet = Slot::all().filter(|slot| claims[usize::from(slot.number())].is_empty()).collect();
    if !none.is_empty() {
        let message = format!("{} of {SLOTS} slots have no node that answers: {none}", none.len());
        found.push(Finding { kind: Kind::Uncovered, message });
    }
    let mut contested: BTreeMap<Vec<&str>, SlotSet> = BTreeMap::new();
    for slot in Slot::all() {
        let names = &claims[usize::from(slot.number())];
        if names.len() > 1 {
            contested.entry(names.clone()).or_default().insert(slot);
        }
    }
    for (names, slots) in contested {
        let message = format!("{} each say that they own the slots {slots}", names.join(" and "));
        found.push(Finding { kind: Kind::Contested, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [&str; 2] = [
        "a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-8191\nb 127.0.0.1:2@12 master - 0 0 2 connected 8192-16383",
        "a 127.0.0.1:1@11 master - 0 0 1 connected 0-8191\nb 127.0.0.1:2@12 myself,master - 0 0 2 connected 8192-16383",
    ];

    #[track_caller]
    fn check(texts: [&str; 2], expected: &[Kind]) {
        let views: Vec<_> = texts.iter().map(|text| View::parse(text).unwrap()).collect();
        let told: Vec<_> = ["a", "b"]
            .into_iter()
            .zip(&views)
            .map(|(id, view)| Told {
                name: id.to_uppercase(),
                id,
                view: if view.members.is_empty() { Err("connection refused") } else { Ok(view) },
            })
            .collect();
        let found = findings(&told);
        let mut kinds: Vec<_> = found.iter().map(|finding| finding.kind).collect();
        kinds.dedup();
        assert_eq!(kinds, expected, "{found:#?}");
    }

    #[test]
    fn what_is_wrong() {
        let [a, b] = WHOLE;
        check([a, b], &[]);
        check([a, ""], &[Kind::Unreachable, Kind::Uncovered]);
        check([&a.replace("0-8191", "1-8191"), &b.replace("0-8191", "1-8191")], &[Kind::Uncovered]);
        check([a, &b.replace("0-8191", "0-8190").replace("8192-", "8191-")], &[Kind::Disagreement, Kind::Contested]);
        check([&a.replace("0-8191", "0-8191 [7->-b]"), b], &[Kind::OpenSlot]);
        check([&a.replace("b 127.0.0.1:2@12 master", "b 127.0.0.1:2@12 master,fail?"), b], &[Kind::Failed]);
        check([&a.replace("2 connected", "2 disconnected"), b], &[Kind::Unlinked]);
        let replica =
            "a 127.0.0.1:1@11 master - 0 0 1 connected 0-16383\nb 127.0.0.1:2@12 myself,slave zz 0 0 2 connected";
        let lone =
            "a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-16383\nb 127.0.0.1:2@12 slave zz 0 0 2 connected";
        check([lone, replica], &[Kind::ReplicaWithoutPrimary]);
    }
}
