//! The servers' processes: found, launched, told apart from other people's, ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Overrides which server program is run.
const PROGRAM_VARIABLE: &str = "PILOTLIGHT_REDIS_SERVER";
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];
const LOG_TAIL_LINES: usize = 15;

/// An installed server.
#[derive(Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    /// The one of the environment, or the first on the path.
    pub(super) fn find() -> anyhow::Result<Self> {
        if let Some(program) = std::env::var_os(PROGRAM_VARIABLE).filter(|program| !program.is_empty()) {
            return Ok(Self(program.into()));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates =
            PROGRAMS.iter().flat_map(|program| std::env::split_paths(&path).map(move |dir| dir.join(program)));
        let found = candidates.into_iter().find(|candidate| candidate.is_file());
        found.map(Self).context(
            "neither valkey-server nor redis-server is installed: `apt install valkey-server` or `apt install redis-server`, \
             `dnf install valkey`, `brew install valkey`; or PILOTLIGHT_REDIS_SERVER names the program",
        )
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Starts a server with the configuration in `dir`; it puts itself into the background.
    pub(super) fn launch(&self, dir: &Path) -> anyhow::Result<()> {
        let output = Command::new(&self.0).arg(dir.join("redis.conf")).current_dir(dir).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("running {}", self.0.display()))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            bail!(
                "{} refuses its configuration: {}\n{}",
                self.0.display(),
                String::from_utf8_lossy(&said).trim(),
                log_tail(dir)
            );
        }
        Ok(())
    }
}

/// Whether processes can be told apart here.
///
/// # Errors
/// They cannot: nothing is started that could not be stopped again.
pub(super) fn can_tell() -> anyhow::Result<()> {
    match start_time(i32::try_from(std::process::id())?) {
        Some(_) => Ok(()),
        None => bail!("local clusters need /proc, as Linux has it, to know their own processes"),
    }
}

/// The process id that a server wrote when it was ready to listen.
pub(super) fn pid_in(dir: &Path) -> Option<i32> {
    fs::read_to_string(dir.join("pid")).ok()?.trim().parse().ok().filter(|pid| *pid > 1)
}

/// Whether this process is a server with this port that works in this folder: a number alone may be anybody's by now.
pub(super) fn is_server(pid: i32, port: u16, dir: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let line = String::from_utf8_lossy(&line).into_owned();
    let is_named = line.contains(&format!(":{port}")) || line.contains(&*dir.to_string_lossy());
    let works_there =
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| fs::canonicalize(dir).is_ok_and(|dir| dir == cwd));
    is_named && works_there
}

/// Finds the server with this port that works in this folder, also one that this program did not start.
pub(super) fn find_server(port: u16, dir: &Path) -> Option<i32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| is_server(*pid, port, dir) && start_time(*pid).is_some())
}

/// When a process began, in ticks since the machine started: field 22 of `/proc/PID/stat`.
pub(super) fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, stands in brackets and may have blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A zombie has ended.
    let state = fields.next().filter(|state| *state != "Z");
    state.and(fields.nth(18))?.parse().ok()
}

/// The server wrote its last line already.
pub(super) fn has_given_up(dir: &Path) -> bool {
    log_tail(dir).contains("exiting")
}

pub(super) fn log_tail(dir: &Path) -> String {
    let text = fs::read(dir.join("log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// Asks it to end.
pub(super) fn end(pid: Option<i32>) {
    signal(pid, Signal::TERM);
}

pub(super) fn kill(pid: Option<i32>) {
    signal(pid, Signal::KILL);
}

fn signal(pid: Option<i32>, signal: Signal) {
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // It may have ended meanwhile; whoever waits for it sees.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart() {
        let me = i32::try_from(std::process::id()).unwrap();
        let began = start_time(me).unwrap();
        assert!(began > 0 && start_time(me) == Some(began));
        assert_eq!(start_time(i32::MAX), None);
        assert!(!is_server(me, 7000, Path::new("/")), "the test is no server");
    }

    #[test]
    fn an_ended_child_that_nobody_waited_for_has_ended() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let mut end = Vec::new();
        std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut end).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while start_time(pid).is_some() {
            assert!(std::time::Instant::now() < deadline, "its state is still not Z");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
