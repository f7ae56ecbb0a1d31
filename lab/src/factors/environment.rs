//! What all variants use: a Redis with and without TLS, and the database that examples/users fills.

use std::cell::{Cell, OnceCell};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::layers::By;
use crate::rest::redis::{Redis, Topology};
use crate::rest::variant::{Programs, seed};

/// All users are read into Redis again after so long; they stay there for 60 s.
const REFILL: Duration = Duration::from_secs(20);

/// Programs, and what is started for them with the first measurement.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) dir: PathBuf,
    programs: Programs,
    /// The program that makes certificates; without it there is no TLS.
    certificates: Option<PathBuf>,
    topology: Topology,
    started: OnceCell<Started>,
    /// When all users were read into Redis.
    filled: Cell<Option<Instant>>,
}

/// What runs.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) redis: Redis,
    pub(super) db: PathBuf,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Tls {
    port: u16,
    authority: PathBuf,
}

impl Environment {
    pub(super) fn new(dir: PathBuf, programs: Programs, certificates: Option<PathBuf>, topology: Topology) -> Self {
        Self { dir, programs, certificates, topology, started: OnceCell::new(), filled: Cell::new(None) }
    }

    /// Starts what was not started.
    pub(super) fn started(&self) -> anyhow::Result<&Started> {
        if let Some(started) = self.started.get() {
            return Ok(started);
        }
        let started = self.start()?;
        Ok(self.started.get_or_init(|| started))
    }

    /// Whether users are missing in Redis, or will be during the next measurement.
    pub(super) fn fill_is_due(&self) -> bool {
        self.filled.get().is_none_or(|filled| filled.elapsed() >= REFILL)
    }

    pub(super) fn filled(&self) {
        self.filled.set(Some(Instant::now()));
    }

    fn start(&self) -> anyhow::Result<Started> {
        let (tls, lines) = match &self.certificates {
            Some(program) => {
                let (tls, lines) = tls(program, &self.dir.join("tls"))?;
                (Some(tls), lines)
            }
            None => (None, Vec::new()),
        };
        let redis = Redis::start_with(self.topology, &lines)?;
        let db = seed(&self.programs, &self.dir.join("seed"))?;
        Ok(Started { redis, db, tls })
    }
}

impl Started {
    /// The URL of Redis with what `by` changes of it.
    ///
    /// # Errors
    /// It asks for TLS, and there are no certificates.
    pub(super) fn url(&self, by: Option<By>) -> anyhow::Result<String> {
        Ok(match by {
            None | Some(By::Program | By::Setting) => self.redis.url(),
            Some(By::Option(option)) => format!("{}?{option}", self.redis.url()),
            Some(By::Tls) => {
                let Tls { port, authority } = self.tls.as_ref().context("Redis has no certificate")?;
                format!("rediss://{}:{port}?tls_ca={}", Ipv4Addr::LOCALHOST, authority.display())
            }
        })
    }
}

/// Certificates of this run, and the lines with which Redis takes TLS on a port of its own.
fn tls(certificates: &Path, dir: &Path) -> anyhow::Result<(Tls, Vec<String>)> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let program = certificates.display();
    let done = Command::new(certificates).arg(dir).output().with_context(|| format!("cannot run {program}"))?;
    ensure!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    // Another program may take the port in between; then the start fails, and says so.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?.local_addr()?.port();
    let file = |setting: &str, name: &str| format!("{setting} \"{}\"", dir.join(name).display());
    let lines = vec![
        format!("tls-port {port}"),
        file("tls-cert-file", "cert.pem"),
        file("tls-key-file", "key.pem"),
        file("tls-ca-cert-file", "ca.pem"),
        "tls-auth-clients no".to_owned(),
    ];
    Ok((Tls { port, authority: dir.join("ca.pem") }, lines))
}
