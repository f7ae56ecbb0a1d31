//! The arguments of commands that are about a running gateway.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use pilotlight_printable::printable_lines;

use super::client::{Client, Failure};
use super::discover::{self, Chosen, Found};
use super::options::{Effect, Which};
use super::report::Report;
use crate::config::commands::Outcome;

/// Which running gateway.
#[derive(Args, Clone, Debug)]
pub struct Running {
    /// The configuration file of the gateway that is meant [default: pilotlight.toml of this folder]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The admin socket of the gateway that is meant
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "any"])]
    socket: Option<PathBuf>,
    /// The only gateway that runs, if this folder has none of its own
    #[arg(long, conflicts_with = "config")]
    any: bool,
    /// What the gateway answered, as JSON
    #[arg(long)]
    json: bool,
}

impl Running {
    /// Finds the gateway and runs a command with it, which writes to the standard output.
    ///
    /// # Errors
    /// Only if the output cannot be written.
    pub fn run(
        self,
        effect: Effect,
        command: impl FnOnce(&Client, Report, &mut dyn io::Write) -> Result<Outcome, Failure>,
    ) -> io::Result<Outcome> {
        let report = self.report();
        run(&self.which(), effect, |client| command(client, report, &mut io::stdout()))
    }

    /// How the command reports.
    pub(super) fn report(&self) -> Report {
        if self.json { Report::Json } else { Report::Text }
    }

    /// The arguments that say the same elsewhere.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (option, path) in [("--config", &self.config), ("--socket", &self.socket)] {
            words.extend(path.iter().flat_map(|path| [option.to_owned(), path.to_string_lossy().into_owned()]));
        }
        for (option, is_given) in [("--any", self.any), ("--json", self.json)] {
            words.extend(is_given.then(|| option.to_owned()));
        }
        words
    }

    /// Which gateway is meant.
    pub(super) fn which(self) -> Which {
        match (self.socket, self.config) {
            (Some(socket), _) => Which::Socket(socket),
            (None, Some(file)) => Which::Config(file),
            (None, None) if self.any => Which::Any,
            (None, None) => Which::Here,
        }
    }
}

/// Runs a command and says what went wrong.
fn run(
    which: &Which,
    effect: Effect,
    command: impl FnOnce(&Client) -> Result<Outcome, Failure>,
) -> io::Result<Outcome> {
    let done = discover::find(which, effect).and_then(|Found { client, chosen }| {
        if chosen == Chosen::Only {
            writeln!(io::stderr(), "the only gateway that runs: {}", client.gateway())?;
        }
        command(&client)
    });
    match done {
        Ok(outcome) => Ok(outcome),
        Err(Failure::Output(e)) => Err(e),
        Err(failure) => {
            writeln!(io::stderr(), "error: {}", printable_lines(&failure.to_string()))?;
            Ok(failure.outcome())
        }
    }
}
