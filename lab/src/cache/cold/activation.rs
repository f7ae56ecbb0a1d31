//! Socket activation as systemd does it: somebody else listens, and becomes the service at the first connection.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiment::model::{Skipped, Software};
use crate::processes::{self, Held, Program, UNWANTED_ENVIRONMENT, usage};
use crate::service::answer_body;
use crate::transport::client::Client;
use crate::transport::target::{LISTEN_LIMIT, Processes, Target, free_address, listens};

const SYSTEMD: &str = "systemd-socket-activate";
/// Does the same where systemd is not.
const OWN_FILE: &str = "lab/peers/gateways/activate.py";

/// What listens until somebody comes.
#[derive(Clone, Debug)]
pub(in crate::cache) struct Activator {
    pub(in crate::cache) title: &'static str,
    /// The program and its arguments before the address.
    command: Vec<OsString>,
    name: &'static str,
    version: String,
    setting: &'static str,
}

impl Activator {
    /// systemd's, or else the lab's own, which needs Python. `files` is where the embedded files are.
    ///
    /// # Errors
    /// Neither can be had.
    pub(in crate::cache) fn find(python: Option<&Path>, files: &Path) -> Result<Self, Skipped> {
        if let Some(program) = processes::find_program(SYSTEMD) {
            return Ok(Self {
                title: "systemd-socket-activate",
                version: processes::first_line(program.as_os_str(), &["--version"]).unwrap_or_default(),
                command: with_environment(program.into()),
                name: "systemd",
                setting: "as in systemd-socket-activate(1): -l ADDRESS PROGRAM; -E (the environment that the others have)",
            });
        }
        let python = python.ok_or_else(|| Skipped {
            what: "socket activation".into(),
            why: format!("there is no {SYSTEMD} here, and no Python for the lab's own"),
            install: "apt install systemd".into(),
        })?;
        Ok(Self {
            title: "socket activation (the lab's own)",
            version: processes::first_line(python.as_os_str(), &["--version"]).unwrap_or_default(),
            command: vec![python.into(), files.join(OWN_FILE).into()],
            name: OWN_FILE,
            setting: "in the place of systemd-socket-activate, which is not installed: it executes the service when a client comes",
        })
    }

    pub(super) fn software(&self) -> Software {
        Software { name: self.name.into(), version: self.version.clone(), settings: vec![self.setting.into()] }
    }
}

/// It would start a service with hardly any variable, and so otherwise than all who take part beside it.
fn with_environment(program: OsString) -> Vec<OsString> {
    let wanted = |name: &OsString| !UNWANTED_ENVIRONMENT.iter().any(|unwanted| name == unwanted);
    let names = std::env::vars_os().map(|(name, _)| name).filter(wanted);
    let mut command = vec![program];
    command.extend(names.flat_map(|name| ["-E".into(), name]));
    command.push("-l".into());
    command
}

/// A service that is started by the first connection. Made cold, it is started anew, up to its listening.
#[derive(Debug)]
pub(super) struct Activation {
    activator: Activator,
    service: Vec<OsString>,
    dir: PathBuf,
    running: Option<(Held, Client)>,
}

impl Activation {
    pub(super) fn new(activator: Activator, service: Vec<OsString>, dir: PathBuf) -> Self {
        Self { activator, service, dir, running: None }
    }
}

impl Target for Activation {
    fn request(&mut self) -> anyhow::Result<Duration> {
        let Some((held, client)) = &mut self.running else { anyhow::bail!("nobody listens") };
        client.get().map_err(|e| {
            let said = held.output();
            anyhow::anyhow!("{e} ({})", said.lines().next_back().unwrap_or("it printed nothing"))
        })
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        self.running = None;
        let address = free_address()?;
        let mut command = self.activator.command.clone();
        command.push(address.to_string().into());
        command.extend(self.service.iter().cloned());
        let program = Program {
            name: self.activator.title.into(),
            command,
            dir: self.dir.clone(),
            output: self.dir.join("output"),
        };
        let mut held = program.start()?;
        held.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
        self.running = Some((held, Client::new(address, "/", &answer_body())));
        Ok(())
    }

    fn was_cached(&self) -> bool {
        false
    }

    /// One process: first it listens, then it is the service.
    fn processes(&self) -> Processes {
        let tree = self.running.iter().flat_map(|(held, _)| usage::tree(held.pid()));
        Processes { gateway: Vec::new(), service: tree.map(|process| process.pid).collect() }
    }
}
