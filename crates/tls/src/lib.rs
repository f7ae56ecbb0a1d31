//! TLS of a gateway, without sockets. Of its listeners: which certificate a client gets, whom it has to prove to be,
//! and how it resumes a session. To servers ([`ServerTls`]): which of them are trusted.
//!
//! ```text
//!  files, followed ──┐
//!  ACME ─────────────┼─▶ CertificateStore ──┐
//!  local authority ──┘    by name, swapped  ├─▶ TlsContext ──▶ rustls::ServerConfig ──▶ one handshake each
//!  TicketKeys ──────────────────────────────┘
//!   rotated, exported to a successor
//! ```
//!
//! - [`Certificate`]: a chain with its key, and what is known of it. [`CertificateFiles`]: the same in two PEM files.
//! - [`CertificateStore`]: certificates by source and name; what is replaced counts for the next handshake.
//! - [`TicketKeys`]: one set for all workers, which a process can give to its successor.
//! - [`TlsContext`]: all of this as the configuration of rustls; [`FileFollower`] has it read files again that change.
//!
//! Invariant: what is read anew is checked whole before anything is replaced by it; a mistake changes nothing.
//! (`context`)
//!
//! Invariant: a session ticket is only taken while the client's certificates are asked for as they were when it was
//! given, and until the first of the certificates ends that were shown then. (`tickets`)

mod certificate;
mod client_certificates;
mod context;
mod error;
mod files;
mod follow;
mod limits;
mod pem;
mod protocol;
mod servers;
mod session_end;
mod settings;
mod store;
mod suites;
mod tickets;

pub use certificate::{Algorithm, Certificate, Remark};
pub use client_certificates::{ClientCertificateMode, ClientCertificates, check_client_certificates};
pub use context::{Prepared, TlsContext};
pub use error::{CertificateError, FileError};
pub use files::CertificateFiles;
pub use follow::FileFollower;
pub use limits::{MAX_CHAIN, MAX_FILE_BYTES};
pub use protocol::Protocol;
pub use servers::{NotAPin, Offer, Pin, ServerTls, ServerTlsSettings, refused, server_name};
pub use settings::{MinVersion, TlsSettings};
pub use store::{
    CertificateInfo, CertificateStore, Challenge, Chosen, ChosenBy, MAX_CHALLENGES, Source, TooManyChallenges,
};
pub use tickets::{BadTicketKeys, TICKET_LIFETIME, TicketKeys};
