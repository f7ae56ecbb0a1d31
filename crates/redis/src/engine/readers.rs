//! Who answers a read: one of a primary's replicas, or the primary.

use std::sync::Arc;
use std::time::Duration;

use crate::command::{CommandSpec, Flags};
use crate::commands::spec;
use crate::config::ReadFrom;
use crate::engine::lane::Lane;
use crate::engine::node::Node;
use crate::proto::slot::Slot;

/// Latencies that differ by less are alike.
const ALIKE: Duration = Duration::from_micros(200);

/// Whether a replica may be asked. A cursor means something only to the server that gave it.
#[inline]
pub(crate) fn may_ask_replica(command: &CommandSpec) -> bool {
    let cursors = [&spec::SCAN, &spec::HSCAN, &spec::SSCAN, &spec::ZSCAN];
    command.flags.has(Flags::READONLY) && !cursors.into_iter().any(|it| std::ptr::eq(it, command))
}

/// The lane for a read. Only replicas that are connected are chosen, at random, so that there is no counter to share; a
/// dead one costs those reads that are on their way to it when it dies, and no others. `None`: there is nobody who may
/// be asked now.
pub(crate) fn reader<'n>(
    read_from: &ReadFrom,
    primary: &'n Node,
    replicas: &'n [Arc<Node>],
    slot: Option<Slot>,
) -> Option<&'n Arc<Lane>> {
    let one_of = |fits: fn(&Node) -> bool| {
        let first = fastrand::usize(..replicas.len().max(1));
        let (after, before) = (&replicas[first.min(replicas.len())..], &replicas[..first]);
        let fitting = after.iter().chain(before).filter(|node| fits(node));
        fitting.map(|node| node.lane(|| slot)).find(|lane| lane.is_lively())
    };
    let replica = match read_from {
        ReadFrom::Primary => None,
        ReadFrom::PreferReplica => one_of(|_| true),
        ReadFrom::OnlyReplicas => return one_of(|_| true),
        ReadFrom::LowestLatency => nearest(primary, replicas, slot),
        ReadFrom::RoundRobin => (fastrand::usize(..=replicas.len()) > 0).then(|| one_of(|_| true)).flatten(),
        ReadFrom::AzAffinity { .. } => match one_of(Node::is_near) {
            Some(near) => Some(near),
            None if primary.is_near() => None,
            None => one_of(|_| true),
        },
    };
    Some(replica.unwrap_or_else(|| primary.lane(|| slot)))
}

/// One of those that answer soonest, of those that it is known of.
fn nearest<'n>(primary: &'n Node, replicas: &'n [Arc<Node>], slot: Option<Slot>) -> Option<&'n Arc<Lane>> {
    let all = || std::iter::once(primary).chain(replicas.iter().map(|node| &**node)).map(|node| node.lane(|| slot));
    let known = || all().filter_map(|lane| Some((lane.latency().filter(|_| lane.is_lively())?, lane)));
    let lowest = known().map(|(latency, _)| latency).min()?;
    let limit = lowest + (lowest / 4).max(ALIKE);
    let near = || known().filter(|(latency, _)| *latency <= limit).map(|(_, lane)| lane);
    // They are measured meanwhile: there may be fewer now.
    let count = near().count();
    near().nth(fastrand::usize(..count.max(1))).or_else(|| near().next())
}
