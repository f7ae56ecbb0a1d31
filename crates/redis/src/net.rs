//! Sockets: lanes, their drivers, dialling.

pub(crate) mod connect;
mod connect_error;
mod dial;
pub(crate) mod exchange;
mod handshake;
pub(crate) mod lane;
pub(crate) mod out;
pub(crate) mod renewal;
pub(crate) mod stream;
#[cfg(feature = "tls")]
mod tls;
pub(crate) mod transport;

pub use connect_error::{AuthError, ConnectError, ConnectErrorKind, ConnectStage};
