//! Certificates of clients (RFC 8446 §4.3.2): by whose authority, and whether a client may come without one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::error::{CertificateError, FileError};
use crate::files::{self, Readers};
use crate::limits::MAX_AUTHORITIES;
use crate::pem;

/// Which certificates clients have to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities, PEM.
    pub ca: PathBuf,
    /// Whether a client may come without one. Default: required.
    pub mode: ClientCertificateMode,
}

/// Whether a client may come without a certificate. One that is shown has to be of the authorities in either case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientCertificateMode {
    /// No handshake without one.
    #[default]
    Required,
    /// Services see who has shown one.
    Optional,
}

impl ClientCertificateMode {
    /// Every one with its name.
    pub const NAMES: [(&'static str, Self); 2] = [("required", Self::Required), ("optional", Self::Optional)];

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// Whether the authorities can be used.
///
/// # Errors
/// Why they cannot.
pub fn check_client_certificates(settings: &ClientCertificates) -> Result<(), FileError> {
    Verifier::load(settings, &Arc::new(default_provider())).map(drop)
}

/// Who checks the certificates of clients.
#[derive(Debug, Clone)]
pub(crate) struct Verifier {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// What it goes by. A session ticket of another one is worth nothing.
    pub(crate) context: Vec<u8>,
}

impl Verifier {
    /// Asks nobody.
    pub(crate) fn none() -> Self {
        Self { verifier: WebPkiClientVerifier::no_client_auth(), context: Vec::new() }
    }

    /// Reads the authorities.
    pub(crate) fn load(settings: &ClientCertificates, provider: &Arc<CryptoProvider>) -> Result<Self, FileError> {
        let text = files::read(&settings.ca, Readers::Anybody)?;
        let content = |cause| FileError::Content { path: settings.ca.clone(), cause };
        Self::of(&text, settings.mode, provider).map_err(|failed| match failed {
            Failed::Content(cause) => content(cause),
            Failed::Setup(what) => FileError::Setup(what),
        })
    }

    fn of(text: &[u8], mode: ClientCertificateMode, provider: &Arc<CryptoProvider>) -> Result<Self, Failed> {
        let (mut roots, mut context) = (RootCertStore::empty(), mode.name().as_bytes().to_vec());
        let all = pem::certificates(text, MAX_AUTHORITIES).map_err(Failed::Content)?;
        for (index, authority) in all.into_iter().enumerate() {
            context.extend_from_slice(&authority);
            let bad = |e: rustls::Error| CertificateError::BadAuthority { number: index + 1, what: e.to_string() };
            roots.add(authority).map_err(|e| Failed::Content(bad(e)))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = match mode {
            ClientCertificateMode::Required => builder,
            ClientCertificateMode::Optional => builder.allow_unauthenticated(),
        };
        let verifier = builder.build().map_err(|e| Failed::Setup(e.to_string()))?;
        Ok(Self { verifier, context })
    }
}

enum Failed {
    Content(CertificateError),
    Setup(String),
}

impl ClientCertificates {
    /// The file that is read.
    pub(crate) fn file(&self) -> &Path {
        &self.ca
    }
}
