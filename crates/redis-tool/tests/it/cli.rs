//! `cli`: its output beside that of the real `redis-cli`, its prompt at a pseudo-terminal, clusters, Sentinel, TLS.

mod cluster;
mod compare;
mod login;
mod looks;
mod oneshot;
mod options;
mod prompt;
mod terminal;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use pilotlight_testkit::Server;
use tempfile::TempDir;

/// The program with a home of its own.
struct Tool {
    home: TempDir,
}

impl Tool {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// The command with nothing of the environment that would change its output.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
        command.arg("cli").args(args).env("HOME", self.home.path());
        for name in ["REDISCLI_AUTH", "REDISCLI_HISTFILE", "REDISCLI_RCFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs to its end.
    fn run(&self, args: &[&str], input: &str) -> Output {
        finish(self.command(args), input.as_bytes())
    }

    /// What it printed, if it succeeded.
    #[track_caller]
    fn text(&self, args: &[&str]) -> String {
        self.text_of(args, "")
    }

    /// The same with an input.
    #[track_caller]
    fn text_of(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The arguments for a server.
fn at(server: &Server) -> Vec<String> {
    vec!["-p".to_owned(), server.port().to_string()]
}

/// Those and others.
fn with<'a>(server: &'a [String], args: &[&'a str]) -> Vec<&'a str> {
    server.iter().map(String::as_str).chain(args.iter().copied()).collect()
}

fn finish(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().unwrap()
}
