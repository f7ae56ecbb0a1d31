//! Makes a cluster of servers that know nothing of each other yet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use pilotlight_redis::SLOTS;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Command, Commands, Config};

use super::state::State;
use crate::cluster::arguments::StartArgs;
use crate::cluster::check::check;
use crate::cluster::nodes::{Facts, Nodes, client};

const EVERY: Duration = Duration::from_millis(20);
/// The node timeout while the cluster forms: servers tell each other their slots at least twice within it.
const FORMING_TIMEOUT: Duration = Duration::from_secs(1);

/// Gives out the slots, introduces all servers to each other, attaches the replicas, and waits until all agree.
pub(super) async fn form(
    config: &Config,
    state: &State,
    arguments: &StartArgs,
    spinner: &ProgressBar,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + arguments.timeout;
    let primaries = usize::from(arguments.nodes);
    let mut servers = Vec::new();
    for server in &state.servers {
        servers.push((server.port, client(config, &NodeAddress::tcp("127.0.0.1", server.port))?));
    }
    for (number, (_, server)) in (0_u16..).zip(&servers) {
        set_node_timeout(server, FORMING_TIMEOUT.min(arguments.node_timeout), deadline).await?;
        // Distinct epochs from the start, or primaries would argue them out one gossip round at a time.
        run(server, Command::raw("CLUSTER SET-CONFIG-EPOCH").arg(u32::from(number) + 1), deadline).await?;
        if number < arguments.nodes {
            let border = |of: u16| u32::from(of) * u32::from(SLOTS) / u32::from(arguments.nodes);
            assign(server, border(number), border(number + 1) - 1, deadline).await?;
        }
    }
    for (at, (_, server)) in servers.iter().enumerate() {
        for (port, _) in &servers[at + 1..] {
            run(server, Command::raw("CLUSTER MEET").arg("127.0.0.1").arg(u32::from(*port)), deadline).await?;
        }
    }
    let mut ids = BTreeMap::new();
    for (at, (_, server)) in servers[..primaries].iter().enumerate() {
        ids.insert(at, server.run::<String>(Command::raw("CLUSTER MYID")).await?);
    }
    for (at, (port, server)) in servers[primaries..].iter().enumerate() {
        let primary = ids.get(&(at / usize::from(arguments.replicas.max(1)))).context("a replica without a primary")?;
        // Refused until it has heard of its primary.
        while let Err(error) = server.run::<()>(Command::raw("CLUSTER REPLICATE").arg(primary.clone())).await {
            if Instant::now() >= deadline {
                return Err(error).with_context(|| format!("the server of port {port} does not follow its primary"));
            }
            tokio::time::sleep(EVERY).await;
        }
    }
    agreed(config, state, deadline, spinner).await?;
    for (_, server) in &servers {
        set_node_timeout(server, arguments.node_timeout, deadline).await?;
    }
    Ok(())
}

async fn set_node_timeout(server: &Client, timeout: Duration, deadline: Instant) -> anyhow::Result<()> {
    let milliseconds = timeout.as_millis().to_string();
    run(server, Command::raw("CONFIG SET").arg("cluster-node-timeout").arg(milliseconds), deadline).await
}

async fn assign(server: &Client, first: u32, last: u32, deadline: Instant) -> anyhow::Result<()> {
    let range = Command::raw("CLUSTER ADDSLOTSRANGE").args([first, last]);
    match server.run::<()>(range).await {
        // Before version 7 there are no ranges.
        Err(error) if error.server().is_some() => {
            run(server, Command::raw("CLUSTER ADDSLOTS").args((first..=last).collect::<Vec<_>>()), deadline).await
        }
        other => Ok(other?),
    }
}

async fn run<'a>(server: &'a Client, command: Command<'a>, deadline: Instant) -> anyhow::Result<()> {
    let timeout = deadline.saturating_duration_since(Instant::now());
    Ok(server.run::<()>(command).timeout(timeout).await?)
}

/// Waits until each server sees all others, and every replica has its primary's data.
async fn agreed(config: &Config, state: &State, deadline: Instant, spinner: &ProgressBar) -> anyhow::Result<()> {
    let mut nodes = Nodes::find(config.clone()).await?;
    loop {
        let waiting_for = match check(&nodes).into_iter().next() {
            Some(finding) => Some(finding.message),
            None if nodes.list.len() < state.servers.len() => {
                Some(format!("{} of {} servers know each other", nodes.list.len(), state.servers.len()))
            }
            None => unready(&nodes).await,
        };
        let Some(waiting_for) = waiting_for else { return Ok(()) };
        spinner.set_message(format!("waiting: {waiting_for}"));
        if Instant::now() >= deadline {
            bail!("the servers do not agree in time (--timeout): {waiting_for}");
        }
        tokio::time::sleep(EVERY).await;
        if nodes.list.len() < state.servers.len() {
            nodes = Nodes::find(config.clone()).await?;
        } else {
            nodes.look_again().await;
        }
    }
}

async fn unready(nodes: &Nodes) -> Option<String> {
    let answers = nodes
        .each(|node| async move {
            let cluster = node.run::<String>(Command::raw("CLUSTER INFO")).await.map(|text| Facts::parse(&text));
            if !cluster.is_ok_and(|facts| facts.text("cluster_state") == "ok") {
                return Some(format!("{} does not take the cluster for whole", node.name()));
            }
            let replication = node.info("replication").await.ok()?;
            let is_waiting = replication.text("role") == "slave" && replication.text("master_link_status") != "up";
            is_waiting.then(|| format!("{} has no link to its primary", node.name()))
        })
        .await;
    answers.into_iter().flatten().next()
}
