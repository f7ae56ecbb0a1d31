//! The topology of a cluster: which node serves each slot, and which nodes there are.
//!
//! A [`Topology`] is built off the path of commands from one node's view and then swapped in whole; only the owner of a
//! single slot changes in place ([`Topology::patch`], on `MOVED`). Nodes are named by a small index that holds within
//! one topology; what a node *is* across topologies is the address that it announces, not the one that is dialled.

mod build;
pub(crate) mod compare;
mod epochs;
mod owners;
mod parse;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use owners::{NOBODY, Owners};

use super::asked::Asked;
use super::slot::{SLOTS, Slot};
use crate::config::NodeAddress;
use crate::error::ServerError;
use crate::reply::Value;

/// The nodes of a cluster and the owner of each slot.
#[derive(Clone)]
pub(crate) struct Topology {
    owners: Owners,
    nodes: Vec<Node>,
    shards: Vec<Shard>,
    /// Announced addresses first, then other names under which a node may appear in a redirect.
    by_address: HashMap<NodeAddress, NodeIndex>,
}

/// The place of a node in [`Topology::nodes`]. It means nothing in another topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeIndex(u16);

/// The place of a shard in [`Topology::shards`]. It means nothing in another topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardIndex(u16);

/// A primary and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Serves the shard's slots; `None` while there is no primary.
    pub primary: Option<NodeIndex>,
    /// Copies of the primary.
    pub replicas: Vec<NodeIndex>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// The server's 40 hexadecimal digits; empty if not known.
    pub id: Arc<str>,
    /// The address that the node announces: its identity.
    pub announced: NodeAddress,
    /// The address to dial.
    pub address: NodeAddress,
    /// Its host name, if it announces one: the name of its certificate.
    pub hostname: Option<Arc<str>>,
    /// Its IP address, if that is told beside the announced one.
    pub ip: Option<Arc<str>>,
    /// Its availability zone, if the server tells.
    pub availability_zone: Option<Arc<str>>,
    /// What it is in its shard.
    pub role: Role,
    /// Whether it can answer, as other nodes see it.
    pub health: Health,
    /// The configuration epoch of a primary, 0 where that is not known: of two that claim a slot, the one with the
    /// higher epoch has taken it from the other.
    pub epoch: u64,
    /// Its shard; `None` for a node that only a redirect told of.
    pub shard: Option<ShardIndex>,
}

/// What a node is in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Serves reads and writes.
    Primary,
    /// A copy that serves reads.
    Replica,
}

/// Whether a node can answer (`CLUSTER SHARDS`, `health`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Health {
    /// The other nodes do not reach it.
    Failing,
    /// It loads its data.
    Loading,
    /// It answers. `CLUSTER SLOTS` lists no others.
    Online,
}

/// Why a reply is not a topology of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TopologyError {
    /// The server answered with an error.
    #[error("the server answered: {0}")]
    Server(ServerError),
    /// A part of the reply is missing or of another type.
    #[error("{expected} is missing or malformed, the server sent {found}")]
    Malformed {
        /// What should be there.
        expected: &'static str,
        /// The type of what is there.
        found: &'static str,
    },
    /// A range of slots does not lie within 0…16383 or ends before it begins.
    #[error("{first}-{last} is not a range of slots")]
    Range {
        /// Its beginning.
        first: i64,
        /// Its end.
        last: i64,
    },
    /// A port does not lie within 0…65535.
    #[error("{0} is not a port")]
    Port(i64),
    /// Two shards claim one slot.
    #[error("slot {slot} is claimed by {first} and by {second}")]
    Overlap {
        /// The slot.
        slot: u16,
        /// Who claimed it first.
        first: NodeAddress,
        /// Who claimed it, too.
        second: NodeAddress,
    },
    /// More nodes than a cluster can have.
    #[error("more than {max} nodes")]
    TooManyNodes {
        /// The limit.
        max: usize,
    },
    /// No slot has an owner: the node is not part of a cluster yet.
    #[error("no slot is served")]
    NoSlots,
}

