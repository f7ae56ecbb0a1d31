//! Companions of `pilotlight`: programs that are commands of it. `pilotlight redis …` runs `pilotlight-redis …`, and
//! `pilotlight lab …` runs `pilotlight-lab …`, so that a gateway does not carry the code of either. (docs/adr/0047)
//!
//! [`Companion`] is the side of `pilotlight`: it finds and runs the program, and asks it for its arguments when
//! completions or manual pages are made. [`describe_if_asked`] is the side of the program. What goes between them is
//! [`description::Description`], as JSON.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking"))]

pub mod description;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::builder::Resettable;
use description::Description;

/// The only argument of a program that is asked for its arguments.
const DESCRIBE: &str = "describe-arguments";

/// A program that is a command of `pilotlight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The command: `redis`.
    pub command: &'static str,
    /// The program, in the folder of `pilotlight` or in one of `PATH`: `pilotlight-redis`.
    pub program: &'static str,
    /// The cargo package that it is built from.
    pub package: &'static str,
}

impl Companion {
    /// The program beside this one; without it, the one that a shell would find.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self) -> io::Result<PathBuf> {
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name(self.program));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(self.program));
        beside.into_iter().chain(in_path).find(|file| file.is_file()).ok_or_else(|| self.missing())
    }

    fn missing(&self) -> io::Error {
        let Self { program, package, .. } = self;
        io::Error::other(format!(
            "there is no program {program} beside this one or in PATH: install it from the same release, or build it \
             with `cargo build --release -p {package}`"
        ))
    }

    /// Becomes the program. Returns only if that cannot be started.
    pub fn run(&self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let error = match self.find() {
            Ok(program) => Command::new(program).args(arguments).exec(),
            Err(error) => error,
        };
        // Nobody may be left to be told.
        let _ = writeln!(io::stderr(), "pilotlight {}: {error}", self.command);
        ExitCode::FAILURE
    }

    /// The arguments of the program as commands below `own`, which keeps its name and its own words about it.
    ///
    /// # Errors
    /// There is no program, or it does not describe itself.
    pub fn described(&self, own: &clap::Command) -> io::Result<clap::Command> {
        let program = self.find()?;
        let description = ask(&program)
            .map_err(|error| io::Error::other(format!("{} does not tell its arguments: {error}", program.display())))?;
        Ok(description.command().name(self.command).about(Resettable::from(own.get_about().cloned())))
    }
}

fn ask(program: &Path) -> io::Result<Description> {
    let answer = Command::new(program).arg(DESCRIBE).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    if !answer.status.success() {
        return Err(io::Error::other(answer.status.to_string()));
    }
    Ok(serde_json::from_slice(&answer.stdout)?)
}

/// Prints the arguments of this program if that is what it was started for.
#[must_use]
pub fn describe_if_asked(command: &clap::Command) -> Option<ExitCode> {
    if !std::env::args_os().skip(1).eq([DESCRIBE]) {
        return None;
    }
    let written = serde_json::to_vec(&Description::of(command))
        .map_err(io::Error::other)
        .and_then(|text| io::stdout().write_all(&text));
    // The one who asks sees that there is no description.
    Some(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}
