//! What is wrong with a URL.

use std::fmt;

use crate::address::AddressError;

/// A URL is not a configuration. Its text names the culprit, never the user or password.
///
/// ```
/// use pilotlight_redis::Config;
///
/// let error = Config::from_url("redis://localhost?comand_timeout=1s").unwrap_err();
/// assert!(error.to_string().contains("did you mean \"command_timeout\"?"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {position} of the URL: {kind}")]
pub struct UrlError {
    position: usize,
    kind: UrlErrorKind,
}

/// What is wrong with a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlErrorKind {
    /// There is no `://`.
    #[error("it begins with no scheme, as in redis://localhost:6379")]
    MissingScheme,
    /// The scheme is none of the known ones.
    #[error("unknown scheme {scheme:?}{}", DidYouMean(*.suggestion))]
    UnknownScheme {
        /// The scheme.
        scheme: Box<str>,
        /// A known one like it.
        suggestion: Option<&'static str>,
    },
    /// TLS is asked for and was not built in.
    #[error("TLS needs the feature `tls` of pilotlight-redis")]
    TlsNotBuilt,
    /// A server is no address.
    #[error("server {server:?}: {error}")]
    Address {
        /// The server.
        server: Box<str>,
        /// Why.
        #[source]
        error: AddressError,
    },
    /// An `@` after the first `/`, `?` or `#`, and none before.
    #[error("write / as %2F, ? as %3F and # as %23 in a password, and @ as %40 in an option")]
    Unescaped,
    /// A user without `:` and password.
    #[error("there is a user without a password: write user:password@ or :password@")]
    MissingPassword,
    /// A Unix socket's URL has a host, or no path.
    #[error("the URL of a Unix socket has a path and no host, as in unix:///run/redis.sock")]
    UnixPath,
    /// `%` without two hexadecimal digits, or not UTF-8.
    #[error("percent-encoding is % and two hexadecimal digits, of UTF-8")]
    Encoding,
    /// The path is no database's number.
    #[error("{text:?} is no number of a database from 0 to 65535")]
    Database {
        /// The path.
        text: Box<str>,
    },
    /// Sentinels and no name to ask them for.
    #[error("the primary's name is missing, as in redis+sentinel://host/mymaster")]
    MissingMasterName,
    /// `#`.
    #[error("a URL of a server has no fragment: write # as %23")]
    Fragment,
    /// The option is none of the known ones.
    #[error("unknown option {name:?}{}", DidYouMean(*.suggestion))]
    UnknownOption {
        /// The option.
        name: Box<str>,
        /// A known one like it.
        suggestion: Option<&'static str>,
    },
    /// An option without `=`.
    #[error("option {name:?} has no value")]
    MissingValue {
        /// The option.
        name: Box<str>,
    },
    /// An option is named twice, or the database both in the path and as an option.
    #[error("option {name:?} is given twice")]
    Duplicate {
        /// The option.
        name: &'static str,
    },
    /// An option's value is not what it takes.
    #[error("option {name:?} takes {expected}, not {value:?}")]
    Value {
        /// The option.
        name: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it has.
        value: Box<str>,
    },
    /// An option that has no effect here.
    #[error("option {name:?} needs {needs}")]
    Misplaced {
        /// The option.
        name: &'static str,
        /// What it needs.
        needs: &'static str,
    },
}

impl UrlError {
    pub(super) fn new(position: usize, kind: UrlErrorKind) -> Self {
        Self { position, kind }
    }

    /// Offset of the culprit in the URL, in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &UrlErrorKind {
        &self.kind
    }
}

/// The known name that is most like `name`, if any is like it at all.
pub(super) fn suggestion(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let similar =
        known.map(|known| (strsim::jaro_winkler(&name, known), known)).filter(|(similarity, _)| *similarity > 0.85);
    similar.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, known)| known)
}

struct DidYouMean(Option<&'static str>);

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, ": did you mean {name:?}?"))
    }
}
