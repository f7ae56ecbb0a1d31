//! `cluster status` and `cluster info`: what each node is doing, and all of them together.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use pilotlight_redis::{Command, Error, SLOTS};
use serde::Serialize;

use super::databases::total;
use super::nodes::{Facts, Node, Nodes};
use super::output::{Output, SCHEMA, print, print_json};
use super::table::{bytes, red, table};
use crate::advice;

#[derive(Debug, Serialize)]
struct Status {
    schema: u32,
    nodes: Vec<NodeStatus>,
}

/// One node. What a node that does not answer cannot tell is null.
#[derive(Debug, Serialize)]
struct NodeStatus {
    address: String,
    id: String,
    role: &'static str,
    /// Of a replica: the id of its primary.
    primary: Option<String>,
    slots: usize,
    ranges: String,
    open_slots: usize,
    keys: Option<u64>,
    memory_bytes: Option<u64>,
    clients: Option<u64>,
    operations_per_second: Option<u64>,
    /// Of a replica: bytes of the replication stream that it has not got yet.
    lag_bytes: Option<u64>,
    /// Of a replica: whether it is connected to its primary.
    is_linked: Option<bool>,
    version: Option<String>,
    uptime_seconds: Option<u64>,
    /// What the node says of the cluster, `ok` or `fail`; `down` if it does not answer, `unknown` if it answers and
    /// does not tell.
    state: String,
    /// Why the node does not answer.
    error: Option<String>,
    /// Questions that the node refuses to answer, with its reasons, such as `INFO` to a user without the right to it.
    refused: Vec<String>,
}

/// Answers of one node.
#[derive(Debug, Default)]
struct Asked {
    info: Option<Facts>,
    cluster: Option<Facts>,
    refused: Vec<String>,
}

