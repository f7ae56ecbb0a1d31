//! The version of HTTP that a peer speaks.

/// The version that a peer speaks; later minor versions count as 1.1 (RFC 9110 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1 and later
    Http11,
}
