//! The types of values that can be filled in.

use std::fmt;
use std::str::FromStr;

use pilotlight_redis::command::CommandSpec;
use pilotlight_redis::commands::spec;

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
}

const KINDS: [(&str, Kind); 6] = [
    ("string", Kind::String),
    ("hash", Kind::Hash),
    ("list", Kind::List),
    ("set", Kind::Set),
    ("zset", Kind::SortedSet),
    ("stream", Kind::Stream),
];

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        found.ok_or_else(|| "string, hash, list, set, zset or stream".to_owned())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = KINDS.iter().find(|(_, kind)| kind == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

impl Kind {
    /// Whether its elements have names, or are members, which differ from each other.
    pub(crate) fn has_members(self) -> bool {
        matches!(self, Self::Hash | Self::Set | Self::SortedSet)
    }

    /// Whether writing an item twice is as good as once.
    pub(crate) fn may_repeat(self) -> bool {
        !matches!(self, Self::List | Self::Stream)
    }

    pub(crate) fn length(self) -> &'static CommandSpec {
        match self {
            Self::String => &spec::STRLEN,
            Self::Hash => &spec::HLEN,
            Self::List => &spec::LLEN,
            Self::Set => &spec::SCARD,
            Self::SortedSet => &spec::ZCARD,
            Self::Stream => &spec::XLEN,
        }
    }
}
