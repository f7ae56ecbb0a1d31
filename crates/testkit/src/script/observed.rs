//! What a scripted server has seen, for the test that asks it.

use super::handshake::Handshake;
use bytes::Bytes;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::watch;

/// A command as it came, and by which connection (counted from 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedCommand {
    /// The connection, in the order of acceptance.
    pub connection: usize,
    /// The command's words.
    pub words: Vec<Bytes>,
}

/// What a closure wants to happen after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// These bytes; none is an answer that never comes.
    Send(Vec<u8>),
    /// These bytes, then an orderly end of the connection.
    SendAndClose(Vec<u8>),
    /// RST.
    Reset,
    /// That, after this time. Further commands of the connection wait for it.
    After(Duration, Box<Answer>),
}

impl<B: Into<Vec<u8>>> From<B> for Answer {
    fn from(bytes: B) -> Self {
        Self::Send(bytes.into())
    }
}

/// Where a script and a client part ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// Another command than the expected one came.
    #[error("connection {connection}, step {step}: expected {expected}, got {got}")]
    Unexpected {
        /// The connection, counted from 0.
        connection: usize,
        /// The step of its script, counted from 0.
        step: usize,
        /// The step.
        expected: String,
        /// The command, or what came instead of one.
        got: String,
    },
    /// The script was not at its end when the time was over.
    #[error(
        "{played} of {scripted} connections were played to the end within {within:?}; the commands so far: {commands}"
    )]
    Unfinished {
        /// Connections whose steps are done.
        played: usize,
        /// Connections that the script has.
        scripted: usize,
        /// How long it was waited for.
        within: Duration,
        /// What was received.
        commands: String,
    },
}

/// What connections and the test see of each other.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) commands: Mutex<Vec<ReceivedCommand>>,
    pub(super) handshake: Mutex<Handshake>,
    pub(super) progress: watch::Sender<Progress>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) accepted: usize,
    pub(super) received: usize,
    pub(super) played: usize,
    pub(super) failure: Option<ScriptError>,
}
