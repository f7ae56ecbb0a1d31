//! The `pilotlight` binary: arguments in, exit codes out.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use pilotlight_cli::config::DEFAULT_FILE;
use pilotlight_cli::config::commands::{self, Existing, Format, Outcome};
use pilotlight_cli::run;
use pilotlight_lab::transport::{self, Completeness, TransportArguments};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A gateway for local services: starts them on their first request, speaks to them over a pipe or HTTP, caches.
#[derive(Parser)]
#[command(name = "pilotlight", version, about, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigFile,
}

const EXAMPLES: &str = "Examples:
  pilotlight init                      write a commented pilotlight.toml to start from
  pilotlight check                     report every mistake in it
  pilotlight                           run it (the same as `pilotlight run`)
  pilotlight run --config other.toml   run another file
  PILOTLIGHT_LOG=debug pilotlight      with more events on the standard error

Exit codes: 0 done, 1 the work failed, 2 usage or configuration, 70 a bug of Pilotlight.";

#[derive(Subcommand)]
enum Command {
    /// Run the gateway (what happens without a command)
    Run {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Report every mistake in the configuration
    Check {
        #[command(flatten)]
        config: ConfigFile,
        /// One JSON object on the standard output
        #[arg(long)]
        json: bool,
    },
    /// Write a configuration to start from
    Init {
        #[command(flatten)]
        config: ConfigFile,
        /// Replace the file if there is one
        #[arg(long)]
        force: bool,
    },
    /// Measure on this machine what the documentation claims
    Lab {
        #[command(subcommand)]
        experiment: Experiment,
    },
    #[command(name = run::GUARDIAN, hide = true)]
    Guardian { runtime_dir: PathBuf },
}

#[derive(Subcommand)]
enum Experiment {
    /// HTTP and the pipe, warm and cold, beside other gateways: times, memory, CPU time
    #[command(after_help = "Examples:
  pilotlight lab transport                           the published five cases for Python, Node and Rust
  pilotlight lab transport --quick                   a minute, to see whether everything works
  pilotlight lab transport --services python --python venv/bin/python --requests 1000

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Transport(Box<TransportArguments>),
}

#[derive(Args)]
struct ConfigFile {
    /// The configuration file
    #[arg(long = "config", short = 'c', value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
}

fn main() -> ExitCode {
    // Before anything else: the guardian must be small, and its own process may not have a thread yet.
    if std::env::args_os().nth(1).is_some_and(|first| first == run::GUARDIAN) {
        return guardian(std::env::args_os().nth(2).map(PathBuf::from));
    }
    if let Some(code) = lab_process() {
        return code;
    }
    let arguments = Arguments::parse();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let outcome = match arguments.command.unwrap_or(Command::Run { config: arguments.config }) {
        Command::Run { config } => return run(&config.file),
        Command::Check { config, json } => {
            let format = if json { Format::Json } else { Format::Text(commands::style_for_stderr()) };
            commands::check(&config.file, format, &mut out, &mut err)
        }
        Command::Init { config, force } => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            commands::init(&config.file, existing, &mut out, &mut err)
        }
        Command::Lab { experiment: Experiment::Transport(arguments) } => return lab(&arguments),
        Command::Guardian { runtime_dir } => return guardian(Some(runtime_dir)),
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        // Nobody is left to be told (a closed pipe), so the exit code has to do.
        Err(_) => Outcome::Failed.into(),
    }
}

/// The lab starts this binary as a service to measure, and in front of programs that must not outlive it.
fn lab_process() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        pilotlight_lab::service::SERVICE => Some(pilotlight_lab::service::main(arguments)),
        pilotlight_lab::processes::HOLD => Some(pilotlight_lab::processes::hold(arguments)),
        _ => None,
    }
}

fn lab(arguments: &TransportArguments) -> ExitCode {
    match transport::run(arguments) {
        Ok(Completeness::Complete) => ExitCode::SUCCESS,
        Ok(Completeness::Failures) => Outcome::Failed.into(),
        Err(e) => {
            eprintln!("pilotlight lab: {e:#}");
            Outcome::Failed.into()
        }
    }
}

fn guardian(runtime_dir: Option<PathBuf>) -> ExitCode {
    let code = pilotlight_supervisor::guardian::main();
    if let Some(dir) = runtime_dir {
        // Gone already if the gateway ended in an orderly way.
        let _ = std::fs::remove_dir_all(dir);
    }
    code
}

fn run(file: &std::path::Path) -> ExitCode {
    match run::run(file) {
        Ok(run::Ended::Stopped) => ExitCode::SUCCESS,
        Ok(run::Ended::Misconfigured) => Outcome::Misconfigured.into(),
        Err(e) => {
            eprintln!("pilotlight: {e:#}");
            Outcome::Failed.into()
        }
    }
}
