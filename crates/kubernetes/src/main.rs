//! `pilotlight-kubernetes`: what `pilotlight kubernetes` runs.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use pilotlight_kubernetes::arguments::Arguments;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The gateway starts this program again as the guardian of its services: before there is a thread.
    if let Some(code) = pilotlight_cli::embedded::started_as_part() {
        return code;
    }
    pilotlight_companion::describe_if_asked(&Arguments::command())
        .unwrap_or_else(|| pilotlight_kubernetes::run(Arguments::parse()))
}
