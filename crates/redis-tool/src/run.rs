//! From arguments to an exit code.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cluster::{self, ClusterArgs};
use crate::connection::UsageError;

/// What `pilotlight redis` can do.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Start a cluster on this machine, and look after any: status, check, slots, failover
    Cluster(Box<ClusterArgs>),
}

/// Does it. 0: done; 1: the work failed; 2: the arguments are wrong.
#[must_use]
pub fn run(mode: Mode) -> ExitCode {
    let (name, result): (&str, anyhow::Result<ExitCode>) = match mode {
        Mode::Cluster(arguments) => ("cluster", cluster::run(*arguments)),
    };
    result.unwrap_or_else(|error| failed(name, &error))
}

/// Prints why the work failed, and tells whose fault it was.
fn failed(mode: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("pilotlight redis {mode}: {error:#}");
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
