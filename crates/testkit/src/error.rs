//! What can go wrong around a process of a test.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a real server, cluster or Sentinel did not do what the test asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server program is installed.
    #[error(
        "no redis-server and no valkey-server found in PATH: `apt-get install redis-server`, or name a program in PILOTLIGHT_REDIS_SERVER"
    )]
    NotInstalled,
    /// The server program could not be run.
    #[error("{program} could not be run: {source}")]
    Spawn {
        /// The path tried.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Every port tried is taken.
    #[error("no free port among the {tried} that were tried")]
    NoPort {
        /// How many.
        tried: u32,
    },
    /// The server ended instead of becoming ready.
    #[error("the server ended ({status}); the end of its log:\n{log}")]
    Exited {
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// The server runs, but does not answer.
    #[error("the server did not become ready within {within:?} ({last}); the end of its log:\n{log}")]
    NotReady {
        /// How long it was given.
        within: Duration,
        /// What the last try said.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// Something awaited did not come.
    #[error("{what} did not come within {within:?}; last seen: {last}")]
    Timeout {
        /// What was awaited.
        what: String,
        /// How long.
        within: Duration,
        /// What the last look said.
        last: String,
    },
    /// The server answered with an error.
    #[error("{command} was refused: {message}")]
    Refused {
        /// The first words of the command.
        command: String,
        /// The server's words.
        message: String,
    },
    /// The server's bytes are no RESP2, or not the reply that this command has.
    #[error("unexpected reply to {command}: {reply}")]
    UnexpectedReply {
        /// The first words of the command.
        command: String,
        /// What came.
        reply: String,
    },
    /// The process is not running (it was killed and not restarted, or it ended by itself).
    #[error("the server is not running")]
    Down,
    /// No node of the cluster is what was asked for.
    #[error("no node {0}")]
    NoNode(String),
    /// A certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file, socket or signal failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: names what was being done.
    pub(crate) fn io<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, source: source.into() }
    }
}

/// As it is displayed: tests meet it in the message of an `unwrap`, where a log should have its lines.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
