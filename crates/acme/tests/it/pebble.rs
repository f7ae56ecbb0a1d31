//! A real Pebble with a DNS server that has one answer, both ended with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pilotlight_acme::{AcmeSettings, AuthoritySettings, Challenges, ExternalAccount, Offered, StorageSettings};
use pilotlight_testkit::PortLease;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// How long a program may take to begin.
const START: Duration = Duration::from_secs(90);
const KID: &str = "kid-1";
const MAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// How a Pebble behaves.
#[derive(Clone, Default)]
pub(crate) struct Behaviour {
    /// Percent of good nonces that it refuses.
    pub(crate) nonces_refused: u32,
    /// Seconds that a validation takes at most.
    pub(crate) validation_seconds: u32,
    /// Whether an account has to be bound to one that it knows.
    pub(crate) needs_external_account: bool,
}

/// Where its programs listen: nobody else does, also before they begin.
struct Ports {
    directory: PortLease,
    management: PortLease,
    dns: PortLease,
    dns_management: PortLease,
}

/// A Pebble, or the place of one that has not begun.
pub(crate) struct Pebble {
    dir: tempfile::TempDir,
    ports: Ports,
    http: u16,
    tls: u16,
    behaviour: Behaviour,
    running: Option<Vec<Child>>,
    log: Arc<Mutex<String>>,
}

impl Pebble {
    /// It validates names at these ports of 127.0.0.1.
    pub(crate) fn new(http: u16, tls: u16, behaviour: Behaviour) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = ca.self_signed(&ca_key).unwrap();
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        fs::write(dir.path().join("root.pem"), root.pem()).unwrap();
        fs::write(dir.path().join("cert.pem"), leaf.pem()).unwrap();
        fs::write(dir.path().join("key.pem"), key.serialize_pem()).unwrap();
        fs::write(dir.path().join("mac.key"), MAC_KEY).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(dir.path().join("mac.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let port = || PortLease::take().unwrap();
        let ports = Ports { directory: port(), management: port(), dns: port(), dns_management: port() };
        Self { dir, ports, http, tls, behaviour, running: None, log: Arc::default() }
    }

    /// Begins, and waits until it answers.
    pub(crate) fn start(mut self) -> Self {
        self.begin();
        self
    }

    /// Begins in its place.
    pub(crate) fn begin(&mut self) {
        let (dns, dns_management) = (self.ports.dns.port(), self.ports.dns_management.port());
        let path = self.dir.path();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.ports.directory.port()),
            "managementListenAddress": format!("127.0.0.1:{}", self.ports.management.port()),
            "certificate": path.join("cert.pem"), "privateKey": path.join("key.pem"),
            "httpPort": self.http, "tlsPort": self.tls, "ocspResponderURL": "",
            "externalAccountBindingRequired": self.behaviour.needs_external_account,
            "externalAccountMACKeys": { KID: MAC_KEY },
        }});
        fs::write(path.join("config.json"), config.to_string()).unwrap();
        let dns_server = ended_with_us("pebble-challtestsrv")
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1"])
            .args(["-dns01", &format!("127.0.0.1:{dns}"), "-management", &format!("127.0.0.1:{dns_management}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble-challtestsrv is missing: apt-get install pebble");
        let mut pebble = ended_with_us("pebble")
            .args(["-config".as_ref(), path.join("config.json").as_os_str()])
            .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
            .env("PEBBLE_WFE_NONCEREJECT", self.behaviour.nonces_refused.to_string())
            .env("PEBBLE_VA_SLEEPTIME", self.behaviour.validation_seconds.to_string())
            .env("PEBBLE_VA_NOSLEEP", if self.behaviour.validation_seconds == 0 { "1" } else { "0" })
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("pebble is missing: apt-get install pebble");
        let (log, out) = (Arc::clone(&self.log), pebble.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                log.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        self.running = Some(vec![pebble, dns_server]);
        // The server of names as well: a validation that finds no address is an order that failed.
        let begun = Instant::now();
        for port in [dns_management, self.ports.directory.port()] {
            while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                assert!(begun.elapsed() < START, "Pebble does not answer: {}", self.log.lock().unwrap());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// How often it has logged this.
    pub(crate) fn logged(&self, what: &str) -> usize {
        self.log.lock().unwrap().lines().filter(|line| line.contains(what)).count()
    }

    /// Orders that were placed.
    pub(crate) fn orders(&self) -> usize {
        self.logged("Added order")
    }

    /// Settings with which certificates come from it.
    pub(crate) fn settings(&self, storage: StorageSettings) -> AcmeSettings {
        let path = |name: &str| -> PathBuf { self.dir.path().join(name) };
        let external_account = self.behaviour.needs_external_account;
        let authority = AuthoritySettings {
            directory: format!("https://127.0.0.1:{}/dir", self.ports.directory.port()),
            root: Some(path("root.pem")),
            external_account: external_account
                .then(|| ExternalAccount { kid: KID.to_owned(), key_file: path("mac.key") }),
        };
        AcmeSettings {
            email: Some("ops@example.org".to_owned()),
            authorities: vec![authority],
            storage,
            on_demand: None,
            challenges: Challenges { http: Offered::First, tls_alpn: Offered::No },
        }
    }
}

/// A program that is killed when we are, however we end.
fn ended_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for mut child in self.running.take().into_iter().flatten() {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
    }
}