/// Prints a line for each node. 1 if one of them does not answer.
pub(super) async fn status(nodes: &Nodes, output: Output) -> anyhow::Result<ExitCode> {
    let status = Status { schema: SCHEMA, nodes: look(nodes).await };
    let is_whole = status.nodes.iter().all(|node| node.error.is_none());
    match output {
        Output::Json => print_json(&status)?,
        Output::Text => print(&text(&status.nodes))?,
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(nodes: &Nodes) -> Vec<NodeStatus> {
    let asked = nodes.each(|node| async move { ask(&node).await.map_err(|error| advice::causes(&error)) }).await;
    let offset = |asked: &Result<Asked, String>| asked.as_ref().ok()?.info.as_ref()?.number("master_repl_offset");
    let offsets: BTreeMap<&str, u64> = nodes
        .list
        .iter()
        .zip(&asked)
        .filter_map(|(node, asked)| Some((node.member.id.as_str(), offset(asked)?)))
        .collect();
    nodes.list.iter().zip(&asked).map(|(node, asked)| status_of(node, asked.as_ref(), &offsets)).collect()
}

/// # Errors
/// The node does not answer.
async fn ask(node: &Node) -> anyhow::Result<Asked> {
    // One connection, so these are one packet.
    let all = async { node.run::<String>(Command::raw("INFO")).await };
    let cluster = async { node.run::<String>(Command::raw("CLUSTER INFO")).await };
    let (all, cluster) = tokio::join!(all, cluster);
    let mut asked = Asked::default();
    for (reply, facts, name) in [(all, &mut asked.info, "INFO"), (cluster, &mut asked.cluster, "CLUSTER INFO")] {
        match reply {
            Ok(text) => *facts = Some(Facts::parse(&text)),
            Err(error) => match error.downcast_ref::<Error>().and_then(Error::server) {
                Some(server) => asked.refused.push(format!("{name}: {server}")),
                None => return Err(error),
            },
        }
    }
    Ok(asked)
}

fn status_of(node: &Node, asked: Result<&Asked, &String>, offsets: &BTreeMap<&str, u64>) -> NodeStatus {
    let member = &node.member;
    let info = asked.ok().and_then(|asked| asked.info.as_ref());
    let number = |name: &str| info.and_then(|info| info.number(name));
    let text = |name: &str| info.map(|info| info.text(name).to_owned()).filter(|text| !text.is_empty());
    let state = match asked.map(|asked| asked.cluster.as_ref()) {
        Ok(Some(cluster)) => cluster.text("cluster_state"),
        Ok(None) => "unknown",
        Err(_) => "down",
    };
    let lag = member
        .primary
        .as_ref()
        .and_then(|primary| Some(offsets.get(primary.as_str())?.saturating_sub(number("slave_repl_offset")?)));
    NodeStatus {
        address: node.address.to_string(),
        id: member.id.clone(),
        role: if member.is_primary() { "primary" } else { "replica" },
        primary: member.primary.clone(),
        slots: member.slots.len(),
        ranges: if member.slots.is_empty() { String::new() } else { member.slots.to_string() },
        open_slots: member.open.len(),
        keys: info.map(total),
        memory_bytes: number("used_memory"),
        // The connection that asks is not counted.
        clients: number("connected_clients").map(|clients| clients.saturating_sub(1)),
        operations_per_second: number("instantaneous_ops_per_sec"),
        lag_bytes: lag,
        is_linked: member.primary.as_ref().and(text("master_link_status")).map(|status| status == "up"),
        version: text("valkey_version").or_else(|| text("redis_version")),
        uptime_seconds: number("uptime_in_seconds"),
        state: state.to_owned(),
        error: asked.err().cloned(),
        refused: asked.map_or_else(|_| Vec::new(), |asked| asked.refused.clone()),
    }
}

fn text(nodes: &[NodeStatus]) -> String {
    const HEADS: [&str; 11] =
        ["NODE", "ID", "ROLE", ">SLOTS", "RANGES", ">KEYS", ">MEMORY", ">CLIENTS", ">OPS/S", ">LAG", "STATE"];
    const MAX_RANGES: usize = 40;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let number = |number: Option<u64>| or_dash(number.map(|number| number.to_string()));
    let row = |node: &NodeStatus| {
        let role = if node.primary.is_some() { "  replica" } else { "primary" };
        let mut ranges = if node.ranges.is_empty() { "-".to_owned() } else { node.ranges.clone() };
        if ranges.len() > MAX_RANGES {
            ranges.truncate(ranges[..MAX_RANGES].rfind(',').unwrap_or(MAX_RANGES));
            ranges.push_str(",…");
        }
        let lag = match (node.is_linked, node.lag_bytes) {
            (Some(false), _) => "no link".to_owned(),
            (_, lag) => or_dash(lag.map(bytes)),
        };
        let open = if node.open_slots > 0 { format!(", {} open", node.open_slots) } else { String::new() };
        let state = format!("{}{open}", node.state);
        let slots = if node.primary.is_some() { "-".to_owned() } else { node.slots.to_string() };
        vec![
            node.address.clone(),
            node.id.get(..8).unwrap_or(&node.id).to_owned(),
            role.to_owned(),
            slots,
            ranges,
            number(node.keys),
            or_dash(node.memory_bytes.map(bytes)),
            number(node.clients),
            number(node.operations_per_second),
            lag,
            if state == "ok" { state } else { red(&state) },
        ]
    };
    let mut text = table(&HEADS, &nodes.iter().map(row).collect::<Vec<_>>());
    for node in nodes {
        for why in node.error.iter().chain(&node.refused) {
            text.push_str(&format!("{}: {why}\n", node.address));
        }
    }
    text
}

#[derive(Debug, Serialize)]
struct Summary {
    schema: u32,
    state: &'static str,
    versions: BTreeSet<String>,
    primaries: usize,
    replicas: usize,
    nodes_down: usize,
    slots_covered: usize,
    slots_open: usize,
    /// Null, as the sums after it, if a node that answers refuses to tell.
    keys: Option<u64>,
    memory_bytes: Option<u64>,
    clients: Option<u64>,
    operations_per_second: Option<u64>,
    epoch: u64,
    max_lag_bytes: Option<u64>,
    /// Questions that nodes refuse to answer, and why; each reason once.
    refused: BTreeSet<String>,
}

/// Prints the cluster as a whole.
pub(super) async fn info(nodes: &Nodes, output: Output) -> anyhow::Result<ExitCode> {
    let all = look(nodes).await;
    let primaries = || all.iter().filter(|node| node.role == "primary");
    let answering = |node: &&NodeStatus| node.error.is_none();
    let sum = |number: fn(&NodeStatus) -> Option<u64>| all.iter().filter(answering).map(number).sum::<Option<u64>>();
    let is = |state: &str| all.iter().any(|node| node.state == state);
    let summary = Summary {
        schema: SCHEMA,
        state: match () {
            () if all.iter().all(|node| node.state == "ok") => "ok",
            () if is("unknown") && !is("down") && !is("fail") => "unknown",
            () => "degraded",
        },
        versions: all.iter().filter_map(|node| node.version.clone()).collect(),
        primaries: primaries().count(),
        replicas: all.len() - primaries().count(),
        nodes_down: all.iter().filter(|node| node.error.is_some()).count(),
        slots_covered: primaries().filter(|node| node.error.is_none()).map(|node| node.slots).sum(),
        slots_open: all.iter().map(|node| node.open_slots).sum(),
        keys: primaries().filter(answering).map(|node| node.keys).sum(),
        memory_bytes: sum(|node| node.memory_bytes),
        clients: sum(|node| node.clients),
        operations_per_second: sum(|node| node.operations_per_second),
        epoch: nodes.list.iter().map(|node| node.member.epoch).max().unwrap_or_default(),
        max_lag_bytes: all.iter().filter_map(|node| node.lag_bytes).max(),
        refused: all.iter().flat_map(|node| node.refused.iter().cloned()).collect(),
    };
    if output == Output::Json {
        print_json(&summary)?;
        return Ok(ExitCode::SUCCESS);
    }
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let versions = summary.versions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let lines = [
        ("state", if summary.state == "ok" { "ok".to_owned() } else { red(summary.state) }),
        (
            "nodes",
            format!("{} primaries, {} replicas, {} down", summary.primaries, summary.replicas, summary.nodes_down),
        ),
        ("slots", format!("{} of {SLOTS} covered, {} open", summary.slots_covered, summary.slots_open)),
        ("keys", number(summary.keys)),
        ("memory", format!("{}, replicas included", summary.memory_bytes.map_or("-".to_owned(), bytes))),
        ("clients", number(summary.clients)),
        ("operations", format!("{} a second, replicas included", number(summary.operations_per_second))),
        ("largest lag", summary.max_lag_bytes.map_or("-".to_owned(), bytes)),
        ("epoch", summary.epoch.to_string()),
        ("version", versions),
    ];
    let lines = lines.iter().map(|(name, value)| format!("{name:<13}{value}\n"));
    let refused = summary.refused.iter().map(|why| format!("refused      {why}\n"));
    print(&lines.chain(refused).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
