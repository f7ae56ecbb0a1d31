//! The checkout whose programs are counted: optimized like a release, without its minutes of linking.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::processes;

const PROFILE: &str = "gate";
/// A file that only a checkout has.
const MARK: &str = "lab/gate/Cargo.toml";
const BASELINE: &str = "lab/gate/baseline.json";

/// A checkout of Pilotlight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkout {
    root: PathBuf,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) pilotlight: processes::OwnPrograms,
    pub(super) gate: PathBuf,
    /// examples/users.
    pub(super) users: PathBuf,
}

impl Checkout {
    /// The one that the current folder is in.
    pub(super) fn find() -> anyhow::Result<Self> {
        let here = std::env::current_dir().context("the current folder is not known")?;
        let root = here.ancestors().find(|folder| folder.join(MARK).is_file());
        let root = root.with_context(|| {
            format!(
                "{} is not in a checkout of Pilotlight: the gate counts what it builds from the sources",
                here.display()
            )
        })?;
        Ok(Self { root: root.to_owned() })
    }

    pub(super) fn baseline(&self) -> PathBuf {
        self.root.join(BASELINE)
    }

    /// Builds what is counted.
    pub(super) fn build(&self) -> anyhow::Result<Programs> {
        eprintln!(
            "building pilotlight, pilotlight-lab, pilotlight-gate and users (profile {PROFILE}; the first time takes minutes)"
        );
        let mut build = self.cargo(&["build", "--quiet", "--profile", PROFILE]);
        build.args(["-p", "pilotlight", "-p", "pilotlight-lab", "-p", "pilotlight-gate", "-p", "users"]);
        let status = build.status().context("cargo cannot be started; install Rust from https://rustup.rs")?;
        ensure!(status.success(), "cargo build --profile {PROFILE} failed ({status}); its messages are above");
        let metadata =
            self.cargo(&["metadata", "--format-version=1", "--no-deps"]).stderr(Stdio::inherit()).output()?;
        ensure!(metadata.status.success(), "cargo metadata failed ({})", metadata.status);
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
        let Some(target) = metadata["target_directory"].as_str() else {
            bail!("cargo metadata names no target folder")
        };
        Programs::of(&Path::new(target).join(PROFILE))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        cargo
    }
}

impl Programs {
    pub(super) fn of(dir: &Path) -> anyhow::Result<Self> {
        let program = |name: &str| {
            let file = dir.join(name);
            ensure!(file.is_file(), "there is no {}", file.display());
            Ok(file)
        };
        let pilotlight = processes::OwnPrograms { gateway: program("pilotlight")?, lab: program("pilotlight-lab")? };
        Ok(Self { pilotlight, gate: program("pilotlight-gate")?, users: program("users")? })
    }
}
