//! The same command on another host, by the ordinary `ssh`: it asks for passwords and keys as ever, and nothing of
//! ours is on the wire but an archive on the standard input.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

use pilotlight_printable::printable;
use pilotlight_releases::compressed;

use super::super::client::Failure;
use super::source::{Form, Source, is_broken_pipe};
use crate::config::commands::Outcome;

/// The exit code of `ssh` for an error of its own.
const SSH_FAILED: i32 = 255;

/// Pilotlight on another host.
#[derive(Debug)]
pub(super) struct Remote {
    host: String,
    options: Vec<String>,
    /// How it is called there.
    command: String,
}

impl Remote {
    /// What begins with `-` would be an option of `ssh`.
    pub(super) fn new(host: &str, options: &[String], command: &str) -> Result<Self, Failure> {
        if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
            let detail =
                format!("--host {} is no host: write a name, user@name or ssh://user@name:port", printable(host));
            return Err(Failure::Refused { status: 400, detail });
        }
        Ok(Self { host: host.to_owned(), options: options.to_vec(), command: command.to_owned() })
    }

    /// Runs Pilotlight there with these arguments.
    pub(super) fn run(&self, words: &[String]) -> Result<Outcome, Failure> {
        let status = self.start(words, Stdio::null())?.wait()?;
        self.outcome(status)
    }

    /// The same, with an archive on its standard input.
    pub(super) fn send(&self, words: &[String], source: &Source) -> Result<Outcome, Failure> {
        let mut child = self.start(words, Stdio::piped())?;
        let Some(input) = child.stdin.take() else { return Err(self.failed("it has no standard input")) };
        let sent = match source.form() {
            Form::AsTheyAre => source.write(None, input),
            Form::Plain => compressed(input, |out| source.write(None, out)),
        };
        match sent {
            // Why it takes no more, it says itself.
            Err(failure) if !is_broken_pipe(&failure) => {
                let _ = child.kill(); // half an archive is none; it may have ended
                child.wait()?;
                Err(failure)
            }
            _ => {
                let status = child.wait()?;
                self.outcome(status)
            }
        }
    }

    fn start(&self, words: &[String], input: Stdio) -> Result<Child, Failure> {
        let mut command = Command::new("ssh");
        command.arg("-T").args(self.options.iter().flat_map(|option| ["-o", option])).args(["--", &self.host]);
        command.arg(self.line(words)).stdin(input);
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.failed("the program `ssh` is not there; install the client of OpenSSH"),
            _ => self.failed(&error.to_string()),
        })
    }

    /// The line for the shell of that host.
    fn line(&self, words: &[String]) -> String {
        words.iter().fold(self.command.clone(), |line, word| format!("{line} {}", quoted(word)))
    }

    fn outcome(&self, status: ExitStatus) -> Result<Outcome, Failure> {
        match status.code() {
            Some(0) => Ok(Outcome::Done),
            Some(2) => Ok(Outcome::Misconfigured),
            Some(126 | 127) => Err(self.failed(&format!(
                "its shell cannot run `{}`; --remote-command says how Pilotlight is called there",
                self.command
            ))),
            Some(SSH_FAILED) => Err(self.failed("`ssh` did not come through")),
            _ => Ok(Outcome::Failed), // what went wrong is said there
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::NoGateway(format!("host {}: {why}", self.host))
    }
}

/// A word as any shell reads it (POSIX.1-2017, Shell Command Language, §2.2.2).
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_as_they_were() {
        let words = ["deploy", "-", "--label", "it's $HOME; `x`\n\"", ""].map(str::to_owned);
        let remote = Remote::new("h", &[], "printf '<%s>'").unwrap();
        let output = Command::new("sh").arg("-c").arg(remote.line(&words)).output().unwrap();
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }

    #[test]
    fn hosts() {
        for good in ["example.org", "deploy@example.org", "ssh://deploy@example.org:2222", "::1"] {
            assert!(Remote::new(good, &[], "pilotlight").is_ok(), "{good}");
        }
        for bad in ["", "-oProxyCommand=x", "a b"] {
            assert!(Remote::new(bad, &[], "pilotlight").is_err(), "{bad}");
        }
    }
}
