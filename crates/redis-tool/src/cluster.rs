//! `pilotlight redis cluster`: starts a real cluster on this machine, and looks after any.
//!
//! What reads and changes clusters speaks to each node by itself ([`nodes`]): a cluster in trouble is one whose nodes
//! do not agree, so no client that follows the map could tell. What is decided is decided by value ([`check`],
//! [`plan`]).

mod arguments;
mod call;
mod change;
mod check;
mod databases;
mod local;
mod migrate;
mod nodes;
mod output;
mod plan;
mod progress;
mod status;
mod table;
mod view;

use std::process::ExitCode;

use anyhow::bail;
use pilotlight_redis::Config;

pub use self::arguments::ClusterArgs;
use self::arguments::{Task, Which};
use self::call::Whom;
use self::nodes::Nodes;
use self::output::{Output, SCHEMA, print, print_json};
use crate::connection::UsageError;

/// Does it.
///
/// # Errors
/// It could not be done; a [`UsageError`] if it makes no sense.
pub fn run(arguments: ClusterArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.task {
            Task::Start(arguments) => local::start(&arguments).await,
            Task::Stop(arguments) => local::stop(&arguments),
            Task::Status(arguments) => status::status(&find(&arguments.which).await?, arguments.output()).await,
            Task::Check(arguments) => tell_findings(&find(&arguments.which).await?, arguments.output()),
            Task::Info(arguments) => status::info(&find(&arguments.which).await?, arguments.output()).await,
            Task::Call(arguments) => {
                let whom = match arguments.only.as_deref() {
                    Some("primaries") => Whom::Primaries,
                    Some(_) => Whom::Replicas,
                    None => Whom::All,
                };
                call::call(&find(&arguments.which).await?, whom, &arguments.command, arguments.output()).await
            }
            Task::Rebalance(arguments) => change::rebalance(find(&arguments.which).await?, &arguments).await,
            Task::Reshard(arguments) => change::reshard(find(&arguments.which).await?, &arguments).await,
            Task::Failover(arguments) => change::failover(find(&arguments.which).await?, &arguments).await,
        }
    })
}

async fn find(which: &Which) -> anyhow::Result<Nodes> {
    Nodes::find(config(which)?).await
}

/// What was started here is meant where nothing else is said.
fn config(Which { dir, connection }: &Which) -> anyhow::Result<Config> {
    let mut config = connection.config()?;
    if let Some(dir) = dir {
        config.servers = local::local_config(&local::started_in(dir.clone())?, None)?.servers;
        return Ok(config);
    }
    let is_said = connection.host.is_some()
        || connection.port.is_some()
        || connection.socket.is_some()
        || connection.url.is_some();
    if !is_said {
        let running = local::running().unwrap_or_default();
        match running.as_slice() {
            [] => {}
            [only] => config.servers = local::local_config(only, None)?.servers,
            several => {
                let ports: Vec<_> = several.iter().map(|state| state.port.to_string()).collect();
                bail!(UsageError(format!("several clusters run here: --port says which of {}", ports.join(", "))));
            }
        }
    }
    Ok(config)
}

fn tell_findings(nodes: &Nodes, output: Output) -> anyhow::Result<ExitCode> {
    let findings = check::check(nodes);
    let (count, primaries) = (nodes.list.len(), nodes.primaries().count());
    match output {
        Output::Json => print_json(&serde_json::json!({
            "schema": SCHEMA, "ok": findings.is_empty(), "nodes": count, "primaries": primaries, "findings": findings,
        }))?,
        Output::Text if findings.is_empty() => {
            let all = "all slots are covered, all nodes agree, no slot is open";
            print(&format!("{}: {count} nodes, {primaries} of them primaries; {all}\n", table::green("ok")))?;
        }
        Output::Text => {
            let lines = findings.iter().map(|finding| format!("{}: {}\n", table::red("wrong"), finding.message));
            print(&lines.collect::<String>())?;
        }
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
