//! What is spoken behind a handshake (ALPN, RFC 7301).

/// A protocol that client and listener have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2 (RFC 9113).
    Http2,
    /// HTTP/1.1 (RFC 9112), also when nothing was agreed on.
    Http11,
    /// A certificate authority that looks at a challenge (RFC 8737): it has seen
    /// what it wanted, and nothing is spoken.
    AcmeChallenge,
}

impl Protocol {
    /// By what was agreed on.
    #[must_use]
    pub fn of(agreed: Option<&[u8]>) -> Self {
        match agreed {
            Some(b"h2") => Self::Http2,
            Some(b"acme-tls/1") => Self::AcmeChallenge,
            _ => Self::Http11,
        }
    }

    /// Its name in ALPN.
    #[must_use]
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Http2 => b"h2",
            Self::Http11 => b"http/1.1",
            Self::AcmeChallenge => b"acme-tls/1",
        }
    }
}
