//! Addresses to listen on.

use std::net::SocketAddr;
use std::path::PathBuf;

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// TCP.
    Tcp(SocketAddr),
    /// TCP with TLS.
    Tls(SocketAddr),
    /// A Unix stream socket at this path.
    Unix(PathBuf),
}

impl ListenAddr {
    /// Its port, if it has one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(addr) | Self::Tls(addr) => Some(addr.port()),
            Self::Unix(_) => None,
        }
    }

    /// The same without a word about what is spoken there: two that differ in that alone are one socket.
    #[must_use]
    pub fn socket(&self) -> Self {
        match self {
            Self::Tcp(addr) | Self::Tls(addr) => Self::Tcp(*addr),
            Self::Unix(path) => Self::Unix(path.clone()),
        }
    }
}

impl std::fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "http://{addr}"),
            Self::Tls(addr) => write!(f, "https://{addr}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
