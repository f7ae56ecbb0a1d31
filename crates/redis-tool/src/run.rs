//! From arguments to an exit code.

use std::io::stdout;
use std::process::ExitCode;

use clap::Subcommand;

use crate::connection::UsageError;
use crate::{advice, bench, cli, cluster, fill, tunnel};

/// What `pilotlight redis` can do.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// A prompt, or one command: inspects and changes what is stored
    Cli(Box<cli::CliArgs>),
    /// Measure throughput and latency
    Bench(Box<bench::BenchArgs>),
    /// Fill with data
    Fill(Box<fill::FillArgs>),
    /// A local port that speaks to servers behind it: without TLS, passwords or knowledge of clusters
    #[command(visible_alias = "tunn")]
    Tunnel(Box<tunnel::TunnelArgs>),
    /// Start a cluster on this machine, and look after any: status, check, slots, failover
    Cluster(Box<cluster::ClusterArgs>),
}

/// Does it. 0: done; 1: the work failed; 2: the arguments are wrong.
#[must_use]
pub fn run(mode: Mode) -> ExitCode {
    let (name, result): (&str, anyhow::Result<ExitCode>) = match mode {
        Mode::Cli(arguments) => ("cli", cli::run(*arguments)),
        Mode::Bench(arguments) => ("bench", bench::run(&arguments, &mut stdout()).map(ExitCode::from)),
        Mode::Fill(arguments) => ("fill", fill::run(&arguments, &mut stdout()).map(ExitCode::from)),
        Mode::Tunnel(arguments) => ("tunnel", tunnel::run(&arguments)),
        Mode::Cluster(arguments) => ("cluster", cluster::run(*arguments)),
    };
    result.unwrap_or_else(|error| failed(name, &error))
}

/// Prints why the work failed, and tells whose fault it was.
fn failed(mode: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("pilotlight redis {mode}: {}", advice::causes(error));
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
