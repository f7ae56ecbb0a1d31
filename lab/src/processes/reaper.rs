//! Programs that must not be started through [`super::HOLD`], because their start is what is measured. They carry a
//! mark in their environment; a process of our own, the reaper, kills what carries it when the lab is gone.
//!
//! The reaper waits for the end of a pipe whose other end the lab holds. A child of the lab that does not execute its
//! program yet holds it as well, so at that end every program is there to be seen with its environment.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::{own_program, usage};

/// The hidden argument with which the binary becomes the reaper.
pub const REAPER: &str = "lab-reaper";
/// The variable that marks a program.
const MARK: &str = "PILOTLIGHT_LAB_RUN";
/// Marked programs may have started others; it is looked again until there is none, at most so often.
const MAX_SCANS: u32 = 100;
const BETWEEN_SCANS: Duration = Duration::from_millis(20);

/// The lab's end of a reaper.
#[derive(Debug)]
pub struct Reaper {
    mark: String,
    child: Child,
    input: Option<ChildStdin>,
}

impl Reaper {
    /// Starts the process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start() -> anyhow::Result<Self> {
        let mark = format!("{:032x}", fastrand::u128(..));
        let mut command = Command::new(own_program()?);
        command.args([REAPER, &mark]).stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own, so that a Ctrl-C on the terminal is not its end: it has to outlive the lab.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start the process that ends what is left")?;
        let input = child.stdin.take();
        Ok(Self { mark, child, input })
    }

    /// A variable; what is started with it ends with the lab.
    #[must_use]
    pub fn mark(&self) -> (&'static str, &OsStr) {
        (MARK, OsStr::new(&self.mark))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// What the binary does when [`REAPER`] is its first argument; the others are given here.
#[must_use]
pub fn reap(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(mark) = arguments.next().and_then(|mark| mark.into_string().ok()).filter(|mark| !mark.is_empty()) else {
        eprintln!("{REAPER}: is started by `pilotlight lab` only");
        return ExitCode::from(2);
    };
    // Nothing is ever written; an error is as good an end as any.
    let _ = io::stdin().lock().read(&mut [0]);
    for _ in 0..MAX_SCANS {
        let marked = usage::with_variable(MARK, &mark);
        if marked.is_empty() {
            return ExitCode::SUCCESS;
        }
        for pid in marked.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(BETWEEN_SCANS);
    }
    ExitCode::FAILURE
}
