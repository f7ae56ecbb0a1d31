//! How soon a program is there that somebody has called: its first prompt at a pseudo-terminal, and one command.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{OURS, Work};
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Measure, Sample};
use crate::processes::gateway_program;
use crate::rest::redis::{Redis, Topology};

/// Whoever has no prompt by then has failed.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const LIMIT: Duration = Duration::from_secs(60);
const PROMPT: &[u8] = b"> ";
/// Without a size, redis-cli asks the terminal where its cursor is.
const ROWS_AND_COLUMNS: (u16, u16) = (40, 120);

/// The server that all ask, started by the first that is measured.
pub(super) type Server = Rc<RefCell<Option<Redis>>>;

/// A program that is started for each measurement.
pub(super) struct Starting {
    pub(super) work: Work,
    pub(super) who: &'static str,
    pub(super) server: Server,
    pub(super) dir: PathBuf,
}

impl Measure for Starting {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let mut server = self.server.borrow_mut();
        if server.is_none() {
            *server = Some(Redis::start(Topology::Standalone)?);
        }
        let socket = server.as_ref().map(Redis::socket).context("the server did not start")?;
        let command: Vec<OsString> = if self.who == OURS {
            vec![gateway_program()?.into(), "redis".into(), "cli".into(), "--socket".into(), socket.into()]
        } else {
            vec![self.who.into(), "-s".into(), socket.into()]
        };
        let time = if self.work == Work::Prompt { self.first_prompt(&command)? } else { self.one_command(&command)? };
        let values = vec![(Metric::ColdMs, time.as_secs_f64() * 1e3)];
        Ok(Sample { values, requests: 1, ..Sample::default() })
    }

    fn limit(&self, _: Amount) -> Duration {
        LIMIT
    }
}

impl Starting {
    fn first_prompt(&self, command: &[OsString]) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let (mut terminal, at_terminal) = pty_process::blocking::open()?;
        terminal.resize(pty_process::Size::new(ROWS_AND_COLUMNS.0, ROWS_AND_COLUMNS.1))?;
        let program = pty_process::blocking::Command::new(&command[0]).args(&command[1..]);
        let mut child = program.env_clear().envs(environment(&self.dir)).spawn(at_terminal)?;
        let found = until_prompt(&mut terminal).map(|()| begin.elapsed());
        child.kill()?;
        child.wait()?;
        found.with_context(|| self.who.to_owned())
    }

    fn one_command(&self, command: &[OsString]) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut program = Command::new(&command[0]);
        program.args(&command[1..]).arg("PING").env_clear().envs(environment(&self.dir));
        let status = program.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{} PING: {status}", self.who);
        Ok(begin.elapsed())
    }
}

/// No history and no settings of whoever runs this.
fn environment(home: &Path) -> [(&'static str, OsString); 3] {
    let path = std::env::var_os("PATH").unwrap_or_default();
    [("PATH", path), ("HOME", home.into()), ("TERM", "xterm-256color".into())]
}

fn until_prompt(terminal: &mut pty_process::blocking::Pty) -> anyhow::Result<()> {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while !seen.windows(PROMPT.len()).any(|part| part == PROMPT) {
        let ready = poll(&mut [PollFd::new(&*terminal, PollFlags::IN)], Some(&PATIENCE))?;
        let said = String::from_utf8_lossy(&seen);
        ensure!(ready > 0, "no prompt within {} s, but {said:?}", PATIENCE.tv_sec);
        let read = terminal.read(&mut piece).with_context(|| format!("no prompt, but {said:?}"))?;
        seen.extend_from_slice(&piece[..read]);
    }
    Ok(())
}
