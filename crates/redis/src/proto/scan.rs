//! `SCAN` over a whole cluster while slots move.
//!
//! Every key that exists from the beginning to the end is returned at least once. A slot counts as visited only if one
//! node was scanned from cursor 0 to its end and owned the slot before *and* after, with the slot not on its way
//! anywhere at either time; otherwise it is visited again at its next owner. So after each node the topology is looked
//! at anew ([`Step::Survey`]):
//!
//! ```text
//!   survey → scan node A … cursor 0 → survey: A's slots that stayed are visited → scan node B … → survey → … → done
//! ```
//!
//! A slot that leaves its node and comes back between two surveys would look as if it had stayed. But a node that takes
//! a slot over gives itself the greatest configuration epoch unless it has that, and who had given the slot away has
//! not got it any more: a node to which a slot came back has another epoch than before, and is scanned anew.
//! [`ClusterScan::observe`] sees most of such slots earlier, one by one.

mod error;
mod token;

use std::sync::Arc;

pub use error::TokenError;

use super::slot::Slot;
use super::slot_set::SlotSet;
use super::topology::{Node, Topology};
use crate::config::NodeAddress;

/// How far a scan of the cluster came. Its text ([`std::fmt::Display`], [`std::str::FromStr`]) carries it to another
/// process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterScan {
    visited: SlotSet,
    current: Option<Current>,
    phase: Phase,
}

/// The node that is being scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Current {
    id: Arc<str>,
    announced: NodeAddress,
    /// Which run of the server the cursor is of, and its configuration epoch: the cursor means nothing after a restart,
    /// and slots may have come back if the epoch is another. Empty if not known.
    run_id: Box<str>,
    /// Where to go on; `None`: the node was scanned to its end.
    cursor: Option<u64>,
    /// Slots that are visited when the node's end is reached, if they stay.
    claim: SlotSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Survey,
    Scan,
    Pause,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Get a topology that is younger than the last page, and give it to [`ClusterScan::surveyed`].
    Survey,
    /// Send `SCAN cursor` to this node and give the cursor of the reply to [`ClusterScan::page`].
    Scan {
        /// The node, by the address that it announces.
        node: &'a NodeAddress,
        /// The cursor.
        cursor: u64,
    },
    /// All slots that remain are on their way or have no owner: wait, then survey. [`ClusterScan::remaining`] says
    /// which they are.
    Pause,
    /// Every slot was visited.
    Done,
}

/// The state of the cluster between two pages.
#[derive(Clone, Copy)]
pub(crate) struct Survey<'a> {
    /// A topology that was asked for after the last page came.
    pub topology: &'a Topology,
    /// Slots that are being migrated key by key ([`moving_slots`] of each primary). Servers that move slots atomically
    /// have none.
    pub moving: &'a SlotSet,
    /// The `run_id` of a node with its configuration epoch ([`own_epoch`]), as far as both are known.
    pub run_id: &'a dyn Fn(&Node) -> Option<Box<str>>,
}

