//! `cluster rebalance`, `reshard` and `failover`: what changes who serves what.

use std::cmp::Ordering;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pilotlight_redis::Command;
use pilotlight_redis::SlotSet;
use serde_json::json;

use super::arguments::{FailoverArgs, RebalanceArgs, ReshardArgs};
use super::check::{Finding, Kind, check};
use super::migrate::{Ended, Moved, carry_out, is_possible};
use super::nodes::{Node, Nodes};
use super::output::{Output, SCHEMA, interrupted, print, print_json};
use super::plan::{Holder, Move, rebalance as plan_rebalance, reshard as plan_reshard, shares};
use super::progress;
use super::table::{counted, table};
use super::view::Way;
use crate::connection::UsageError;

/// Between two looks at something that takes the nodes a moment.
const EVERY: Duration = Duration::from_millis(20);
/// How long all nodes may take to hear of moved slots.
const AGREE_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn rebalance(mut nodes: Nodes, arguments: &RebalanceArgs) -> anyhow::Result<ExitCode> {
    refuse_if_broken(&check(&nodes))?;
    let mut weights: Vec<(String, f64)> = Vec::new();
    for text in &arguments.weight {
        let wrong = || UsageError(format!("--weight {text:?}: NODE=NUMBER is wanted, a number from 0"));
        let (name, weight) = text.split_once('=').ok_or_else(wrong)?;
        let weight =
            weight.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0).ok_or_else(wrong)?;
        weights.push((nodes.named(name)?.member.id.clone(), weight));
    }
    let weight = |node: &Node| {
        let said = weights.iter().find(|(id, _)| *id == node.member.id).map(|(_, weight)| *weight);
        said.unwrap_or(if node.member.slots.is_empty() && !arguments.use_empty { 0.0 } else { 1.0 })
    };
    let holders: Vec<_> = nodes.primaries().map(|node| holder(node, weight(node))).collect();
    if holders.iter().all(|holder| holder.weight == 0.0) {
        bail!(UsageError("--weight: all are 0, so nobody could have the slots".to_owned()));
    }
    let moves = plan_rebalance(&holders, arguments.threshold);
    if moves.is_empty() && arguments.output() == Output::Text {
        let shares = shares(&holders);
        print(&format!(
            "nothing to do: all {} primaries are within {} % of their shares\n",
            shares.len(),
            arguments.threshold
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    do_moves(&mut nodes, &moves, arguments.dry_run, arguments.migrate, arguments.output()).await
}

pub(super) async fn reshard(mut nodes: Nodes, arguments: &ReshardArgs) -> anyhow::Result<ExitCode> {
    let target = nodes.named(&arguments.to)?.clone();
    let sources = match arguments.from.as_slice() {
        [] => nodes.primaries().filter(|node| node.member.id != target.member.id).cloned().collect(),
        [all] if all == "all" => nodes.primaries().filter(|node| node.member.id != target.member.id).cloned().collect(),
        names => names.iter().map(|name| nodes.named(name).cloned()).collect::<Result<Vec<_>, _>>()?,
    };
    if sources.iter().any(|source| source.member.id == target.member.id) {
        bail!(UsageError(format!("--from and --to: {} is both", target.name())));
    }
    let moves = match (&arguments.ranges, arguments.slots) {
        (Some(ranges), _) => {
            let with = |source: &Node| {
                let slots: SlotSet = source.member.slots.iter().filter(|slot| ranges.contains(*slot)).collect();
                (!slots.is_empty()).then(|| Move {
                    from: source.member.id.clone(),
                    to: target.member.id.clone(),
                    slots,
                })
            };
            sources.iter().filter_map(with).collect::<Vec<_>>()
        }
        (None, Some(count)) => {
            let holders: Vec<_> = sources.iter().map(|node| holder(node, 1.0)).collect();
            let there_are: usize = holders.iter().map(|holder| holder.slots.len()).sum();
            if usize::from(count) > there_are {
                bail!(UsageError(format!("--slots {count}: the sources have {there_are}")));
            }
            plan_reshard(&holders, &target.member.id, usize::from(count))
        }
        (None, None) => bail!(UsageError("--slots COUNT or --ranges RANGES says what to move".to_owned())),
    };
    // What a move that failed left open may be finished by the same move.
    refuse_if_broken(&check_beside(&nodes, &moves))?;
    do_moves(&mut nodes, &moves, arguments.dry_run, arguments.migrate, arguments.output()).await
}

/// What is wrong, apart from slots that are open just as these moves need them.
fn check_beside(nodes: &Nodes, moves: &[Move]) -> Vec<Finding> {
    let is_ours = |node: &Node, open: &super::view::OpenSlot| {
        moves.iter().any(|one| {
            let (from, to) = match open.way {
                Way::Migrating => (&node.member.id, &open.other),
                Way::Importing => (&open.other, &node.member.id),
            };
            one.from == *from && one.to == *to && one.slots.iter().any(|slot| slot.number() == open.slot)
        })
    };
    let all_ours = nodes.list.iter().all(|node| node.member.open.iter().all(|open| is_ours(node, open)));
    check(nodes).into_iter().filter(|finding| !(all_ours && finding.kind == Kind::OpenSlot)).collect()
}

fn refuse_if_broken(findings: &[Finding]) -> anyhow::Result<()> {
    // A replica that is down hinders nobody; a primary that is down leaves slots uncovered.
    let hinders = |finding: &&Finding| match finding.kind {
        Kind::Disagreement | Kind::OpenSlot | Kind::Uncovered | Kind::Contested => true,
        Kind::Unreachable | Kind::Failed | Kind::Unlinked | Kind::ReplicaWithoutPrimary => false,
    };
    if let Some(finding) = findings.iter().find(hinders) {
        bail!("nothing was moved, because the cluster is not whole: {} (`cluster check` tells all)", finding.message);
    }
    Ok(())
}

fn holder(node: &Node, weight: f64) -> Holder {
    Holder { id: node.member.id.clone(), slots: node.member.slots.clone(), weight }
}

async fn do_moves(
    nodes: &mut Nodes,
    moves: &[Move],
    is_dry: bool,
    how: super::migrate::MigrateArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let name = |id: &str| nodes.by_id(id).map_or_else(|| id.to_owned(), Node::name);
    let planned: Vec<_> = moves
        .iter()
        .map(|one| json!({"from": one.from, "to": one.to, "slots": one.slots.len(), "ranges": one.slots.to_string()}))
        .collect();
    if output == Output::Text {
        let row = |one: &Move| vec![name(&one.from), name(&one.to), one.slots.len().to_string(), one.slots.to_string()];
        print(&table(&["FROM", "TO", ">SLOTS", "RANGES"], &moves.iter().map(row).collect::<Vec<_>>()))?;
    }
    if is_dry {
        match output {
            Output::Json => print_json(&json!({"schema": SCHEMA, "dry_run": true, "moves": planned}))?,
            Output::Text => print("nothing was moved (--dry-run)\n")?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    is_possible(nodes, moves).await?;
    let begun = Instant::now();
    let (moved, ended) = carry_out(nodes, moves, how, interrupted()).await?;
    wait_until_agreed(nodes, AGREE_LIMIT).await.context("the slots have moved, but not all nodes have heard of it")?;
    let seconds = begun.elapsed().as_secs_f64();
    let is_done = ended == Ended::Done;
    match output {
        Output::Json => print_json(&json!({
            "schema": SCHEMA, "dry_run": false, "moves": planned, "done": is_done,
            "slots_moved": moved.slots, "keys_moved": moved.keys, "seconds": seconds,
            "keys_before": moved.keys_before, "keys_after": moved.keys_after,
        }))?,
        Output::Text => {
            let total: usize = moves.iter().map(|one| one.slots.len()).sum();
            let rest = if is_done {
                String::new()
            } else {
                format!("; interrupted, {} stay where they were", total - moved.slots)
            };
            print(&format!(
                "moved {} of {total} slots with {} in {seconds:.1} s{rest}\n{}\n",
                moved.slots,
                counted(moved.keys, "key"),
                difference(&moved),
            ))?;
        }
    }
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The keys of the slots that have moved, before and after.
fn difference(moved: &Moved) -> String {
    let Moved { keys_before: before, keys_after: after, .. } = *moved;
    let difference = match after.cmp(&before) {
        Ordering::Equal => "no difference".to_owned(),
        Ordering::Greater => format!("{} more, which clients wrote while the slots moved", after - before),
        Ordering::Less => {
            format!(
                "{} fewer: they expired or clients deleted them while the slots moved, or they are lost",
                before - after
            )
        }
    };
    format!("these slots had {} before, {after} after: {difference}", counted(before, "key"))
}

/// Waits until nothing is wrong that was not wrong with single nodes before.
pub(super) async fn wait_until_agreed(nodes: &mut Nodes, within: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        nodes.look_again().await;
        let found = check(nodes);
        let Err(error) = refuse_to_call_settled(&found) else { return Ok(()) };
        if begun.elapsed() >= within {
            return Err(error);
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn refuse_to_call_settled(findings: &[Finding]) -> anyhow::Result<()> {
    let unsettled = |finding: &&Finding| matches!(finding.kind, Kind::Disagreement | Kind::OpenSlot | Kind::Contested);
    match findings.iter().find(unsettled) {
        Some(finding) => bail!("{}", finding.message),
        None => Ok(()),
    }
}

pub(super) async fn failover(mut nodes: Nodes, arguments: &FailoverArgs) -> anyhow::Result<ExitCode> {
    let replica = heir(&nodes, nodes.named(&arguments.node)?).await?;
    let old = replica.member.primary.clone().unwrap_or_default();
    let old = nodes.by_id(&old).map_or(old, Node::name);
    let command = match (arguments.force, arguments.takeover) {
        (_, true) => Command::raw("CLUSTER FAILOVER").arg("TAKEOVER"),
        (true, false) => Command::raw("CLUSTER FAILOVER").arg("FORCE"),
        (false, false) => Command::raw("CLUSTER FAILOVER"),
    };
    let mut stop = std::pin::pin!(interrupted());
    let spinner = progress::spinner(format!("{} takes over", replica.name()));
    let begun = Instant::now();
    replica
        .run::<()>(command)
        .await
        .with_context(|| format!("{} refuses (a primary that does not answer needs --force)", replica.name()))?;
    loop {
        nodes.look_again().await;
        let is_promoted =
            |view: &super::view::View| view.find(&replica.member.id).is_some_and(super::view::Member::is_primary);
        if nodes.answering().all(|node| node.view.as_ref().is_ok_and(is_promoted)) {
            break;
        }
        if begun.elapsed() >= arguments.timeout {
            bail!(
                "{} has not become the primary everywhere within {} s; `cluster status` tells where things are",
                replica.name(),
                arguments.timeout.as_secs_f64(),
            );
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = &mut stop => bail!("interrupted: {} was told to take over and may still do so", replica.name()),
        }
    }
    spinner.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    match arguments.output() {
        Output::Json => print_json(
            &json!({"schema": SCHEMA, "primary": replica.member.id, "address": replica.address.to_string(), "seconds": seconds}),
        )?,
        Output::Text => print(&format!(
            "{} is the primary in the place of {old}; all nodes that answer know it after {seconds:.2} s\n",
            replica.name()
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The replica that takes over: the one that is named, or of the primary that is named the one with the most data.
async fn heir(nodes: &Nodes, named: &Node) -> anyhow::Result<Node> {
    if !named.member.is_primary() {
        return Ok(named.clone());
    }
    let mut best: Option<(u64, Node)> = None;
    for node in nodes.answering().filter(|node| node.member.primary.as_ref() == Some(&named.member.id)) {
        let offset = node.info("replication").await?.number("slave_repl_offset").unwrap_or_default();
        if best.as_ref().is_none_or(|(most, _)| offset > *most) {
            best = Some((offset, node.clone()));
        }
    }
    let (_, node) = best.with_context(|| {
        format!("{} is a primary without a replica that answers: nobody could take over", named.name())
    })?;
    Ok(node)
}
