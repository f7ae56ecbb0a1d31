//! What is purged, and how.

use std::fmt;

use crate::key::Key;

/// What is purged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purge {
    /// What.
    pub scope: Scope,
    /// How.
    pub mode: Mode,
}

/// What a purge is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A target, with all its variants and whatever else its key consists of.
    Url(Address),
    /// Every target of one authority that begins with these bytes.
    Prefix(Address),
    /// Every response with this tag (`Cache-Tag`, `Surrogate-Key`), whatever its origin.
    Tag(String),
    /// Every response of a group (RFC 9875): of one origin.
    Group {
        /// `http` or `https`.
        scheme: String,
        /// As in [`Key`].
        authority: String,
        /// The group.
        name: String,
    },
    /// Every response.
    Everything,
}

/// A target, or the beginning of one; the parts are those of a [`Key`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// `http` or `https`, lower case.
    pub scheme: String,
    /// Host and port, lower case, without the scheme's default port.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

/// What becomes of what is purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is gone.
    Hard,
    /// It is stale: it has to be validated, or may be used as any stale response may.
    Soft,
}

impl Address {
    /// The target of a key.
    pub fn of(key: &Key<'_>) -> Self {
        Self { scheme: key.scheme.to_owned(), authority: key.authority.to_owned(), target: key.target.to_owned() }
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key { scheme: &self.scheme, authority: &self.authority, target: &self.target, extra: "" }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.target)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(address) => write!(f, "{address}"),
            Self::Prefix(address) => write!(f, "{address}*"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Group { scheme, authority, name } => write!(f, "group {name} of {scheme}://{authority}"),
            Self::Everything => f.write_str("everything"),
        }
    }
}