impl ClusterScan {
    /// A scan that has not begun.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { visited: SlotSet::new(), current: None, phase: Phase::Survey }
    }

    /// What to do next.
    #[must_use]
    pub(crate) fn step(&self) -> Step<'_> {
        match (&self.current, self.phase) {
            _ if self.visited.is_full() => Step::Done,
            (Some(Current { announced, cursor: Some(cursor), .. }), Phase::Scan) => {
                Step::Scan { node: announced, cursor: *cursor }
            }
            (_, Phase::Pause) => Step::Pause,
            (_, Phase::Survey | Phase::Scan) => Step::Survey,
        }
    }

    /// Ends the node that was scanned, if it was, and chooses the next one.
    pub(crate) fn surveyed(&mut self, survey: &Survey<'_>) {
        self.observe(survey.topology);
        if let Some(mut current) = self.current.take() {
            current.claim.retain(|slot| !survey.moving.contains(slot));
            let same_run = current.is_same_run(survey);
            match current.cursor {
                None if same_run => self.visited.extend(&current.claim),
                Some(_) if same_run && !current.claim.is_empty() => self.current = Some(current),
                _ => {}
            }
        }
        if self.current.is_none() {
            self.current = self.next_node(survey);
        }
        self.phase = if self.current.is_some() { Phase::Scan } else { Phase::Pause };
    }

    /// The cursor that came with a page.
    pub(crate) fn page(&mut self, cursor: u64) {
        if let Some(current) = &mut self.current {
            current.cursor = (cursor != 0).then_some(cursor);
            if cursor == 0 {
                self.phase = Phase::Survey;
            }
        }
    }

    /// A new topology at any time: slots that left the node that is being scanned will be visited again, even if they
    /// return.
    pub(crate) fn observe(&mut self, topology: &Topology) {
        if let Some(current) = &mut self.current {
            current.claim.retain(|slot| {
                owner(topology, slot).is_some_and(|node| is_node(&current.id, &current.announced, node))
            });
        }
    }

    /// The connection to the node was lost, or it refused the command: it may have been restarted, and its cursor means
    /// nothing then.
    pub(crate) fn node_lost(&mut self) {
        self.current = None;
        self.phase = Phase::Survey;
    }

    /// Whether to hand out a key of the current page. Others were handed out before, or will be when their slot is
    /// visited.
    #[must_use]
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        self.current.as_ref().is_some_and(|current| current.claim.contains(Slot::of(key)))
    }

    /// The slots that were not visited yet.
    #[must_use]
    pub(crate) fn remaining(&self) -> SlotSet {
        Slot::all().filter(|&slot| !self.visited.contains(slot)).collect()
    }

    /// The owner of the first slot that can be visited, with all of its slots that can.
    fn next_node(&self, survey: &Survey<'_>) -> Option<Current> {
        let can = |slot: &Slot| !self.visited.contains(*slot) && !survey.moving.contains(*slot);
        let (index, node) = Slot::all().filter(can).find_map(|slot| {
            let index = survey.topology.owner(slot)?;
            Some((index, survey.topology.node(index)?))
        })?;
        Some(Current {
            id: node.id.clone(),
            announced: node.announced.clone(),
            run_id: (survey.run_id)(node).unwrap_or_default(),
            cursor: Some(0),
            claim: survey.topology.slots_of(index).filter(can).collect(),
        })
    }
}

impl Default for ClusterScan {
    fn default() -> Self {
        Self::new()
    }
}

impl Current {
    /// Whether the node is there and was not restarted since.
    fn is_same_run(&self, survey: &Survey<'_>) -> bool {
        let Some(node) = survey.topology.find(&self.announced).and_then(|index| survey.topology.node(index)) else {
            return false;
        };
        let run_id = (survey.run_id)(node).unwrap_or_default();
        is_node(&self.id, &self.announced, node)
            && (run_id == self.run_id || run_id.is_empty() || self.run_id.is_empty())
    }
}

/// The slots that the asked node migrates or imports: `[93-<-id]` and `[77->-id]` in its own line of `CLUSTER NODES`.
#[must_use]
pub(crate) fn moving_slots(cluster_nodes: &str) -> SlotSet {
    let slot = |word: &str| word.strip_prefix('[')?.split('-').next()?.parse().ok().and_then(Slot::new);
    own_words(cluster_nodes).filter_map(slot).collect()
}

/// The configuration epoch of the asked node, by its own line of `CLUSTER NODES`.
#[must_use]
pub(crate) fn own_epoch(cluster_nodes: &str) -> Option<u64> {
    own_line(cluster_nodes)?.split_ascii_whitespace().nth(6)?.parse().ok()
}

/// The slots that the asked node has, by its own line of `CLUSTER NODES`; those that it migrates among them.
#[must_use]
pub(crate) fn own_slots(cluster_nodes: &str) -> SlotSet {
    let mut slots = SlotSet::new();
    for ranges in own_words(cluster_nodes).filter_map(|word| word.parse().ok()) {
        slots.extend(&ranges);
    }
    slots
}

/// The words about slots in the asked node's own line of `CLUSTER NODES`.
fn own_words(cluster_nodes: &str) -> impl Iterator<Item = &str> {
    own_line(cluster_nodes).into_iter().flat_map(|line| line.split_ascii_whitespace().skip(8))
}

fn own_line(cluster_nodes: &str) -> Option<&str> {
    let is_own =
        |line: &&str| line.split(' ').nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself"));
    cluster_nodes.lines().find(is_own)
}

fn owner(topology: &Topology, slot: Slot) -> Option<&Node> {
    topology.owner(slot).and_then(|index| topology.node(index))
}

/// The same server: by its id if both are known, and at the same address.
fn is_node(id: &str, announced: &NodeAddress, node: &Node) -> bool {
    *announced == node.announced && (id.is_empty() || node.id.is_empty() || *id == *node.id)
}

#[cfg(test)]
mod tests;
