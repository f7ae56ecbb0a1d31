//! Why the supervisor, or a service, did not start, and how a process ended.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why the supervisor could not start.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// It takes no orders any more.
    #[error("the supervisor has stopped")]
    Stopped,
    /// No workers.
    #[error("the supervisor needs at least one worker")]
    NoWorkers,
    /// A service cannot be run as configured.
    #[error("service `{service}`: {reason}")]
    Spec {
        /// The service.
        service: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The runtime folder cannot be used.
    #[error("runtime folder {}: cannot {what}: {source}", path.display())]
    RuntimeDir {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another gateway uses the runtime folder.
    #[error("runtime folder {} is in use by another gateway; stop it or choose another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A socket's path would not fit.
    #[error("runtime folder {}: its path is too long for a socket ({length} bytes with the file name, at most {max}); choose a shorter one",
            path.display(), max = crate::limits::MAX_SOCKET_PATH)]
    PathTooLong {
        /// The folder.
        path: PathBuf,
        /// Bytes of the longest socket path.
        length: usize,
    },
    /// The guardian did not start.
    #[error("the guardian process ({}) did not start: {source}", program.display())]
    Guardian {
        /// Its program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The supervisor's thread or its event loop could not be made.
    #[error("the supervisor thread did not start: {0}")]
    Thread(#[source] io::Error),
}

/// How far a start came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No instance was free in time, or too many requests wait already.
    Queue,
    /// Not tried: the last attempts failed and the pause after them is not over (the circuit is open).
    Backoff,
    /// The program could not be executed.
    Spawn,
    /// It was executed, but never connected (pipe), never accepted a connection (inherited socket), or never listened
    /// (`PORT`).
    Connect,
    /// It said that it could not be initialised (Runtime API).
    Init,
    /// It ended before the first byte of its first answer (HTTP).
    Answer,
    /// The service or the gateway is being stopped.
    Stopping,
}

impl Phase {
    /// The phase's name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Backoff => "backoff",
            Self::Spawn => "spawn",
            Self::Connect => "connect",
            Self::Init => "init",
            Self::Answer => "answer",
            Self::Stopping => "stopping",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Queue => "has too much to do",
            _ => "did not start",
        }
    }
}

/// Why a service did not start. The message says what, where and what to do, without the service's output.
#[derive(Clone, Debug, thiserror::Error)]
#[error("service `{service}` {}: {reason}", phase.verb())]
pub struct StartError {
    /// The service.
    pub service: Arc<str>,
    /// How far it came.
    pub phase: Phase,
    /// What happened, as a sentence fragment.
    pub reason: Arc<str>,
    /// From the start of the attempt to its failure.
    pub elapsed: Duration,
    /// How its process ended, if it had one that did.
    pub exit: Option<Exit>,
    /// The last lines of its output, at most [`REPORT_LINES`](crate::limits::REPORT_LINES).
    pub output_tail: Arc<[String]>,
    /// When to try again.
    pub retry_after: Duration,
}

impl StartError {
    pub(crate) fn new(service: &Arc<str>, phase: Phase, reason: impl Into<Arc<str>>, since: Instant) -> Self {
        Self {
            service: Arc::clone(service),
            phase,
            reason: reason.into(),
            elapsed: since.elapsed(),
            exit: None,
            output_tail: Arc::default(),
            retry_after: Duration::ZERO,
        }
    }

    pub(crate) fn retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after, ..self }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its guardian died first; the process group was killed.
    Lost,
    /// It goes on, and is another gateway's now.
    Left,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "was ended by {name}"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Self::Lost => f.write_str("was killed because its guardian process died"),
            Self::Left => f.write_str("was left to another gateway"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    const NAMES: [(Signal, &str); 16] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_read_as_sentences() {
        assert_eq!(Exit::Code(3).to_string(), "exited with status 3");
        assert_eq!(Exit::Signal(9).to_string(), "was ended by SIGKILL");
        assert_eq!(Exit::Signal(64).to_string(), "was ended by signal 64");
    }
}
