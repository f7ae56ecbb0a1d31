//! The configuration of rustls that new connections get, and how it is changed: what is new is read and checked whole,
//! then it takes the place of the old in one step.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};

use crate::certificate::{Certificate, Remark};
use crate::client_certificates::{ClientCertificates, Verifier};
use crate::error::FileError;
use crate::files::{CertificateFiles, Stamp};
use crate::protocol::Protocol;
use crate::session_end::SessionEnd;
use crate::settings::{MinVersion, TlsSettings};
use crate::store::{CertificateStore, Source};
use crate::suites::Preference;
use crate::tickets::TicketKeys;

/// TLS of a gateway: what every handshake begins from.
#[derive(Debug)]
pub struct TlsContext {
    parts: Parts,
    configs: ArcSwap<Configs>,
    followed: Mutex<Followed>,
}

/// Settings with what their files contain, checked.
#[derive(Debug)]
pub struct Prepared {
    settings: TlsSettings,
    certificates: Vec<Certificate>,
    configs: Configs,
    stamps: Vec<Stamp>,
}

/// What configurations are made of.
#[derive(Debug)]
struct Parts {
    store: Arc<CertificateStore>,
    tickets: Arc<TicketKeys>,
    /// In the order in which they are preferred.
    protocols: Vec<Protocol>,
    /// With the cipher suites in the order of each preference.
    aes: Arc<CryptoProvider>,
    chacha20: Arc<CryptoProvider>,
}

/// What connections go on with.
#[derive(Debug)]
enum Configs {
    /// The same for all, but for the order of the cipher suites.
    Shared { aes: Arc<ServerConfig>, chacha20: Arc<ServerConfig> },
    /// For each connection its own: its tickets end with the certificates that its client shows.
    Own { min: MinVersion, verifier: Verifier },
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
        let (aes, chacha20) = (Preference::Aes.provider(), Preference::ChaCha20.provider());
        let parts = Parts { store: CertificateStore::new(), tickets, protocols, aes, chacha20 };
        let configs = ArcSwap::from_pointee(parts.configs(MinVersion::default(), None)?);
        let context = Arc::new(Self { parts, configs, followed: Mutex::default() });
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
        let configs = self.parts.configs(settings.min_version, settings.client_certificates.as_ref())?;
        Ok(Prepared { settings, certificates, configs, stamps })
    }

    /// From the next handshake on, this counts. Connections go on as they are.
    pub fn apply(&self, prepared: Prepared) {
        let Prepared { settings, certificates, configs, stamps } = prepared;
        let mut followed = self.followed.lock();
        certificates.iter().for_each(warn);
        self.parts.store.replace(Source::Files, certificates);
        self.configs.store(Arc::new(configs));
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

    /// What the connection of the client with this hello goes on with.
    ///
    /// # Errors
    /// rustls does not take the configuration.
    pub fn config(&self, hello: &ClientHello<'_>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let preference = Preference::of(hello.cipher_suites());
        match (&**self.configs.load(), preference) {
            (Configs::Shared { aes, .. }, Preference::Aes) => Ok(Arc::clone(aes)),
            (Configs::Shared { chacha20, .. }, Preference::ChaCha20) => Ok(Arc::clone(chacha20)),
            (Configs::Own { min, verifier }, preference) => self.parts.own(*min, verifier, preference).map(Arc::new),
        }
    }

    /// The certificates.
    #[must_use]
    pub fn store(&self) -> &Arc<CertificateStore> {
        &self.parts.store
    }

    /// The keys of session tickets.
    #[must_use]
    pub fn tickets(&self) -> &Arc<TicketKeys> {
        &self.parts.tickets
    }
}

impl Parts {
    fn configs(&self, min: MinVersion, clients: Option<&ClientCertificates>) -> Result<Configs, FileError> {
        let setup = |e: rustls::Error| FileError::Setup(e.to_string());
        let Some(clients) = clients else {
            let shared = |preference| self.shared(min, preference).map(Arc::new).map_err(setup);
            return Ok(Configs::Shared { aes: shared(Preference::Aes)?, chacha20: shared(Preference::ChaCha20)? });
        };
        let verifier = Verifier::load(clients, &self.aes)?;
        self.own(min, &verifier, Preference::Aes).map_err(setup)?;
        Ok(Configs::Own { min, verifier })
    }

    fn shared(&self, min: MinVersion, preference: Preference) -> Result<ServerConfig, rustls::Error> {
        self.config(min, preference, WebPkiClientVerifier::no_client_auth(), self.tickets.for_anybody())
    }

    fn own(&self, min: MinVersion, verifier: &Verifier, preference: Preference) -> Result<ServerConfig, rustls::Error> {
        let end = SessionEnd::never();
        let tickets = self.tickets.until(Arc::clone(&end), &verifier.context);
        self.config(min, preference, verifier.until(end), tickets)
    }

