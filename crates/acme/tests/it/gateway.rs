//! As much of a gateway as an authority sees: an owner of certificates, and listeners for HTTP-01 and TLS-ALPN-01.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pilotlight_acme::{Acme, AcmeSettings, Answer, Answers, Certificates, Driver, Name, PATH, Pair, Shown, names_of};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait for a certificate.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default, Clone, Debug)]
pub(crate) struct Listeners(Arc<Mutex<Held>>);

#[derive(Default, Debug)]
struct Held {
    pairs: BTreeMap<Name, Pair>,
    challenges: BTreeMap<String, Arc<CertifiedKey>>,
}

/// Takes the challenge's certificate back.
struct Taken(Listeners, String);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().challenges.remove(&self.1);
    }
}

impl Certificates for Listeners {
    fn change(&self, installed: &[(Name, Pair)], withdrawn: &[Name]) -> Vec<(Name, String)> {
        let mut held = self.0.lock().unwrap();
        held.pairs.extend(installed.iter().cloned());
        held.pairs.retain(|name, _| !withdrawn.contains(name));
        Vec::new()
    }

    fn challenge(&self, name: &Name, pair: &Pair) -> Shown {
        let key = default_provider().key_provider.load_private_key(pair.key_der().unwrap()).unwrap();
        let key = CertifiedKey::new(pair.chain_der().unwrap(), key);
        self.0.lock().unwrap().challenges.insert(name.to_string(), Arc::new(key));
        Box::new(Taken(self.clone(), name.to_string()))
    }
}

impl ResolvesServerCert for Listeners {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap().challenges.get(hello.server_name()?).map(Arc::clone)
    }
}

/// One owner with what it shows.
pub(crate) struct Gateway {
    pub(crate) acme: Acme,
    pub(crate) listeners: Listeners,
}

impl Gateway {
    pub(crate) fn start(settings: &AcmeSettings) -> Self {
        let listeners = Listeners::default();
        let (acme, driver) = Driver::new(settings, Arc::new(listeners.clone())).unwrap();
        tokio::spawn(driver.run());
        Self { acme, listeners }
    }

    pub(crate) fn route(&self, hosts: &[&str]) {
        self.acme.route(names_of(hosts.iter().copied(), pilotlight_acme::Reach::Public));
    }

    /// The certificate of a host, when there is one.
    pub(crate) async fn pair(&self, host: &str) -> Pair {
        self.eventually(host, |pair| pair.is_some()).await.unwrap()
    }

    /// The certificate of a host when it is as it should be.
    pub(crate) async fn eventually(&self, host: &str, is_so: impl Fn(Option<&Pair>) -> bool) -> Option<Pair> {
        let begun = Instant::now();
        loop {
            let found = self.shown(host);
            if is_so(found.as_ref()) {
                return found;
            }
            assert!(begun.elapsed() < LIMIT, "{host}: {:#?}", self.acme.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn shown(&self, host: &str) -> Option<Pair> {
        let held = self.listeners.0.lock().unwrap();
        held.pairs.iter().find(|(name, _)| name.as_str() == host).map(|(_, pair)| pair.clone())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.acme.stop();
    }
}

/// A listener for plain HTTP, which answers nothing but HTTP-01.
pub(crate) async fn answer_http(listener: TcpListener, answers: Answers) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer_one(stream, answers.clone()));
    }
}

async fn answer_one(mut stream: TcpStream, answers: Answers) {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(count) => head.extend_from_slice(&piece[..count]),
        }
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap();
    let answer = match answers.find(target.strip_prefix(PATH).unwrap()) {
        Answer::Now(answer) => Some(answer),
        Answer::Later(later) => later.await.unwrap(),
        Answer::Unknown => None,
    };
    let (status, body) = answer.as_deref().map_or(("404 Not Found", ""), |answer| ("200 OK", answer));
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    let _ = stream.write_all(text.as_bytes()).await;
}

/// A listener for TLS, which answers nothing but TLS-ALPN-01.
pub(crate) async fn answer_tls(listener: TcpListener, listeners: Listeners) {
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(listeners));
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let _ = acceptor.accept(stream).await; // the authority has seen what it wanted
        });
    }
}
