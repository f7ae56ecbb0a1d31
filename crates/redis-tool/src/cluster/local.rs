//! `cluster start` and `stop`: a real cluster of servers on this machine, for trying things out. It lives on after the
//! command.

mod form;
mod process;
mod state;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pilotlight_redis::Config;
use pilotlight_redis::config::{Credentials, NodeAddress};
use serde_json::json;

use self::process::Program;
use self::state::{EVERY, Place, Server, State};
use super::arguments::{StartArgs, StopArgs};
use super::output::{Output, SCHEMA, interrupted, print, print_json};
use super::progress;
use super::table::counted;
use crate::connection::UsageError;

/// The cluster bus listens this far above each port.
const BUS_OFFSET: u16 = 10_000;
/// Where `--port 0` looks for free ports: below those from which Linux takes the ports of outgoing connections (32768
/// and more).
const FREE_PORTS: std::ops::Range<u16> = 21_000..32_000;
/// So long a server that is to be stopped again may take to say who it is.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// After this a server that was asked to end is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn start(arguments: &StartArgs) -> anyhow::Result<ExitCode> {
    process::can_tell()?;
    let program = Program::find()?;
    let count = arguments.nodes * (1 + arguments.replicas);
    let port = match arguments.port {
        0 => free_ports(count)?,
        port => usable(port, count)?,
    };
    let place = arguments.dir.clone().map_or_else(|| Place::usual(port), |dir| Ok(Place::at(dir)))?;
    if let Some(old) = place.load()? {
        if old.is_running() {
            bail!(
                "a cluster runs there already ({}): `pilotlight redis cluster stop{}` ends it",
                old.addresses(),
                place.option(old.port)
            );
        }
        place.clear(&old)?;
    }
    let begun = Instant::now();
    let mut started = Started { place, state: State::new(port, arguments, &program), launched: 0, is_kept: false };
    let mut stop = std::pin::pin!(interrupted());
    let spinner = progress::spinner(format!("starting {count} servers"));
    let work = async {
        started.spawn(&program, arguments).await?;
        let config = local_config(&started.state, arguments.password.as_deref())?;
        form::form(&config, &started.state, arguments, &spinner).await
    };
    tokio::select! {
        result = work => result?,
        () = &mut stop => {
            started.undo()?;
            bail!("interrupted: what was started is stopped again");
        }
    }
    spinner.finish_and_clear();
    started.is_kept = true;
    let state = &started.state;
    let seconds = begun.elapsed().as_secs_f64();
    match arguments.output() {
        Output::Json => print_json(
            &json!({"schema": SCHEMA, "port": port, "dir": started.place.dir(), "seconds": seconds, "nodes": state.servers}),
        )?,
        Output::Text => {
            let replicas = match arguments.replicas {
                0 => String::new(),
                1 => " with a replica each".to_owned(),
                several => format!(" with {several} replicas each"),
            };
            let mut text = format!(
                "{} primaries{replicas} run after {seconds:.1} s: {}\nurl:    redis+cluster://127.0.0.1:{port}\nfolder: {}\n",
                arguments.nodes,
                state.addresses(),
                started.place.dir().display(),
            );
            if !arguments.foreground {
                text.push_str(&format!("stop:   pilotlight redis cluster stop{}\n", started.place.option(port)));
            }
            print(&text)?;
        }
    }
    if arguments.foreground {
        if arguments.output() == Output::Text {
            eprintln!("Ctrl-C stops it");
        }
        stop.await;
        let ended = started.place.stop(&started.state, STOP_TIMEOUT)?;
        eprintln!("stopped {}", counted(ended, "server"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stop(arguments: &StopArgs) -> anyhow::Result<ExitCode> {
    process::can_tell()?;
    let chosen = match (&arguments.dir, arguments.port) {
        (Some(dir), _) => vec![Place::at(dir.clone())],
        (None, Some(port)) => vec![Place::usual(port)?],
        (None, None) => {
            let all = Place::all()?;
            if all.len() > 1 && !arguments.all {
                let ports: Vec<_> = all.iter().map(|(_, state)| state.port.to_string()).collect();
                bail!(UsageError(format!(
                    "there are several clusters (ports {}): --port says which, --all means all",
                    ports.join(", ")
                )));
            }
            all.into_iter().map(|(place, _)| place).collect()
        }
    };
    let mut stopped = Vec::new();
    for place in chosen {
        let Some(state) = place.load()? else {
            bail!("no cluster was started in {}", place.dir().display());
        };
        let ended = place.stop(&state, STOP_TIMEOUT)?;
        stopped.push(json!({"port": state.port, "dir": place.dir(), "servers": ended}));
        if arguments.output() == Output::Text {
            print(&format!(
                "stopped {ended} of {} servers of port {}, and removed {}\n",
                state.servers.len(),
                state.port,
                place.dir().display()
            ))?;
        }
    }
    match arguments.output() {
        Output::Json => print_json(&json!({"schema": SCHEMA, "stopped": stopped}))?,
        Output::Text if stopped.is_empty() => print("no cluster was started here, so there is nothing to stop\n")?,
        Output::Text => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Clusters that this machine's state folder knows and that run.
pub(super) fn running() -> anyhow::Result<Vec<State>> {
    Ok(Place::all()?.into_iter().map(|(_, state)| state).filter(State::is_running).collect())
}

/// The cluster that was started in this folder.
pub(super) fn started_in(dir: PathBuf) -> anyhow::Result<State> {
    let place = Place::at(dir);
    let missing = || format!("no cluster was started in {}", place.dir().display());
    place.load()?.with_context(missing)
}

/// A client's configuration for all servers of a local cluster.
pub(super) fn local_config(state: &State, password: Option<&str>) -> anyhow::Result<Config> {
    let servers = state.servers.iter().map(|server| NodeAddress::tcp("127.0.0.1", server.port));
    let config = Config::cluster(servers);
    Ok(match password {
        Some(password) => config.with_credentials(Credentials::password(password)),
        None => config,
    })
}

/// Servers on their way to be a cluster. Dropped before they are one, they are stopped again.
struct Started {
    place: Place,
    state: State,
    /// How many of its servers were launched.
    launched: usize,
    is_kept: bool,
}

impl Started {
    async fn spawn(&mut self, program: &Program, arguments: &StartArgs) -> anyhow::Result<()> {
        self.place.create()?;
        let count = arguments.nodes * (1 + arguments.replicas);
        for number in 0..count {
            let port = self.state.port + number;
            let dir = self.place.dir().join(port.to_string());
            write_configuration(&dir, port, arguments)?;
            // Named before it runs, so that no server is ever nobody's.
            self.state.servers.push(Server { port, pid: None, start_time: None, dir: dir.clone() });
            self.place.save(&self.state)?;
            program.launch(&dir)?;
            self.launched += 1;
        }
        let deadline = Instant::now() + arguments.timeout;
        for server in &mut self.state.servers {
            // Since Redis 7.2 a server writes its process id before it listens.
            while !server.identify() || !accepts(server.port).await {
                if Instant::now() >= deadline || process::has_given_up(&server.dir) {
                    bail!(
                        "the server of port {} has not started; the end of its log:\n{}",
                        server.port,
                        process::log_tail(&server.dir)
                    );
                }
                tokio::time::sleep(EVERY).await;
            }
        }
        self.place.save(&self.state)
    }

    /// Stops what was launched, also what has not yet said who it is.
    fn undo(&mut self) -> anyhow::Result<()> {
        self.is_kept = true;
        let deadline = Instant::now() + IDENTIFY_TIMEOUT;
        for server in &mut self.state.servers[..self.launched] {
            while !server.identify() && !process::has_given_up(&server.dir) && Instant::now() < deadline {
                std::thread::sleep(EVERY);
            }
        }
        self.place.stop(&self.state, STOP_TIMEOUT).map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.undo();
        }
    }
}

async fn accepts(port: u16) -> bool {
    tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok()
}

/// Writes a file, because every user can see the arguments of a process.
fn write_configuration(dir: &Path, port: u16, arguments: &StartArgs) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    fs::DirBuilder::new().mode(0o700).create(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    let mut text = format!(
        "port {port}\nbind 127.0.0.1\nprotected-mode yes\ncluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout {}\n\
         daemonize yes\nsupervised no\npidfile pid\nlogfile log\ndir {}\nsave \"\"\nappendonly no\nrepl-diskless-sync-delay 0\n",
        arguments.node_timeout.as_millis(),
        quoted(&dir.display().to_string()),
    );
    if let Some(password) = &arguments.password {
        let password = quoted(password);
        text.push_str(&format!("requirepass {password}\nmasterauth {password}\n"));
    }
    for line in &arguments.config {
        text.push_str(line);
        text.push('\n');
    }
    let path = dir.join("redis.conf");
    let file = fs::File::options().create_new(true).write(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("writing {}", path.display()))
}

/// As a server's configuration file quotes.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            other => format!("\\x{other:02x}"),
        })
        .collect();
    format!("\"{escaped}\"")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn are_free(first: u16, count: u16) -> Result<(), u16> {
    (first..first + count).flat_map(|port| [port, port + BUS_OFFSET]).find(|port| !is_free(*port)).map_or(Ok(()), Err)
}

/// Refuses ports that are taken, before anything is started.
fn usable(port: u16, count: u16) -> anyhow::Result<u16> {
    let last = u32::from(port) + u32::from(count) - 1 + u32::from(BUS_OFFSET);
    if last > u32::from(u16::MAX) {
        bail!(UsageError(format!(
            "--port {port}: {count} servers and their bus ports ({BUS_OFFSET} above) end beyond 65535"
        )));
    }
    match are_free(port, count) {
        Ok(()) => Ok(port),
        Err(taken) => bail!(
            "port {taken} is taken: another --port, or --port 0 for free ones ({count} servers from {port} on, and their bus ports {BUS_OFFSET} above)"
        ),
    }
}

fn free_ports(count: u16) -> anyhow::Result<u16> {
    let room = FREE_PORTS.len() - usize::from(count);
    // Processes begin at different places, so they seldom meet.
    let first = std::process::id() as usize * 61 % room;
    let candidates = (first..room).chain(0..first).step_by(usize::from(count));
    let mut candidates = candidates.filter_map(|at| FREE_PORTS.start.checked_add(u16::try_from(at).ok()?));
    candidates.find(|port| are_free(*port, count).is_ok()).context("no free ports for so many servers")
}
