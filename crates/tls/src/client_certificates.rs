//! Certificates of clients (RFC 8446 §4.3.2): by whose authority, and whether a client may come without one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::certificate::not_after;
use crate::error::{CertificateError, FileError};
use crate::files::{self, Readers};
use crate::limits::MAX_AUTHORITIES;
use crate::pem;
use crate::session_end::SessionEnd;

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
    /// The same for one connection, whose session ends with what its client shows.
    pub(crate) fn until(&self, end: Arc<SessionEnd>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Limiting { verifier: Arc::clone(&self.verifier), end })
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
        let (mut roots, mut context) = (RootCertStore::empty(), [mode.name(), " until"].concat().into_bytes());
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

/// Checks as another verifier does, and notes when the first of the certificates ends.
#[derive(Debug)]
struct Limiting {
    verifier: Arc<dyn ClientCertVerifier>,
    end: Arc<SessionEnd>,
}

impl ClientCertVerifier for Limiting {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        let first = intermediates.iter().map(not_after).fold(not_after(end_entity), SystemTime::min);
        self.end.set(first);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
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
