//! One server process: found, spawned, signalled, waited for.

use crate::error::Error;
use crate::reaper;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Overrides which server program is run.
const PROGRAM_VARIABLE: &str = "PILOTLIGHT_REDIS_SERVER";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const LOG_TAIL_LINES: usize = 20;

/// A server's process, which may be killed and spawned again. Owned: dropping it kills exactly the process it spawned.
#[derive(Debug)]
pub(crate) struct Process {
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Process {
    /// Spawns this server, or the one that is installed. What it says goes to `log`.
    pub(crate) fn spawn(program: Option<PathBuf>, args: Vec<String>, log: PathBuf) -> Result<Self, Error> {
        let program = program.map_or_else(find_program, Ok)?;
        let process = Self { program, args, log, child: Mutex::new(None) };
        process.respawn()?;
        Ok(process)
    }

    /// Runs it again with the same arguments; kills it before if it still runs.
    pub(crate) fn respawn(&self) -> Result<(), Error> {
        self.kill()?;
        let output = File::options().create(true).append(true).open(&self.log).map_err(Error::io("opening the log"))?;
        let errors = output.try_clone().map_err(Error::io("opening the log"))?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child =
            command.spawn().map_err(|source| Error::Spawn { program: self.program.display().to_string(), source })?;
        reaper::watch(child.id(), self.log.parent().unwrap_or(Path::new("")));
        *self.child.lock() = Some(child);
        Ok(())
    }

    /// `None` while it is killed.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.lock().as_ref().map(Child::id)
    }

    /// SIGKILL, and waits. Nothing happens if it does not run.
    pub(crate) fn kill(&self) -> Result<(), Error> {
        let Some(mut child) = self.child.lock().take() else { return Ok(()) };
        let killed = child.kill().map_err(Error::io("killing the server"));
        reaper::forget(child.id());
        child.wait().map_err(Error::io("waiting for the server to end"))?;
        killed
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        // Locked while signalling, so the id cannot be waited for and given to another process meanwhile.
        let child = self.child.lock();
        let child = child.as_ref().ok_or(Error::Down)?;
        kill_process(Pid::from_child(child), signal).map_err(Error::io("signalling the server"))
    }

    /// Whether it ended by itself.
    pub(crate) fn ended(&self) -> Result<Option<ExitStatus>, Error> {
        let mut child = self.child.lock();
        let Some(running) = child.as_mut() else { return Ok(None) };
        let status = running.try_wait().map_err(Error::io("looking after the server"))?;
        if status.is_some() {
            reaper::forget(running.id());
            *child = None;
        }
        Ok(status)
    }

    pub(crate) fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn log_tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

fn find_program() -> Result<PathBuf, Error> {
    if let Some(program) = env::var_os(PROGRAM_VARIABLE) {
        return Ok(program.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    PROGRAMS
        .iter()
        .flat_map(|program| env::split_paths(&path).map(move |dir| dir.join(program)))
        .find(|candidate| candidate.is_file())
        .ok_or(Error::NotInstalled)
}
