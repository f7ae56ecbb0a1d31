//! A program that cannot outlive the lab: `pilotlight lab-hold PARENT PROGRAM ARGUMENT…` asks the kernel for a signal
//! at the lab's death and becomes the program. The wish survives `exec`, and it takes no unsafe code between `fork` and
//! `exec`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::with_huge_pages;

/// The hidden argument with which the binary becomes another program.
pub const HOLD: &str = "lab-hold";
/// As a shell says that there is no such program.
const NOT_FOUND: u8 = 127;

/// What the binary does when [`HOLD`] is its first argument; the others are given here.
#[must_use]
pub fn hold(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|text| text.to_str()?.parse::<i32>().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        eprintln!("{HOLD}: is started by `pilotlight lab` only");
        return ExitCode::from(2);
    };
    if let Err(e) = set_parent_process_death_signal(Some(Signal::TERM)) {
        eprintln!("{HOLD}: the end of the lab cannot be noticed: {e}");
        return ExitCode::FAILURE;
    }
    if getppid() != Some(parent) {
        return ExitCode::FAILURE; // the lab has ended in between
    }
    let error = with_huge_pages(|| Command::new(&program).args(arguments).exec());
    eprintln!("{HOLD}: {}: {error}", program.display());
    ExitCode::from(NOT_FOUND)
}
