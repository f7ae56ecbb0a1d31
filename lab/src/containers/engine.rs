//! Podman with storage and state of its own and an image made from nothing, and a bare client of the Docker Engine API.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::experiment::model::Skipped;
use crate::load::{Target, ask};
use crate::processes::{Held, Program, Reaper, find_program};

pub(super) const IMAGE: &str = "localhost/pilotlight-lab:1";
pub(super) const PORT: u16 = 8080;
/// What is in the image: a server without a library.
const SOURCE: &str = include_str!("../../../tests/e2e/contained.c");
/// For each command, and for the engine until it listens.
const LIMIT: Duration = Duration::from_secs(60);
const API: &str = "/v1.41";

/// Why no containers can be started here.
pub(super) fn missing() -> Option<Skipped> {
    let skipped = |why: &str, install: &str| Some(Skipped::new("containers", why, install));
    if find_program("podman").is_none() {
        return skipped("there is no podman in the PATH", "apt install podman runc");
    }
    if find_program("gcc").is_none() {
        return skipped("there is no gcc in the PATH", "apt install gcc libc6-dev");
    }
    let why = "only root's containers have addresses of their own";
    (!geteuid().is_root()).then(|| Skipped::new("containers", why, "sudo pilotlight lab containers"))
}

/// A running engine. Dropping it removes its containers and all that it has stored. If the lab is killed, the reaper
/// ends what runs in containers, which are no children of the lab.
#[derive(Debug)]
pub(super) struct Engine {
    service: Held,
    podman: Podman,
    _reaper: Reaper,
}

/// A container that runs.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    /// Where its program listens, or will.
    pub(super) address: SocketAddr,
}

impl Engine {
    pub(super) fn start() -> anyhow::Result<Self> {
        let reaper = Reaper::start()?;
        let podman = Podman::new(&reaper)?;
        podman.make_image()?;
        let socket = podman.socket();
        let listen = format!("unix://{}", socket.display());
        let service = Program {
            name: "podman".into(),
            command: podman.command(&["system", "service", "--time=0", &listen]).iter().map(Into::into).collect(),
            output: podman.dir.path().join("output"),
            dir: podman.dir.path().to_owned(),
        };
        let mut engine = Self { service: service.start()?, podman, _reaper: reaper };
        engine.service.wait_until(LIMIT, "it answers", |_| call(&socket, "GET", "/_ping", "").ok())?;
        Ok(engine)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.podman.socket()
    }

    /// Creates and starts a container, and asks for its address.
    pub(super) fn run(&self) -> anyhow::Result<Container> {
        let port = format!("{PORT}/tcp");
        let wanted = json!({ "Image": IMAGE, "Env": [format!("PORT={PORT}")], "ExposedPorts": { port: {} } });
        let created = self.call("POST", "/containers/create", &wanted.to_string())?;
        let id = created["Id"].as_str().context("a container without a number")?;
        self.post(id, "start")?;
        let found = self.call("GET", &format!("/containers/{id}/json"), "")?;
        let mut networks = found["NetworkSettings"]["Networks"].as_object().into_iter().flat_map(|all| all.values());
        let address = networks.find_map(|network| network["IPAddress"].as_str()?.parse().ok());
        let address = SocketAddr::new(address.context("a container without an address")?, PORT);
        Ok(Container { id: id.to_owned(), address })
    }

    /// `pause` or another verb that needs no more words.
    pub(super) fn post(&self, id: &str, verb: &str) -> anyhow::Result<()> {
        self.call("POST", &format!("/containers/{id}/{verb}"), "").map(drop)
    }

    pub(super) fn remove(&self, container: &Container) -> anyhow::Result<()> {
        self.call("DELETE", &format!("/containers/{}?force=true", container.id), "").map(drop)
    }

    /// The states of all containers that a gateway has made.
    pub(super) fn states(&self) -> anyhow::Result<Vec<String>> {
        let filters = "%7B%22label%22%3A%5B%22dev.pilotlight.service%22%5D%7D"; // {"label":["dev.pilotlight.service"]}
        let found = self.call("GET", &format!("/containers/json?all=true&filters={filters}"), "")?;
        let state = |one: &Value| one["State"].as_str().map(str::to_owned).context("a container without a state");
        found.as_array().context("no list of containers")?.iter().map(state).collect()
    }

