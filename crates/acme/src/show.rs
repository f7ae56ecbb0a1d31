//! What listeners show of the certificates that were had.

use std::any::Any;

use crate::certificate::Pair;
use crate::name::Name;

/// Listeners' certificates.
pub trait Certificates: Send + Sync {
    /// From the next handshake on, clients of these names get these certificates, and clients of those that went do
    /// not. Connections that are open go on as they are. Gives out what was wrong with some.
    fn change(&self, installed: &[(Name, Pair)], withdrawn: &[Name]) -> Vec<(Name, String)>;

    /// Shows a certificate to an authority that validates the name by TLS-ALPN-01, until what is returned is dropped.
    fn challenge(&self, name: &Name, pair: &Pair) -> Shown;
}

/// What is shown until this is dropped.
pub type Shown = Box<dyn Any + Send>;
