//! TLS by rustls.

use std::sync::Arc;
#[cfg(feature = "tls-native-roots")]
use std::sync::OnceLock;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::connect_error::{ConnectErrorKind, TlsError};
use super::transport::Transport;
use crate::config::{Pem, TlsConfig, TlsIdentity, TlsRoots};

/// Speaks TLS over `plain` with the server called `name`. The caller bounds the time.
///
/// # Cancel safety
/// Dropping the future closes the stream.
pub(super) async fn secure(
    tls: &TlsConfig,
    name: Option<&str>,
    plain: Transport,
) -> Result<Transport, ConnectErrorKind> {
    let name = server_name(name).map_err(config_error)?;
    let tls = tls.clone();
    // Certificates may be read from disk.
    let built = tokio::task::spawn_blocking(move || client_config(&tls)).await;
    let config = built.map_err(|error| config_error(error.to_string()))?.map_err(config_error)?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, plain)
        .await
        .map_err(|error| ConnectErrorKind::Tls(TlsError::new(error)))?;
    Ok(Transport::Tls(Box::new(stream)))
}

fn config_error(reason: String) -> ConnectErrorKind {
    ConnectErrorKind::TlsConfig(reason.into())
}

fn server_name(name: Option<&str>) -> Result<ServerName<'static>, String> {
    let name = name.ok_or("a Unix socket has no host name: configure the server's name")?;
    // A zone (`fe80::1%eth0`) is no part of the address that certificates name.
    let name = name.split_once('%').map_or(name, |(address, _)| address);
    ServerName::try_from(name.to_owned()).map_err(|_| format!("{name:?} is no name that a certificate can have"))
}

fn client_config(tls: &TlsConfig) -> Result<ClientConfig, String> {
    let provider = provider()?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if tls.danger_accept_invalid_certs {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
    } else {
        builder.with_root_certificates(roots(&tls.roots)?)
    };
    match &tls.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(TlsIdentity { certificates: pem, key }) => {
            let key = private_key(key)?;
            builder
                .with_client_auth_cert(certificates(pem)?, key)
                .map_err(|error| format!("client certificate: {}", unfit(&error)))
        }
    }
}

/// Why the client's own certificate cannot be used: the library below speaks of a peer's.
fn unfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) if format!("{why:?}").contains("UnsupportedCertVersion") => {
            "it is X.509 of version 1 or 2, and TLS needs version 3: issue it with an extension, as by `openssl x509 \
             -req -extfile FILE`"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(why) => format!("it cannot be read: {why}"),
        rustls::Error::InconsistentKeys(_) => "the certificate and the key do not belong together".to_owned(),
        other => other.to_string(),
    }
}

/// What computes: what the program installed for the whole process, else what is built in.
fn provider() -> Result<Arc<CryptoProvider>, String> {
    let provider = CryptoProvider::get_default().cloned().or_else(|| built_in_provider().map(Arc::new));
    provider.ok_or_else(|| {
        "pilotlight-redis was built without `tls-ring` and `tls-aws-lc-rs`, and the program installed no \
         CryptoProvider"
            .to_owned()
    })
}

/// aws-lc-rs before ring, as nobody has it without having named it.
#[cfg(feature = "tls-aws-lc-rs")]
fn built_in_provider() -> Option<CryptoProvider> {
    Some(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc-rs")))]
fn built_in_provider() -> Option<CryptoProvider> {
    Some(rustls::crypto::ring::default_provider())
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
fn built_in_provider() -> Option<CryptoProvider> {
    None
}

fn roots(roots: &TlsRoots) -> Result<Arc<RootCertStore>, String> {
    let (mut store, pem) = match roots {
        TlsRoots::System => return system_roots(),
        TlsRoots::Bundled => return bundled_roots(),
        TlsRoots::Only(pem) => (RootCertStore::empty(), pem),
        TlsRoots::SystemAnd(pem) => (RootCertStore::clone(&*system_roots()?), pem),
    };
    for certificate in certificates(pem)? {
        store.add(certificate).map_err(|error| format!("certificate authority in {}: {error}", described(pem)))?;
    }
    Ok(Arc::new(store))
}

/// Mozilla's certificate authorities, as they were when the program was built.
#[cfg(feature = "tls-webpki-roots")]
fn bundled_roots() -> Result<Arc<RootCertStore>, String> {
    Ok(Arc::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()))
}

#[cfg(not(feature = "tls-webpki-roots"))]
fn bundled_roots() -> Result<Arc<RootCertStore>, String> {
    Err("the bundled certificate authorities need the feature `tls-webpki-roots` of pilotlight-redis".to_owned())
}

/// The system's certificate authorities, read once for the process: there are more than a hundred.
#[cfg(feature = "tls-native-roots")]
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Systems carry certificates that no parser likes; one of them is no reason to trust none.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!("the system has no certificate authorities{reason}"));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(store))))
}

#[cfg(not(feature = "tls-native-roots"))]
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    Err("the system's certificate authorities need the feature `tls-native-roots` of pilotlight-redis".to_owned())
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(format!("{} holds no certificate in PEM", described(pem))),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{}: {error}", described(pem))),
    }
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, String> {
    // The parser's error may quote what it read.
    PrivateKeyDer::from_pem_slice(&read(pem)?).map_err(|_| format!("{} holds no private key in PEM", described(pem)))
}

fn read(pem: &Pem) -> Result<Arc<[u8]>, String> {
    match pem {
        Pem::Text(text) => Ok(Arc::clone(text)),
        Pem::File(path) => std::fs::read(path).map(Into::into).map_err(|error| format!("{}: {error}", path.display())),
    }
}

fn described(pem: &Pem) -> String {
    match pem {
        Pem::Text(_) => "the configured text".to_owned(),
        Pem::File(path) => path.display().to_string(),
    }
}

/// Accepts any certificate; the handshake's signatures are still checked.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
