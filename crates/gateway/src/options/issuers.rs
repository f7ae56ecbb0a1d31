//! Who gives the gateway certificates while it runs.

use std::path::PathBuf;

use pilotlight_acme::AcmeSettings;

/// Who gives certificates to the hosts of routes that have none in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssuerOptions {
    /// Authorities, if there are any.
    pub acme: Option<AcmeSettings>,
    /// Folder of the local authority; `None` if it is not known where this user's data is. The authority is made when
    /// the first host needs it, where TLS is spoken.
    pub local_folder: Option<PathBuf>,
}
