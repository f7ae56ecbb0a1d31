//! What can be subscribed to.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::proto::slot::Slot;

/// The three kinds of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    Sharded,
}

/// A channel, pattern or shard channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Topic {
    pub(crate) kind: Kind,
    pub(crate) name: Bytes,
}

impl Topic {
    pub(crate) fn new(kind: Kind, name: Bytes) -> Self {
        Self { kind, name }
    }

    /// Whether it is about events of keys, which a node tells of its own keys only.
    pub(crate) fn is_of_keyspace(&self) -> bool {
        match self.kind {
            Kind::Channel => self.name.starts_with(b"__keyspace@") || self.name.starts_with(b"__keyevent@"),
            Kind::Pattern => self.name.starts_with(b"__key"),
            Kind::Sharded => false,
        }
    }

    /// The slot of a shard channel.
    pub(crate) fn slot(&self) -> Option<Slot> {
        (self.kind == Kind::Sharded).then(|| Slot::of(&self.name))
    }
}

/// Shard channels by slot: a command may not name two slots.
pub(super) fn by_slot(topics: Vec<Topic>) -> impl Iterator<Item = Vec<Topic>> {
    let mut slots: BTreeMap<Option<Slot>, Vec<Topic>> = BTreeMap::new();
    for topic in topics {
        slots.entry(topic.slot()).or_default().push(topic);
    }
    slots.into_values()
}
