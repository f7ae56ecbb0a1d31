//! `pilotlight fmt`: lays out a configuration file.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::commands::Outcome;
use crate::config::format::{FormatError, format};
use crate::config::{Code, DEFAULT_FILE, MAX_FILE_BYTES, parse};

/// Lines of both files between their common beginning and end that are compared one by one; of more, all are shown.
const MAX_COMPARED: usize = 2000;

/// Mistakes of a file that is no TOML that are shown.
const MAX_SHOWN: usize = 10;

/// Examples for the help.
pub const EXAMPLES: &str = "Examples:
  pilotlight fmt                  lays out pilotlight.toml; comments stay, and what it says is the same
  pilotlight fmt --check          for a pipeline: exit code 1 and the difference, if it is not laid out
  pilotlight fmt - < other.toml   from the standard input to the standard output, for editors

A file that is not TOML is left as it is.";

/// What is formatted.
#[derive(Args, Debug)]
pub struct FmtArguments {
    /// The file; `-` for the standard input
    #[arg(default_value = DEFAULT_FILE, value_name = "FILE")]
    file: PathBuf,
    /// Change nothing; show what would be different, and exit with 1 if anything would
    #[arg(long)]
    check: bool,
}

/// Runs it.
///
/// # Errors
/// Only if `out` or `err` cannot be written to.
pub fn run(
    FmtArguments { file, check }: &FmtArguments,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Outcome> {
    let is_stdin = file == Path::new("-");
    let name = file.display();
    let text = match read(file, is_stdin) {
        Ok(text) => text,
        Err(error) => {
            writeln!(err, "error: {name} cannot be read: {error}")?;
            return Ok(Outcome::Misconfigured);
        }
    };
    let formatted = match format(&text) {
        Ok(formatted) => formatted,
        Err(FormatError::Syntax) => {
            for (line, message) in mistakes(&text, file) {
                writeln!(err, "{name}:{line}: error: {message}")?;
            }
            writeln!(err, "error: {name} is not TOML, and was left as it is; `pilotlight check` says more")?;
            return Ok(Outcome::Misconfigured);
        }
        Err(FormatError::Changed) => {
            writeln!(err, "error: {name} was left as it is: {}. Please report this", FormatError::Changed)?;
            return Ok(Outcome::Failed);
        }
    };
    if *check {
        if text == formatted {
            return Ok(Outcome::Done);
        }
        write!(out, "{}", difference(&name.to_string(), &text, &formatted))?;
        return Ok(Outcome::Failed);
    }
    if is_stdin {
        write!(out, "{formatted}")?;
        return Ok(Outcome::Done);
    }
    if text == formatted {
        return Ok(Outcome::Done);
    }
    match replace(file, &formatted) {
        Ok(()) => {
            writeln!(out, "formatted {name}")?;
            Ok(Outcome::Done)
        }
        Err(error) => {
            writeln!(err, "error: {name} cannot be written: {error}; it was left as it is")?;
            Ok(Outcome::Failed)
        }
    }
}

fn read(file: &Path, is_stdin: bool) -> io::Result<String> {
    let mut text = String::new();
    let read = match is_stdin {
        true => io::stdin().take(MAX_FILE_BYTES + 1).read_to_string(&mut text),
        false => fs::File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text),
    }?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// What is no TOML in it, and in which lines.
fn mistakes(text: &str, file: &Path) -> Vec<(usize, String)> {
    let Err(report) = parse(text, file) else { return Vec::new() };
    let found = report.diagnostics().iter().filter(|found| found.code == Code::Syntax);
    let placed = found.filter_map(|found| {
        let before = text.get(..found.span.as_ref()?.start)?;
        Some((before.matches('\n').count() + 1, found.message.clone()))
    });
    placed.take(MAX_SHOWN).collect()
}

/// In one step: who reads the file meanwhile gets it whole, as it was or as it is.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize()?; // a symbolic link stays one
    let mode = fs::metadata(&file)?.permissions();
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let written = (|| {
        let mut opened = fs::OpenOptions::new().write(true).create_new(true).open(&new)?;
        opened.set_permissions(mode)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, &file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// The lines that differ, as `diff -u` shows them, without those that do not.
fn difference(name: &str, before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[start..], &after[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let mut text = format!("--- {name}\n+++ {name}, laid out\n");
    let mut at = start + 1;
    for change in compared(old, new) {
        match change {
            Change::Same => at += 1,
            Change::Old(line) => {
                text.push_str(&format!("{at}: - {line}\n"));
                at += 1;
            }
            Change::New(line) => text.push_str(&format!("{at}: + {line}\n")),
        }
    }
    if old.is_empty() && new.is_empty() {
        text.push_str("only the ends of lines differ\n");
    }
    text
}

enum Change<'a> {
    Same,
    Old(&'a str),
    New(&'a str),
}

/// By the longest common subsequence.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Change<'a>> {
    if old.len().max(new.len()) > MAX_COMPARED {
        return old.iter().map(|line| Change::Old(line)).chain(new.iter().map(|line| Change::New(line))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let (below, right) = (common[(i + 1) * width + j], common[i * width + j + 1]);
            common[i * width + j] =
                if old[i] == new[j] { common[(i + 1) * width + j + 1] + 1 } else { below.max(right) };
        }
    }
    let (mut i, mut j, mut changes) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let takes_old = j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]);
        if i < old.len() && j < new.len() && old[i] == new[j] {
            changes.push(Change::Same);
            (i, j) = (i + 1, j + 1);
        } else if takes_old {
            changes.push(Change::Old(old[i]));
            i += 1;
        } else {
            changes.push(Change::New(new[j]));
            j += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_has_the_lines_that_change() {
        let shown = difference("f", "a\nb=1\nc\nd\n", "a\nb = 1\nc\n\nd\n");
        assert_eq!(shown, "--- f\n+++ f, laid out\n2: - b=1\n3: + b = 1\n4: + \n");
        assert!(difference("f", "a\r\n", "a\n").contains("only the ends"));
        let many = "x\n".repeat(MAX_COMPARED + 1);
        assert!(difference("f", &many, "y\n").contains("+ y"));
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_by_way_of_its_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("l"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
