//! One connection: dialling, TLS, the handshake, reading and writing.

pub(crate) mod budget;
pub(crate) mod connect;
mod connect_error;
pub(crate) mod connection;
mod dial;
mod handshake;
mod input;
pub(crate) mod renewal;
pub(crate) mod stream;
#[cfg(feature = "rustls")]
mod tls;
pub(crate) mod transport;
pub(crate) mod wire;

pub use connect_error::{AuthError, ConnectError, ConnectErrorKind, ConnectStage, TlsError};
