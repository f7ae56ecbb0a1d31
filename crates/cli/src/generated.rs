//! What is made of the definitions of the arguments, so that it never tells of others: completions of shells, manual
//! pages.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, ValueEnum};

use crate::config::commands::Outcome;

/// Shells whose completions can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash 4 or later
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints the completions of `shell`.
///
/// # Errors
/// `out` cannot be written.
pub fn completions(mut command: Command, shell: Shell, out: &mut dyn Write) -> io::Result<Outcome> {
    let name = command.get_name().to_owned();
    // By way of memory: the generators panic where they cannot write.
    let mut script = Vec::new();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Done)
}

/// Writes a manual page for each command into `dir`, or, without one, that of the whole to `out`.
///
/// # Errors
/// `out` or `err` cannot be written. If `dir` cannot be written, a line on `err` says so.
pub fn man(command: Command, dir: Option<&Path>, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Outcome> {
    let command = command.disable_help_subcommand(true);
    let Some(dir) = dir else {
        clap_mangen::Man::new(command).render(out)?;
        return Ok(Outcome::Done);
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
    if let Err(error) = written {
        writeln!(err, "pilotlight man: {}: {error}: a folder that can be written is wanted", dir.display())?;
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Done)
}