    fn config(
        &self,
        min: MinVersion,
        preference: Preference,
        verifier: Arc<dyn ClientCertVerifier>,
        tickets: Arc<dyn ProducesTickets>,
    ) -> Result<ServerConfig, rustls::Error> {
        let versions: &[_] = match min {
            MinVersion::Tls12 => &[&TLS13, &TLS12],
            MinVersion::Tls13 => &[&TLS13],
        };
        let provider = match preference {
            Preference::Aes => &self.aes,
            Preference::ChaCha20 => &self.chacha20,
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(versions)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut config = builder.with_cert_resolver(Arc::clone(&self.store) as _);
        config.ignore_client_order = true;
        // Sessions are in their tickets, so that every worker can resume them, and none keeps them.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = tickets;
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
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::client::Resumption;
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::Acceptor;
    use rustls::{
        CipherSuite, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection,
        SupportedProtocolVersion,
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
            self.issue_until(name, SystemTime::now() + Duration::from_secs(3600))
        }

        fn issue_until(&self, name: &str, end: SystemTime) -> (CertificateDer<'static>, KeyPair) {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.not_after = end.into();
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
            self.client_with(versions, shown.map(|authority| authority.issue("client")))
        }

        fn client_with(
            &self,
            versions: &[&'static SupportedProtocolVersion],
            shown: Option<(CertificateDer<'static>, KeyPair)>,
        ) -> ClientConfig {
            let mut roots = RootCertStore::empty();
            roots.add(self.1.clone()).unwrap();
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
            match shown {
                None => builder.with_no_client_auth(),
                Some((certificate, key)) => {
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
        let (mut acceptor, mut bytes) = (Acceptor::default(), Vec::new());
        client.write_tls(&mut bytes).unwrap();
        acceptor.read_tls(&mut bytes.as_slice()).unwrap();
        let accepted = acceptor.accept().map_err(|(e, _)| e)?.unwrap();
        let config = context.config(&accepted.client_hello())?;
        let mut server = accepted.into_connection(config).map_err(|(e, _)| e)?;
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
    fn the_gateway_chooses_the_cipher_suite() {
        let (folder, authority) = (TempDir::new().unwrap(), Authority::new());
        let certificates = vec![authority.write("a.example", folder.path())];
        let context = context(TlsSettings { certificates, ..TlsSettings::default() }, &TicketKeys::new());
        let agreed = |version, offered: &[CipherSuite]| {
            let mut provider = ring::default_provider();
            let all = provider.cipher_suites.clone();
            let of = |name: &CipherSuite| all.iter().find(|suite| suite.suite() == *name).copied();
            provider.cipher_suites = offered.iter().filter_map(of).collect();
            let mut roots = RootCertStore::empty();
            roots.add(authority.1.clone()).unwrap();
            let builder = ClientConfig::builder_with_provider(Arc::new(provider));
            let builder = builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
            let client = builder.with_no_client_auth();
            handshake(&context, &Arc::new(client)).unwrap().negotiated_cipher_suite().unwrap().suite()
        };
        let three = [
            CipherSuite::TLS13_AES_256_GCM_SHA384,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
            CipherSuite::TLS13_AES_128_GCM_SHA256,
        ];
        let two = [
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ];
        for (version, [aes256, chacha, aes128]) in [(&TLS13, three), (&TLS12, two)] {
            for offered in [[aes128, aes256, chacha], [aes256, aes128, chacha], [aes256, chacha, aes128]] {
                assert_eq!(agreed(version, &offered), aes128, "{offered:?}");
            }
            // Without instructions for AES, a client names ChaCha20 first.
            for offered in [[chacha, aes128, aes256], [chacha, aes256, aes128]] {
                assert_eq!(agreed(version, &offered), chacha, "{offered:?}");
            }
            assert_eq!(agreed(version, &[chacha, aes256]), chacha);
            assert_eq!(agreed(version, &[aes256, chacha]), aes256);
            assert_eq!(agreed(version, &[aes256]), aes256);
        }
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

    /// rustls does not look at a client's certificate again when it takes a ticket.
    #[test]
    fn a_ticket_is_worth_nothing_when_the_client_s_certificate_has_ended() {
        for version in [&TLS12, &TLS13] {
            let (folder, authority, clients) = (TempDir::new().unwrap(), Authority::new(), Authority::new());
            let ca = folder.path().join("ca.pem");
            fs::write(&ca, pem(&clients.1)).unwrap();
            let settings = TlsSettings {
                certificates: vec![authority.write("a.example", folder.path())],
                client_certificates: Some(ClientCertificates { ca, mode: ClientCertificateMode::Required }),
                ..TlsSettings::default()
            };
            let context = context(settings, &TicketKeys::new());
            let end = SystemTime::now() + Duration::from_secs(3);
            let client = Arc::new(authority.client_with(&[version], Some(clients.issue_until("client", end))));
            assert_eq!(handshake(&context, &client).unwrap().handshake_kind(), Some(HandshakeKind::Full));
            assert_eq!(handshake(&context, &client).unwrap().handshake_kind(), Some(HandshakeKind::Resumed));
            while SystemTime::now() < end + Duration::from_secs(1) {
                // Each that is resumed brings a ticket for the next.
                let _ = handshake(&context, &client);
                std::thread::sleep(Duration::from_millis(20));
            }
            handshake(&context, &client).unwrap_err();
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
