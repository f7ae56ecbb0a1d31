//! OwnPrograms that the lab starts and watches: [`Held`] ends them with the lab, [`usage`] says what they use.

mod direct;
mod hold;
mod reaper;
pub mod usage;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

pub use direct::{Direct, Started};
pub use hold::{HOLD, hold};
pub use reaper::{REAPER, Reaper, reap};

use crate::interrupt;

/// How often something that cannot be waited for is looked at.
const POLL: Duration = Duration::from_millis(2);
/// Between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// What it started may take so long to end after it, before SIGKILL for its process group.
const CHILDREN_GRACE: Duration = Duration::from_secs(2);
/// How [`Held::ended`] words that all is well.
const SUCCESS: &str = "exit code 0";
/// The environment variable that names the gateway to measure.
pub const GATEWAY: &str = "LAB_GATEWAY";
/// So much of a program's output is shown when it failed.
const SHOWN_OUTPUT_BYTES: u64 = 2000;

/// A running program. Dropping it ends it: SIGTERM, after 5 s SIGKILL, at last SIGKILL for its process group. It also
/// gets SIGTERM if the lab is killed.
#[derive(Debug)]
pub struct Held {
    name: String,
    child: Child,
    output: PathBuf,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called in messages.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs. It is made if need be.
    pub dir: PathBuf,
    /// The file for what it prints.
    pub output: PathBuf,
}

impl Program {
    /// Starts it in a process group of its own.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(&self) -> anyhow::Result<Held> {
        self.start_with(|command, output| {
            command.stdin(Stdio::null()).stdout(output);
        })
    }

    /// The same with pipes to its standard input and from its standard output.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start_piped(&self) -> anyhow::Result<(Held, ChildStdin, ChildStdout)> {
        let mut held = self.start_with(|command, _| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })?;
        let pipes = held.child.stdin.take().zip(held.child.stdout.take());
        let (input, output) = pipes.with_context(|| format!("{} has no pipes", self.name))?;
        Ok((held, input, output))
    }

    fn start_with(&self, streams: impl FnOnce(&mut Command, File)) -> anyhow::Result<Held> {
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot make {}", self.dir.display()))?;
        let output = File::create(&self.output).with_context(|| format!("cannot write {}", self.output.display()))?;
        let mut command = Command::new(own_program()?);
        command.arg(HOLD).arg(std::process::id().to_string()).args(&self.command);
        command.current_dir(&self.dir).process_group(0);
        streams(&mut command, output.try_clone()?);
        command.stderr(output);
        for name in UNWANTED_ENVIRONMENT {
            command.env_remove(name);
        }
        let child = command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        Ok(Held { name: self.name.clone(), child, output: self.output.clone() })
    }
}

