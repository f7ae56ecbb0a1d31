//! A pseudo-terminal and who sits at it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};

use super::Tool;

/// How long anything may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Terminal {
    pty: Pty,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// What was printed since the last time something was waited for.
    unread: String,
}

impl Terminal {
    /// The program at a terminal of 40 lines, without colours, so that text is not interrupted.
    pub(super) fn start(tool: &Tool, args: &[&str]) -> Self {
        Self::start_with(tool, args, &[("NO_COLOR", "1")])
    }

    /// The same with other variables.
    pub(super) fn start_with(tool: &Tool, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let args: Vec<&str> = ["cli"].iter().chain(args).copied().collect();
        Self::run(tool, env!("CARGO_BIN_EXE_pilotlight-redis"), &args, variables)
    }

    /// Any program.
    pub(super) fn run(tool: &Tool, program: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(pty_process::Size::new(40, 200)).unwrap();
        let mut command = Command::new(program);
        command = command.args(args).env("HOME", tool.home.path()).env("TERM", "xterm-256color");
        for name in ["REDISCLI_AUTH", "REDISCLI_HISTFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NO_COLOR"] {
            command = command.env_remove(name);
        }
        command = command.envs(variables.iter().copied());
        let child = command.spawn(pts).unwrap();
        let mut reader = std::fs::File::from(pty.as_fd().try_clone_to_owned().unwrap());
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // At the end of the child a terminal answers with an error.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { pty, child, output, unread: String::new() }
    }

    /// Types.
    pub(super) fn type_(&mut self, text: &str) {
        self.pty.write_all(text.as_bytes()).unwrap();
    }

    /// Types a line.
    pub(super) fn enter(&mut self, line: &str) {
        self.type_(&format!("{line}\r"));
    }

    /// Waits until a text appears, and gives what came up to its end, colours and all.
    #[track_caller]
    pub(super) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.unread.find(text) {
                let rest = self.unread.split_off(at + text.len());
                return std::mem::replace(&mut self.unread, rest);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.unread.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} did not appear, but {:?}", self.unread),
            }
        }
    }

    /// Waits until the program has ended, and gives all that it printed since.
    #[track_caller]
    pub(super) fn rest(mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.unread.push_str(&String::from_utf8_lossy(&bytes));
        }
        assert!(Instant::now() < deadline, "the program goes on");
        std::mem::take(&mut self.unread)
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub(super) fn wait_for_end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < deadline, "the program goes on");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
