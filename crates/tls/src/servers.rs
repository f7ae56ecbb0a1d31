//! TLS to servers, with the gateway as the client: by whose authority a server's certificate is checked, which name it
//! has to have, which keys it may have, and what the gateway shows of itself. Sessions are resumed.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError as Refusal, ClientConfig, DigitallySignedStruct, Error, OtherError,
    RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::error::{CertificateError, FileError};
use crate::files::{self, CertificateFiles, Readers};
use crate::limits::MAX_AUTHORITIES;
use crate::pem;

/// SHA-256 of a public key as certificates have it (SubjectPublicKeyInfo, RFC 7469 §2.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin(pub [u8; SHA256_OUTPUT_LEN]);

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `sha256/` and the base64 of 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pin is sha256/ and 44 characters of base64")]
pub struct NotAPin;

impl FromStr for Pin {
    type Err = NotAPin;

    fn from_str(text: &str) -> Result<Self, NotAPin> {
        let hash = STANDARD.decode(text.strip_prefix("sha256/").ok_or(NotAPin)?).map_err(|_| NotAPin)?;
        hash.try_into().map(Self).map_err(|_| NotAPin)
    }
}

/// How servers are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTlsSettings {
    /// The authorities, PEM. Default: those of the system.
    pub ca: Option<PathBuf>,
    /// The name that the certificate has to be for. Default: the host of the server's address.
    pub server_name: Option<String>,
    /// What the gateway shows of itself.
    pub identity: Option<CertificateFiles>,
    /// The keys that one of the server's certificates has to have. Default: any.
    pub pins: Vec<Pin>,
}

/// What is offered to be spoken (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// Whichever of the two the server prefers.
    Either,
}

/// What handshakes with servers begin from.
#[derive(Clone)]
pub struct ServerTls {
    http11: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    either: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
    /// Of what was read.
    fingerprint: [u8; SHA256_OUTPUT_LEN],
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Two are the same if they were made of the same settings and the same files.
impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.fingerprint) == (&other.name, other.fingerprint)
    }
}

impl Eq for ServerTls {}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or used, or the system has no authorities.
    pub fn load(settings: &ServerTlsSettings) -> Result<Self, FileError> {
        let mut read = Vec::new();
        let roots = match &settings.ca {
            None => system_roots()?,
            Some(path) => {
                let text = files::read(path, Readers::Anybody)?;
                let content = |cause| FileError::Content { path: path.clone(), cause };
                let roots = authorities(&text).map_err(content)?;
                read.extend(text);
                Arc::new(roots)
            }
        };
        let identity = settings.identity.as_ref().map(|files| files.load().map(|one| one.certified_key().clone()));
        let identity = identity.transpose()?;
        for certificate in identity.iter().flat_map(|key| &key.cert) {
            read.extend_from_slice(certificate);
        }
        settings.pins.iter().for_each(|pin| read.extend(pin.0));
        let bad = |cause: String| FileError::Authorities { cause };
        let config = config(roots, identity.as_deref(), &settings.pins).map_err(bad)?;
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(digest(&SHA256, &read).as_ref());
        Ok(Self {
            http11: offering(&[b"http/1.1"]),
            http2: offering(&[b"h2"]),
            either: offering(&[b"h2", b"http/1.1"]),
            name: settings.server_name.as_deref().and_then(server_name),
            fingerprint,
        })
    }

    /// For a handshake with a server at `host`; `None` if no certificate can be for such a name.
    #[must_use]
    pub fn handshake(&self, host: &str, offer: Offer) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
        let config = match offer {
            Offer::Http11 => &self.http11,
            Offer::Http2 => &self.http2,
            Offer::Either => &self.either,
        };
        let name = self.name.clone().or_else(|| server_name(host))?;
        Some((Arc::clone(config), name))
    }
}

/// A name, or an address, that a certificate can be for.
#[must_use]
pub fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned()).ok()
}

