//! The configuration of rustls that new connections get, and how it is changed: what is new is read and checked whole,
//! then it takes the place of the old in one step.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};

use crate::certificate::{Certificate, Remark};
use crate::client_certificates::{ClientCertificates, Verifier};
use crate::error::FileError;
use crate::files::{CertificateFiles, Stamp};
use crate::protocol::Protocol;
use crate::settings::{MinVersion, TlsSettings};
use crate::store::{CertificateStore, Source};
use crate::tickets::TicketKeys;

/// TLS of a gateway: what every handshake begins from.
#[derive(Debug)]
pub struct TlsContext {
    store: Arc<CertificateStore>,
    tickets: Arc<TicketKeys>,
    /// In the order in which they are preferred.
    protocols: Vec<Protocol>,
    provider: Arc<CryptoProvider>,
    config: ArcSwap<ServerConfig>,
    followed: Mutex<Followed>,
}

/// Settings with what their files contain, checked.
#[derive(Debug)]
pub struct Prepared {
    settings: TlsSettings,
    certificates: Vec<Certificate>,
    config: Arc<ServerConfig>,
    stamps: Vec<Stamp>,
}

/// What was read last.
#[derive(Debug, Default)]
struct Followed {
    settings: TlsSettings,
    stamps: Vec<Stamp>,
}

impl TlsContext {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(
        settings: TlsSettings,
        tickets: Arc<TicketKeys>,
        protocols: Vec<Protocol>,
    ) -> Result<Arc<Self>, FileError> {
        let (store, provider) = (CertificateStore::new(), Arc::new(ring::default_provider()));
        let none = Arc::new(
            Parts { store: &store, tickets: &tickets, protocols: &protocols, provider: &provider }
                .config(MinVersion::default(), None)?,
        );
        let context = Arc::new(Self {
            config: ArcSwap::new(none),
            followed: Mutex::default(),
            store,
            tickets,
            protocols,
            provider,
        });
        context.apply(context.prepare(settings)?);
        Ok(context)
    }

    /// Reads the files of other settings; nothing is changed by that.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn prepare(&self, settings: TlsSettings) -> Result<Prepared, FileError> {
        let stamps = stamps(&settings); // before the files are read: a change meanwhile is seen the next time
        let certificates = settings.certificates.iter().map(CertificateFiles::load).collect::<Result<_, _>>()?;
        let parts =
            Parts { store: &self.store, tickets: &self.tickets, protocols: &self.protocols, provider: &self.provider };
        let config = parts.config(settings.min_version, settings.client_certificates.as_ref())?;
        Ok(Prepared { settings, certificates, config: Arc::new(config), stamps })
    }

    /// From the next handshake on, this counts. Connections go on as they are.
    pub fn apply(&self, prepared: Prepared) {
        let Prepared { settings, certificates, config, stamps } = prepared;
        let mut followed = self.followed.lock();
        certificates.iter().for_each(warn);
        self.store.replace(Source::Files, certificates);
        self.config.store(config);
        *followed = Followed { settings, stamps };
    }

    /// Reads files again of which one has changed. What is wrong with them is said once, and what was there goes on.
    pub fn follow_files(&self) {
        let (settings, old) = {
            let followed = self.followed.lock();
            (followed.settings.clone(), followed.stamps.clone())
        };
        let new = stamps(&settings);
        if new == old {
            return;
        }
        match self.prepare(settings.clone()) {
            Ok(prepared) => {
                self.apply(prepared);
                tracing::info!("certificates that have changed are in use");
            }
            Err(e) => {
                tracing::warn!(
                    "a file of [tls] has changed and cannot be used, so what was there goes on: {e}; {}",
                    e.remedy()
                );
                let mut followed = self.followed.lock();
                if followed.settings == settings {
                    followed.stamps = new;
                }
            }
        }
    }

    /// Whether there are files that may change.
    #[must_use]
    pub fn has_files(&self) -> bool {
        !self.followed.lock().stamps.is_empty()
    }

    /// What a new connection begins with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// The certificates.
    #[must_use]
    pub fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// The keys of session tickets.
    #[must_use]
    pub fn tickets(&self) -> &Arc<TicketKeys> {
        &self.tickets
    }
}

