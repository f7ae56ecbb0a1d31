//! Where a server listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Port of a server whose address names none.
pub const DEFAULT_PORT: u16 = 6379;
/// Port of a Sentinel whose address names none.
pub const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The address of a server: it is also a node's identity inside a client. Cheap to clone.
///
/// ```
/// use pilotlight_redis::config::NodeAddress;
///
/// let address = NodeAddress::parse("[::1]:7000", 6379)?;
/// assert_eq!((address.host(), address.port()), (Some("::1"), Some(7000)));
/// # Ok::<(), pilotlight_redis::config::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAddress {
    /// A host, by name or IP address (IPv6 without brackets), and a TCP port.
    Tcp {
        /// Name or IP address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(Arc<Path>),
}

/// A text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no host.
    #[error("the host is missing")]
    MissingHost,
    /// The host has characters that no name or IP address has.
    #[error("the host is neither a name nor an IP address")]
    InvalidHost,
    /// `[` without `]`, or something else than an IPv6 address or a port around them.
    #[error("brackets enclose an IPv6 address, as in [::1]:6379")]
    InvalidBrackets,
    /// More than one colon outside of brackets.
    #[error("an IPv6 address with a port needs brackets, as in [::1]:6379")]
    MissingBrackets,
    /// The port is not a number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    InvalidPort,
}

impl NodeAddress {
    /// The server at `host` (IPv6 without brackets) and `port`.
    #[must_use]
    pub fn tcp(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// The server at the Unix socket `path`.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix(path.into().into())
    }

    /// Reads `host`, `host:port`, `[v6]:port`, a bare IPv6 address, or the absolute path of a Unix socket.
    ///
    /// # Errors
    /// `text` is none of them.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, AddressError> {
        if text.starts_with('/') {
            return Ok(Self::unix(text));
        }
        let (host, port) = split_port(text)?;
        check_host(host)?;
        let port = port.map_or(Ok(default_port), parse_port)?;
        Ok(Self::tcp(host, port))
    }

    /// Name or IP address of its host, if it is reached by TCP.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp { host, .. } => Some(host),
            Self::Unix(_) => None,
        }
    }

    /// Its TCP port, if it is reached by TCP.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }
}

/// `host:port`, `[v6]:port`, or the path.
impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text, DEFAULT_PORT)
    }
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(AddressError::InvalidBrackets)?;
        if !host.contains(':') {
            return Err(AddressError::InvalidBrackets);
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(AddressError::InvalidBrackets),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, rest)) if !rest.contains(':') => Ok(text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p)))),
        Some(_) if is_ipv6(text) => Ok((text, None)),
        Some(_) => Err(AddressError::MissingBrackets),
    }
}

fn check_host(host: &str) -> Result<(), AddressError> {
    if host.is_empty() {
        return Err(AddressError::MissingHost);
    }
    if host.contains(':') {
        return if is_ipv6(host) { Ok(()) } else { Err(AddressError::InvalidBrackets) };
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') || !byte.is_ascii();
    if host.bytes().all(known) { Ok(()) } else { Err(AddressError::InvalidHost) }
}

/// An IPv6 address, with or without a zone (`fe80::1%eth0`).
fn is_ipv6(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    address.parse::<std::net::Ipv6Addr>().is_ok()
}

fn parse_port(text: &str) -> Result<u16, AddressError> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if all_digits && port > 0 => Ok(port),
        _ => Err(AddressError::InvalidPort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, AddressError>) {
        assert_eq!(
            text.parse::<NodeAddress>().map(|address| address.to_string()).as_deref(),
            expected.as_ref().map(|x| *x)
        );
    }

    #[test]
    fn addresses() {
        check("redis", Ok("redis:6379"));
        check("redis.example:7000", Ok("redis.example:7000"));
        check("10.0.0.1:7000", Ok("10.0.0.1:7000"));
        check("[::1]:7000", Ok("[::1]:7000"));
        check("[::1]", Ok("[::1]:6379"));
        check("::1", Ok("[::1]:6379"));
        check("[fe80::1%eth0]:7000", Ok("[fe80::1%eth0]:7000"));
        check("/run/redis.sock", Ok("/run/redis.sock"));
        check("", Err(AddressError::MissingHost));
        check(":7000", Err(AddressError::MissingHost));
        check("a b:1", Err(AddressError::InvalidHost));
        check("[::1", Err(AddressError::InvalidBrackets));
        check("[::1]7000", Err(AddressError::InvalidBrackets));
        check("[localhost]:7000", Err(AddressError::InvalidBrackets));
        check("a:b:1", Err(AddressError::MissingBrackets));
        check("redis:0", Err(AddressError::InvalidPort));
        check("redis:65536", Err(AddressError::InvalidPort));
        check("redis:+1", Err(AddressError::InvalidPort));
        check("redis:", Err(AddressError::InvalidPort));
    }
}
