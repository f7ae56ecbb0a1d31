//! What purges say about a response.

use crate::policy::Timestamp;

/// What purges say about a stored response, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Good,
    /// It was purged softly: stale since then.
    Stale(Timestamp),
    /// It may have been purged, or replaced: it is used only after validation, and never stale.
    Unknown,
    /// It was purged: as if it were not stored.
    Gone,
}

impl Standing {
    /// The worse of two.
    pub(super) fn and(self, other: Self) -> Self {
        let rank = |standing| match standing {
            Self::Good => 0,
            Self::Stale(_) => 1,
            Self::Unknown => 2,
            Self::Gone => 3,
        };
        match (self, other) {
            (Self::Stale(a), Self::Stale(b)) => Self::Stale(a.min(b)),
            _ if rank(other) > rank(self) => other,
            _ => self,
        }
    }
}
