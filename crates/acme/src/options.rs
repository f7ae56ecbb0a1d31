//! What `[tls.acme]` of a configuration says.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::name::Reach;

/// Let's Encrypt: certificates that browsers take.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Let's Encrypt for trying out: certificates that no browser takes, and generous limits.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Certificates by ACME. An operator who configures this agrees to the authorities' terms of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The address that an authority may write to.
    pub email: Option<String>,
    /// In the order in which they are tried; at least one.
    pub authorities: Vec<AuthoritySettings>,
    /// Where accounts, certificates and keys are kept.
    pub storage: StorageSettings,
    /// Certificates for hosts that only a route with a wildcard or without a host takes, when clients ask for them.
    pub on_demand: Option<OnDemand>,
    /// Which challenges are offered to the authorities.
    pub challenges: Challenges,
}

impl AcmeSettings {
    /// Most authorities.
    pub const MAX_AUTHORITIES: usize = 8;

    /// The names that the authorities give certificates for: without a public one, names that only a private network
    /// has get some, too.
    #[must_use]
    pub fn reach(&self) -> Reach {
        if self.authorities.iter().all(|authority| authority.root.is_some()) { Reach::Private } else { Reach::Public }
    }
}

/// Certificates when clients ask for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemand {
    /// An address, by HTTP or HTTPS, that is asked with `?domain=NAME` whether the name may have a certificate: 200
    /// says yes, everything else no.
    pub ask: String,
    /// How many names may get one, of each gateway. Renewals do not count.
    pub limit: OrderRate,
}

/// So many names in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderRate {
    /// How many names …
    pub count: NonZeroU32,
    /// … in this time.
    pub per: Duration,
}

impl Default for OrderRate {
    /// 10 in a minute.
    fn default() -> Self {
        Self { count: NonZeroU32::MIN.saturating_add(9), per: Duration::from_secs(60) }
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
    /// A file with the MAC key in base64url; only the gateway's user may read it.
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
