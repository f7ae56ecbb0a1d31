//! What `[tls]` of a configuration says.

use crate::client_certificates::ClientCertificates;
use crate::files::CertificateFiles;

/// TLS of all listeners that have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// In this order; the first is for clients that name no host, or one that none is for. Default: none.
    pub certificates: Vec<CertificateFiles>,
    /// Default: 1.2.
    pub min_version: MinVersion,
    /// Whether clients are asked for certificates. Default: no.
    pub client_certificates: Option<ClientCertificates>,
}

impl TlsSettings {
    /// Most pairs of files.
    pub const MAX_CERTIFICATES: usize = 4096;
}

/// The least version that a client has to speak. There is none below 1.2 (RFC 8996).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246) and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446) only.
    Tls13,
}

impl MinVersion {
    /// Every one with its name.
    pub const NAMES: [(&'static str, Self); 2] = [("1.2", Self::Tls12), ("1.3", Self::Tls13)];

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}
