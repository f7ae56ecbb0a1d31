//! The options of `pilotlight redis cluster`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pilotlight_redis::SlotSet;

use super::migrate::MigrateArgs;
use super::output::Output;
use crate::connection::{ConnectionArgs, seconds};

/// What is to be done with a cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub(super) task: Task,
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
pub(super) enum Task {
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
pub(super) struct StartArgs {
    /// Primaries; an automatic failover needs three
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: u16,
    /// Replicas of each primary
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=5))]
    pub(super) replicas: u16,
    /// The first port, primaries first; the bus of each server is 10000 above. 0: free ones
    #[arg(long, short, default_value_t = 7000)]
    pub(super) port: u16,
    /// The folder of the cluster [default: $XDG_STATE_HOME/pilotlight/clusters/PORT]
    #[arg(long, value_name = "FOLDER")]
    pub(super) dir: Option<PathBuf>,
    /// Stay until Ctrl-C, and stop the cluster then
    #[arg(long)]
    pub(super) foreground: bool,
    /// The password that clients and replicas have to know; others see it in the list of processes: REDISCLI_AUTH is
    /// safer
    #[arg(short = 'a', long, visible_alias = "pass", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub(super) password: Option<String>,
    /// Another line of the servers' configuration; may be repeated
    #[arg(long, value_name = "LINE")]
    pub(super) config: Vec<String>,
    /// Seconds of silence after which a node counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(super) node_timeout: Duration,
    /// Seconds until the cluster has to be whole
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of `stop`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster stop                the only one
  pilotlight redis cluster stop --port 7100

Only processes are ended that the state file names and that are still the ones that were started (process id, time of start, port, folder).")]
pub(super) struct StopArgs {
    /// The first port of the cluster
    #[arg(long, short)]
    pub(super) port: Option<u16>,
    /// Its folder, if `start` was given one
    #[arg(long, value_name = "FOLDER", conflicts_with = "port")]
    pub(super) dir: Option<PathBuf>,
    /// All clusters of the state folder
    #[arg(long, conflicts_with_all = ["port", "dir"])]
    pub(super) all: bool,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// Which cluster.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The folder of a cluster that `start --dir` started
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["host", "port", "socket", "url"])]
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of what only looks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster status
  pilotlight redis cluster status --dir ./cluster
  pilotlight redis cluster status -h 10.0.0.7 -p 7000 --tls --cacert ca.pem
  pilotlight redis cluster check --json")]
pub(super) struct LookArgs {
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) which: Which,
}

/// Options of `call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster call config get maxmemory
  pilotlight redis cluster call --only replicas info replication")]
pub(super) struct CallArgs {
    /// Only these nodes
    #[arg(long, value_name = "ROLE", value_parser = ["primaries", "replicas"])]
    pub(super) only: Option<String>,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) command: Vec<String>,
    #[command(flatten)]
    pub(super) which: Which,
}

/// Options of `rebalance`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster rebalance --dry-run
  pilotlight redis cluster rebalance --use-empty           new primaries get slots, too
  pilotlight redis cluster rebalance --weight 7004=0       empties the node of port 7004
  pilotlight redis cluster rebalance --weight 7001=2       it gets twice what others get

Ctrl-C ends it after the slots that are moving; the same command moves the rest.")]
pub(super) struct RebalanceArgs {
    /// Only say what would move
    #[arg(long)]
    pub(super) dry_run: bool,
    /// The share of a primary, 1 if nothing is said; may be repeated
    #[arg(long, value_name = "NODE=NUMBER")]
    pub(super) weight: Vec<String>,
    /// Primaries without slots get their share, too
    #[arg(long)]
    pub(super) use_empty: bool,
    /// Percent that a primary may be off its share before anything moves
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub(super) threshold: f64,
    #[command(flatten)]
    pub(super) migrate: MigrateArgs,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) which: Which,
}

/// Options of `reshard`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster reshard --to 7001 --slots 1000                 from all other primaries, in proportion
  pilotlight redis cluster reshard --from 7000 --to 7001 --slots 100
  pilotlight redis cluster reshard --to 3f2a9c --ranges 0-99,5000

A node is named by HOST:PORT, by its port, or by the beginning of its id. Ctrl-C ends it after the slots that are moving.")]
pub(super) struct ReshardArgs {
    /// Whom to take from, several by commas [default: all other primaries]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub(super) from: Vec<String>,
    /// Who gets them
    #[arg(long, value_name = "NODE")]
    pub(super) to: String,
    /// How many
    #[arg(long, value_name = "COUNT", required_unless_present = "ranges", value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub(super) slots: Option<u16>,
    /// Which
    #[arg(long, value_name = "RANGES", conflicts_with = "slots")]
    pub(super) ranges: Option<SlotSet>,
    /// Only say what would move
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) migrate: MigrateArgs,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) which: Which,
}

/// Options of `failover`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pilotlight redis cluster failover 7005           this replica takes over; nothing is lost
  pilotlight redis cluster failover 7000           the best replica of this primary does
  pilotlight redis cluster failover 7005 --force   although its primary does not answer")]
pub(super) struct FailoverArgs {
    /// The replica that takes over, or the primary that is replaced: HOST:PORT, a port, or the beginning of an id
    pub(super) node: String,
    /// Without the primary's consent: what the replica has not got is lost
    #[arg(long)]
    pub(super) force: bool,
    /// Without anybody's consent: also when most primaries are gone
    #[arg(long, conflicts_with = "force")]
    pub(super) takeover: bool,
    /// Seconds to wait until all nodes know
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// One JSON object on the standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) which: Which,
}

macro_rules! outputs {
    ($($arguments:ty),*) => {$(
        impl $arguments {
            /// How the result is told.
            pub(super) fn output(&self) -> Output {
                if self.json { Output::Json } else { Output::Text }
            }
        }
    )*};
}
outputs!(StartArgs, StopArgs, LookArgs, CallArgs, RebalanceArgs, ReshardArgs, FailoverArgs);
