//! Files that the configuration names and others read: their paths, and where they stand in it.

use std::path::PathBuf;

use super::diagnostic::Span;

/// A file that a route's rules of admission need, and where it stands in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionFile {
    /// Joined to the file's folder.
    pub(crate) path: PathBuf,
    pub(crate) at: Span,
    pub(crate) kind: AdmissionFileKind,
}

/// What is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionFileKind {
    /// Users with their passwords.
    Users,
    /// Keys that tokens are verified by.
    Keys,
    /// Certificates of authorities, by which servers are checked.
    Authorities,
}

/// A page for errors, and where it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Joined to the file's folder.
    pub path: PathBuf,
    pub(super) at: Span,
}
