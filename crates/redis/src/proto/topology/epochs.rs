//! Which of two claims on a slot is the newer one: Redis Cluster specification, "Configuration epoch for slots".

use std::collections::HashMap;

use super::{Node, Role, Topology, parse};
use crate::proto::slot::Slot;
use crate::reply::Value;

impl Topology {
    /// Takes the epochs of its primaries from the same node's reply to `CLUSTER NODES`: lines of
    /// `id address flags primary ping pong epoch link slot…`. From any other reply it takes nothing.
    pub(crate) fn learn_epochs(&mut self, reply: &Value) {
        let epochs: HashMap<&str, u64> = parse::text(reply).unwrap_or_default().lines().filter_map(primary).collect();
        for node in self.nodes.iter_mut().filter(|node| node.role == Role::Primary) {
            node.epoch = epochs.get(&*node.id).copied().unwrap_or(0);
        }
    }

    /// Raises the epochs of its primaries to those that are known: epochs only grow. Otherwise a node that once does
    /// not tell them in time would make the client forget them, and believe an older view next.
    pub(crate) fn keep_epochs(&mut self, known: &Self) {
        let known: HashMap<&str, u64> = known.nodes.iter().map(|node| (&*node.id, node.epoch)).collect();
        for node in self.nodes.iter_mut().filter(|node| node.role == Role::Primary) {
            node.epoch = node.epoch.max(known.get(&*node.id).copied().unwrap_or(0));
        }
    }

    /// For each slot the epoch of its owner, 0 if that is not known.
    pub(super) fn epochs(&self) -> impl Iterator<Item = u64> {
        Slot::all().map(|slot| self.owner_node(slot).map_or(0, |owner| owner.epoch))
    }

    /// Whether this may say of some slot what was true before `known`: its owner is another one, of a lower epoch or of
    /// none that is known, while the owner that is known is still there.
    #[must_use]
    pub(crate) fn is_older_than(&self, known: &Self) -> bool {
        let owners = Slot::all().filter_map(|slot| Some((known.owner_node(slot)?, self.owner_node(slot)?)));
        let replaced =
            owners.filter(|(known, here)| here.epoch < known.epoch && here.id != known.id).map(|(known, _)| &known.id);
        let mut replaced: Vec<_> = replaced.collect();
        // Once for all slots of a range.
        replaced.dedup();
        replaced.into_iter().any(|known| self.nodes.iter().any(|node| node.id == *known))
    }

    fn owner_node(&self, slot: Slot) -> Option<&Node> {
        self.node(self.owner(slot)?)
    }
}

fn primary(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split(' ');
    let (id, flags, epoch) = (words.next()?, words.nth(1)?, words.nth(3)?);
    flags.split(',').any(|flag| flag == "master").then_some(())?;
    Some((id, epoch.parse().ok()?))
}
