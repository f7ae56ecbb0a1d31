//! The servers: Pilotlight and its peers, each with the same certificate, the same stored answer and the same files.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use tempfile::TempDir;

use crate::cache::gateways::template;
use crate::cache::origin::Origin;
use crate::cache::server::memory_folder;
use crate::cores;
use crate::experiment::model::{Skipped, Software};
use crate::processes::{self, Held, Program, gateway_program, own_program, usage};
use crate::service::{FRONT, SERVICE};
use crate::transport::target::{LISTEN_LIMIT, free_address, listens, text};

/// The answer of 200 bytes: from what is stored, or a file.
pub(crate) const SMALL: &str = crate::cache::answers::SMALL_PATH;
/// A file with a compressed neighbour.
pub(super) const SCRIPT: &str = "/app.js";
/// A file of 256 MiB.
pub(super) const LARGE: &str = "/large.bin";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
const SCRIPT_BYTES: usize = 40_000;
const COMPRESSED_BYTES: usize = 10_000;
const LARGE_BYTES: u64 = 256 << 20;

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    /// The least that does the same: a loop that knows three answers.
    Floor,
    Nginx,
    Haproxy,
    H2o,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Own, Self::Floor, Self::Nginx, Self::Haproxy, Self::H2o];

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Own => "pilotlight",
            Self::Floor => "floor",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::H2o => "h2o",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Own => "Pilotlight",
            Self::Floor => "a bare epoll loop, with rustls",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::H2o => "H2O, a file (it has no cache)",
        }
    }

    const fn template(self) -> &'static str {
        match self {
            Self::Own => OWN_CONFIGURATION,
            Self::Floor => NO_CONFIGURATION,
            Self::Nginx => include_str!("../../peers/gateways/nginx-front.conf"),
            Self::Haproxy => include_str!("../../peers/gateways/haproxy-front.cfg"),
            Self::H2o => include_str!("../../peers/gateways/h2o-front.conf"),
        }
    }

    /// Looks for it.
    ///
    /// # Errors
    /// It is not here.
    pub(super) fn find(self) -> Result<Software, Skipped> {
        let settings = template::settings(self.template());
        if matches!(self, Self::Own | Self::Floor) {
            let version = env!("CARGO_PKG_VERSION").into();
            return Ok(Software { name: self.id().into(), version, settings });
        }
        let missing = |why: &str| Skipped::new(self.title(), why, "lab/setup.sh of a checkout");
        let program = processes::find_program(self.id()).ok_or_else(|| missing("it is not here"))?;
        let version = processes::first_line(program.as_os_str(), &["-v"]).ok_or_else(|| missing("it does not run"))?;
        Ok(Software { name: self.id().into(), version, settings })
    }

    fn command(self, dir: &Path, file: &Path, shared: &Path, at: Addresses) -> anyhow::Result<Vec<OsString>> {
        let file = OsString::from(file);
        let program = || processes::find_program(self.id()).map(OsString::from).context("it is not here any more");
        Ok(match self {
            Self::Own => vec![gateway_program()?.into(), "run".into(), "--config".into(), file],
            Self::Floor => {
                let [secure, plain] = [at.secure, at.plain].map(|address| address.to_string().into());
                let [www, certificate, key] = ["www", CERTIFICATE, KEY].map(|name| shared.join(name).into());
                let words = [SERVICE.into(), FRONT.into(), secure, plain, www, SCRIPT.into(), LARGE.into()];
                std::iter::once(own_program()?.into()).chain(words).chain([certificate, key]).collect()
            }
            Self::Nginx => vec![program()?, "-e".into(), dir.join("errors").into(), "-c".into(), file],
            Self::Haproxy => vec![program()?, "-db".into(), "-f".into(), file],
            Self::H2o => vec![program()?, "-c".into(), file],
        })
    }
}

/// The floor is told everything by its arguments.
const NO_CONFIGURATION: &str = "";
const OWN_CONFIGURATION: &str = r#"# TLS, a stored answer and files. docs/configuration.md
listen = ["https://{{address}}", "{{plain}}"]
workers = 1 # one core

[limits]
connections = 8192

[tls]
certificates = [{ certificate = "{{certificate}}", key = "{{key}}" }]

[cache]
memory = "64MiB" # as much as the others

[services.lab]
url = "http://{{origin}}"

[[routes]]
path = "/users"
service = "lab"
cache = "10h"
https = "allow"

[[routes]]
path = "/"
files = "{{www}}"
https = "allow"
"#;

/// A running server. Fields are dropped in this order: who asks before who is asked.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) secure: SocketAddr,
    pub(super) plain: SocketAddr,
    /// Files over TLS, where they are served elsewhere than stored answers.
    pub(super) files: SocketAddr,
    front: Held,
    origin: Origin,
    /// What a peer keeps in memory.
    _memory: TempDir,
}

