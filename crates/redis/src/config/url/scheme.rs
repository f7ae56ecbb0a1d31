//! The schemes: a server's name, with `s` for TLS, and what the servers are after a `+`.

use super::error::{UrlErrorKind, suggestion};

/// What a scheme says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) tls: bool,
    pub(super) servers: Servers,
}

/// What the servers of a URL are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    Standalone,
    Cluster,
    Sentinel,
    Unix,
}

const SCHEMES: &[(&str, bool, Servers)] = &[
    ("redis", false, Servers::Standalone),
    ("rediss", true, Servers::Standalone),
    ("valkey", false, Servers::Standalone),
    ("valkeys", true, Servers::Standalone),
    ("redis+cluster", false, Servers::Cluster),
    ("rediss+cluster", true, Servers::Cluster),
    ("valkey+cluster", false, Servers::Cluster),
    ("valkeys+cluster", true, Servers::Cluster),
    ("redis+sentinel", false, Servers::Sentinel),
    ("rediss+sentinel", true, Servers::Sentinel),
    ("valkey+sentinel", false, Servers::Sentinel),
    ("valkeys+sentinel", true, Servers::Sentinel),
    ("unix", false, Servers::Unix),
    ("redis+unix", false, Servers::Unix),
    ("rediss+unix", true, Servers::Unix),
    ("valkey+unix", false, Servers::Unix),
    ("valkeys+unix", true, Servers::Unix),
];

impl Scheme {
    /// RFC 3986 §3.1: schemes are case-insensitive.
    pub(super) fn parse(text: &str) -> Result<Self, UrlErrorKind> {
        let Some(&(_, tls, servers)) = SCHEMES.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) else {
            let suggestion = suggestion(text, SCHEMES.iter().map(|(name, ..)| *name));
            return Err(UrlErrorKind::UnknownScheme { scheme: text.into(), suggestion });
        };
        if tls && cfg!(not(feature = "rustls")) {
            return Err(UrlErrorKind::TlsNotBuilt);
        }
        Ok(Self { tls, servers })
    }
}
