//! `pilotlight redis fill`: much data, quickly, and the certainty that it is there.
//!
//! Item `n` of a seed has the same key and the same value in each run, so a run can be checked and gone on with without
//! a record of it: what is missing is what the server does not have. Every reply is read; an item counts as written
//! when all of its commands succeeded.

mod check;
mod item;
mod report;
mod work;

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgGroup, Args};
use pilotlight_redis::commands::{Commands, spec};
use pilotlight_redis::{Client, Command, Config, Route};

use crate::connection::{ConnectionArgs, UsageError, seconds};
use crate::load::interrupt::Interrupt;
use crate::load::{Outcome, text, thread};
use check::Checked;
use item::{Items, Kind};
use work::{Shared, Work};

/// Deleting everything may take its time.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of one item: an item is sent in one piece.
const MAX_ITEM_BYTES: u64 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  pilotlight redis fill -d 5                                 5 GB of strings: 512 bytes a key, 512 bytes a value
  pilotlight redis fill --mb 100 --key-size 20 --value-size 1000 --key-prefix test: --ttl 3600
  pilotlight redis fill --count 100000 --type hash --elements 20 --value-size 32
  pilotlight redis fill -d 5 --resume                        only what is missing of the same command's items
  pilotlight redis fill -c -h node1 -d 50 --threads 4 --connections 2
  pilotlight redis fill --flush                              delete everything, and fill with nothing

Exit status: 0 everything is there; 1 something is missing or was refused, which is said; 2 wrong arguments.
GB and MB are decimal (1 GB = 1,000,000,000 bytes), of keys and values; servers need more memory than that. The mode itself needs less than 200 MB for any amount.";

/// Fill with data
#[derive(Debug, Args)]
#[command(next_help_heading = "Data", after_help = EXAMPLES, group(ArgGroup::new("amount").args(["data", "mb", "count"])))]
pub struct FillArgs {
    /// How much, in GB, of keys and values together
    #[arg(short, long, value_name = "GB", value_parser = positive)]
    data: Option<f64>,
    /// How much, in MB
    #[arg(long, value_name = "MB", value_parser = positive)]
    mb: Option<f64>,
    /// How many keys
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    count: Option<u64>,
    /// Delete all keys of the database first; asks at a prompt
    #[arg(short, long)]
    flush: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    key_size: u64,
    /// Bytes of a value: of each element, if it has several
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=524_288))]
    value_size: u64,
    /// string, hash, list, set, zset, stream
    #[arg(long = "type", value_name = "TYPE", default_value = "string")]
    kind: Kind,
    /// Elements of each hash, list, set, zset or stream
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    elements: u64,
    /// What keys begin with
    #[arg(long, value_name = "TEXT", default_value = "")]
    key_prefix: String,
    /// Seconds after which keys expire [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_000_000_000))]
    ttl: Option<u64>,
    /// Keys and values follow from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write only what is missing, or is of another length
    #[arg(long, conflicts_with = "flush")]
    resume: bool,
    /// Commands sent together; fewer if that were more than 1 MiB
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pipeline: u64,
    /// Connections to each node, of each thread
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    connections: u64,
    /// Threads [default: half of the cores, at most 8]
    #[arg(short = 'P', long, visible_alias = "processes", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    /// Seconds that a command may take
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Keys that fail before the rest is not tried; 0: no matter how many
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    max_errors: u64,
    /// Values that are read back at the end
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    sample: u64,
    /// Look at every key at the end, not only if the number of keys is not as expected
    #[arg(long)]
    verify_all: bool,
    /// Print the result as JSON (schema pilotlight.redis.fill, version 1)
    #[arg(long)]
    json: bool,
    /// Which server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e6;
    let number: f64 = text.parse().map_err(|_| "a number is wanted".to_owned())?;
    if number > 0.0 && number <= MOST { Ok(number) } else { Err(format!("more than 0 is wanted, and at most {MOST}")) }
}

