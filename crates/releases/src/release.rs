//! A release, and what has become of it.

use crate::name::Name;

/// A release, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: Name,
    /// What has become of it.
    pub state: State,
}

/// What has become of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Instances are started from it.
    Current,
    /// It was the current one.
    Served,
    /// It was tried and not used; why.
    Failed(String),
    /// It is there, and was never tried to the end.
    New,
}

impl State {
    /// Its name, for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Served => "served before",
            Self::Failed(_) => "failed",
            Self::New => "not used",
        }
    }
}