/// What a configuration is made of.
struct Parts<'a> {
    store: &'a Arc<CertificateStore>,
    tickets: &'a Arc<TicketKeys>,
    protocols: &'a [Protocol],
    provider: &'a Arc<CryptoProvider>,
}

impl Parts<'_> {
    fn config(&self, min: MinVersion, clients: Option<&ClientCertificates>) -> Result<ServerConfig, FileError> {
        let verifier = match clients {
            Some(clients) => Verifier::load(clients, self.provider)?,
            None => Verifier::none(),
        };
        let versions: &[_] = match min {
            MinVersion::Tls12 => &[&TLS13, &TLS12],
            MinVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(self.provider)).with_protocol_versions(versions);
        let builder = builder.map_err(|e| FileError::Setup(e.to_string()))?;
        let builder = builder.with_client_cert_verifier(verifier.verifier);
        let mut config = builder.with_cert_resolver(Arc::clone(self.store) as _);
        // Sessions are in their tickets, so that every worker can resume them, and none keeps them.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = self.tickets.within(&verifier.context);
        // RFC 8446 §4.6.1: one for each of a client's next connections, and a browser opens several.
        config.send_tls13_tickets = 2;
        let protocols = self.protocols.iter().chain(&[Protocol::AcmeChallenge]);
        config.alpn_protocols = protocols.map(|protocol| protocol.name().to_vec()).collect();
        Ok(config)
    }
}

fn stamps(settings: &TlsSettings) -> Vec<Stamp> {
    let pairs = settings.certificates.iter().flat_map(|files| [&files.certificate, &files.key]);
    let paths = pairs.map(PathBuf::as_path).chain(settings.client_certificates.iter().map(ClientCertificates::file));
    paths.map(Stamp::of).collect()
}

