//! Checks that could wait: each on a thread of its own, which is left behind when its time is up.

use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// How long a check may take.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// How often it is looked whether a program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a program to its end; none: it cannot be started, or was killed because it took too long. What it prints has to
/// fit into a pipe.
pub(super) fn ended(command: &mut Command) -> Option<(ExitStatus, Child)> {
    let mut child = command.spawn().ok()?;
    let until = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some((status, child)),
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            _ => {
                let _ = child.kill(); // it may have ended just now
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// A check that runs.
pub(super) struct Running<T> {
    answer: Receiver<T>,
    until: Instant,
}

/// Begins a check.
pub(super) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Running<T> {
    let (give, answer) = mpsc::sync_channel(1);
    // Without a thread there is no answer, as if it had come too late.
    let _ = thread::Builder::new().name("check".into()).spawn(move || {
        let _ = give.send(work()); // nobody may wait for it any more
    });
    Running { answer, until: Instant::now() + LIMIT }
}

impl<T> Running<T> {
    /// What it found; none: it took too long.
    pub(super) fn finished(self) -> Option<T> {
        self.answer.recv_timeout(self.until.saturating_duration_since(Instant::now())).ok()
    }
}