/// Fills, checks, and writes the result to `out`.
///
/// # Errors
/// The arguments make no sense ([`UsageError`]), or there is no server, or `out` takes no more.
pub fn run(args: &FillArgs, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let bytes = args.data.map(|gb| gb * 1e9).or(args.mb.map(|mb| mb * 1e6));
    if bytes.is_none() && args.count.is_none() && !args.flush {
        return Err(UsageError("how much? give --data GB, --mb MB or --count KEYS".to_owned()).into());
    }
    let elements = if args.kind == Kind::String { 1 } else { args.elements };
    let item_bytes = args.key_size + args.value_size * elements;
    if item_bytes > MAX_ITEM_BYTES {
        let why = format!("--elements × --value-size: {item_bytes} bytes of one key are more than {MAX_ITEM_BYTES}");
        return Err(UsageError(why).into());
    }
    let count = bytes.map(|bytes| (bytes / item_bytes as f64).ceil() as u64).or(args.count).unwrap_or(0);
    let items = Items::new(args, count, elements)?;
    let crew = work::Crew::new(args, item_bytes, elements);
    let mut config = args.connection.config()?;
    config.lanes = args.connections as usize;
    config.command_timeout = Some(args.timeout.max(Duration::from_millis(1)));
    let fill = Fill { args, config, items: Arc::new(items), count, item_bytes, crew };
    thread::runtime()?.block_on(fill.run(out))
}

/// What is to be done, checked.
struct Fill<'a> {
    args: &'a FillArgs,
    config: Config,
    items: Arc<Items>,
    count: u64,
    item_bytes: u64,
    crew: work::Crew,
}

/// What was done, and what is there.
struct Filled {
    sum: work::Sum,
    elapsed: Duration,
    keys_before: u64,
    checked: Checked,
}

impl Fill<'_> {
    async fn run(&self, out: &mut impl Write) -> anyhow::Result<Outcome> {
        let client = thread::first_connect(&self.config).await?;
        // Not before the question: there Ctrl-C means no.
        if self.args.flush && !self.flush(&client, out).await? {
            return Ok(Outcome::Failed);
        }
        if self.count == 0 {
            return Ok(Outcome::Done);
        }
        let interrupt = Interrupt::listen();
        let keys_before = check::key_count(&client).await?;
        let begun = Instant::now();
        let work = if self.args.resume { Work::Resume } else { Work::Write };
        let shared = Arc::new(Shared::new(self.count, self.args.max_errors, work));
        let sum = self.crew.run(&self.config, &self.items, &shared, self.item_bytes, &interrupt).await?;
        let elapsed = begun.elapsed();
        let checked = check::check(self, &client, &sum, keys_before, elapsed, &interrupt).await?;
        client.close(Duration::from_secs(1)).await;
        let filled = Filled { sum, elapsed, keys_before, checked };
        if self.args.json {
            report::write_json(self, &filled, out)?;
        } else {
            report::write(self, &filled, out)?;
        }
        Ok(if filled.is_complete(self.count) { Outcome::Done } else { Outcome::Failed })
    }

    /// False: the user does not want to.
    async fn flush(&self, client: &Client, out: &mut impl Write) -> anyhow::Result<bool> {
        let keys = check::key_count(client).await?;
        if keys > 0 && !self.args.yes && std::io::stdin().is_terminal() {
            eprint!("Delete all {} keys at {}? Type yes: ", text::grouped(keys), self.config);
            let mut answer = String::new();
            std::io::stdin().lock().read_line(&mut answer).context("no answer")?;
            if answer.trim() != "yes" {
                eprintln!("nothing was deleted");
                return Ok(false);
            }
        }
        client.run::<()>(Command::new(&spec::FLUSHDB)).on(Route::AllPrimaries).timeout(FLUSH_TIMEOUT).await?;
        if !self.args.json {
            writeln!(out, "deleted {} keys", text::grouped(keys))?;
        }
        Ok(true)
    }
}

impl Filled {
    fn is_complete(&self, count: u64) -> bool {
        self.sum.written + self.sum.present == count && self.sum.failed == 0 && self.checked.missing == 0
    }
}