impl Server {
    /// Starts it in a folder, on a core, and waits until it listens.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(kind: Kind, dir: &Path, shared: &Path, core: Option<usize>) -> anyhow::Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let (origin, memory) = (Origin::start()?, memory_folder()?);
        let (secure, plain) = (free_address()?, free_address()?);
        // Its size of TLS records is one for a whole server.
        let files = if kind == Kind::Nginx { free_address()? } else { secure };
        let file = dir.join("front.conf");
        let addresses = Addresses { secure, plain, files, origin: origin.address() };
        let values = values(addresses, dir, memory.path(), shared)?;
        fs::write(&file, template::fill(kind.template(), &values)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let program = Program {
            name: kind.id().into(),
            command: kind.command(dir, &file, shared, addresses)?,
            dir: dir.to_owned(),
            output: dir.join("output"),
        };
        let mut front = cores::on(core, || program.start())??;
        front.wait_until(LISTEN_LIMIT, "it listens", |_| listens(secure).then_some(()))?;
        Ok(Self { secure, plain, files, front, origin, _memory: memory })
    }

    /// How many requests the origin has had.
    pub(super) fn asked(&self) -> u64 {
        self.origin.asked()
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        usage::tree(self.front.pid()).into_iter().map(|process| process.pid).collect()
    }

    /// For messages.
    pub(super) fn last_words(&self) -> String {
        let output = self.front.output();
        let last = output.trim().lines().next_back().map(|line| line.replace(char::is_control, " "));
        last.map_or_else(|| "it printed nothing".into(), |line| format!("its last words: {line}"))
    }
}

/// Where a server listens, and whom it asks.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    secure: SocketAddr,
    plain: SocketAddr,
    files: SocketAddr,
    origin: SocketAddr,
}

/// What a configuration is filled with.
fn values(
    addresses: Addresses,
    dir: &Path,
    memory: &Path,
    shared: &Path,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let Addresses { secure, plain, files, origin } = addresses;
    let mut values = vec![
        ("dir", text(dir)?.to_owned()),
        ("memory", text(memory)?.to_owned()),
        ("www", text(&shared.join("www"))?.to_owned()),
        ("address", secure.to_string()),
        ("host", secure.ip().to_string()),
        ("port", secure.port().to_string()),
        ("plain", plain.to_string()),
        ("files", files.to_string()),
        ("plain_port", plain.port().to_string()),
        ("origin", origin.to_string()),
        ("certificate", text(&shared.join(CERTIFICATE))?.to_owned()),
        ("key", text(&shared.join(KEY))?.to_owned()),
        ("both", text(&shared.join("both.pem"))?.to_owned()),
    ];
    if rustix::process::geteuid().is_root() {
        values.push(("user", "root".into()));
    }
    Ok(values)
}

/// Writes what all servers have: a certificate and files.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn write_shared(shared: &Path) -> anyhow::Result<()> {
    let www = shared.join("www");
    let small = www.join(SMALL.trim_start_matches('/'));
    fs::create_dir_all(small.parent().context("a path with a folder")?)?;
    fs::write(&small, crate::cache::answers::small())?;
    let script = www.join(SCRIPT.trim_start_matches('/'));
    fs::write(&script, "x".repeat(SCRIPT_BYTES))?;
    // What is in it, no server looks at; it is as long as such a file compressed.
    fs::write(www.join(format!("{}.gz", SCRIPT.trim_start_matches('/'))), "z".repeat(COMPRESSED_BYTES))?;
    fs::File::create(www.join(LARGE.trim_start_matches('/')))?.set_len(LARGE_BYTES)?;
    write_certificate(shared)
}

/// Writes `certificate.pem`, `key.pem` and both in `both.pem`, for localhost.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn write_certificate(dir: &Path) -> anyhow::Result<()> {
    let key = rcgen::KeyPair::generate().context("cannot make a key")?;
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let (certificate, key) = (parameters.self_signed(&key)?.pem(), key.serialize_pem());
    write_private(&dir.join(CERTIFICATE), &certificate)?;
    write_private(&dir.join(KEY), &key)?;
    write_private(&dir.join("both.pem"), &format!("{certificate}{key}"))
}

fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The program itself reads its configuration; where it is not installed, there is nothing to ask.
    #[track_caller]
    fn accepted(kind: Kind, words: &[&str]) {
        if kind.find().is_err() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        write_shared(folder.path()).expect("files");
        let [secure, plain, files] = [(); 3].map(|()| free_address().expect("a port"));
        let values =
            values(Addresses { secure, plain, files, origin: plain }, folder.path(), folder.path(), folder.path());
        let file = folder.path().join("front.conf");
        fs::write(&file, template::fill(kind.template(), &values.expect("UTF-8")).expect("whole")).expect("written");
        let program = processes::find_program(kind.id()).expect("it is here");
        let done = Command::new(program).args(words).arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{kind:?}: {said}");
    }

    #[test]
    fn peers_accept_their_configurations() {
        accepted(Kind::Nginx, &["-t", "-e", "/dev/null", "-c"]);
        accepted(Kind::Haproxy, &["-c", "-f"]);
        accepted(Kind::H2o, &["-t", "-c"]);
    }
}
