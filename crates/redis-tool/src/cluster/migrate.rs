//! Moves slots with their keys while clients use them.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use pilotlight_redis::Slot;
use pilotlight_redis::{Arg, Command};

use super::nodes::{Node, Nodes};
use super::plan::Move;
use super::progress;
use crate::connection::seconds;

/// How moving is done.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct MigrateArgs {
    /// Keys that one MIGRATE takes: the servers at both ends answer nobody else meanwhile
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) batch: u32,
    /// Seconds that one MIGRATE may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) migrate_timeout: Duration,
}

/// What was moved.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Moved {
    pub(super) slots: usize,
    pub(super) keys: usize,
}

/// Carries moves out, slot by slot. When `stop` is over it ends after the slot that is on its way.
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
        let step = Step { nodes, source, target, how, auth: auth(nodes).await? };
        for slot in one.slots.iter() {
            bar.set_message(format!(
                "slot {slot}: {} → {}, {} keys so far",
                source.address, target.address, moved.keys
            ));
            let keys = step.move_slot(slot).await.with_context(|| {
                format!(
                    "slot {slot} stays between {} and {}, after {} of {total} slots; no key is lost: mend the cause, then finish it by `cluster reshard --ranges {slot} --to {}`",
                    source.name(), target.name(), moved.slots, target.address,
                )
            })?;
            moved.keys += keys;
            moved.slots += 1;
            bar.inc(1);
            if moved.slots < total && is_over(stop.as_mut()).await {
                bar.finish_and_clear();
                return Ok((moved, Ended::Interrupted));
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

/// Slots on their way from one node to another.
struct Step<'n> {
    nodes: &'n Nodes,
    source: &'n Node,
    target: &'n Node,
    how: MigrateArgs,
    auth: Vec<Arg<'static>>,
}

impl Step<'_> {
    async fn move_slot(&self, slot: Slot) -> anyhow::Result<usize> {
        // In this order: a redirected client must not find a target that knows nothing yet.
        set_slot(self.target, slot, "IMPORTING", &self.source.member.id).await?;
        set_slot(self.source, slot, "MIGRATING", &self.target.member.id).await?;
        let mut moved = 0;
        loop {
            let of_slot = Command::raw("CLUSTER GETKEYSINSLOT").args([u32::from(slot.number()), self.how.batch]);
            let keys: Vec<Bytes> = self.source.run(of_slot).await?;
            if keys.is_empty() {
                break;
            }
            moved += keys.len();
            self.migrate(keys).await?;
        }
        // The target first: until it owns the slot, everybody else would send clients back and forth.
        set_slot(self.target, slot, "NODE", &self.target.member.id).await?;
        set_slot(self.source, slot, "NODE", &self.target.member.id).await?;
        for node in self.nodes.primaries().filter(|node| node.view.is_ok()) {
            if node.member.id != self.target.member.id && node.member.id != self.source.member.id {
                // Whom it does not reach hears of it from the target.
                let _ = set_slot(node, slot, "NODE", &self.target.member.id).await;
            }
        }
        Ok(moved)
    }

    /// The source connects to the target, by the address that nodes know.
    async fn migrate(&self, keys: Vec<Bytes>) -> anyhow::Result<()> {
        let host = match self.target.member.ip.as_str() {
            "" => self.target.address.host().unwrap_or("127.0.0.1").to_owned(),
            ip => ip.to_owned(),
        };
        let timeout_ms = u64::try_from(self.how.migrate_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut command = Command::raw("MIGRATE")
            .arg(host)
            .arg(u32::from(self.target.member.port))
            .arg("")
            .arg(0_u32)
            .arg(timeout_ms);
        command = command.args(self.auth.clone()).arg("KEYS").args(keys);
        // The server's own limit comes first.
        let timeout = self.how.migrate_timeout.saturating_add(Duration::from_secs(5));
        self.source.run_within::<()>(command, timeout).await
    }
}

async fn set_slot(node: &Node, slot: Slot, what: &'static str, id: &str) -> anyhow::Result<()> {
    let command = Command::raw("CLUSTER SETSLOT").arg(u32::from(slot.number())).arg(what).arg(id.to_owned());
    node.run::<()>(command).await.with_context(|| format!("{}: CLUSTER SETSLOT {slot} {what}", node.name()))
}

/// What `MIGRATE` logs in by at the other node.
async fn auth(nodes: &Nodes) -> anyhow::Result<Vec<Arg<'static>>> {
    let Some(provider) = &nodes.config.credentials else { return Ok(Vec::new()) };
    let credentials = provider.credentials().await?;
    let (user, password) = (credentials.username().map(str::to_owned), credentials.secret().to_owned());
    Ok(match user {
        Some(user) => vec![Arg::from("AUTH2"), Arg::from(user), Arg::from(password)],
        None => vec![Arg::from("AUTH"), Arg::from(password)],
    })
}

async fn is_over(stop: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    tokio::select! {
        biased;
        () = stop => true,
        () = std::future::ready(()) => false,
    }
}

/// Whether the nodes of these moves can be asked.
///
/// # Errors
/// Which one cannot, and why.
pub(super) fn is_possible(nodes: &Nodes, moves: &[Move]) -> anyhow::Result<()> {
    for id in moves.iter().flat_map(|one| [&one.from, &one.to]) {
        match nodes.by_id(id) {
            Some(node) if node.view.is_ok() && node.member.is_primary() => {}
            Some(node) => bail!("{} does not answer, or is no primary", node.name()),
            None => bail!("no node has the id {id}"),
        }
    }
    Ok(())
}
