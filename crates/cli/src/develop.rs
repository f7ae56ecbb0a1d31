//! `pilotlight dev`: the project of a folder, served while it is developed (docs/adr/0042).
//!
//! The folder becomes the text of a configuration file, which is read like any other; what only development needs is
//! put into what was read. From there on it is an ordinary run, with a session beside it that follows the files.

use std::io::{self, Write};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pilotlight_dev::Over;

use crate::dev::{Project, Wanted};
use crate::origin::Origin;
use crate::run::{self, Ended};

/// For the help of the command.
pub const EXAMPLES: &str = "Examples:
  pilotlight dev                          guess what this folder is, and say so
  pilotlight dev -- python3 service.py    run this instead; it is told its port by PORT unless it uses the SDK
  pilotlight dev --print-config           the pilotlight.toml that is used, to be saved and gone on with
  pilotlight dev --ignore 'data/' --ignore '*.csv'

It serves https://NAME.localhost, NAME being the folder's; `pilotlight trust` has browsers believe its certificate.
Keys on a terminal: o opens the browser, r restarts, q stops.";

/// What `pilotlight dev` takes.
#[derive(Debug, Args)]
pub struct DevArguments {
    /// What to run instead of what is guessed
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The name below `localhost` [default: that of the folder]
    #[arg(long)]
    name: Option<String>,
    /// The port of HTTPS [default: 443, else the first free one from 8443 on]
    #[arg(long)]
    port: Option<u16>,
    /// The port of HTTP [default: 80, else the first free one from 8080 on]
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// How the program is reached [default: guessed from its source, else by PORT]
    #[arg(long, value_name = "WAY")]
    over: Option<Way>,
    /// Files whose changes do not count, as in .gitignore; may be repeated
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    ignore: Vec<String>,
    /// Print the configuration that would be used, and do nothing else
    #[arg(long)]
    print_config: bool,
}

/// How a program is reached.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// By an SDK
    Pipe,
    /// HTTP on a Unix socket that it inherits as descriptor 3
    Unix,
    /// HTTP on a TCP socket that it inherits as descriptor 3
    Tcp,
    /// HTTP on the port in PORT
    Port,
}

impl Way {
    fn over(self) -> Over {
        match self {
            Self::Pipe => Over::Pipe,
            Self::Unix => Over::Unix,
            Self::Tcp => Over::Tcp,
            Self::Port => Over::Port,
        }
    }
}

/// Runs until it is stopped.
///
/// # Errors
/// The folder cannot be understood, or the system refuses what is needed.
pub fn run(arguments: &DevArguments) -> anyhow::Result<Ended> {
    let folder = std::env::current_dir()?.canonicalize()?;
    let wanted = Wanted {
        command: &arguments.command,
        name: arguments.name.as_deref(),
        https: arguments.port,
        http: arguments.http_port,
        over: arguments.over.map(Way::over),
        ignore: &arguments.ignore,
    };
    let project = match Project::of(folder, &wanted) {
        Ok(project) => project,
        Err(why) => {
            let mut err = io::stderr();
            writeln!(err, "error: {}", pilotlight_printable::printable(&why))?;
            writeln!(err, " = help: say what to run: `pilotlight dev -- COMMAND`, or write a file: `pilotlight init`")?;
            return Ok(Ended::Misconfigured);
        }
    };
    if arguments.print_config {
        io::stdout().write_all(project.text()?.as_bytes())?;
        return Ok(Ended::Stopped);
    }
    run::run_from(&Origin::Development(Arc::new(project)))
}
