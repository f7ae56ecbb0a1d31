//! Why serving ends early.

use crate::hello::TOKEN_LEN;
use crate::reset::Reset;
use crate::session::ProtocolError;
use std::io;
use std::path::PathBuf;

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A variable of the environment is missing.
    #[error("{name} is not set: this program is a service, pilotlight starts it (see `command` in pilotlight.toml)")]
    NotStartedByGateway {
        /// The variable.
        name: &'static str,
    },
    /// The token has another form.
    #[error("PILOTLIGHT_TOKEN is not {TOKEN_LEN} hexadecimal digits")]
    Token,
    /// The gateway's socket takes no connection.
    #[error("cannot connect to the gateway at {}: {source}", path.display())]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The gateway refused the connection or says that this service broke the protocol.
    #[error("the gateway refused the connection: {text}")]
    Refused {
        /// The gateway's reason.
        text: String,
    },
    /// The gateway broke the protocol.
    #[error("the gateway broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The connection failed.
    #[error("the connection to the gateway failed: {0}")]
    Io(#[from] io::Error),
    /// Signals cannot be received.
    #[error("cannot listen for SIGTERM: {0}")]
    Signal(io::Error),
}

impl ServeError {
    /// The error that a RESET on exchange 0 means: the gateway refuses the connection.
    pub(super) fn from_connection_reset(payload: &[u8]) -> Self {
        match Reset::parse(payload) {
            Ok(reset) => Self::Refused { text: reset.text },
            Err(error) => Self::Protocol(ProtocolError::Reset(error)),
        }
    }
}
