//! Live migration of slots, whole or step by step.

use super::{Cluster, Node};
use crate::admin::Reply;
use crate::error::Error;
use crate::server::{ADMIN_PASSWORD, ADMIN_USER};
use crate::wait::{EVERY, Look, until};
use std::time::Duration;

/// `MIGRATE` logs in at its target by this.
const MIGRATE_AUTH: [&str; 3] = ["AUTH2", ADMIN_USER, ADMIN_PASSWORD];
const MIGRATE_TIMEOUT_MS: &str = "5000";
/// Keys a `MIGRATE` takes at once: few, so that clients get their turn.
const KEYS_AT_ONCE: usize = 100;
const AGREE_LIMIT: Duration = Duration::from_secs(10);

/// A slot on its way from one master to another: the source answers with ASK for keys that it has no more, and the
/// target serves them after ASKING.
///
/// It stays on its way until [`finish`](Self::finish) or [`cancel`](Self::cancel), however long the test holds it.
#[derive(Debug)]
#[must_use]
pub struct SlotMove<'c> {
    cluster: &'c Cluster,
    slot: String,
    number: u16,
    source: &'c Node,
    target: &'c Node,
}

impl Cluster {
    /// Marks a slot as importing and migrating; no key has moved yet.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn begin_move<'c>(&'c self, slot: u16, target: &Node) -> Result<SlotMove<'c>, Error> {
        let (source, target) = (self.node_for_slot(slot)?, self.node(&target.id)?);
        let (number, slot) = (slot, slot.to_string());
        // In this order: a redirected client must not find a target that knows nothing yet.
        target.server.command_ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source.id])?;
        source.server.command_ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id])?;
        Ok(SlotMove { cluster: self, slot, number, source, target })
    }

    /// Moves a slot with its keys while clients use it. Nothing happens if it is there already.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn move_slot(&self, slot: u16, target: &Node) -> Result<(), Error> {
        if self.node_for_slot(slot)?.id == target.id {
            return Ok(());
        }
        let step = self.begin_move(slot, target)?;
        step.migrate_all()?;
        step.finish()
    }

    /// Moves slots one after the other.
    ///
    /// # Errors
    /// If a node refuses; the slots before that one have moved.
    pub fn move_slots(&self, slots: impl IntoIterator<Item = u16>, target: &Node) -> Result<(), Error> {
        slots.into_iter().try_for_each(|slot| self.move_slot(slot, target))
    }
}

impl<'c> SlotMove<'c> {
    /// The master that still owns the slot.
    pub fn source(&self) -> &'c Node {
        self.source
    }

    /// The master that will own it.
    pub fn target(&self) -> &'c Node {
        self.target
    }

    /// Moves up to so many keys; says how many moved.
    ///
    /// # Errors
    /// If `MIGRATE` fails.
    pub fn migrate_keys(&self, max_keys: usize) -> Result<usize, Error> {
        self.migrate_some(self.source, self.target, max_keys)
    }

    /// Moves these keys, which must be of this slot.
    ///
    /// # Errors
    /// If `MIGRATE` fails.
    pub fn migrate<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<(), Error> {
        migrate(self.source, self.target, keys)
    }

    /// Moves all keys that the source still has.
    ///
    /// # Errors
    /// If `MIGRATE` fails.
    pub fn migrate_all(&self) -> Result<(), Error> {
        while self.migrate_keys(KEYS_AT_ONCE)? > 0 {}
        Ok(())
    }

    /// Gives the slot to the target and waits until every node that answers knows.
    ///
    /// # Errors
    /// If a node refuses: the source does while it has keys of the slot.
    pub fn finish(self) -> Result<(), Error> {
        // The target first: until it owns the slot, everybody else would send clients back and forth.
        self.assign_at(self.target)?;
        self.assign_at(self.source)?;
        let ends = [&self.target.id, &self.source.id];
        let answering = || self.cluster.nodes.iter().filter(|node| node.server.is_responsive());
        for node in answering().filter(|node| !ends.contains(&&node.id)) {
            if node.is_master()? {
                self.assign_at(node)?;
            }
        }
        // Replicas learn it from their masters.
        until("everybody's knowledge of the slot's new owner", AGREE_LIMIT, EVERY, || {
            for node in answering() {
                let owner = node.known_nodes()?.into_iter().find(|known| known.owns(self.number));
                if owner.is_none_or(|owner| owner.id != self.target.id) {
                    return Ok(Look::NotYet(format!("port {} has not heard of it", node.port())));
                }
            }
            Ok(Look::Here(()))
        })
    }

    /// Leaves the slot where it was and moves keys back that have moved; until they are, clients find them missing.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn cancel(self) -> Result<(), Error> {
        // A source that still migrates would answer with ASK for each key that comes back.
        self.source.server.command_ok(&["CLUSTER", "SETSLOT", &self.slot, "STABLE"])?;
        while self.migrate_some(self.target, self.source, KEYS_AT_ONCE)? > 0 {}
        self.target.server.command_ok(&["CLUSTER", "SETSLOT", &self.slot, "STABLE"])
    }

    fn migrate_some(&self, from: &Node, to: &Node, max_keys: usize) -> Result<usize, Error> {
        let keys = from.server.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &max_keys.to_string()])?;
        let keys: Vec<&[u8]> = keys.array().iter().filter_map(bytes).collect();
        migrate(from, to, &keys)?;
        Ok(keys.len())
    }

    fn assign_at(&self, node: &Node) -> Result<(), Error> {
        node.server.command_ok(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.target.id])
    }
}

fn migrate<K: AsRef<[u8]>>(from: &Node, to: &Node, keys: &[K]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let port = to.port().to_string();
    let fixed = ["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_TIMEOUT_MS];
    let words = fixed.iter().chain(&MIGRATE_AUTH).chain(&["KEYS"]).map(|word| word.as_bytes());
    let command: Vec<&[u8]> = words.chain(keys.iter().map(AsRef::as_ref)).collect();
    // OK, or NOKEY if a client deleted them meanwhile.
    from.server.command(&command).map(drop)
}

fn bytes(reply: &Reply) -> Option<&[u8]> {
    if let Reply::Text(text) = reply { Some(text) } else { None }
}