/// What would make a service start otherwise than for its users.
pub const UNWANTED_ENVIRONMENT: [&str; 4] =
    ["PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "NODE_OPTIONS", "PILOTLIGHT_LOG"];

impl Held {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has printed, as far as it is text.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read(&self.output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Looks for something until it is there.
    ///
    /// # Errors
    /// The program has ended, the time is over, or the lab is told to end.
    pub fn wait_until<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            if let Some(status) = self.ended()? {
                bail!("{} ended ({status}) before {what}{}", self.name, self.said());
            }
            if Instant::now() >= end {
                bail!("{}: {what}: not within {} s{}", self.name, limit.as_secs(), self.said());
            }
            interrupt::check()?;
            std::thread::sleep(POLL);
        }
    }

    /// Where it listens, once it has said so in a line with `listening on http://ADDRESS`.
    ///
    /// # Errors
    /// It ends or says nothing.
    pub fn listening(&mut self, limit: Duration) -> anyhow::Result<SocketAddr> {
        self.wait_until(limit, "it says where it listens", |held| {
            // The line has to be whole: what follows it is another.
            let output = held.output();
            let (_, rest) = output.split_once("listening on http://")?;
            rest.split_once('\n')?.0.trim().parse().ok()
        })
    }

    /// Asks it to end and waits until it has, for programs that write something at their end.
    ///
    /// # Errors
    /// It still runs at the end of `limit`.
    pub fn end(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.end_by(Signal::TERM, limit)
    }

    /// The same as Ctrl-C does, for those that write something only then.
    ///
    /// # Errors
    /// It still runs at the end of `limit`.
    pub fn interrupt(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.end_by(Signal::INT, limit)
    }

    /// Ends it as nothing can prevent, without waiting for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::KILL)?)
    }

    fn end_by(&mut self, signal: Signal, limit: Duration) -> anyhow::Result<()> {
        // Error: it has ended already.
        let _ = kill_process(Pid::from_child(&self.child), signal);
        if self.gone_within(limit, &[]) {
            return Ok(());
        }
        bail!("{} still runs {} s after {signal:?}{}", self.name, limit.as_secs(), self.said())
    }

    /// Waits until it has ended by itself, without an error.
    ///
    /// # Errors
    /// It has failed, still runs at the end of `limit` and is ended, or the lab is told to end.
    pub fn ended_within(&mut self, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            match self.ended()? {
                Some(status) if status == SUCCESS => return Ok(()),
                Some(status) => bail!("{} ended ({status}){}", self.name, self.said()),
                None if Instant::now() >= end => {
                    bail!("{} has not ended within {} s{}", self.name, limit.as_secs(), self.said())
                }
                None => {
                    interrupt::check()?;
                    std::thread::sleep(POLL);
                }
            }
        }
    }

    fn said(&self) -> String {
        match tail(&self.output) {
            Ok(text) if !text.trim().is_empty() => format!("; it printed:\n{}", text.trim_end()),
            _ => "; it printed nothing".into(),
        }
    }

    /// How it has ended, if it has. It is not waited for, so that its number remains its own.
    fn ended(&self) -> anyhow::Result<Option<String>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?;
        Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "it is not known how".into(),
        }))
    }

    /// Waits until it has ended, and so have `others`.
    fn gone_within(&self, limit: Duration, others: &[usage::Process]) -> bool {
        let end = Instant::now() + limit;
        let gone = || !matches!(self.ended(), Ok(None)) && !others.iter().any(|process| usage::runs(process.pid));
        while !gone() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        let below: Vec<_> = usage::tree(self.pid()).into_iter().skip(1).collect();
        // First the program alone: a gateway or a web server ends its own children in order, a guardian even without
        // its gateway. Errors: it has ended already.
        let _ = kill_process(pid, Signal::TERM);
        if !self.gone_within(STOP_GRACE, &[]) {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.gone_within(CHILDREN_GRACE, &below);
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Our allocator switches huge pages off for its process. Children inherit that, even through `exec`, and no program
/// under measurement has asked for it.
fn with_huge_pages<T>(start: impl FnOnce() -> T) -> T {
    if transparent_huge_pages_are_disabled() != Ok(true) {
        return start();
    }
    // A kernel that refuses leaves the program with small pages, which works as well.
    let _ = disable_transparent_huge_pages(false);
    let started = start();
    let _ = disable_transparent_huge_pages(true);
    started
}

/// The binary that this is.
///
/// # Errors
/// The system does not say.
pub fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the path of this program is not known")
}

/// The gateway under measurement: what [`GATEWAY`] names, else `pilotlight` beside this program.
///
/// # Errors
/// It is not there.
pub fn gateway_program() -> anyhow::Result<PathBuf> {
    let program = match std::env::var_os(GATEWAY) {
        Some(program) => PathBuf::from(program),
        None => own_program()?.with_file_name("pilotlight"),
    };
    anyhow::ensure!(
        is_executable(&program),
        "there is no program {}; {GATEWAY} names another gateway to measure",
        program.display()
    );
    std::path::absolute(&program).with_context(|| format!("the path of {}", program.display()))
}

/// The programs that are Pilotlight's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPrograms {
    /// `pilotlight`.
    pub gateway: PathBuf,
    /// `pilotlight-lab`: services and floors.
    pub lab: PathBuf,
}

impl OwnPrograms {
    /// This program, and the gateway under measurement.
    ///
    /// # Errors
    /// There is no gateway.
    pub fn here() -> anyhow::Result<Self> {
        Ok(Self { gateway: gateway_program()?, lab: own_program()? })
    }
}

/// Where a program of that name would be found by a shell.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The first line that a command prints, its standard error included; `None` if it cannot be run or fails.
#[must_use]
pub fn first_line(program: &OsStr, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = if done.stdout.is_empty() { done.stderr } else { done.stdout };
    let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned();
    done.status.success().then_some(line)
}

fn tail(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_OUTPUT_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // A program's escape sequences could rewrite the terminal.
    Ok(String::from_utf8_lossy(&bytes).replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}"))
}
