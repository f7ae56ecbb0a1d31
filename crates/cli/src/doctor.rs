//! `pilotlight doctor`: looks at this machine and this project, and says what is wrong and what to do about it.
//!
//! Owns the order of the checks, what they find as data, and how it is shown. What a configuration means, whether it is
//! right and which gateway is its own, other modules know; what a sandbox can do here, the supervisor tries.
//!
//! Invariant: nothing on the machine is changed, no host but this one is spoken to (the resolver and the Redis of the
//! file apart, which is to write a key for a second), and each check that could wait has a limit.

mod bounded;
mod certificates;
mod containers;
mod finding;
mod gateway;
mod machine;
mod ports;
mod project;
mod show;
mod stores;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use pilotlight_companion::Companion;

use crate::config::commands::Outcome;
use crate::config::{Config, DEFAULT_FILE};
use finding::{Area, Finding, Level};

/// Examples for the help.
pub const EXAMPLES: &str = "Examples:
  pilotlight doctor                          this machine, and the project of this folder
  pilotlight doctor --config other.toml      another file
  pilotlight doctor --json | jq '.findings[] | select(.level == \"problem\")'

Nothing is changed. Exit codes: 0 no problem (notes do not count), 1 at least one.";

/// What is looked at.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// The configuration file [default: pilotlight.toml, if there is one]
    #[arg(long, short = 'c', value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object on the standard output
    #[arg(long)]
    json: bool,
    /// Try the sandbox in this process, and tell of it: for the command itself
    #[arg(long, hide = true)]
    try_sandbox: bool,
}

/// Looks, and says what it found.
///
/// # Errors
/// Only if `out` cannot be written to.
pub fn run(arguments: &DoctorArguments, companions: &[Companion], out: &mut dyn Write) -> io::Result<Outcome> {
    if arguments.try_sandbox {
        return machine::try_sandbox(out);
    }
    let findings = examine(arguments.config.as_deref(), companions);
    match arguments.json {
        true => writeln!(out, "{}", show::as_json(&findings))?,
        false => write!(out, "{}", show::as_text(&findings, &show::Look::of_stdout()))?,
    }
    out.flush()?;
    let has_problem = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(if has_problem { Outcome::Failed } else { Outcome::Done })
}

/// What looks at one area of a project.
type Check = fn(&Config) -> Vec<Finding>;

/// All checks. Those that wait for others run beside each other.
fn examine(named: Option<&std::path::Path>, companions: &[Companion]) -> Vec<Finding> {
    let file = named.map_or_else(|| PathBuf::from(DEFAULT_FILE), PathBuf::from);
    let mut findings = vec![machine::version()];
    let sandbox = bounded::begin(machine::sandbox);
    let (of_file, config) = project::configuration(&file, named.is_some());
    findings.extend(of_file);
    let Some(config) = config else {
        findings.extend(machine::limits(None, None));
        findings.extend(machine::kernel(None, sandbox.finished()));
        findings.extend(stores::runtime_folders());
        findings.extend(machine::companions(companions));
        return findings;
    };
    let slow: [(Area, Check); 4] = [
        (Area::Services, project::services),
        (Area::Services, containers::look),
        (Area::Redis, stores::redis),
        (Area::Certificates, certificates::names),
    ];
    let waiting = slow.map(|(area, check)| {
        let config = config.clone();
        (area, bounded::begin(move || check(&config)))
    });
    let (of_gateway, pid) = gateway::look(&file, &config);
    findings.extend(of_gateway);
    findings.extend(ports::look(&config, pid));
    findings.extend(machine::limits(Some(&config), pid));
    findings.extend(machine::kernel(Some(&config), sandbox.finished()));
    findings.extend(certificates::look(&config));
    findings.extend(stores::runtime_folders());
    findings.extend(stores::disks(&config));
    findings.extend(waiting.into_iter().flat_map(|(area, check)| {
        check.finished().unwrap_or_else(|| {
            let fact = format!("this could not be looked at within {} s", bounded::LIMIT.as_secs());
            vec![area.note(fact, "is the machine very busy, or its resolver silent?")]
        })
    }));
    findings.extend(machine::companions(companions));
    findings
}
