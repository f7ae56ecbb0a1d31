//! `pilotlight redis cluster`: starts a real cluster on this machine, and looks after any.
//!
//! What reads and changes clusters speaks to each node by itself ([`nodes`]): a cluster in trouble is one whose nodes
//! do not agree, so no client that follows the map could tell. What is decided is decided by value ([`check`],
//! [`plan`]).

mod call;
mod change;
mod check;
mod local;
mod migrate;
mod nodes;
mod plan;
mod progress;
mod status;
mod table;
mod view;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use pilotlight_redis::Config;
use pilotlight_redis::proto::slot::SlotSet;
use serde::Serialize;

use self::call::Whom;
use self::migrate::MigrateArgs;
use self::nodes::Nodes;
use crate::connection::{ConnectionArgs, UsageError, seconds};

/// The version of what `--json` prints; it changes when a field goes or changes its meaning.
const SCHEMA: u32 = 1;

/// What is to be done with a cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ClusterArgs {
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "Examples:
  pilotlight redis cluster start                           five primaries on ports 7000 to 7004
  pilotlight redis cluster start --nodes 3 --replicas 1    three primaries and three replicas
  pilotlight redis cluster status                          of the one that was started here
  pilotlight redis cluster check -h db.example.org         of another; exit code 1 if anything is wrong
  pilotlight redis cluster rebalance --dry-run             which slots would move
  pilotlight redis cluster stop

Without --host, --port, --socket, --url and --dir, the cluster that was started here is meant, if there is one, else 127.0.0.1:6379.";

#[derive(Debug, Subcommand)]
enum Task {
    /// Start a cluster of real servers on this machine, which lives on
    Start(StartArgs),
    /// Stop a cluster that `start` started, and remove its data
    Stop(StopArgs),
    /// Show each node: role, slots, keys, memory, clients, lag
    Status(LookArgs),
    /// Look for what is wrong: uncovered and open slots, nodes that are lost or disagree. Exit code 1 if anything is
    Check(LookArgs),
    /// Show the cluster as a whole
    Info(LookArgs),
    /// Run a command at each node
    Call(CallArgs),
    /// Give each primary its share of the slots, while clients go on
    Rebalance(RebalanceArgs),
    /// Move slots to a primary, while clients go on
    Reshard(ReshardArgs),
    /// Make a replica the primary
    Failover(FailoverArgs),
}

/// Options of `start`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster start --nodes 3 --replicas 1 --port 7100
  pilotlight redis cluster start --port 0 --json           on free ports, told as JSON
  pilotlight redis cluster start --foreground              until Ctrl-C
  REDISCLI_AUTH=secret pilotlight redis cluster start      with a password
  pilotlight redis cluster start --config 'maxmemory 100mb'

The program is valkey-server or redis-server, whichever is on the path first, or what PILOTLIGHT_REDIS_SERVER names.
The servers keep nothing on disk but their configuration, their logs and what they know of each other.")]
struct StartArgs {
    /// Primaries; an automatic failover needs three
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Replicas of each primary
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=5))]
    replicas: u16,
    /// The first port, primaries first; the bus of each server is 10000 above. 0: free ones
    #[arg(long, short, default_value_t = 7000)]
    port: u16,
    /// The folder of the cluster [default: $XDG_STATE_HOME/pilotlight/clusters/PORT]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Stay until Ctrl-C, and stop the cluster then
    #[arg(long)]
    foreground: bool,
    /// The password that clients and replicas have to know; others see it in the list of processes: REDISCLI_AUTH is
    /// safer
    #[arg(short = 'a', long, visible_alias = "pass", env = "REDISCLI_AUTH", hide_env_values = true)]
    password: Option<String>,
    /// Another line of the servers' configuration; may be repeated
    #[arg(long, value_name = "LINE")]
    config: Vec<String>,
    /// Seconds of silence after which a node counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    node_timeout: Duration,
    /// Seconds until the cluster has to be whole
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
}

/// Options of `stop`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster stop                the only one
  pilotlight redis cluster stop --port 7100

