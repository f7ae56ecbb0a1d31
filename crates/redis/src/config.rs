//! What a client is told: servers, credentials, limits. Data only; [`Config::from_url`] reads it from one line.

mod connector;
mod nodes;
mod settings;
mod tls;
mod url;

pub use crate::address::{AddressError, DEFAULT_PORT, DEFAULT_SENTINEL_PORT, NodeAddress};
pub use crate::credentials::{
    BoxFuture, CredentialError, CredentialProvider, Credentials, Lease, RefreshingCredentials,
};
pub use crate::proto::backoff::Backoff;
pub use connector::{ByteStream, Connector};
pub use nodes::{AddressFunction, AddressMap, ClusterConfig, ReadFrom, SentinelConfig, Topology};
pub use settings::{Config, Keepalive, Overload, Probe, ProtocolChoice, SubscriptionLimits, WhenDown};
pub use tls::{NameFunction, Pem, TlsConfig, TlsIdentity, TlsRoots, TlsServerName};
pub use url::{UrlError, UrlErrorKind};
