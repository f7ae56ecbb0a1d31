//! Moves slots with their keys, in every database, while clients use them.
//!
//! Where the source can hand slots over by itself ([`atomic`]), it does; else the keys move one batch after the other
//! ([`by_keys`]), also in clusters with several databases.

mod atomic;
mod by_keys;

use std::pin::Pin;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use pilotlight_redis::{Slot, SlotSet};

use self::atomic::Outcome;
pub(super) use self::by_keys::MigrateArgs;
use self::by_keys::Step;
use super::databases::Databases;
use super::nodes::{Node, Nodes};
use super::plan::Move;
use super::progress;

/// Slots that one atomic migration takes: the source forks once for each, and Ctrl-C waits for one. Keys are counted
/// for as many at a time.
const MAX_SLOTS_AT_ONCE: usize = 256;

/// What was moved.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Moved {
    pub(super) slots: usize,
    /// Keys that went from one node to another.
    pub(super) keys: usize,
    /// Keys of these slots in all databases, counted at the sources before.
    pub(super) keys_before: usize,
    /// Keys of these slots in all databases, counted at the targets afterwards.
    pub(super) keys_after: usize,
}

/// Carries moves out. When `stop` is over it ends after the slots that are on their way.
pub(super) async fn carry_out(
    nodes: &Nodes,
    moves: &[Move],
    how: MigrateArgs,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<(Moved, Ended)> {
    let mut stop = std::pin::pin!(stop);
    let total: usize = moves.iter().map(|one| one.slots.len()).sum();
    let bar = progress::bar(total);
    let mut moved = Moved::default();
    // Asked once before, so that Ctrl-C ends nothing in its middle.
    if is_over(stop.as_mut()).await {
        return Ok((moved, Ended::Interrupted));
    }
    for one in moves {
        let source = nodes.by_id(&one.from).context("a source has left the cluster")?;
        let target = nodes.by_id(&one.to).context("a target has left the cluster")?;
        let at_source = Databases::of(&nodes.config, source).await?;
        // Valkey 9.1 does not send SELECT 0 between the copy of other databases and the writes that follow it, so a
        // client's write to database 0 would end in another database.
        let is_atomic = !at_source.are_several()
            && has_no_open_slots(source, target, &one.slots)
            && atomic::is_available(source).await?;
        let mut way = Way {
            step: Step::new(nodes, source, target, how).await?,
            at_source,
            at_target: Databases::of(&nodes.config, target).await?,
            is_atomic,
            bar: &bar,
            total,
        };
        let slots: Vec<_> = one.slots.iter().collect();
        for some in slots.chunks(MAX_SLOTS_AT_ONCE) {
            let ended = way.move_some(some, &mut moved, stop.as_mut()).await?;
            if ended == Ended::Interrupted {
                bar.finish_and_clear();
                return Ok((moved, ended));
            }
        }
    }
    bar.finish_and_clear();
    Ok((moved, Ended::Done))
}

/// Whether all was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    Interrupted,
}

/// From one node to another.
struct Way<'n> {
    step: Step<'n>,
    at_source: Databases<'n>,
    at_target: Databases<'n>,
    is_atomic: bool,
    bar: &'n ProgressBar,
    /// Slots of all moves.
    total: usize,
}

