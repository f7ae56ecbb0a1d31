//! From arguments to an exit code.

use std::io::stdout;
use std::process::ExitCode;

use clap::Subcommand;

use crate::bench;
use crate::connection::UsageError;
use crate::fill;

/// What `pilotlight redis` can do.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Measure throughput and latency
    Bench(Box<bench::BenchArgs>),
    /// Fill with data
    Fill(Box<fill::FillArgs>),
}

/// Does it. 0: done; 1: the work failed; 2: the arguments are wrong.
#[must_use]
pub fn run(mode: Mode) -> ExitCode {
    let (name, result): (&str, anyhow::Result<ExitCode>) = match mode {
        Mode::Bench(args) => ("bench", bench::run(&args, &mut stdout()).map(ExitCode::from)),
        Mode::Fill(args) => ("fill", fill::run(&args, &mut stdout()).map(ExitCode::from)),
    };
    result.unwrap_or_else(|error| failed(name, &error))
}

/// Prints why the work failed, and tells whose fault it was.
fn failed(mode: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("pilotlight redis {mode}: {error:#}");
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
