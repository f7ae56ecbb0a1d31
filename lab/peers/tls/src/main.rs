//! What a provider of rustls costs a server: CPU time of full and resumed handshakes, and of records of 16 KiB. Client
//! and server are in one process, without sockets; only what the server computes is counted.
//!
//! `tls-provider FOLDER SECONDS`: FOLDER has ec.pem, ec.key, rsa.pem and rsa.key. One line each: name, microseconds.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as crypto;
#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
use rustls::crypto::ring as crypto;

use crypto::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection, SupportedCipherSuite,
    SupportedProtocolVersion,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const RECORD: usize = 16 * 1024;
/// Records between two looks at the clock.
const BATCH: usize = 64;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(seconds)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tls-provider FOLDER SECONDS".into());
    };
    let (folder, time) = (Path::new(&folder), Duration::from_secs_f64(seconds.parse()?));
    for (version, name) in [(&TLS13, "TLS 1.3"), (&TLS12, "TLS 1.2")] {
        for key in ["ec", "rsa"] {
            let pair = Pair::new(folder, key, version, None)?;
            show(&format!("full handshake, {name}, {key}"), pair.full.handshakes(time, HandshakeKind::Full)?);
        }
        let pair = Pair::new(folder, "ec", version, None)?;
        show(&format!("resumed handshake, {name}"), pair.resumed.handshakes(time, HandshakeKind::Resumed)?);
    }
    for (suite, name) in [
        (TLS13_AES_128_GCM_SHA256, "AES-128-GCM"),
        (TLS13_AES_256_GCM_SHA384, "AES-256-GCM"),
        (TLS13_CHACHA20_POLY1305_SHA256, "ChaCha20-Poly1305"),
    ] {
        let ends = Pair::new(folder, "ec", &TLS13, Some(suite))?.full;
        let (sealed, opened) = ends.records(time)?;
        show(&format!("record sealed, {name}"), sealed);
        show(&format!("record opened, {name}"), opened);
    }
    Ok(())
}

fn show(what: &str, microseconds: f64) {
    println!("{what}\t{microseconds:.3}");
}

/// CPU time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A server and its clients.
struct Ends {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

/// Clients that keep no session, and clients that do.
struct Pair {
    full: Ends,
    resumed: Ends,
}

impl Pair {
    fn new(
        folder: &Path,
        key: &str,
        version: &'static SupportedProtocolVersion,
        suite: Option<SupportedCipherSuite>,
    ) -> Outcome<Self> {
        let mut provider = crypto::default_provider();
        // The key exchange that both providers have.
        provider.kx_groups.retain(|group| group.name() == rustls::NamedGroup::X25519);
        let suites = |provider: &mut CryptoProvider| {
            let first = suite.map_or_else(Vec::new, |suite| vec![suite]);
            if !first.is_empty() {
                provider.cipher_suites = first;
            }
        };
        suites(&mut provider);
        let provider = Arc::new(provider);
        let chain = vec![CertificateDer::from_pem_file(folder.join(format!("{key}.pem")))?];
        let mut roots = RootCertStore::empty();
        roots.add(chain[0].clone())?;
        let private = PrivateKeyDer::from_pem_file(folder.join(format!("{key}.key")))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version])?;
        let mut server = server.with_no_client_auth().with_single_cert(chain, private)?;
        server.ticketer = crypto::Ticketer::new()?;
        server.send_tls13_tickets = 2;
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version])?;
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let mut forgetful = client.clone();
        forgetful.resumption = Resumption::disabled();
        let server = Arc::new(server);
        Ok(Self {
            full: Ends { server: Arc::clone(&server), client: Arc::new(forgetful) },
            resumed: Ends { server, client: Arc::new(client) },
        })
    }
}

impl Ends {
    /// Microseconds of the server for each, over some time.
    fn handshakes(&self, time: Duration, expected: HandshakeKind) -> Outcome<f64> {
        self.handshake()?;
        let (mut spent, mut count) = (Duration::ZERO, 0_u32);
        while spent < time {
            let (_, server, took) = self.handshake()?;
            if server.handshake_kind() != Some(expected) {
                return Err(format!("{:?} in place of {expected:?}", server.handshake_kind()).into());
            }
            (spent, count) = (spent + took, count + 1);
        }
        Ok(spent.as_secs_f64() * 1e6 / f64::from(count))
    }

    /// Both ends, with what the server's took.
    fn handshake(&self) -> Outcome<(ClientConnection, ServerConnection, Duration)> {
        let mut client = ClientConnection::new(Arc::clone(&self.client), ServerName::try_from("localhost")?)?;
        let begun = now();
        let mut server = ServerConnection::new(Arc::clone(&self.server))?;
        let mut spent = now() - begun;
        let (mut there, mut back) = (Vec::new(), Vec::new());
        while client.wants_write() || server.wants_write() {
            there.clear();
            while client.wants_write() {
                client.write_tls(&mut there)?;
            }
            back.clear();
            let begun = now();
            take(&there, |rest| server.read_tls(rest))?;
            server.process_new_packets()?;
            while server.wants_write() {
                server.write_tls(&mut back)?;
            }
            spent += now() - begun;
            take(&back, |rest| client.read_tls(rest))?;
            client.process_new_packets()?;
        }
        Ok((client, server, spent))
    }

    /// Microseconds for each that the server seals, and for each that it opens.
    fn records(&self, time: Duration) -> Outcome<(f64, f64)> {
        let (mut client, mut server, _) = self.handshake()?;
        let (plain, mut read) = (vec![7; RECORD], vec![0; RECORD]);
        let (mut sealed, mut opened, mut count) = (Duration::ZERO, Duration::ZERO, 0_u32);
        let mut wire = Vec::with_capacity(RECORD + 256);
        while sealed + opened < time {
            for _ in 0..BATCH {
                wire.clear();
                let begun = now();
                server.writer().write_all(&plain)?;
                server.write_tls(&mut wire)?;
                sealed += now() - begun;
                take(&wire, |rest| client.read_tls(rest).inspect(|_| drop(client.process_new_packets())))?;
                client.reader().read_exact(&mut read)?;
                wire.clear();
                client.writer().write_all(&plain)?;
                client.write_tls(&mut wire)?;
                let begun = now();
                take(&wire, |rest| server.read_tls(rest).inspect(|_| drop(server.process_new_packets())))?;
                server.reader().read_exact(&mut read)?;
                opened += now() - begun;
                count += 1;
            }
        }
        let each = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(count);
        Ok((each(sealed), each(opened)))
    }
}

fn take(bytes: &[u8], mut read: impl FnMut(&mut dyn Read) -> std::io::Result<usize>) -> Outcome<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        read(&mut rest)?;
    }
    Ok(())
}
