//! Several views of one cluster: which to believe, and what a new one changes.

use std::collections::HashMap;

use super::{NOBODY, Node, NodeIndex, Topology};
use crate::proto::slot::{SLOTS, Slot};

/// What a new topology changes, for those who keep something for each node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Nodes that were not there (indices of the new topology).
    pub came: Vec<NodeIndex>,
    /// Nodes that are no longer there (indices of the old topology).
    pub gone: Vec<NodeIndex>,
    /// Nodes of both topologies, by the address that they announce.
    pub kept: Vec<Change>,
    /// Slots with another owner, as few ranges as possible, in order.
    pub moved: Vec<MovedSlots>,
}

/// A node of both topologies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// Its index in the old topology.
    pub old: NodeIndex,
    /// Its index in the new topology.
    pub new: NodeIndex,
    /// It was promoted or demoted.
    pub role: bool,
    /// It is dialled at another address.
    pub address: bool,
    /// It is another server (another id) at the same address.
    pub identity: bool,
}

/// Consecutive slots that went from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MovedSlots {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The owner before (index of the old topology).
    pub from: Option<NodeIndex>,
    /// The owner now (index of the new topology).
    pub to: Option<NodeIndex>,
}

/// What several nodes say.
#[derive(Debug, Clone)]
pub(crate) struct Consensus {
    /// The view to believe.
    pub view: Topology,
    /// Whether all others name the same owners.
    pub is_unanimous: bool,
}

/// The view to believe: the one that names the newest owners of the most slots, then the one that agrees with the
/// others about the most, then the one that covers the most; of equals, the first.
///
/// An owner is newer than another if its epoch is higher: one node that was told of a failover is believed, however
/// many were not told yet. Without epochs a node that was cut off from the others, whose view is full but old, is
/// outvoted. Owners are compared by the servers' ids, for a node may be announced differently by others.
#[must_use]
pub(crate) fn consensus(views: Vec<Topology>) -> Option<Consensus> {
    let owners = common_owners(&views);
    let agreement = |at: usize| -> usize {
        let others = owners.iter().enumerate().filter(|&(other, _)| other != at);
        others
            .map(|(_, other)| {
                owners[at].iter().zip(other).filter(|(mine, its)| mine == its && **mine != NOBODY).count()
            })
            .sum()
    };
    let newest = newest_epochs(&views);
    let score = |&(at, view): &(usize, &Topology)| {
        let new = view.epochs().zip(&newest).filter(|(epoch, newest)| epoch == *newest).count();
        (new, agreement(at), view.covered())
    };
    // Of equals, `max_by_key` takes the last.
    let (at, _) = views.iter().enumerate().rev().max_by_key(score)?;
    let is_unanimous = owners.iter().all(|other| *other == owners[at]);
    Some(Consensus { view: views.into_iter().nth(at)?, is_unanimous })
}

/// What is different in `new`.
#[must_use]
pub(crate) fn diff(old: &Topology, new: &Topology) -> Changes {
    let mut changes = Changes::default();
    let mut new_of = vec![None; old.nodes.len()];
    let old_by_announced: HashMap<_, _> = old.indexed().map(|(index, node)| (&node.announced, (index, node))).collect();
    for (index, node) in new.indexed() {
        match old_by_announced.get(&node.announced) {
            Some(&(before, old_node)) => {
                new_of[before.get()] = Some(index);
                changes.kept.push(change(before, old_node, index, node));
            }
            None => changes.came.push(index),
        }
    }
    changes.gone = old.indexed().map(|(index, _)| index).filter(|index| new_of[index.get()].is_none()).collect();
    changes.moved = moved(old, new, &new_of);
    changes
}

impl Changes {
    /// Whether both topologies say the same.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        let same = |change: &Change| !change.role && !change.address && !change.identity;
        self.came.is_empty() && self.gone.is_empty() && self.moved.is_empty() && self.kept.iter().all(same)
    }
}

fn change(old: NodeIndex, before: &Node, new: NodeIndex, now: &Node) -> Change {
    Change {
        old,
        new,
        role: before.role != now.role,
        address: before.address != now.address,
        identity: !before.id.is_empty() && !now.id.is_empty() && before.id != now.id,
    }
}

fn moved(old: &Topology, new: &Topology, new_of: &[Option<NodeIndex>]) -> Vec<MovedSlots> {
    let mut ranges: Vec<MovedSlots> = Vec::new();
    for slot in Slot::all() {
        let (from, to) = (old.owner(slot), new.owner(slot));
        if from.and_then(|from| new_of.get(from.get()).copied().flatten()) == to && from.is_some() == to.is_some() {
            continue;
        }
        match ranges.last_mut() {
            Some(range) if range.last.number() + 1 == slot.number() && (range.from, range.to) == (from, to) => {
                range.last = slot;
            }
            _ => ranges.push(MovedSlots { first: slot, last: slot, from, to }),
        }
    }
    ranges
}

/// For each slot the highest epoch of an owner in any of the views.
fn newest_epochs(views: &[Topology]) -> Vec<u64> {
    let mut newest = vec![0; usize::from(SLOTS)];
    for view in views {
        newest.iter_mut().zip(view.epochs()).for_each(|(newest, epoch)| *newest = epoch.max(*newest));
    }
    newest
}

/// The owners of all slots in each view, numbered alike.
fn common_owners(views: &[Topology]) -> Vec<Vec<u16>> {
    let mut numbers: HashMap<String, u16> = HashMap::new();
    views
        .iter()
        .map(|view| {
            let common: Vec<u16> = view.nodes.iter().map(|node| number(&mut numbers, node)).collect();
            let owner = |index: u16| common.get(usize::from(index)).copied().unwrap_or(NOBODY);
            Slot::all().map(|slot| owner(view.owners.of(slot))).collect()
        })
        .collect()
}

fn number(numbers: &mut HashMap<String, u16>, node: &Node) -> u16 {
    let name = if node.id.is_empty() { node.announced.to_string() } else { node.id.to_string() };
    let next = u16::try_from(numbers.len()).unwrap_or(NOBODY);
    *numbers.entry(name).or_insert(next)
}
