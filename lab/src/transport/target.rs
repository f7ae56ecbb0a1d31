//! What requests are sent to: a service behind a front, or a service alone, as running processes.

mod admin;
mod bare;
mod nginx;
mod on_demand;
mod pilotlight;

use std::cell::Cell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;

use super::cases::{Case, Front, Variant};
use super::peers::Peers;
use super::services::{Server, Service};
use crate::processes::Reaper;

/// The longest that a front may take until it listens.
pub(crate) const LISTEN_LIMIT: Duration = Duration::from_secs(15);

/// Something that answers, with its processes.
pub(crate) trait Target {
    /// One request and its whole answer.
    ///
    /// # Errors
    /// There is none, or another one than the service gives.
    fn request(&mut self) -> anyhow::Result<Duration>;

    /// Stops the service, so that the next request has to start it; comes back when its process is gone.
    ///
    /// # Errors
    /// It cannot be stopped.
    fn make_cold(&mut self) -> anyhow::Result<()>;

    /// Whether the last answer came from a cache.
    fn was_cached(&self) -> bool;

    /// Where the time of the last answer went, in milliseconds, as the front says it; most say nothing.
    fn phases(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Its processes as they are now.
    fn processes(&self) -> Processes;
}

/// Process ids of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processes {
    /// Those of the front.
    pub(crate) gateway: Vec<u32>,
    /// Those of the service.
    pub(crate) service: Vec<u32>,
}

/// What targets are made of.
#[derive(Debug)]
pub(crate) struct Setup {
    /// A folder of this run.
    pub(crate) scratch: PathBuf,
    /// The services that can be started.
    pub(crate) services: Vec<Service>,
    /// The other gateways that are there.
    pub(crate) peers: Peers,
    /// What ends the services that the lab starts itself.
    pub(crate) reaper: Rc<Reaper>,
    /// How many targets have been started.
    pub(crate) started: Cell<u32>,
}

impl Setup {
    /// Starts what this variant needs. The service itself may be started only by the first request.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(&self, variant: &Variant) -> anyhow::Result<Box<dyn Target>> {
        self.start_among(variant, 0)
    }

    /// The same; where the front is Pilotlight, among so many other services that nobody asks for.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start_among(&self, variant: &Variant, others: u32) -> anyhow::Result<Box<dyn Target>> {
        // A number, because paths of sockets must be short.
        self.started.set(self.started.get() + 1);
        let dir = self.scratch.join(self.started.get().to_string());
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(match variant.front {
            Front::Pilotlight => {
                Box::new(pilotlight::Pilotlight::start(dir, variant.case, self.server(variant)?, others)?)
            }
            Front::Bare => Box::new(bare::Bare::new(dir, variant.case, self.server(variant)?, Rc::clone(&self.reaper))),
            Front::Nginx => {
                Box::new(nginx::Nginx::start(dir, variant.case, self.server(variant)?, self.peers.nginx()?)?)
            }
            Front::Uwsgi => Box::new(on_demand::OnDemand::start(dir, self.peers.uwsgi()?)?),
            Front::ModFcgid => Box::new(on_demand::OnDemand::start(dir, self.peers.mod_fcgid()?)?),
        })
    }

    fn server(&self, variant: &Variant) -> anyhow::Result<&Server> {
        let service = self.services.iter().find(|service| service.language == variant.language);
        let service = service.with_context(|| format!("no {} service", variant.language.title()))?;
        match variant.case {
            Case::Cached | Case::PipeWarm | Case::PipeCold if variant.front != Front::Nginx => Ok(&service.pipe),
            _ => service.http.iter().find(|server| server.name == variant.server).context("no such server"),
        }
    }
}

/// A TCP address that is free now, for programs that cannot be told to take any. Another program may take it in
/// between; then the start fails, and says so.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// Whether somebody listens, looked up so that no connection is made: one would start what starts on demand.
pub(crate) fn listens(address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else { return false };
    let ip = u32::from_le_bytes(address.ip().octets());
    // "  0: 0100007F:1F90 00000000:0000 0A …": local, remote, state LISTEN
    let local = format!("{ip:08X}:{:04X}", address.port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("0A")
    })
}

/// A path as text for a configuration file.
pub(crate) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_is_seen_without_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        assert!(listens(address));
        drop(listener);
        assert!(!listens(address));
    }
}
