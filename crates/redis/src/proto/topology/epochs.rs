//! Which of two claims on a slot is the newer one: Redis Cluster specification, "Configuration epoch for slots".

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::{NOBODY, Role, Topology, parse};
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

    /// For each slot the epoch of its owner, 0 if that is not known.
    pub(super) fn epochs(&self) -> impl Iterator<Item = u64> {
        let owner = |owner: u16| self.nodes.get(usize::from(owner)).map_or(0, |node| node.epoch);
        self.owners.iter().map(move |index| owner(index.load(Ordering::Relaxed)))
    }

    /// Whether this says of some slot what was true before `known`: its owner is another one, of a lower epoch, while
    /// the owner that is known is still there.
    #[must_use]
    pub(crate) fn is_older_than(&self, known: &Self) -> bool {
        let claims = self.owners.iter().zip(self.epochs()).zip(known.owners.iter().zip(known.epochs()));
        let mut older = claims
            .filter(|((_, epoch), (_, known_epoch))| *epoch > 0 && epoch < known_epoch)
            .map(|((owner, _), (known_owner, _))| (owner.load(Ordering::Relaxed), known_owner.load(Ordering::Relaxed)))
            .filter(|(owner, _)| *owner != NOBODY)
            .collect::<Vec<_>>();
        // Each pair of nodes once: it is the same for all slots between them.
        older.dedup();
        let id = |topology: &Self, owner: u16| topology.nodes.get(usize::from(owner)).map(|node| node.id.clone());
        older.into_iter().any(|(owner, known_owner)| {
            let known_id = id(known, known_owner);
            id(self, owner) != known_id && self.nodes.iter().any(|node| Some(&node.id) == known_id.as_ref())
        })
    }
}

fn primary(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split(' ');
    let (id, flags, epoch) = (words.next()?, words.nth(1)?, words.nth(3)?);
    flags.split(',').any(|flag| flag == "master").then_some(())?;
    Some((id, epoch.parse().ok()?))
}
