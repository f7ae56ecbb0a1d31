//! What is under load: a gateway, and what stands behind it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use super::gateways::{Behind, Gateway};
use super::origin::Origin;
use crate::cores;
use crate::load::Target;
use crate::processes::{Held, Program, gateway_program, usage};
use crate::transport::services::Server as Service;
use crate::transport::target::{LISTEN_LIMIT, free_address, listens, text};

const CACHE_MEMORY: &str = "64MiB";

/// Where servers are started.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// A folder of this server.
    pub(super) dir: PathBuf,
    /// The core of all its processes.
    pub(super) core: Option<usize>,
}

/// What a gateway of ours has behind it.
pub(super) enum Backing<'a> {
    /// An origin, whose answers it stores.
    Cache(&'a Origin),
    /// A service that somebody has started, on this Unix socket.
    Http(&'a Path),
    /// A service that it starts, over the pipe.
    Pipe(&'a Service),
}

/// Running processes that answer. Fields are dropped in this order: who asks before who is asked.
#[derive(Debug)]
pub(super) struct Server {
    /// Where it takes requests.
    pub(super) to: Target,
    /// What takes them; of a service alone there is none.
    front: Option<Held>,
    /// Whether what the front has started is a service: else it is the front's own.
    starts_service: bool,
    service: Option<Held>,
    origin: Option<Origin>,
    /// What a peer keeps in memory.
    _memory: Option<TempDir>,
}

/// Process ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Processes {
    pub(super) gateway: Vec<u32>,
    pub(super) service: Vec<u32>,
}

impl Server {
    /// A program that answers by itself and takes a port as its argument.
    pub(super) fn bare(name: &str, program: &Path, place: Place) -> anyhow::Result<Self> {
        let (front, address) = on_port(name, program, &[], place)?;
        Ok(Self::of(address, front))
    }

    /// The floor of passing on before a service.
    pub(super) fn floor(
        name: &str,
        program: &Path,
        mode: &str,
        service: &Service,
        place: Place,
    ) -> anyhow::Result<Self> {
        let (service, socket) = started(service, &place)?;
        let (front, address) = on_port(name, program, &[socket.into(), mode.into()], place)?;
        Ok(Self { service: Some(service), ..Self::of(address, front) })
    }

    /// A service that is asked without a gateway.
    pub(super) fn alone(service: &Service, place: &Place) -> anyhow::Result<Self> {
        let (service, socket) = started(service, place)?;
        let to = Target::Unix(socket);
        Ok(Self { to, front: None, starts_service: false, service: Some(service), origin: None, _memory: None })
    }

    /// Another gateway as a cache before an origin.
    pub(super) fn cache(gateway: &Gateway, place: &Place) -> anyhow::Result<Self> {
        let origin = Origin::start()?;
        let memory = memory_folder()?;
        let folders = (place.dir.as_path(), memory.path());
        let (front, address) = gateway.start(&Behind::Origin(origin.address()), folders, place.core)?;
        Ok(Self { origin: Some(origin), _memory: Some(memory), ..Self::of(address, front) })
    }

    /// Another gateway before a service.
    pub(super) fn proxy(gateway: &Gateway, service: &Service, place: &Place) -> anyhow::Result<Self> {
        let (service, socket) = started(service, place)?;
        let folders = (place.dir.as_path(), place.dir.as_path());
        let (front, address) = gateway.start(&Behind::Service(socket), folders, place.core)?;
        Ok(Self { service: Some(service), ..Self::of(address, front) })
    }

    /// Pilotlight as a cache.
    pub(super) fn own_cache(place: Place) -> anyhow::Result<Self> {
        let origin = Origin::start()?;
        let (front, address) = pilotlight(&Backing::Cache(&origin), place)?;
        Ok(Self { origin: Some(origin), ..Self::of(address, front) })
    }

    /// Pilotlight before a service over HTTP.
    pub(super) fn own_http(service: &Service, place: Place) -> anyhow::Result<Self> {
        let (service, socket) = started(service, &place)?;
        let (front, address) = pilotlight(&Backing::Http(&socket), place)?;
        Ok(Self { service: Some(service), ..Self::of(address, front) })
    }

    /// Pilotlight before a service over the pipe.
    pub(super) fn own_pipe(service: &Service, place: Place) -> anyhow::Result<Self> {
        let (front, address) = pilotlight(&Backing::Pipe(service), place)?;
        Ok(Self { starts_service: true, ..Self::of(address, front) })
    }

    /// A front alone.
    fn of(address: SocketAddr, front: Held) -> Self {
        Self {
            to: address.into(),
            front: Some(front),
            starts_service: false,
            service: None,
            origin: None,
            _memory: None,
        }
    }

    /// How many requests the origin has had.
    pub(super) fn asked(&self) -> u64 {
        self.origin.as_ref().map_or(0, Origin::asked)
    }

    /// Its processes as they are now.
    pub(super) fn processes(&self) -> Processes {
        let of = |held: &Held| usage::tree(held.pid());
        let (front, apart) = (self.front.as_ref().map(of).unwrap_or_default(), self.service.as_ref().map(of));
        let root = front.first().map(|process| process.pid);
        // Of Pilotlight: the gateway, its guardian (its only child), and what the guardian has started.
        let own = |process: &usage::Process| {
            !self.starts_service || Some(process.pid) == root || Some(process.parent) == root
        };
        let (gateway, service): (Vec<_>, Vec<_>) = front.into_iter().partition(own);
        let pids = |processes: Vec<usage::Process>| processes.into_iter().map(|process| process.pid).collect();
        Processes {
            gateway: pids(gateway),
            service: pids(service.into_iter().chain(apart.into_iter().flatten()).collect()),
        }
    }

    /// The last line that its front has printed, for messages.
    pub(super) fn last_words(&self) -> Option<String> {
        let output = self.front.as_ref().or(self.service.as_ref())?.output();
        Some(output.trim().lines().next_back()?.replace(char::is_control, " "))
    }
}

/// A program that takes a port and these arguments, once it listens there.
fn on_port(name: &str, program: &Path, more: &[OsString], place: Place) -> anyhow::Result<(Held, SocketAddr)> {
    let address = free_address()?;
    let mut command: Vec<OsString> = vec![program.into(), address.port().to_string().into()];
    command.extend_from_slice(more);
    let program = Program { name: name.into(), command, output: place.dir.join("output"), dir: place.dir };
    let mut front = cores::on(place.core, || program.start())??;
    front.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
    Ok((front, address))
}

/// A service on a Unix socket.
fn started(service: &Service, place: &Place) -> anyhow::Result<(Held, PathBuf)> {
    let socket = place.dir.join("service.sock");
    if socket.exists() {
        fs::remove_file(&socket).with_context(|| format!("cannot remove {}", socket.display()))?;
    }
    let mut command = service.command.clone();
    command.push(socket.clone().into());
    let output = place.dir.join("service.output");
    let program = Program { name: service.name.into(), command, dir: place.dir.clone(), output };
    let mut held = cores::on(place.core, || program.start())??;
    held.wait_until(LISTEN_LIMIT, "it listens", |_| UnixStream::connect(&socket).ok())?;
    Ok((held, socket))
}

fn pilotlight(backing: &Backing<'_>, place: Place) -> anyhow::Result<(Held, SocketAddr)> {
    let file = place.dir.join("pilotlight.toml");
    fs::write(&file, configuration(backing)?).with_context(|| format!("cannot write {}", file.display()))?;
    let program = Program {
        name: "pilotlight".into(),
        command: vec![gateway_program()?.into(), "run".into(), "--config".into(), file.into()],
        output: place.dir.join("gateway.output"),
        dir: place.dir,
    };
    let mut held = cores::on(place.core, || program.start())??;
    let address = held.listening(LISTEN_LIMIT)?;
    Ok((held, address))
}

/// One worker, because there is one core.
fn configuration(backing: &Backing<'_>) -> anyhow::Result<String> {
    // JSON's strings and lists are TOML's as well.
    let (service, cache) = match backing {
        Backing::Cache(origin) => (format!("url = \"http://{}\"", origin.address()), "\"10h\""),
        Backing::Http(socket) => {
            (format!("url = {}", serde_json::to_string(&format!("unix:{}", text(socket)?))?), "false")
        }
        Backing::Pipe(service) => {
            let words = service.command.iter().map(|word| text(word.as_ref()));
            let command = serde_json::to_string(&words.collect::<anyhow::Result<Vec<_>>>()?)?;
            (format!("command = {command}\ntransport = \"pipe\""), "false")
        }
    };
    Ok(format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\n\n[cache]\nmemory = \"{CACHE_MEMORY}\"\n\n[services.lab]\n{service}\n\n\
         [[routes]]\npath = \"/\"\nservice = \"lab\"\ncache = {cache}\n"
    ))
}

