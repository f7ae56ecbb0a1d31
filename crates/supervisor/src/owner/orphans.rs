//! Orphans: as process 1 of a container, the gateway becomes the parent of every process there whose own parent has
//! ended, such as what `podman exec` leaves. Nobody else buries them.
//!
//! What services leave is not among them: it goes to the guardian, which is nearer (`PR_SET_CHILD_SUBREAPER`).

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Tells when a child has ended, if there can be orphans.
#[derive(Debug)]
pub(super) struct Orphans(Option<Signal>);

impl Orphans {
    /// To be called within an event loop.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let is_first = rustix::process::getpid() == rustix::process::Pid::INIT;
        is_first.then(|| signal(SignalKind::child())).transpose().map(Self)
    }

    /// Waits until a child has ended; for ever where there are no orphans. Cancel safe.
    pub(super) async fn ended(&mut self) {
        match &mut self.0 {
            Some(children) => drop(children.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// Buries the children that have ended, except `guardian`, whose link does so.
#[cfg(target_os = "linux")]
pub(super) fn bury(guardian: Option<u32>) {
    use crate::processes::{direct, stat};
    use rustix::process::{WaitOptions, waitpid};

    for pid in direct() {
        let raw = pid.as_raw_nonzero().get();
        let is_guardian = guardian.is_some_and(|guardian| i64::from(guardian) == i64::from(raw));
        if is_guardian || !stat(raw).is_some_and(|stat| stat.has_ended) {
            continue;
        }
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(_) => tracing::debug!(pid = raw, "buried an orphan"),
            Err(error) => tracing::debug!(pid = raw, %error, "an orphan cannot be buried"),
        }
    }
}

/// Process 1 is never ours on such a system.
#[cfg(not(target_os = "linux"))]
pub(super) fn bury(_guardian: Option<u32>) {}
