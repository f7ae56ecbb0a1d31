//! Why there is no connection.

use std::fmt;
use std::io;
use std::time::Duration;

use pilotlight_resp::DecodeError;

use crate::config::{CredentialError, NodeAddress};
use crate::error::{Advice, Error, ServerError};
use crate::proto::handshake::HandshakeError;

/// An attempt to connect failed: where, and why. No text of it holds a password.
///
/// ```no_run
/// use pilotlight_redis::{Config, ConnectErrorKind, raw::{NodeKind, NodeStream}};
///
/// # async fn example() {
/// let config = Config::default();
/// if let Err(error) = NodeStream::open(&config, &config.servers[0], NodeKind::Server).await {
///     match error.kind() {
///         ConnectErrorKind::Timeout { stage, .. } => println!("too slow: {stage}"),
///         _ if error.is_permanent() => println!("to be mended: {error}"),
///         _ => println!("again, later: {error}"),
///     }
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{node}: {kind}")]
pub struct ConnectError {
    node: NodeAddress,
    #[source]
    kind: Box<ConnectErrorKind>,
}

/// The culprit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// The connect time-out passed.
    #[error("not connected within {limit:?}: it was still {stage}")]
    Timeout {
        /// What was under way.
        stage: ConnectStage,
        /// The setting `connect_timeout`.
        limit: Duration,
    },
    /// The host's name has no address.
    #[error("cannot resolve the host: {0}")]
    Resolve(#[source] io::Error),
    /// No address of the host accepts connections; the error is the last one's.
    #[error("{}{source}", if *.tried == 1 { String::new() } else { format!("cannot dial any of {tried} addresses: ") })]
    Dial {
        /// Number of addresses.
        tried: usize,
        /// What the last one said.
        source: io::Error,
    },
    /// The configured connector failed.
    #[error("the connector failed: {0}")]
    Connector(#[source] io::Error),
    /// Certificates or names of the configuration cannot be used.
    #[error("cannot use the TLS configuration: {0}")]
    TlsConfig(Box<str>),
    /// The TLS handshake failed.
    #[error("TLS failed: {0}")]
    Tls(#[source] TlsError),
    /// The credential provider failed.
    #[error("no credentials: {0}")]
    Credentials(#[source] CredentialError),
    /// The server wants other credentials.
    #[error(transparent)]
    Auth(AuthError),
    /// The server is starting (`LOADING`) or has lost its primary (`MASTERDOWN`).
    #[error("the server is not ready: {0}")]
    NotReady(#[source] ServerError),
    /// The server refuses the connection, or a command that it cannot do without.
    #[error("{command} is refused: {error}")]
    Refused {
        /// The command.
        command: &'static str,
        /// The server's answer.
        #[source]
        error: ServerError,
    },
    /// Something else than Redis listens there.
    #[error("this is no Redis server: {0}")]
    NotRedis(&'static str),
    /// The server closed the connection during the handshake.
    #[error("the server closed the connection during the handshake{hint}", hint = hint(*.silent))]
    Closed {
        /// It had not answered anything on this connection.
        silent: bool,
    },
    /// Reading or writing failed during the handshake.
    #[error("the connection failed during the handshake: {0}")]
    Io(#[source] io::Error),
    /// What the server answered is not RESP.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[source] DecodeError),
    /// The server answered a command of the handshake with a value of the wrong type.
    #[error("{command} was answered with {found}")]
    Unexpected {
        /// The command.
        command: &'static str,
        /// The type of the reply.
        found: &'static str,
    },
}

/// The server wants other credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// It wants some and none are configured.
    #[error("the server asks for a password and no credentials are configured")]
    Missing,
    /// It does not accept the configured ones.
    #[error("the server rejects the credentials of user {username:?}: {error}")]
    Rejected {
        /// The user; `default` if none is configured.
        username: Box<str>,
        /// The server's answer.
        #[source]
        error: ServerError,
    },
}

/// The TLS handshake failed. Its source is what rustls found wrong (a `rustls::Error`), or, if the connection failed,
/// the [`io::Error`].
#[derive(Debug)]
pub struct TlsError(io::Error);

/// What an attempt to connect was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectStage {
    /// Asking the credential provider.
    Credentials,
    /// Resolving the host's name and dialling its addresses.
    Dial,
    /// The TLS handshake.
    Tls,
    /// The handshake of Redis: `HELLO`, `AUTH` and so on.
    Handshake,
}

impl ConnectError {
    pub(crate) fn new(node: NodeAddress, kind: ConnectErrorKind) -> Self {
        Self { node, kind: Box::new(kind) }
    }

    /// The node, by its announced address.
    #[must_use]
    pub fn node(&self) -> &NodeAddress {
        &self.node
    }

    /// The culprit.
    #[must_use]
    pub fn kind(&self) -> &ConnectErrorKind {
        &self.kind
    }

    /// The culprit, without the node.
    #[must_use]
    pub fn into_kind(self) -> ConnectErrorKind {
        *self.kind
    }

    /// Whether only a change of the configuration, here or at the server, will help. Anything else may pass by itself.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match &*self.kind {
            ConnectErrorKind::TlsConfig(_) | ConnectErrorKind::Auth(_) | ConnectErrorKind::NotRedis(_) => true,
            // Too many clients and busy scripts pass; a database that does not exist or a lacking permission do not.
            ConnectErrorKind::Refused { error, .. } => error.advice() == Advice::Never,
            ConnectErrorKind::Timeout { .. }
            | ConnectErrorKind::Resolve(_)
            | ConnectErrorKind::Dial { .. }
            | ConnectErrorKind::Connector(_)
            | ConnectErrorKind::Tls(_)
            | ConnectErrorKind::Credentials(_)
            | ConnectErrorKind::NotReady(_)
            | ConnectErrorKind::Closed { .. }
            | ConnectErrorKind::Io(_)
            | ConnectErrorKind::Protocol(_)
            | ConnectErrorKind::Unexpected { .. } => false,
        }
    }
}

impl Error {
    /// The failed attempt to connect that is behind this error, if there is one: of
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect), [`ErrorKind::Rejected`](crate::ErrorKind::Rejected),
    /// [`ErrorKind::Cluster`](crate::ErrorKind::Cluster), and of an [`ErrorKind::Timeout`](crate::ErrorKind::Timeout)
    /// while there was no connection.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, ConnectErrorKind};
    /// # async fn example() {
    /// if let Err(error) = Client::connect("redis://localhost").await {
    ///     match error.connect_error().map(|error| error.kind()) {
    ///         Some(ConnectErrorKind::Resolve(_)) => println!("there is no such host"),
    ///         Some(ConnectErrorKind::Dial { source, .. }) => println!("nobody listens there: {:?}", source.kind()),
    ///         Some(ConnectErrorKind::Auth(_)) => println!("the password is wrong"),
    ///         _ => println!("{error}"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn connect_error(&self) -> Option<&ConnectError> {
        self.reason()?.cause()?.downcast_ref()
    }
}

