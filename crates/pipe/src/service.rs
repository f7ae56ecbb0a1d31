//! The Rust service SDK: [`serve`] runs a handler as a service of the gateway that started this process.
//!
//! Everything runs on the thread that awaits [`serve`], each connection in a task of its own. A handler is polled where
//! its request was read; only one that is not ready at once becomes a task.
//!
//! Invariants: every request gets exactly one final frame (P-16); all that is held is bounded: one frame of each body,
//! `exchanges` answers on a shared connection, [`MAX_LOG_LINES`] log lines of a connection.

mod answer;
mod body;
mod exchange;
mod outcome;
mod own;
mod request;
mod shared;
mod state;
mod wire;

pub use body::{Body, BodyClosed, BodyError, BodySender, Incoming};
pub use exchange::{Exchange, MAX_LOG_LINES};
pub use outcome::{Failure, IntoOutcome};

use crate::hello::{MAX_EXCHANGES, MAX_OWN, TOKEN_LEN};
use crate::session::ProtocolError;
use http::Request;
use state::State;
use std::path::PathBuf;
use std::{env, io};

/// Serves `handler` to the gateway that started this process until the gateway wants it to end, or is gone.
///
/// ```no_run
/// use http::{Request, Response};
/// use pilotlight_pipe::{Incoming, serve};
///
/// async fn hello(request: Request<Incoming>) -> Response<String> {
///     Response::new(format!("hello from {}\n", request.uri().path()))
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
///     Ok(runtime.block_on(serve(hello))?)
/// }
/// ```
///
/// A handler is an async function from `Request<Incoming>` to a `Response<B>` (`B`: text, bytes or a [`Body`]) or a
/// `Result` of one and a [`Failure`]. It need not be `Send`. Its request carries an [`Exchange`] extension: deadline,
/// request id, peer, log, cancellation. When the client has gone the handler's future, or the answer's body, is
/// dropped.
///
/// Handlers run on the thread that awaits this future, so one that computes or blocks for long belongs on a thread of
/// its own. DRAIN and SIGTERM end it when the open exchanges are done (P-31).
///
/// # Errors
/// This process was not started by a gateway, the gateway cannot be reached or refuses, or breaks the protocol.
///
/// # Cancel safety
/// Dropping the future drops all exchanges; their clients see a failed service.
pub async fn serve<H, F, R>(handler: H) -> Result<(), ServeError>
where
    H: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = R> + 'static,
    R: IntoOutcome,
{
    Service::from_env()?.serve(handler).await
}

/// How to reach the gateway, and how much to take at once. [`serve`] uses the defaults.
#[derive(Clone, Debug)]
pub struct Service {
    socket: PathBuf,
    token: String,
    exchanges: u16,
    max_own: u16,
}

impl Service {
    /// What the environment says (spec §2).
    ///
    /// # Errors
    /// `PILOTLIGHT_SOCKET` or `PILOTLIGHT_TOKEN` is not set: this process was not started by a gateway.
    pub fn from_env() -> Result<Self, ServeError> {
        let variable = |name| env::var_os(name).ok_or(ServeError::NotStartedByGateway { name });
        let socket = PathBuf::from(variable("PILOTLIGHT_SOCKET")?);
        let token = variable("PILOTLIGHT_TOKEN")?.into_string().map_err(|_| ServeError::Token)?;
        Self::new(socket, token)
    }

    /// A service of the gateway that listens on `socket` and knows this instance by `token`.
    ///
    /// # Errors
    /// The token is not 32 hexadecimal digits.
    pub fn new(socket: impl Into<PathBuf>, token: impl Into<String>) -> Result<Self, ServeError> {
        let token = token.into();
        if token.len() != TOKEN_LEN || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ServeError::Token);
        }
        Ok(Self { socket: socket.into(), token, exchanges: 64, max_own: 64 })
    }

    /// How many small exchanges to take at once on each shared connection: 0 to 4,096 (what is above is lowered), 64
    /// unless set. With 0 every exchange has a connection of its own.
    #[must_use]
    pub fn exchanges(mut self, exchanges: u16) -> Self {
        self.exchanges = exchanges.min(MAX_EXCHANGES);
        self
    }

    /// How many connections for one (streaming) exchange each to hold: 0 to 4,096 (what is above is lowered), 64 unless
    /// set.
    #[must_use]
    pub fn max_own(mut self, max_own: u16) -> Self {
        self.max_own = max_own.min(MAX_OWN);
        self
    }

    /// As the function [`serve`].
    ///
    /// # Errors
    /// As the function [`serve`].
    ///
    /// # Cancel safety
    /// As the function [`serve`].
    pub async fn serve<H, F, R>(self, handler: H) -> Result<(), ServeError>
    where
        H: Fn(Request<Incoming>) -> F + 'static,
        F: Future<Output = R> + 'static,
        R: IntoOutcome,
    {
        State::new(self, outcome::erase(handler)).run().await
    }
}

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