impl NodeIndex {
    /// The index as a place in an array that runs parallel to [`Topology::nodes`].
    #[must_use]
    #[inline]
    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Topology {
    /// Reads a reply to `CLUSTER SLOTS`.
    ///
    /// # Errors
    /// The reply is an error, malformed, contradicts itself or serves no slot at all. Slots without an owner are no
    /// error.
    pub(crate) fn from_slots(reply: &Value, asked: &Asked<'_>) -> Result<Self, TopologyError> {
        parse::slots(reply, asked)
    }

    /// Reads a reply to `CLUSTER SHARDS` (Redis 7), maps or flat arrays.
    ///
    /// # Errors
    /// As [`Topology::from_slots`].
    pub(crate) fn from_shards(reply: &Value, asked: &Asked<'_>) -> Result<Self, TopologyError> {
        parse::shards(reply, asked)
    }

    /// The node that serves a slot, if one does.
    #[must_use]
    #[inline]
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeIndex> {
        let owner = self.owners.of(slot);
        (owner != NOBODY).then_some(NodeIndex(owner))
    }

    /// Sets the owner of one slot: what a `MOVED` says, until the next topology.
    ///
    /// A patch of a topology that is replaced at the same time is lost; the next `MOVED` brings it again. Nodes of
    /// another topology are ignored.
    pub(crate) fn patch(&self, slot: Slot, owner: NodeIndex) {
        if owner.get() < self.nodes.len() {
            self.owners.give(slot, owner.0);
        }
    }

    /// All nodes.
    #[must_use]
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes with their indices.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        (0..NOBODY).map(NodeIndex).zip(&self.nodes)
    }

    /// A node; `None` if the index is of another topology.
    #[must_use]
    #[inline]
    pub(crate) fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index.get())
    }

    /// All shards.
    #[must_use]
    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard of a node.
    #[must_use]
    pub(crate) fn shard_of(&self, index: NodeIndex) -> Option<&Shard> {
        let shard = self.node(index)?.shard?;
        self.shards.get(usize::from(shard.0))
    }

    /// The primaries, each once: for what goes to every shard.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = NodeIndex> {
        self.shards.iter().filter_map(|shard| shard.primary)
    }

    /// The node that announces `address`, or is known by it otherwise (its host name, its IP address).
    #[must_use]
    pub(crate) fn find(&self, address: &NodeAddress) -> Option<NodeIndex> {
        self.by_address.get(address).copied()
    }

    /// The same topology with one more node, which only a redirect told of. A known node is only looked up.
    ///
    /// # Errors
    /// There are too many nodes.
    #[cfg(test)]
    pub(crate) fn with_node(
        &self,
        announced: &NodeAddress,
        address: &NodeAddress,
    ) -> Result<(Self, NodeIndex), TopologyError> {
        let mut more = self.clone();
        let index = match self.find(announced) {
            Some(index) => index,
            None => more.push(Node::told_of(announced.clone(), address.clone()))?,
        };
        Ok((more, index))
    }

    /// How many slots have an owner.
    #[must_use]
    pub(crate) fn covered(&self) -> usize {
        Slot::all().filter(|&slot| self.owner(slot).is_some()).count()
    }

    /// The slots of a node.
    pub(crate) fn slots_of(&self, index: NodeIndex) -> impl Iterator<Item = Slot> {
        Slot::all().filter(move |&slot| self.owner(slot) == Some(index))
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("covered", &format_args!("{} of {SLOTS}", self.covered()))
            .field("nodes", &self.nodes)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// A node of which only its address is known.
    #[must_use]
    pub(crate) fn told_of(announced: NodeAddress, address: NodeAddress) -> Self {
        Self {
            id: Arc::from(""),
            announced,
            address,
            hostname: None,
            ip: None,
            availability_zone: None,
            role: Role::Primary,
            health: Health::Online,
            epoch: 0,
            shard: None,
        }
    }
}

#[cfg(test)]
mod tests;