impl TlsError {
    #[cfg(feature = "rustls")]
    pub(super) fn new(error: io::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What is within an I/O error is no source of it, but is hidden in it.
        Some(self.0.get_ref().map_or(&self.0 as _, |inner| inner as _))
    }
}

impl From<HandshakeError> for ConnectErrorKind {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::AuthMissing => Self::Auth(AuthError::Missing),
            HandshakeError::AuthRejected { username, error } => Self::Auth(AuthError::Rejected { username, error }),
            HandshakeError::NotReady(error) => Self::NotReady(error),
            HandshakeError::Refused { command, error } => Self::Refused { command, error },
            HandshakeError::Unexpected { command, found } => Self::Unexpected { command, found },
        }
    }
}

impl fmt::Display for ConnectStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "waiting for the credential provider",
            Self::Dial => "resolving the host or dialling it",
            Self::Tls => "in the TLS handshake (does the server speak TLS?)",
            Self::Handshake => "waiting for the server's answers to the handshake",
        })
    }
}

fn hint(silent: bool) -> &'static str {
    if silent { " without an answer: does it expect TLS, or a client certificate?" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(error: &str, is_permanent: bool) {
        let kind = ConnectErrorKind::Refused { command: "SELECT", error: ServerError::parse(error.as_bytes()) };
        assert_eq!(ConnectError::new(NodeAddress::tcp("a", 1), kind).is_permanent(), is_permanent, "{error}");
    }

    #[test]
    fn what_passes_by_itself() {
        check_refused("ERR max number of clients reached", false);
        check_refused("BUSY Redis is busy running a script.", false);
        check_refused("ERR DB index is out of range", true);
        check_refused("NOPERM this user has no permissions to run the 'select' command", true);
        check_refused("DENIED Redis is running in protected mode", true);
    }
}
