//! Why a text is not that of a scan.

/// The text is not that of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the text of a scan: {0}")]
pub struct TokenError(pub(super) &'static str);

impl TokenError {
    pub(crate) const CURSOR: Self = Self("the cursor is malformed");
}
