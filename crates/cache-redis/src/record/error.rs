//! What can be wrong with a record.

/// Why a record is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not a record of this version.
    #[error("not a record of a version that is known here")]
    Unknown,
    /// Damaged, or cut off.
    #[error("the record is damaged")]
    Damaged,
    /// Of another target, whose key has the same hash.
    #[error("the record is of another target")]
    OtherTarget,
}
