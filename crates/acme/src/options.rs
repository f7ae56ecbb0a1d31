//! What `[tls.acme]` of a configuration says.

use std::path::PathBuf;

use crate::name::Reach;

/// Let's Encrypt: certificates that browsers take.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Let's Encrypt for trying out: certificates that no browser takes, and generous limits.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Certificates by ACME. Whoever writes this agrees to the authorities' terms of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// Whom an authority may write to.
    pub email: Option<String>,
    /// In the order in which they are tried; at least one.
    pub authorities: Vec<AuthoritySettings>,
    /// Where accounts, certificates and keys are kept.
    pub storage: StorageSettings,
    /// An address that says whether a name that no route has may have a certificate.
    pub ask: Option<String>,
    /// Which challenges are offered to the authorities.
    pub challenges: Challenges,
}

impl AcmeSettings {
    /// Most authorities.
    pub const MAX_AUTHORITIES: usize = 8;

    /// Whom the authorities give certificates to: without a public one, names that only a private network has get some,
    /// too.
    #[must_use]
    pub fn reach(&self) -> Reach {
        if self.authorities.iter().all(|authority| authority.root.is_some()) { Reach::Private } else { Reach::Public }
    }
}

/// One authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritySettings {
    /// The address of its directory (RFC 8555 §7.1.1), by HTTPS.
    pub directory: String,
    /// A PEM file with the roots that the directory's own certificate is checked by; the system's without.
    pub root: Option<PathBuf>,
    /// An account that the authority knows already (RFC 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
}

/// External account binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key's identifier.
    pub kid: String,
    /// A file with the MAC key in base64url, which nobody else may read.
    pub key_file: PathBuf,
}

/// Where what must outlive the process is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageSettings {
    /// In a folder of this machine, which only its owner may enter.
    Folder(PathBuf),
    /// In the Redis of `[cache.redis]`, private keys included.
    Redis {
        /// Its URL, credentials included.
        url: String,
        /// What its keys begin with.
        prefix: String,
    },
}

/// Which challenges are offered to the authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Challenges {
    /// HTTP-01 (RFC 8555 §8.3): there is a listener for plain HTTP.
    pub http: Offered,
    /// TLS-ALPN-01 (RFC 8737): there is a listener for TLS.
    pub tls_alpn: Offered,
}

/// Whether a challenge is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offered {
    /// It is not.
    #[default]
    No,
    /// If the other one has failed.
    Second,
    /// Before the other one.
    First,
}
