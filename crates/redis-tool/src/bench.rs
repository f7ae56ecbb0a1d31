//! `pilotlight redis bench`: how many commands a second, and how long each takes.
//!
//! Closed loop: workers send a batch, await it, send the next. Open loop (`--rate`): commands have intended starts,
//! whatever became of those before, and their latency counts from there, so a server that stops for a second is seen by
//! all commands of that second.

mod batch;
mod measure;
mod pacer;
mod plan;
mod plot;
mod populate;
mod report;
mod template;
mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pilotlight_redis::Config;

use crate::connection::{ConnectionArgs, UsageError, seconds};
use crate::load::distribution::Distribution;
use crate::load::interrupt::Interrupt;
use crate::load::{Outcome, default_threads, thread};
use plan::{Operation, Plan};
use template::Template;

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
    operation: Vec<Operation>,
    /// Any command instead of an operation, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "operation")]
    command: Vec<String>,
    /// Seconds that each operation is measured for
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive_seconds)]
    duration: Duration,
    /// Seconds before that
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Workers, each with one batch under way
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65536))]
    workers: u64,
    /// Commands of a batch: sent together, awaited together
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pipeline: u64,
    /// Connections to each node, of each thread
    #[arg(long, visible_alias = "mux-count", value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    lanes: u64,
    /// Threads, among which the workers are shared [default: half of the cores, at most 8]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    /// Commands a second, of all workers together (open loop) [default: as many as possible]
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
    value_size: u64,
    /// Different keys
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    keys: u64,
    /// What keys begin with; 12 digits follow
    #[arg(long, value_name = "TEXT", default_value = "bench:")]
    key_prefix: String,
    /// How keys are drawn: uniform, sequential, zipf[:EXPONENT] (0.99), gaussian[:DEVIATION] (part of the keys, 1/6)
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    distribution: Distribution,
    /// How many of 100 commands of `mixed` are SETs
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=100))]
    writes: u64,
    /// Keys and values follow from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Seconds that a command may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = positive_seconds)]
    timeout: Duration,
    /// Do not set all keys before get and mixed: keys that do not exist are then errors
    #[arg(long)]
    no_populate: bool,
    /// Delete the keys at the end
    #[arg(long)]
    cleanup: bool,
    /// Print the results as JSON (schema pilotlight.redis.bench, version 1; times in microseconds)
    #[arg(long)]
    json: bool,
    /// Draw the distribution of latencies into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| if time.is_zero() { Err("more than 0 is wanted".to_owned()) } else { Ok(time) })
}

/// Measures, and writes the results to `out`.
///
/// # Errors
/// The arguments make no sense ([`UsageError`]), or there is no server, or `out` takes no more.
pub fn run(args: &BenchArgs, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let bench = Bench::new(args)?;
    // Before the work, not after it.
    let mut plot = match &args.plot {
        Some(path) => Some(std::fs::File::create(path).with_context(|| format!("--plot {}", path.display()))?),
        None => None,
    };
    let rows = thread::runtime()?.block_on(bench.run(out))?;
    if args.json {
        report::write_json(&bench, &rows, out)?;
    }
    if let Some(file) = &mut plot {
        file.write_all(plot::svg(&rows).as_bytes()).context("--plot")?;
    }
    let all_is_well = rows.iter().all(measure::Row::is_flawless) && rows.len() == bench.plans.len();
    Ok(if all_is_well { Outcome::Done } else { Outcome::Failed })
}

/// What is to be done, checked.
struct Bench<'a> {
    args: &'a BenchArgs,
    config: Config,
    plans: Vec<Arc<Plan>>,
    threads: u64,
}

impl<'a> Bench<'a> {
    fn new(args: &'a BenchArgs) -> anyhow::Result<Self> {
        let mut config = args.connection.config()?;
        config.lanes = args.lanes as usize;
        config.command_timeout = Some(args.timeout);
        let threads = args.threads.unwrap_or(default_threads() as u64).min(args.workers);
        let batch_bytes = args.pipeline.saturating_mul(args.value_size + 128);
        let most = config.max_queued_bytes as u64;
        if batch_bytes > most {
            let why = format!(
                "--pipeline × --value-size: a batch of {batch_bytes} bytes is more than {most}: give less of one of them"
            );
            return Err(UsageError(why).into());
        }
        let operations = match Template::parse(&args.command)? {
            Some(template) => vec![Operation::Command(Arc::new(template))],
            None => args.operation.clone(),
        };
        let shared = Plan::shared(args);
        let plans = operations.into_iter().map(|operation| Arc::new(shared.of(operation))).collect();
        Ok(Self { args, config, plans, threads })
    }

    async fn run(&self, out: &mut impl Write) -> anyhow::Result<Vec<measure::Row>> {
        let interrupt = Interrupt::listen();
        let client = thread::first_connect(&self.config).await?;
        let mut rows = Vec::new();
        let mut is_populated = self.args.no_populate;
        if !self.args.json {
            report::write_head(self, out)?;
        }
        for plan in &self.plans {
            if plan.reads() && !is_populated {
                if !populate::populate(&self.config, plan, self.threads, &interrupt).await? {
                    break; // Ctrl-C
                }
                is_populated = true;
            }
            let row = measure::measure(&self.config, plan, self.threads, &interrupt).await?;
            if !self.args.json {
                report::write_row(&row, out)?;
            }
            rows.push(row);
            if interrupt.is_asked() {
                break;
            }
        }
        if self.args.cleanup {
            populate::clean(&self.config, &self.plans, self.threads, &interrupt).await?;
        }
        client.close(Duration::from_secs(1)).await;
        Ok(rows)
    }
}