/// What is wrong with a handshake, in words: which certificate of whom, and what to do.
#[must_use]
pub fn refused(error: &Error, name: &ServerName<'_>) -> String {
    let name = name.to_str();
    match error {
        Error::InvalidCertificate(why) => match why {
            Refusal::Expired | Refusal::ExpiredContext { .. } => {
                "its certificate has expired: have the server renew it".to_owned()
            }
            Refusal::NotValidYet | Refusal::NotValidYetContext { .. } => {
                "its certificate is not valid yet: look at both clocks".to_owned()
            }
            Refusal::UnknownIssuer => {
                "its certificate is of no authority that is trusted: name its authority in `tls.ca`".to_owned()
            }
            // The authority was made anew, say.
            Refusal::BadSignature => {
                "its certificate is of no authority that is trusted: that of the same name has another key".to_owned()
            }
            Refusal::NotValidForName => format!("its certificate is not for {name}: see `tls.server_name`"),
            Refusal::NotValidForNameContext { presented, .. } => {
                let presented = presented.join(", ");
                format!("its certificate is not for {name}, but for {presented}: see `tls.server_name`")
            }
            Refusal::Other(other) => other.to_string(),
            other => format!("its certificate cannot be used: {other:?}"),
        },
        Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            format!("{error}: it may want a certificate of the gateway (`tls.certificate`, `tls.key`)")
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) | Error::NoApplicationProtocol => {
            "it speaks none of the versions of HTTP that it was offered (ALPN)".to_owned()
        }
        Error::InvalidMessage(_) => "it does not speak TLS there: write http:// if it is to be plain HTTP".to_owned(),
        other => other.to_string(),
    }
}

fn config(roots: Arc<RootCertStore>, identity: Option<&CertifiedKey>, pins: &[Pin]) -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.dangerous();
    let builder = if pins.is_empty() {
        builder.with_custom_certificate_verifier(verifier)
    } else {
        builder.with_custom_certificate_verifier(Arc::new(Pinned { verifier, pins: pins.into() }))
    };
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone()))),
    })
}

fn authorities(text: &[u8]) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in pem::certificates(text, MAX_AUTHORITIES)?.into_iter().enumerate() {
        let bad = |error: Error| CertificateError::BadAuthority { number: index + 1, what: error.to_string() };
        roots.add(certificate).map_err(bad)?;
    }
    Ok(roots)
}

/// Those of the system, read once for the process: there are more than a hundred.
fn system_roots() -> Result<Arc<RootCertStore>, FileError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    // What cannot be read of them is left out.
    let _counts = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let cause = "this system has none: install ca-certificates, or name a file in `ca`".to_owned();
        return Err(FileError::Authorities { cause });
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

/// A server whose certificate is right, and has one of these keys.
#[derive(Debug)]
struct Pinned {
    verifier: Arc<WebPkiServerVerifier>,
    pins: Box<[Pin]>,
}

/// The key of the server's certificate.
#[derive(Debug)]
struct WrongKey(Option<Pin>);

impl fmt::Display for WrongKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pin) => write!(f, "its key is none of `tls.pins`: {pin}"),
            None => f.write_str("its key is none of `tls.pins`"),
        }
    }
}

impl std::error::Error for WrongKey {}