/// For the report: what is set of Pilotlight, and why.
pub(super) fn own_settings(cached: bool) -> Vec<String> {
    let mut settings = vec!["workers = 1 (one core)".to_owned()];
    if cached {
        settings.push(format!("cache.memory = {CACHE_MEMORY} (as much as the others)"));
    }
    settings
}

/// A folder in memory where the system has one: a cache in files costs its owner least there.
pub(crate) fn memory_folder() -> anyhow::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("pilotlight-lab-");
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { builder.tempdir_in(shared) } else { builder.tempdir() };
    folder.context("cannot make a folder for a cache in files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::services::Socket;

    #[test]
    fn words_of_commands_and_paths_are_quoted() {
        let command = vec!["/a \"b\"/python".into(), "c".into()];
        let service = Service { name: "SDK", socket: Socket::InheritedOrPath, scripts: None, command };
        let text = configuration(&Backing::Pipe(&service)).expect("UTF-8");
        assert!(text.contains(r#"command = ["/a \"b\"/python","c"]"#), "{text}");
        let text = configuration(&Backing::Http(Path::new("/a \"b\"/s"))).expect("UTF-8");
        assert!(text.contains(r#"url = "unix:/a \"b\"/s""#) && text.contains("cache = false"), "{text}");
    }
}
