//! Answers that are not what was asked for.

use http::StatusCode;

/// A response that is not what was asked for.
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) detail: String,
}

pub(super) fn refused(status: StatusCode, detail: impl Into<String>) -> Refused {
    Refused { status, detail: detail.into() }
}