fn pin(certificate: &CertificateDer<'_>) -> Option<Pin> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut pin = Pin([0; SHA256_OUTPUT_LEN]);
    pin.0.copy_from_slice(digest(&SHA256, certificate.tbs_certificate.subject_pki.raw).as_ref());
    Some(pin)
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        // An intermediate that is not part of the way to the authority proves nothing, so it does not count.
        match pin(end_entity) {
            Some(found) if self.pins.contains(&found) => Ok(verified),
            found => Err(Refusal::Other(OtherError(Arc::new(WrongKey(found)))).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData as _};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};
    use tempfile::TempDir;

    use super::*;

    struct World {
        folder: TempDir,
        key: KeyPair,
        server: Arc<ServerConfig>,
    }

    /// A server for these names, of an authority in `ca.pem`.
    fn world(names: &[&str], end: i32) -> World {
        let folder = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate().unwrap();
        fs::write(folder.path().join("ca.pem"), params.self_signed(&ca_key).unwrap().pem()).unwrap();
        let ca = Issuer::new(params, ca_key);
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        let certificate = params.signed_by(&key, &ca).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        World { folder, key, server: Arc::new(server) }
    }

    fn settings(world: &World) -> ServerTlsSettings {
        ServerTlsSettings { ca: Some(world.folder.path().join("ca.pem")), ..ServerTlsSettings::default() }
    }

    /// What was agreed on, or why nothing was.
    fn talk(world: &World, settings: &ServerTlsSettings, host: &str, offer: Offer) -> Result<Option<Vec<u8>>, String> {
        let tls = ServerTls::load(settings).unwrap();
        let (config, name) = tls.handshake(host, offer).unwrap();
        let mut client = ClientConnection::new(config, name.clone()).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&world.server)).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut sent).unwrap();
            }
            server.read_tls(&mut &sent[..]).unwrap();
            let _ = server.process_new_packets();
            let mut sent = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut sent).unwrap();
            }
            client.read_tls(&mut &sent[..]).unwrap();
            client.process_new_packets().map_err(|error| refused(&error, &name))?;
        }
        Ok(client.alpn_protocol().map(<[u8]>::to_vec))
    }

    #[test]
    fn what_is_offered_is_agreed_on() {
        let world = world(&["app.example"], 2090);
        for (offer, expected) in [(Offer::Either, "h2"), (Offer::Http11, "http/1.1"), (Offer::Http2, "h2")] {
            let agreed = talk(&world, &settings(&world), "app.example", offer);
            assert_eq!(agreed, Ok(Some(expected.as_bytes().to_vec())));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let world = world(&["app.example"], 2090);
        let other = talk(&world, &settings(&world), "other.example", Offer::Either).unwrap_err();
        assert!(other.contains("not for other.example, but for") && other.contains("app.example"), "{other}");
        let named = ServerTlsSettings { server_name: Some("app.example".to_owned()), ..settings(&world) };
        assert!(talk(&world, &named, "10.0.0.1", Offer::Either).is_ok());
        let stranger = super::tests::world(&["app.example"], 2090);
        let unknown = talk(&stranger, &settings(&world), "app.example", Offer::Either).unwrap_err();
        assert!(unknown.contains("of no authority that is trusted"), "{unknown}");
        let old = super::tests::world(&["app.example"], 2001);
        let expired = talk(&old, &settings(&old), "app.example", Offer::Either).unwrap_err();
        assert!(expired.contains("has expired"), "{expired}");
    }

    #[test]
    fn only_a_key_that_is_pinned() {
        let world = world(&["app.example"], 2090);
        let mut own = Pin([0; 32]);
        own.0.copy_from_slice(digest(&SHA256, &world.key.subject_public_key_info()).as_ref());
        let pinned = |pins: &[Pin]| ServerTlsSettings { pins: pins.to_vec(), ..settings(&world) };
        assert!(talk(&world, &pinned(&[Pin([7; 32]), own]), "app.example", Offer::Either).is_ok());
        let refused = talk(&world, &pinned(&[Pin([7; 32])]), "app.example", Offer::Either).unwrap_err();
        assert_eq!(refused, format!("its key is none of `tls.pins`: {own}"));
        assert_eq!(own.to_string().parse(), Ok(own));
        assert_eq!("sha256/AAAA".parse::<Pin>(), Err(NotAPin));
    }

    #[test]
    fn files_that_change_make_another() {
        let world = world(&["app.example"], 2090);
        let load = || ServerTls::load(&settings(&world)).unwrap();
        let before = load();
        assert_eq!(before, load());
        let other = super::tests::world(&["app.example"], 2090);
        fs::copy(other.folder.path().join("ca.pem"), world.folder.path().join("ca.pem")).unwrap();
        assert_ne!(before, load());
        fs::write(world.folder.path().join("ca.pem"), "nothing").unwrap();
        assert!(ServerTls::load(&settings(&world)).unwrap_err().to_string().contains("there is no certificate in it"));
    }
}