    fn call(&self, method: &str, target: &str, body: &str) -> anyhow::Result<Value> {
        call(&self.socket(), method, &format!("{API}{target}"), body)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // What fails here has gone already.
        let _ = self.podman.run(&["rm", "--force", "--all", "--time", "0"]);
        let _ = self.service.end(LIMIT);
        let _ = self.podman.run(&["system", "reset", "--force"]);
    }
}

/// The answer's JSON; `null` where it has none.
fn call(socket: &Path, method: &str, target: &str, body: &str) -> anyhow::Result<Value> {
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json");
    let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    let answer = ask(Target::Unix(socket.to_owned()), request.as_bytes());
    let (status, said) = answer.with_context(|| format!("the engine does not answer {method} {target}"))?;
    ensure!(status < 400, "the engine answers {method} {target}: {status} {}", String::from_utf8_lossy(&said));
    Ok(serde_json::from_slice(&said).unwrap_or(Value::Null))
}

/// The program, with a folder for all that it keeps.
#[derive(Debug)]
struct Podman {
    dir: TempDir,
}

impl Podman {
    /// A machine may give its processes less than an engine gives its containers by default; another engine must see
    /// neither its locks nor its events; and what the reaper looks for has to be in each environment.
    fn new(reaper: &Reaper) -> anyhow::Result<Self> {
        // Podman refuses a folder whose path is longer than 50 characters.
        let dir = tempfile::Builder::new().prefix("pilotlight-lab-engine-").tempdir_in("/tmp");
        let dir = dir.context("no folder in /tmp")?;
        let (name, value) = reaper.mark();
        let mark = format!("{name}={}", value.display());
        let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
        let text = format!(
            "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\nenv = [\"{path}\", \"{mark}\"]\n\
             [engine]\nlock_type = \"file\"\nevents_logger = \"file\"\nconmon_env_vars = [\"{path}\", \"{mark}\"]\n"
        );
        fs::write(dir.path().join("containers.conf"), text).context("cannot write the engine's configuration")?;
        Ok(Self { dir })
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("podman.sock")
    }

    fn command(&self, words: &[&str]) -> Vec<String> {
        let in_dir = |text: &str, name: &str| format!("{text}={}", self.dir.path().join(name).display());
        let places = [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "state")];
        let mut command = vec!["env".to_owned(), in_dir("CONTAINERS_CONF", "containers.conf"), "podman".to_owned()];
        command.extend(places.map(|(option, name)| in_dir(option, name)));
        command.extend(words.iter().map(|word| (*word).to_owned()));
        command
    }

    fn make_image(&self) -> anyhow::Result<()> {
        let files = self.dir.path().join("image");
        for folder in ["tmp", "etc"] {
            fs::create_dir_all(files.join(folder)).context("cannot make the folders of the image")?;
        }
        fs::write(self.dir.path().join("program.c"), SOURCE).context("cannot write the program of the image")?;
        self.bounded(&["gcc", "-static", "-O1", "-pthread", "-o", "image/program", "program.c"])?;
        self.bounded(&["tar", "--create", "--file=image.tar", "--directory=image", "."])?;
        self.run(&["import", "--change", "ENTRYPOINT [\"/program\"]", "image.tar", IMAGE])
    }

    fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        self.bounded(&self.command(words))
    }

    /// Runs a command in the folder. `timeout` ends it when it takes too long, and keeps a Ctrl-C from it, which would
    /// be the end of removing things as well.
    fn bounded(&self, words: &[impl AsRef<OsStr>]) -> anyhow::Result<()> {
        let mut command = Command::new("timeout");
        command.arg(LIMIT.as_secs().to_string()).args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        let done = command.output().context("timeout cannot be started")?;
        ensure!(done.status.success(), "{command:?} fails: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }
}
