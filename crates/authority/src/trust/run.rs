//! Carries a plan out.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::plan::{Action, Step};
use crate::folder;

/// What became of a step.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed, and this is why.
    Failed(String),
}

/// Does one step.
#[must_use]
pub fn carry_out(step: &Step) -> Outcome {
    let done = match &step.action {
        Action::Run(words) => run(words),
        Action::RunIfThere(words) => {
            let _ = run(words); // it was not there
            Ok(())
        }
        Action::Write { path, text } => write(path, text),
        Action::Bundle { path, of, text } => fs::read_to_string(of)
            .map_err(|e| format!("{}: {e}", of.display()))
            .and_then(|roots| write(path, &format!("{}\n{text}", roots.trim_end()))),
        Action::Remove(path) => match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
            _ => Ok(()),
        },
        Action::Folder(path) => fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display())),
    };
    done.map_or_else(Outcome::Failed, |()| Outcome::Done)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
    folder::replace(&path, 0o644, text.as_bytes()).map_err(|e| e.to_string())
}

fn run(words: &[OsString]) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let named = program.to_string_lossy();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{named} cannot be run: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned();
    Err(format!("{named}: {}: {last}", output.status))
}
