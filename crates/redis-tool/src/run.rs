//! From arguments to an exit code.

use std::process::ExitCode;

use clap::Subcommand;

use crate::connection::UsageError;
use crate::tunnel::{self, TunnelArgs};

/// What `pilotlight redis` can do.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// A local port that speaks to servers behind it: without TLS, passwords or knowledge of clusters
    #[command(visible_alias = "tunn")]
    Tunnel(TunnelArgs),
}

/// Does it. 0: done; 1: the work failed; 2: the arguments are wrong.
#[must_use]
pub fn run(mode: Mode) -> ExitCode {
    let (name, result): (&str, anyhow::Result<ExitCode>) = match mode {
        Mode::Tunnel(arguments) => ("tunnel", tunnel::run(&arguments)),
    };
    result.unwrap_or_else(|error| failed(name, &error))
}

/// Prints why the work failed, and tells whose fault it was.
fn failed(mode: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("pilotlight redis {mode}: {error:#}");
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
