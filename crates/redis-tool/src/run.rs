//! From arguments to an exit code.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli;
use crate::connection::UsageError;

/// What `pilotlight redis` can do.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// A prompt, or one command: inspects and changes what is stored
    Cli(Box<cli::CliArgs>),
}

/// Does it. 0: done; 1: the work failed; 2: the arguments are wrong.
#[must_use]
pub fn run(mode: Mode) -> ExitCode {
    let (name, result): (&str, anyhow::Result<ExitCode>) = match mode {
        Mode::Cli(arguments) => ("cli", cli::run(*arguments)),
    };
    result.unwrap_or_else(|error| failed(name, &error))
}

/// Prints why the work failed, and tells whose fault it was.
fn failed(mode: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("pilotlight redis {mode}: {error:#}");
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
