//! Users in SQLite: [`Reader`]s, one for each thread that answers requests, and one writer on a thread of its own.
//!
//! Reads run where they are asked for: from the page cache they take microseconds, less than handing them to another
//! thread. Writes wait for the disk, so they are handed over; the writer commits as many as wait at once.
//!
//! Invariant: a write is answered with success only after its commit is on the disk. (`store/writer.rs`)
//! Invariant: a write that fails changes nothing, and fails no other. (`store/writer.rs`)

mod log;
mod open;
mod reader;
mod seed;
mod writer;

pub(crate) use open::{Store, StoreSettings};
pub(crate) use reader::Reader;
pub(crate) use writer::{Change, Changed, Writer};

use rusqlite::ErrorCode;

/// Why the store has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{max_waiting} writes are waiting for the database already")]
    Busy { max_waiting: usize },
    #[error("the database's thread has ended")]
    Gone,
    #[error("another user has this email")]
    EmailTaken,
    #[error("the database is locked by another process; nothing was changed")]
    Locked,
    #[error("the disk is full; nothing was changed")]
    Full,
    #[error("the database is read-only; nothing was changed")]
    ReadOnly,
    #[error("database: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            // The only constraint that a checked user can break is the unique email.
            Some(ErrorCode::ConstraintViolation) => Self::EmailTaken,
            _ => Self::Failed(error.to_string()),
        }
    }
}
