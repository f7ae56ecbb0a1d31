//! Programs that must not be started through [`super::HOLD`], because their start is what is measured: they are told to a process
//! of our own, the reaper, which kills what is left of them when the lab is gone.

use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};

use super::own_program;

/// The hidden argument with which the binary becomes the reaper.
pub const REAPER: &str = "lab-reaper";
/// What stands for no program.
const NONE: i32 = 0;

/// The lab's end of a reaper. One program at a time.
#[derive(Debug)]
pub struct Reaper {
    child: Child,
    input: Option<ChildStdin>,
}

impl Reaper {
    /// Starts the process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(own_program()?);
        command.arg(REAPER).stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own, so that a Ctrl-C on the terminal is not its end: it has to outlive the lab.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start the process that ends what is left")?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// From now on this process group is to end with the lab.
    ///
    /// # Errors
    /// The reaper is gone.
    pub fn watch(&mut self, group: u32) -> anyhow::Result<()> {
        self.tell(i32::try_from(group)?)
    }

    /// It has ended.
    ///
    /// # Errors
    /// The reaper is gone.
    pub fn forget(&mut self) -> anyhow::Result<()> {
        self.tell(NONE)
    }

    fn tell(&mut self, group: i32) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the reaper has no input")?;
        writeln!(input, "{group}").context("the process that ends what is left is gone")
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// What the binary does when [`REAPER`] is its first argument.
#[must_use]
pub fn reap() -> ExitCode {
    let mut group = NONE;
    for line in io::stdin().lock().lines() {
        match line.ok().and_then(|line| line.parse().ok()) {
            Some(number) => group = number,
            None => break,
        }
    }
    if let Some(group) = Pid::from_raw(group) {
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}
