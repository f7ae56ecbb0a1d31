//! `pilotlight-lab`: what `pilotlight lab` runs. It is also the services that it measures, and what ends them.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use pilotlight_lab::command::{Completeness, LabArguments};
use pilotlight_lab::{command, processes, service};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure on this machine what the documentation claims
#[derive(Parser)]
#[command(name = "lab", bin_name = "pilotlight lab", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    lab: LabArguments,
}

const EXAMPLES: &str = "Examples:
  pilotlight lab --list                each experiment, what is believed of it, and what is missing for it
  pilotlight lab all --quick           two minutes at most, to see whether everything works
  pilotlight lab all --out report      everything, into one report
  pilotlight lab transport             one experiment alone";

fn main() -> ExitCode {
    if let Some(code) = own_process() {
        return code;
    }
    if let Some(code) = pilotlight_companion::describe_if_asked(&Arguments::command()) {
        return code;
    }
    match command::run(&Arguments::parse().lab) {
        Ok(Completeness::Complete) => ExitCode::SUCCESS,
        Ok(Completeness::Failures) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pilotlight lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The lab starts its own program as a service to measure, and in front of programs that must not outlive it.
fn own_process() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        service::SERVICE => Some(service::main(arguments)),
        processes::REAPER => Some(processes::reap(arguments)),
        processes::HOLD => Some(processes::hold(arguments)),
        _ => None,
    }
}
