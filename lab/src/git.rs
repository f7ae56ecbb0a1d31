//! What the checkout's history says.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::processes::find_program;

/// A checkout with its history.
#[derive(Debug)]
pub(crate) struct Git {
    program: PathBuf,
    root: PathBuf,
}

impl Git {
    /// The checkout that a folder is in; `None` if it is in none, or git is not installed.
    pub(crate) fn around(folder: &Path) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        let root = folder.ancestors().find(|folder| folder.join(".git").exists())?.to_owned();
        Some(Self { program: find_program("git")?, root })
    }

    /// What a command prints.
    ///
    /// # Errors
    /// It fails.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> anyhow::Result<String> {
        let mut git = Command::new(&self.program);
        let out = git.arg("-C").arg(&self.root).args(arguments).stdin(Stdio::null()).output();
        let out = out.context("git cannot be started")?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "git failed ({}): {}", out.status, said.trim());
        String::from_utf8(out.stdout).context("git printed something else than text")
    }

    /// Whether the beginning of the history is missing.
    pub(crate) fn is_shallow(&self) -> bool {
        self.run(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|answer| answer.trim() == "true")
    }
}
