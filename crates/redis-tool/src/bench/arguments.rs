//! The options of `pilotlight redis bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::operation::Operation;
use crate::connection::{ConnectionArgs, seconds};
use crate::load::distribution::Distribution;

const EXAMPLES: &str = "\
Examples:
  pilotlight redis bench                                    GET, SET, then mixed, 30 s each, on localhost
  pilotlight redis bench -c -h node1 --lanes 4              the published table: a cluster, 16 workers × 64, 4 connections to each node
  pilotlight redis bench --operation get --pipeline 1 --workers 256 --duration 10
  pilotlight redis bench --operation mixed --rate 50000 --plot latency.svg
  pilotlight redis bench --distribution zipf:1.1 --keys 1000000 --json > result.json
  pilotlight redis bench -- HSET __key__ field __data__     any command: __key__ is a key, __data__ a value, __rand_int__ 12 digits

Exit status: 0 all commands succeeded; 1 some failed, were answered wrongly or, with --rate, could not be sent in time; 2 wrong arguments.
Latency is that of a whole batch if --pipeline is above 1. It writes keys that begin with --key-prefix, and leaves them unless --cleanup is given.";

/// Measure throughput and latency
#[derive(Debug, Args)]
#[command(next_help_heading = "Load", after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What is done, in this order: get, set, mixed
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "get,set,mixed")]
    pub(super) operation: Vec<Operation>,
    /// Any command instead of an operation, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "operation")]
    pub(super) command: Vec<String>,
    /// Seconds that each operation is measured for
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive_seconds)]
    pub(super) duration: Duration,
    /// Seconds before that
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(super) warmup: Duration,
    /// Workers, each with one batch under way
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(super) workers: u64,
    /// Commands of a batch: sent together, awaited together
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(super) pipeline: u64,
    /// Connections to each node, of each thread; each further one makes what goes at once smaller, and costs the client
    /// more for a command
    #[arg(long, visible_alias = "mux-count", value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) lanes: u64,
    /// Threads, among which the workers are shared [default: half of the cores, at most 8]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) threads: Option<u64>,
    /// Commands a second, of all workers together (open loop) [default: as many as possible]
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) rate: Option<u64>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
    pub(super) value_size: u64,
    /// Different keys
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    pub(super) keys: u64,
    /// What keys begin with; 12 digits follow
    #[arg(long, value_name = "TEXT", default_value = "bench:")]
    pub(super) key_prefix: String,
    /// How keys are drawn: uniform, sequential, zipf[:EXPONENT] (0.99), gaussian[:DEVIATION] (part of the keys, 1/6)
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    pub(super) distribution: Distribution,
    /// How many of 100 commands of `mixed` are SETs
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(super) writes: u64,
    /// Keys and values follow from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Seconds that a command may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = positive_seconds)]
    pub(super) timeout: Duration,
    /// Do not set all keys before get and mixed: keys that do not exist are then errors
    #[arg(long)]
    pub(super) no_populate: bool,
    /// Delete the keys at the end
    #[arg(long)]
    pub(super) cleanup: bool,
    /// Print the results as JSON (schema pilotlight.redis.bench, version 1; times in microseconds)
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the distribution of latencies into an SVG file
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| if time.is_zero() { Err("more than 0 is wanted".to_owned()) } else { Ok(time) })
}