Only processes are ended that the state file names and that are still the ones that were started (process id, time of start, port, folder).")]
struct StopArgs {
    /// The first port of the cluster
    #[arg(long, short)]
    port: Option<u16>,
    /// Its folder, if `start` was given one
    #[arg(long, value_name = "FOLDER", conflicts_with = "port")]
    dir: Option<PathBuf>,
    /// All clusters of the state folder
    #[arg(long, conflicts_with_all = ["port", "dir"])]
    all: bool,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
}

/// Which cluster.
#[derive(Debug, Args)]
struct Which {
    /// The folder of a cluster that `start --dir` started
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["host", "port", "socket", "url"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Options of what only looks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster status
  pilotlight redis cluster status --dir ./cluster
  pilotlight redis cluster status -h 10.0.0.7 -p 7000 --tls --cacert ca.pem
  pilotlight redis cluster check --json")]
struct LookArgs {
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Options of `call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster call config get maxmemory
  pilotlight redis cluster call --only replicas info replication")]
struct CallArgs {
    /// Only these nodes
    #[arg(long, value_name = "ROLE", value_parser = ["primaries", "replicas"])]
    only: Option<String>,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// Options of `rebalance`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster rebalance --dry-run
  pilotlight redis cluster rebalance --use-empty           new primaries get slots, too
  pilotlight redis cluster rebalance --weight 7004=0       empties the node of port 7004
  pilotlight redis cluster rebalance --weight 7001=2       it gets twice what others get

Ctrl-C ends it after the slot that is on its way; the same command goes on.")]
struct RebalanceArgs {
    /// Only say what would move
    #[arg(long)]
    dry_run: bool,
    /// The share of a primary, 1 if nothing is said; may be repeated
    #[arg(long, value_name = "NODE=NUMBER")]
    weight: Vec<String>,
    /// Primaries without slots get their share, too
    #[arg(long)]
    use_empty: bool,
    /// Percent that a primary may be off its share before anything moves
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    threshold: f64,
    #[command(flatten)]
    migrate: MigrateArgs,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Options of `reshard`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster reshard --to 7001 --slots 1000                 from all other primaries, in proportion
  pilotlight redis cluster reshard --from 7000 --to 7001 --slots 100
  pilotlight redis cluster reshard --to 3f2a9c --ranges 0-99,5000

A node is named by HOST:PORT, by its port, or by the beginning of its id. Ctrl-C ends it after the slot that is on its way.")]
struct ReshardArgs {
    /// Whom to take from, several by commas [default: all other primaries]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    from: Vec<String>,
    /// Who gets them
    #[arg(long, value_name = "NODE")]
    to: String,
    /// How many
    #[arg(long, value_name = "COUNT", required_unless_present = "ranges", value_parser = clap::value_parser!(u16).range(1..=16384))]
    slots: Option<u16>,
    /// Which
    #[arg(long, value_name = "RANGES", conflicts_with = "slots")]
    ranges: Option<SlotSet>,
    /// Only say what would move
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    migrate: MigrateArgs,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Options of `failover`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster failover 7005           this replica takes over; nothing is lost
  pilotlight redis cluster failover 7000           the best replica of this primary does
  pilotlight redis cluster failover 7005 --force   although its primary does not answer")]
struct FailoverArgs {
    /// The replica that takes over, or the primary that is replaced: HOST:PORT, a port, or the beginning of an id
    node: String,
    /// Without the primary's consent: what the replica has not got is lost
    #[arg(long)]
    force: bool,
    /// Without anybody's consent: also when most primaries are gone
    #[arg(long, conflicts_with = "force")]
    takeover: bool,
    /// Seconds to wait until all nodes know
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// How results are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Text,
    Json,
}

macro_rules! outputs {
    ($($arguments:ty),*) => {$(
        impl $arguments {
            fn output(&self) -> Output {
                if self.json { Output::Json } else { Output::Text }
            }
        }
    )*};
}
outputs!(StartArgs, StopArgs, LookArgs, CallArgs, RebalanceArgs, ReshardArgs, FailoverArgs);

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

/// Over at the first Ctrl-C or SIGTERM since it was called, whether it was polled or not.
fn interrupted() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        match signals {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            // They end the process then, as they always did.
            _ => std::future::pending().await,
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}
