//! Who gives the gateway certificates while it runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pilotlight_acme::AcmeSettings;

/// Who gives certificates to the hosts of routes that have none in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssuerOptions {
    /// Authorities, if there are any.
    pub acme: Option<AcmeSettings>,
    /// The local authority, where TLS is spoken. It is made when the first host needs it.
    pub local: LocalAuthority,
}

/// The local authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalAuthority {
    /// Where it is kept.
    pub folder: PathBuf,
    /// Hosts that it signs for besides those of routes.
    pub hosts: BTreeSet<String>,
}
