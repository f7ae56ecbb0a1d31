//! What a local cluster is known by after the command that started it: `cluster.json` in its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::process::{self, Program};
use crate::cluster::arguments::StartArgs;

const FILE: &str = "cluster.json";
/// The version of the file.
const VERSION: u32 = 1;

/// Looks again so often for what a server writes or does.
pub(super) const EVERY: Duration = Duration::from_millis(10);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    /// The first port.
    pub(crate) port: u16,
    primaries: u16,
    replicas: u16,
    program: PathBuf,
    pub(crate) servers: Vec<Server>,
}

/// One server: a process, told apart from every other by the time when it began.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) port: u16,
    /// Null until it is known.
    pub(super) pid: Option<i32>,
    /// In ticks since the machine started.
    pub(super) start_time: Option<u64>,
    pub(super) dir: PathBuf,
}

/// The folder of one cluster.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    is_usual: bool,
}

impl State {
    pub(super) fn new(port: u16, arguments: &StartArgs, program: &Program) -> Self {
        Self {
            version: VERSION,
            port,
            primaries: arguments.nodes,
            replicas: arguments.replicas,
            program: program.path().to_owned(),
            servers: Vec::new(),
        }
    }

    /// Whether any of its servers runs, also one that this program did not start.
    pub(super) fn is_running(&self) -> bool {
        self.servers.iter().any(|server| server.running().or_else(|| server.foreign()).is_some())
    }

    pub(super) fn addresses(&self) -> String {
        match self.servers.as_slice() {
            [first, .., last] => format!("127.0.0.1:{} to {}", first.port, last.port),
            [only] => format!("127.0.0.1:{}", only.port),
            [] => "no server".to_owned(),
        }
    }
}

impl Server {
    /// Reads who it is from the file that it writes when it is up. True once that is known.
    pub(super) fn identify(&mut self) -> bool {
        if self.pid.is_none()
            && let Some(pid) = process::pid_in(&self.dir)
            && process::is_server(pid, self.port, &self.dir)
        {
            self.start_time = process::start_time(pid);
            self.pid = self.start_time.and(Some(pid));
        }
        self.pid.is_some()
    }

    /// Its process id, if that is still the process that was started.
    pub(super) fn running(&self) -> Option<i32> {
        let (pid, start_time) = (self.pid?, self.start_time?);
        let is_it = process::start_time(pid) == Some(start_time) && process::is_server(pid, self.port, &self.dir);
        is_it.then_some(pid)
    }

    /// Another process that works as this server: it was started again by hand.
    fn foreign(&self) -> Option<i32> {
        if self.running().is_some() { None } else { process::find_server(self.port, &self.dir) }
    }
}

impl Place {
    /// The folder of the cluster that begins at this port.
    pub(super) fn usual(port: u16) -> anyhow::Result<Self> {
        Ok(Self { dir: clusters_dir()?.join(port.to_string()), is_usual: true })
    }

    pub(super) fn at(dir: PathBuf) -> Self {
        // The servers change their folder, so it has to be named from the root.
        Self { dir: std::path::absolute(&dir).unwrap_or(dir), is_usual: false }
    }

    /// All clusters of the state folder.
    pub(super) fn all() -> anyhow::Result<Vec<(Self, State)>> {
        let Ok(entries) = fs::read_dir(clusters_dir()?) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let place = Self { dir: entry.path(), is_usual: true };
            if let Some(state) = place.load()? {
                all.push((place, state));
            }
        }
        all.sort_by_key(|(_, state)| state.port);
        Ok(all)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What `cluster stop` has to be told.
    pub(super) fn option(&self, port: u16) -> String {
        if self.is_usual { format!(" --port {port}") } else { format!(" --dir {}", self.dir.display()) }
    }

    pub(super) fn create(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.with_context(|| format!("making the folder {}", self.dir.display()))
    }

    pub(super) fn load(&self) -> anyhow::Result<Option<State>> {
        let path = self.dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let mut state: State =
            serde_json::from_str(&text).with_context(|| format!("{} is no state of a cluster", path.display()))?;
        if state.version != VERSION {
            bail!("{} has version {}; this program knows version {VERSION}", path.display(), state.version);
        }
        // Folders are removed by what stands there.
        if let Some(foreign) = state.servers.iter().find(|server| server.dir.parent() != Some(&self.dir)) {
            bail!("{} names a folder outside of its own: {}", path.display(), foreign.dir.display());
        }
        // The command that started them may have been killed before it knew them.
        for server in &mut state.servers {
            server.identify();
        }
        Ok(Some(state))
    }

    /// Whole or not at all, however this process ends.
    pub(super) fn save(&self, state: &State) -> anyhow::Result<()> {
        let (path, next) = (self.dir.join(FILE), self.dir.join("cluster.json.new"));
        let text = serde_json::to_string_pretty(state)?;
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, &path))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// Ends the servers and removes their folders; says how many ran.
    ///
    /// # Errors
    /// One of them does not end, or was started again by hand; its folder is kept.
    pub(super) fn stop(&self, state: &State, timeout: Duration) -> anyhow::Result<usize> {
        refuse_foreign(state)?;
        let running: Vec<_> = state.servers.iter().filter(|server| server.running().is_some()).collect();
        for server in &running {
            process::end(server.running());
        }
        let deadline = Instant::now() + timeout;
        for server in &running {
            while server.running().is_some() && Instant::now() < deadline {
                std::thread::sleep(EVERY);
            }
            process::kill(server.running());
            while server.running().is_some() {
                if Instant::now() >= deadline + timeout {
                    bail!(
                        "the server of port {} (process {:?}) does not end; its folder is kept",
                        server.port,
                        server.pid
                    );
                }
                std::thread::sleep(EVERY);
            }
        }
        self.clear(state)?;
        Ok(running.len())
    }

    /// Removes what was made there, and nothing else.
    pub(super) fn clear(&self, state: &State) -> anyhow::Result<()> {
        refuse_foreign(state)?;
        for server in &state.servers {
            match fs::remove_dir_all(&server.dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing {}", server.dir.display()));
                }
                _ => {}
            }
        }
        fs::remove_file(self.dir.join(FILE)).with_context(|| format!("removing {}", self.dir.join(FILE).display()))?;
        // Somebody's other files stay, and the folder with them.
        let _ = fs::remove_dir(&self.dir);
        Ok(())
    }
}

/// Only processes that were started here are ended, and no folder is removed from under a server.
fn refuse_foreign(state: &State) -> anyhow::Result<()> {
    let foreign: Vec<_> = state.servers.iter().filter_map(|server| Some((server.port, server.foreign()?))).collect();
    let Some((port, pid)) = foreign.first() else { return Ok(()) };
    let pids: Vec<_> = foreign.iter().map(|(_, pid)| pid.to_string()).collect();
    bail!(
        "nothing was stopped or removed: the server of port {port} was started again by other means (process {pid}); end it first by `kill {}`",
        pids.join(" ")
    );
}

/// Where the state of clusters is kept.
fn clusters_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    let state =
        state.context("neither XDG_STATE_HOME nor HOME is an absolute path: --dir says where to keep the cluster")?;
    Ok(state.join("pilotlight/clusters"))
}
