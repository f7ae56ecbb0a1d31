//! A child process whose pipes and whose end the event loop waits for.
//!
//! tokio has processes of its own. They look for children that nobody waits for any more at each turn of each event
//! loop in the same program, and the gateway is the same program.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A process of ours. When it is dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Child {
    /// None: it was dropped.
    child: Option<process::Child>,
    /// Comes when a child of this process has ended, whichever.
    ended: Signal,
}

/// What was started.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) input: Sender,
    pub(crate) output: Receiver,
}

impl Child {
    /// Starts it with pipes for its standard input and output.
    ///
    /// # Errors
    /// The program cannot be executed, or the system has no room for it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Started> {
        let ended = signal(SignalKind::child())?; // before there is one, so that no end is missed
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let child = Self { child: Some(child), ended };
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let (input, output) = (Sender::from_owned_fd(OwnedFd::from(input))?, Receiver::from_owned_fd(output.into())?);
        Ok(Started { child, input, output })
    }

    /// Its number, which is its own until it was waited for.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(process::Child::id)
    }

    /// How it ends.
    ///
    /// # Errors
    /// It is no child of this process.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let child = self.child.as_mut().ok_or(io::ErrorKind::NotFound)?;
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            self.ended.recv().await;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if matches!(child.try_wait(), Ok(None)) && child.kill().is_ok() {
            // It ends at once, but for one that the kernel holds: nobody is to wait for that.
            let reap = move || drop(child.wait());
            let _ = thread::Builder::new().name("reap".to_owned()).spawn(reap); // without a thread it stays a zombie
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    fn sh(script: &str) -> Started {
        Child::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[tokio::test]
    async fn ends_are_heard_of_whoever_waits() {
        let mut all: Vec<Started> = (0..20).map(|code| sh(&format!("exit {code}"))).collect();
        for (code, one) in (0..).zip(&mut all) {
            let status = timeout(Duration::from_secs(30), one.child.wait()).await.unwrap().unwrap();
            assert_eq!(status.code(), Some(code));
            assert_eq!(one.child.wait().await.unwrap().code(), Some(code), "asked again");
        }
    }

    #[tokio::test]
    async fn one_that_is_dropped_ends_and_is_no_zombie() {
        let started = sh("exec sleep 1000");
        let stat = format!("/proc/{}/stat", started.child.id().unwrap());
        drop(started);
        let gone = async {
            while fs::exists(&stat).unwrap() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), gone).await.unwrap();
    }
}