fn warn(certificate: &Certificate) {
    let (origin, days) = (certificate.origin(), 86_400);
    match certificate.remark(SystemTime::now()) {
        Some(Remark::Expired { since }) => {
            tracing::warn!(
                "the certificate in {origin} has expired {} days ago: clients refuse it",
                since.as_secs() / days
            );
        }
        Some(Remark::NotYetValid { valid_in }) => tracing::warn!(
            "the certificate in {origin} is not valid yet, but in {} hours: clients refuse it; is the clock right?",
            valid_in.as_secs() / 3600
        ),
        Some(Remark::NoNames) => {
            tracing::warn!("the certificate in {origin} names no host (subjectAltName): clients refuse it");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::client::Resumption;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{
        ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection, SupportedProtocolVersion,
    };
    use tempfile::TempDir;

    use super::*;
    use crate::client_certificates::ClientCertificateMode;
    use crate::files::CertificateFiles;

    /// An authority and what it issues.
    struct Authority(Issuer<'static, KeyPair>, CertificateDer<'static>);

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap().der().clone();
            Self(Issuer::new(params, key), certificate)
        }

        fn issue(&self, name: &str) -> (CertificateDer<'static>, KeyPair) {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &self.0).unwrap().der().clone(), key)
        }

        fn write(&self, name: &str, folder: &Path) -> CertificateFiles {
            let (certificate, key) = self.issue(name);
            let files = CertificateFiles { certificate: folder.join("c.pem"), key: folder.join("c.key") };
            fs::write(&files.certificate, pem(&certificate)).unwrap();
            fs::write(&files.key, key.serialize_pem()).unwrap();
            fs::set_permissions(&files.key, Permissions::from_mode(0o600)).unwrap();
            files
        }

        fn client(&self, versions: &[&'static SupportedProtocolVersion], shown: Option<&Self>) -> ClientConfig {
            let mut roots = RootCertStore::empty();
            roots.add(self.1.clone()).unwrap();
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
            match shown {
                None => builder.with_no_client_auth(),
                Some(authority) => {
                    let (certificate, key) = authority.issue("client");
                    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                    builder.with_client_auth_cert(vec![certificate], key).unwrap()
                }
            }
        }
    }

    fn pem(der: &CertificateDer<'_>) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in der.chunks(3) {
            let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63] as char;
                text.push(if place <= chunk.len() { digit } else { '=' });
            }
        }
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    /// Shakes hands, and has the client read what the server sends behind that: its tickets.
    fn handshake(context: &TlsContext, client: &Arc<ClientConfig>) -> Result<ServerConnection, rustls::Error> {
        let name = ServerName::try_from("a.example").unwrap();
        let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
        let mut server = ServerConnection::new(context.config()).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() || server.wants_write() {
            bytes.clear();
            client.write_tls(&mut bytes).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                server.process_new_packets()?;
            }
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets()?;
            }
        }
        assert!(!server.is_handshaking() && !client.is_handshaking());
        Ok(server)
    }

    fn context(settings: TlsSettings, tickets: &Arc<TicketKeys>) -> Arc<TlsContext> {
        TlsContext::new(settings, Arc::clone(tickets), vec![Protocol::Http11]).unwrap()
    }

    #[test]
    fn a_session_is_resumed_by_another_process_that_has_the_keys() {
        for version in [&TLS12, &TLS13] {
            let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
            let settings = TlsSettings {
                certificates: vec![authority.write("a.example", folder.path())],
                ..TlsSettings::default()
            };
            let first = context(settings.clone(), &TicketKeys::new());
            let client = Arc::new(authority.client(&[version], None));
            assert_eq!(handshake(&first, &client).unwrap().handshake_kind(), Some(HandshakeKind::Full));
            assert_eq!(handshake(&first, &client).unwrap().handshake_kind(), Some(HandshakeKind::Resumed));
            let keys = TicketKeys::new();
            keys.import(&first.tickets().export()).unwrap();
            let second = context(settings.clone(), &keys);
            assert_eq!(handshake(&second, &client).unwrap().handshake_kind(), Some(HandshakeKind::Resumed));
            let stranger = context(settings, &TicketKeys::new());
            assert_eq!(handshake(&stranger, &client).unwrap().handshake_kind(), Some(HandshakeKind::Full));
        }
    }

    #[test]
    fn the_least_version_is_kept() {
        let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
        let certificates = vec![authority.write("a.example", folder.path())];
        let settings = TlsSettings { certificates, min_version: MinVersion::Tls13, ..TlsSettings::default() };
        let context = context(settings, &TicketKeys::new());
        assert!(handshake(&context, &Arc::new(authority.client(&[&TLS12], None))).is_err());
        handshake(&context, &Arc::new(authority.client(&[&TLS13, &TLS12], None))).unwrap();
    }

    #[test]
    fn clients_show_certificates_of_the_authority() {
        let (folder, authority, clients) = (TempDir::new().unwrap(), Authority::new(), Authority::new());
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, pem(&clients.1)).unwrap();
        let certificates = vec![authority.write("a.example", folder.path())];
        let settings = |mode| TlsSettings {
            certificates: certificates.clone(),
            client_certificates: Some(ClientCertificates { ca: ca.clone(), mode }),
            ..TlsSettings::default()
        };
        for version in [&TLS12, &TLS13] {
            let client = |shown: Option<&Authority>| {
                let mut client = authority.client(&[version], shown);
                client.resumption = Resumption::disabled();
                Arc::new(client)
            };
            let shown = |mode, client: &Arc<ClientConfig>| {
                let server = handshake(&context(settings(mode), &TicketKeys::new()), client).ok()?;
                Some(server.peer_certificates().map_or(0, <[_]>::len))
            };
            let (right, wrong, none) = (client(Some(&clients)), client(Some(&authority)), client(None));
            assert_eq!(shown(ClientCertificateMode::Required, &right), Some(1));
            assert_eq!(shown(ClientCertificateMode::Required, &none), None);
            assert_eq!(shown(ClientCertificateMode::Required, &wrong), None);
            assert_eq!(shown(ClientCertificateMode::Optional, &right), Some(1));
            assert_eq!(shown(ClientCertificateMode::Optional, &none), Some(0));
            assert_eq!(shown(ClientCertificateMode::Optional, &wrong), None);
        }
    }

    #[test]
    fn a_ticket_is_worth_nothing_when_the_authority_has_changed() {
        for version in [&TLS12, &TLS13] {
            let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
            let (one, other) = (Authority::new(), Authority::new());
            let ca = folder.path().join("ca.pem");
            fs::write(&ca, pem(&one.1)).unwrap();
            let settings = TlsSettings {
                certificates: vec![authority.write("a.example", folder.path())],
                client_certificates: Some(ClientCertificates { ca: ca.clone(), mode: ClientCertificateMode::Required }),
                ..TlsSettings::default()
            };
            let context = context(settings, &TicketKeys::new());
            let client = Arc::new(authority.client(&[version], Some(&one)));
            handshake(&context, &client).unwrap();
            let resumed = handshake(&context, &client).unwrap();
            assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
            assert_eq!(resumed.peer_certificates().map_or(0, <[_]>::len), 1);
            fs::write(&ca, format!("{}\n", pem(&other.1))).unwrap();
            context.follow_files();
            assert!(handshake(&context, &client).is_err());
        }
    }

    #[test]
    fn only_who_asks_for_nothing_else_sees_a_challenge() {
        let authority = Authority::new();
        let context = context(TlsSettings::default(), &TicketKeys::new());
        let (certificate, key) = authority.issue("a.example");
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let certificate = Certificate::from_der(vec![certificate], key, "challenge").unwrap();
        let agreed = |offered: &[&[u8]]| {
            let mut client = authority.client(&[&TLS13], None);
            client.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let server = handshake(&context, &Arc::new(client)).ok()?;
            Some(Protocol::of(server.alpn_protocol()))
        };
        assert_eq!(agreed(&[b"acme-tls/1"]), None);
        let challenge = context.store().challenge("a.example", Arc::clone(certificate.certified_key())).unwrap();
        assert_eq!(agreed(&[b"acme-tls/1"]), Some(Protocol::AcmeChallenge));
        assert_eq!(agreed(&[b"acme-tls/1", b"http/1.1"]), None);
        drop(challenge);
        assert_eq!(agreed(&[b"acme-tls/1"]), None);
        context.store().replace(Source::Files, vec![certificate]);
        assert_eq!(agreed(&[b"acme-tls/1"]), None);
        assert_eq!(agreed(&[b"acme-tls/1", b"http/1.1"]), Some(Protocol::Http11));
        assert_eq!(agreed(&[]), Some(Protocol::Http11));
    }

    #[test]
    fn files_are_followed_and_a_broken_one_changes_nothing() {
        let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
        let files = authority.write("a.example", folder.path());
        let settings = TlsSettings { certificates: vec![files.clone()], ..TlsSettings::default() };
        let context = context(settings, &TicketKeys::new());
        let serial = || context.store().list()[0].certificate.serial().to_owned();
        let first = serial();
        context.follow_files();
        assert_eq!(serial(), first);
        fs::write(&files.certificate, "nothing").unwrap();
        context.follow_files();
        assert_eq!(serial(), first);
        authority.write("a.example", folder.path());
        context.follow_files();
        assert_ne!(serial(), first);
    }

    #[test]
    fn settings_that_are_refused_change_nothing() {
        let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
        let files = authority.write("a.example", folder.path());
        let settings = TlsSettings { certificates: vec![files.clone()], ..TlsSettings::default() };
        let context = context(settings, &TicketKeys::new());
        let missing = CertificateFiles { certificate: folder.path().join("missing"), ..files.clone() };
        let bad = TlsSettings { certificates: vec![files, missing], ..TlsSettings::default() };
        assert!(matches!(context.prepare(bad), Err(FileError::Read { .. })));
        assert_eq!(context.store().list().len(), 1);
        context.apply(context.prepare(TlsSettings::default()).unwrap());
        assert!(context.store().is_empty());
    }
}