impl Way<'_> {
    /// Moves these slots, and counts their keys before and after.
    async fn move_some(
        &mut self,
        slots: &[Slot],
        moved: &mut Moved,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> anyhow::Result<Ended> {
        let before = self.at_source.counts(slots).await?;
        let mut count = 0;
        if self.is_atomic && self.at_once(slots, moved).await? {
            moved.keys += before.iter().sum::<usize>();
            (count, moved.slots) = (slots.len(), moved.slots + slots.len());
        } else {
            self.is_atomic = false;
            for slot in slots {
                moved.keys += self.one(*slot, moved).await?;
                (count, moved.slots) = (count + 1, moved.slots + 1);
                self.bar.inc(1);
                if count < slots.len() && is_over(stop.as_mut()).await {
                    break;
                }
            }
        }
        let after = self
            .at_target
            .counts(&slots[..count])
            .await
            .context("the slots have moved, but their keys were not counted")?;
        moved.keys_before += before[..count].iter().sum::<usize>();
        moved.keys_after += after.iter().sum::<usize>();
        let is_interrupted = moved.slots < self.total && is_over(stop).await;
        Ok(if count < slots.len() || is_interrupted { Ended::Interrupted } else { Ended::Done })
    }

    /// Whether the servers could move them by themselves.
    async fn at_once(&mut self, slots: &[Slot], moved: &Moved) -> anyhow::Result<bool> {
        let (source, target, total) = (self.step.source, self.step.target, self.total);
        let count = slots.len();
        self.show(&format!("{count} slots"), moved);
        let slots: SlotSet = slots.iter().copied().collect();
        let outcome = atomic::move_slots(source, target, &slots).await.with_context(|| {
            format!(
                "the slots {slots} have not moved from {} to {}, after {} of {total} slots; no key is lost: mend the cause, then the same command moves the rest",
                source.name(),
                target.name(),
                moved.slots,
            )
        })?;
        if outcome == Outcome::Moved {
            self.bar.inc(count as u64);
        }
        Ok(outcome == Outcome::Moved)
    }

    /// Moves the keys of a slot, and returns their number.
    async fn one(&mut self, slot: Slot, moved: &Moved) -> anyhow::Result<usize> {
        let (source, target, total) = (self.step.source, self.step.target, self.total);
        self.show(&format!("slot {slot}"), moved);
        self.step.move_slot(slot, &mut self.at_source).await.with_context(|| {
            format!(
                "slot {slot} stays between {} and {}, after {} of {total} slots; no key is lost: mend the cause, then finish it by `cluster reshard --ranges {slot} --to {}`",
                source.name(), target.name(), moved.slots, target.address,
            )
        })
    }

    fn show(&self, what: &str, moved: &Moved) {
        let (source, target) = (&self.step.source.address, &self.step.target.address);
        self.bar.set_message(format!("{what}: {source} → {target}, {} keys so far", moved.keys));
    }
}

/// Whether none of these slots was left half moved by MIGRATE: servers refuse to move those by themselves.
fn has_no_open_slots(source: &Node, target: &Node, slots: &SlotSet) -> bool {
    let open = source.member.open.iter().chain(&target.member.open);
    !open.into_iter().any(|open| Slot::new(open.slot).is_some_and(|slot| slots.contains(slot)))
}

async fn is_over(stop: Pin<&mut impl Future<Output = ()>>) -> bool {
    tokio::select! {
        biased;
        () = stop => true,
        () = std::future::ready(()) => false,
    }
}

/// Whether the nodes of these moves can be asked, and their databases are known.
///
/// # Errors
/// Which one cannot, and why.
pub(super) async fn is_possible(nodes: &Nodes, moves: &[Move]) -> anyhow::Result<()> {
    let mut ids: Vec<_> = moves.iter().flat_map(|one| [&one.from, &one.to]).collect();
    ids.sort();
    ids.dedup();
    for id in ids {
        match nodes.by_id(id) {
            Some(node) if node.view.is_ok() && node.member.is_primary() => {
                let databases = Databases::of(&nodes.config, node).await;
                databases.context("nothing was moved, because keys might be forgotten")?;
            }
            Some(node) => bail!("{} does not answer, or is no primary", node.name()),
            None => bail!("no node has the id {id}"),
        }
    }
    for one in moves {
        let (Some(source), Some(target)) = (nodes.by_id(&one.from), nodes.by_id(&one.to)) else { continue };
        let used = Databases::of(&nodes.config, source).await?.with_keys().await?;
        let mut at_target = Databases::of(&nodes.config, target).await?;
        for (number, _) in used {
            if !at_target.has(number).await? {
                bail!(
                    "nothing was moved: {} has keys in database {number}, which {} does not have (cluster-databases in its configuration)",
                    source.name(),
                    target.name()
                );
            }
        }
    }
    Ok(())
}
