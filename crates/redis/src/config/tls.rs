//! What TLS trusts, shows and expects. This is data: certificates are read and checked when a connection is made.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::address::NodeAddress;

/// TLS 1.2 or 1.3 of the connections. The default trusts the system's certificate authorities and expects each node's
/// certificate to name the host that was dialled.
///
/// It is computed by the provider that the program installed (`rustls::crypto::CryptoProvider::install_default`), else
/// by the one that is built in: feature `tls-aws-lc-rs`, or `tls-ring`, which the feature `tls` brings. No feature is
/// on by default. TLS by another library than rustls: [`Config::connector`](super::Config::connector).
///
/// Files are read at each connection attempt, so that renewed certificates are used without a restart.
///
/// ```
/// use std::path::PathBuf;
///
/// use pilotlight_redis::Config;
/// use pilotlight_redis::config::{TlsConfig, TlsIdentity, TlsRoots, TlsServerName};
///
/// let tls = TlsConfig {
///     roots: TlsRoots::Only(PathBuf::from("/etc/redis/ca.pem").into()),
///     identity: Some(TlsIdentity {
///         certificates: PathBuf::from("/etc/redis/client.pem").into(),
///         key: PathBuf::from("/etc/redis/client.key").into(),
///     }),
///     server_name: TlsServerName::Fixed("redis.example.org".into()),
///     ..TlsConfig::default()
/// };
/// let config = Config::default().with_tls(tls);
/// ```
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// The certificate authorities to trust.
    pub roots: TlsRoots,
    /// The client's own certificate and key (mTLS). Default: none.
    pub identity: Option<TlsIdentity>,
    /// The name that a node's certificate must have, which is also sent as SNI. Default: the host that was dialled.
    pub server_name: TlsServerName,
    /// **Dangerous**: accepts any certificate, and with it any man in the middle. Default: false.
    pub danger_accept_invalid_certs: bool,
}

/// The certificate authorities to trust. The default is [`System`](Self::System); it is [`Bundled`](Self::Bundled)
/// where the feature `tls-webpki-roots` is on and `tls-native-roots` is not.
#[derive(Debug, Clone)]
pub enum TlsRoots {
    /// Those of the operating system (`SSL_CERT_FILE` and `SSL_CERT_DIR` are respected). Needs the feature
    /// `tls-native-roots`, which the feature `tls` brings.
    System,
    /// Mozilla's, as they were when the program was built: for images without any. Needs the feature
    /// `tls-webpki-roots`.
    Bundled,
    /// Only these.
    Only(Pem),
    /// These and those of the operating system.
    SystemAnd(Pem),
}

impl Default for TlsRoots {
    fn default() -> Self {
        if cfg!(all(feature = "tls-webpki-roots", not(feature = "tls-native-roots"))) {
            Self::Bundled
        } else {
            Self::System
        }
    }
}

/// A certificate chain, the client's own first, and its private key.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    /// The certificates.
    pub certificates: Pem,
    /// The private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: Pem,
}

/// PEM text, or the file that holds it. `Debug` shows the file's path or nothing.
#[derive(Clone)]
pub enum Pem {
    /// The text.
    Text(Arc<[u8]>),
    /// The path of a file, read at each connection attempt.
    File(PathBuf),
}

/// How the name that a certificate must have follows from the node's address. Behind an address map, tables and
/// functions are asked for the address that the cluster announces, before it is mapped.
#[derive(Clone, Default)]
pub enum TlsServerName {
    /// The host that is dialled, after the address map.
    #[default]
    NodeHost,
    /// The same name for all nodes.
    Fixed(Arc<str>),
    /// The host of the first configured server, for all nodes: for clusters that announce IP addresses and share one
    /// certificate.
    SeedHost,
    /// By node; others have the host that is dialled.
    Map(Arc<HashMap<NodeAddress, Arc<str>>>),
    /// What the function answers; on `None`, the host that is dialled.
    Function(Arc<NameFunction>),
}

/// From a node's announced address to the name that its certificate must have.
pub type NameFunction = dyn Fn(&NodeAddress) -> Option<Arc<str>> + Send + Sync;

#[cfg(feature = "rustls")]
impl TlsServerName {
    /// The name for the node announced as `announced` and dialled as `dialled`. `None`: its address has no host and no
    /// name is configured.
    pub(crate) fn resolve(
        &self,
        announced: &NodeAddress,
        dialled: &NodeAddress,
        seeds: &[NodeAddress],
    ) -> Option<Arc<str>> {
        let chosen = match self {
            Self::NodeHost => None,
            Self::Fixed(name) => Some(Arc::clone(name)),
            Self::SeedHost => seeds.first().and_then(host_of),
            Self::Map(names) => names.get(announced).cloned(),
            Self::Function(name_of) => name_of(announced),
        };
        chosen.or_else(|| host_of(dialled))
    }
}

impl From<Vec<u8>> for Pem {
    fn from(text: Vec<u8>) -> Self {
        Self::Text(text.into())
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl fmt::Debug for TlsServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeHost => f.write_str("NodeHost"),
            Self::Fixed(name) => f.debug_tuple("Fixed").field(name).finish(),
            Self::SeedHost => f.write_str("SeedHost"),
            Self::Map(names) => f.debug_tuple("Map").field(names).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

#[cfg(feature = "rustls")]
fn host_of(address: &NodeAddress) -> Option<Arc<str>> {
    match address {
        NodeAddress::Tcp { host, .. } => Some(Arc::clone(host)),
        NodeAddress::Unix(_) => None,
    }
}
