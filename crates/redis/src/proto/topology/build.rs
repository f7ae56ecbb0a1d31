//! Putting a [`Topology`] together from nodes, shards and ranges of slots, in any order and with repetitions.

use std::collections::HashMap;

use super::owners::Owners;
use super::{NOBODY, Node, NodeIndex, Role, Shard, ShardIndex, Topology, TopologyError};
use crate::config::NodeAddress;
use crate::proto::slot::Slot;

impl Topology {
    /// A topology without nodes, in which nobody serves anything.
    #[must_use]
    pub(crate) fn empty() -> Self {
        Self { owners: Owners::nobodys(), nodes: Vec::new(), shards: Vec::new(), by_address: HashMap::new() }
    }

    /// Adds a shard, or the replicas that a known shard (one with this primary) lacks.
    pub(super) fn shard(&mut self, primary: Option<Node>, replicas: Vec<Node>) -> Result<ShardIndex, TopologyError> {
        let shard = match primary {
            Some(primary) => self.shard_with_primary(primary)?,
            None => self.new_shard(None)?,
        };
        for mut replica in replicas {
            if self.announcing(&replica.announced).is_none() {
                replica.shard = Some(shard);
                let index = self.push(replica)?;
                self.shards[usize::from(shard.0)].replicas.push(index);
            }
        }
        Ok(shard)
    }

    /// Gives a range of slots to a shard's primary; without a primary they stay unserved.
    pub(super) fn assign(&mut self, first: Slot, last: Slot, shard: ShardIndex) -> Result<(), TopologyError> {
        let Some(owner) = self.shards[usize::from(shard.0)].primary else { return Ok(()) };
        for slot in Slot::all().skip(usize::from(first.number())).take_while(|&slot| slot <= last) {
            let before = self.owners.give(slot, owner.0);
            if before != NOBODY && before != owner.0 {
                let announced = |index: u16| self.nodes[usize::from(index)].announced.clone();
                return Err(TopologyError::Overlap {
                    slot: slot.number(),
                    first: announced(before),
                    second: announced(owner.0),
                });
            }
        }
        Ok(())
    }

    /// Refuses a topology that serves nothing.
    pub(super) fn finish(mut self) -> Result<Self, TopologyError> {
        self.owners.settle();
        if self.covered() == 0 { Err(TopologyError::NoSlots) } else { Ok(self) }
    }

    pub(super) fn push(&mut self, node: Node) -> Result<NodeIndex, TopologyError> {
        let index = NodeIndex(index_of_next(self.nodes.len())?);
        // The announced address always leads to its node; other names only if they are not taken.
        self.by_address.insert(node.announced.clone(), index);
        let port = node.announced.port().unwrap_or_default();
        for name in [&node.hostname, &node.ip].into_iter().flatten() {
            self.by_address.entry(NodeAddress::tcp(name.clone(), port)).or_insert(index);
        }
        self.nodes.push(node);
        Ok(index)
    }

    fn shard_with_primary(&mut self, mut primary: Node) -> Result<ShardIndex, TopologyError> {
        let Some(index) = self.announcing(&primary.announced) else {
            let index = self.push(primary.clone())?;
            return self.new_shard(Some(index));
        };
        if let (Role::Primary, Some(shard)) = (self.nodes[index.get()].role, self.nodes[index.get()].shard) {
            return Ok(shard);
        }
        // Listed as a replica before: some views are taken in the middle of a failover.
        for shard in &mut self.shards {
            shard.replicas.retain(|&replica| replica != index);
        }
        let shard = self.new_shard(Some(index))?;
        primary.shard = Some(shard);
        self.nodes[index.get()] = primary;
        Ok(shard)
    }

    fn announcing(&self, address: &NodeAddress) -> Option<NodeIndex> {
        self.find(address).filter(|&index| self.nodes[index.get()].announced == *address)
    }

    fn new_shard(&mut self, primary: Option<NodeIndex>) -> Result<ShardIndex, TopologyError> {
        let shard = ShardIndex(index_of_next(self.shards.len())?);
        self.shards.push(Shard { primary, replicas: Vec::new() });
        if let Some(index) = primary {
            self.nodes[index.get()].shard = Some(shard);
        }
        Ok(shard)
    }
}

fn index_of_next(len: usize) -> Result<u16, TopologyError> {
    let max = usize::from(NOBODY);
    u16::try_from(len).ok().filter(|&next| next != NOBODY).ok_or(TopologyError::TooManyNodes { max })
}
