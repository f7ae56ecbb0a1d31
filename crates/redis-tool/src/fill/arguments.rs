//! The options of `pilotlight redis fill`.

use std::time::Duration;

use clap::{ArgGroup, Args};

use super::kind::Kind;
use crate::connection::{ConnectionArgs, seconds};

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
    pub(super) data: Option<f64>,
    /// How much, in MB
    #[arg(long, value_name = "MB", value_parser = positive)]
    pub(super) mb: Option<f64>,
    /// How many keys
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(super) count: Option<u64>,
    /// Delete all keys of the database first; asks at a prompt
    #[arg(short, long)]
    pub(super) flush: bool,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(super) key_size: u64,
    /// Bytes of a value: of each element, if it has several
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=524_288))]
    pub(super) value_size: u64,
    /// string, hash, list, set, zset, stream
    #[arg(long = "type", value_name = "TYPE", default_value = "string")]
    pub(super) kind: Kind,
    /// Elements of each hash, list, set, zset or stream
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) elements: u64,
    /// What keys begin with
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) key_prefix: String,
    /// Seconds after which keys expire [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_000_000_000))]
    pub(super) ttl: Option<u64>,
    /// Keys and values follow from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Write only what is missing, or is of another length
    #[arg(long, conflicts_with = "flush")]
    pub(super) resume: bool,
    /// Commands sent together; fewer if that were more than 1 MiB
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(super) pipeline: u64,
    /// Connections to each node, of each thread
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) connections: u64,
    /// Threads [default: half of the cores, at most 8]
    #[arg(short = 'P', long, visible_alias = "processes", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) threads: Option<u64>,
    /// Seconds that a command may take
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Keys that fail before the rest is not tried; 0: no matter how many
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub(super) max_errors: u64,
    /// Values that are read back at the end
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(super) sample: u64,
    /// Look at every key at the end, not only if the number of keys is not as expected
    #[arg(long)]
    pub(super) verify_all: bool,
    /// Print the result as JSON (schema pilotlight.redis.fill, version 1)
    #[arg(long)]
    pub(super) json: bool,
    /// Which server.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e6;
    let number: f64 = text.parse().map_err(|_| "a number is wanted".to_owned())?;
    if number > 0.0 && number <= MOST { Ok(number) } else { Err(format!("more than 0 is wanted, and at most {MOST}")) }
}
