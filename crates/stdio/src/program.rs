//! One process of the program: lines in, lines out, and its end.

use crate::child::{Child, Started};
use crate::lines::{Line, Lines};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::{Instant, timeout_at};

/// Variables that tell the adapter about itself, and nobody else.
const OWN: [&str; 2] = ["PILOTLIGHT_SOCKET", "PILOTLIGHT_TOKEN"];

/// A process, and the ends of its pipes that are ours. It leads a process group.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    /// Its process group, which may have members when it has ended itself.
    group: Option<Pid>,
    /// None: closed.
    pub(crate) input: Option<Sender>,
    pub(crate) output: Lines<Receiver>,
}

impl Program {
    /// Starts it; its standard error is ours, which is the service's log.
    pub(crate) fn start(argv: &[OsString], max_line: usize) -> io::Result<Self> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        for name in OWN {
            command.env_remove(name);
        }
        command.args(arguments).stderr(Stdio::inherit()).process_group(0);
        let Started { child, input, output } = Child::start(&mut command)?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self { child, group, input: Some(input), output: Lines::new(output, max_line) })
    }

    /// Closes its input, and ends it if it does not end by itself: a third of `grace` later with SIGTERM, after all of
    /// it with SIGKILL. What it still writes is dropped. None: how it ended is not known.
    pub(crate) async fn end(mut self, grace: Duration) -> Option<ExitStatus> {
        // MCP, "Shutdown": first the input, then SIGTERM, then SIGKILL.
        self.input = None;
        let now = Instant::now();
        let mut ended = self.ends_until(now + grace / 3).await;
        if ended.is_none() {
            self.signal(Signal::TERM);
            ended = self.ends_until(now + grace).await;
        }
        // Whatever it has left behind in its group goes as well.
        self.signal(Signal::KILL);
        match ended {
            Some(status) => Some(status),
            None => self.child.wait().await.ok(),
        }
    }

    async fn ends_until(&mut self, until: Instant) -> Option<ExitStatus> {
        let Self { child, output, .. } = self;
        let ended = async {
            let mut is_open = true;
            loop {
                tokio::select! {
                    status = child.wait() => return status.ok(),
                    line = output.next(), if is_open => match line {
                        Ok(Line::Text(_)) => {}
                        Ok(Line::TooLong) => output.clear(),
                        Ok(Line::End) | Err(_) => is_open = false,
                    },
                }
            }
        };
        timeout_at(until, ended).await.ok().flatten()
    }

    /// How it ended, as it has closed its output; waits a little for that.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        const SOON: Duration = Duration::from_millis(200);
        tokio::time::timeout(SOON, self.child.wait()).await.ok()?.ok()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal); // nobody may be left in it
        }
    }
}

/// How it ended, as the end of a sentence.
pub(crate) fn status(status: &Option<ExitStatus>) -> String {
    status.map_or_else(String::new, |status| format!(" ({status})"))
}

/// Writes one line.
///
/// # Cancel safety
/// A part of the line may have been written.
pub(crate) async fn write_line(input: &mut Sender, line: &[u8]) -> io::Result<()> {
    let mut whole = Vec::with_capacity(line.len() + 1);
    whole.extend_from_slice(line);
    whole.push(b'\n');
    input.write_all(&whole).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Program {
        Program::start(&["sh".into(), "-c".into(), script.into()], 1024).unwrap()
    }

    #[tokio::test]
    async fn the_end_of_its_input_ends_it() {
        let status = sh("cat >/dev/null; exit 3").end(Duration::from_secs(30)).await;
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }

    #[tokio::test]
    async fn one_that_does_not_listen_is_killed_with_its_group() {
        use std::os::unix::process::ExitStatusExt as _;
        let mut program = sh("trap '' TERM; sleep 1000 & echo $!; while :; do wait; done");
        let Line::Text(child) = program.output.next().await.unwrap() else { panic!() };
        let child: i32 = std::str::from_utf8(&child).unwrap().parse().unwrap();
        let status = program.end(Duration::from_millis(300)).await.unwrap();
        assert_eq!(status.signal(), Some(9));
        // It is not our child, so its end is looked for; a zombie has ended.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let gone = async {
            while is_there() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    }
}
