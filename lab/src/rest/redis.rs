//! Redis for what is measured: one server, or a cluster of five primaries as published; no replicas, nothing on the
//! disk. The testkit starts and ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use pilotlight_testkit::{Cluster, Server};

use crate::experiment::model::Skipped;
use crate::processes::find_program;

const PRIMARIES: usize = 5;
const SLOTS: usize = 16_384;
/// Redis' default. Under load a server is silent for longer than a test would wait.
const NODE_TIMEOUT: Duration = Duration::from_secs(15);

/// What Redis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Topology {
    /// one server
    Standalone,
    /// five primaries
    Cluster,
}

/// The server that is installed.
pub(crate) fn program() -> Option<PathBuf> {
    find_program("redis-server").or_else(|| find_program("valkey-server"))
}

/// Why something that needs a server cannot be measured.
pub(crate) fn missing(what: &str) -> Option<Skipped> {
    let why = "there is no redis-server and no valkey-server in the PATH";
    program().is_none().then(|| Skipped::new(what, why, "apt install redis-server"))
}

/// Running servers.
#[derive(Debug)]
pub(crate) enum Redis {
    One(Box<Server>),
    Cluster(Cluster),
}

impl Redis {
    pub(crate) fn start(topology: Topology) -> anyhow::Result<Self> {
        Self::start_with(topology, &[])
    }

    /// With more lines in the configuration of each server.
    pub(crate) fn start_with(topology: Topology, lines: &[String]) -> anyhow::Result<Self> {
        match topology {
            Topology::Cluster => Self::start_cluster(PRIMARIES, lines),
            Topology::Standalone => {
                let server = lines.iter().fold(Server::builder(), |it, line| it.config(line));
                Ok(Self::One(Box::new(server.start()?)))
            }
        }
    }

    /// A cluster of so many primaries.
    pub(crate) fn start_cluster(primaries: usize, lines: &[String]) -> anyhow::Result<Self> {
        let cluster = Cluster::builder().masters(primaries).node_timeout(NODE_TIMEOUT);
        Ok(Self::Cluster(lines.iter().fold(cluster, |it, line| it.config(line)).start()?))
    }

    pub(crate) fn topology(&self) -> Topology {
        match self {
            Self::One(_) => Topology::Standalone,
            Self::Cluster(_) => Topology::Cluster,
        }
    }

    /// In the order of their slots.
    fn servers(&self) -> Vec<&Server> {
        match self {
            Self::One(server) => vec![server],
            Self::Cluster(cluster) => cluster.nodes().iter().map(|node| node.server()).collect(),
        }
    }

    /// The port of a server, of whom clients learn the others.
    pub(crate) fn port(&self) -> u16 {
        self.servers()[0].port()
    }

    /// The Unix socket of the same.
    pub(crate) fn socket(&self) -> PathBuf {
        self.servers()[0].unix_path()
    }

    pub(crate) fn url(&self) -> String {
        let url = self.servers()[0].url();
        match self {
            Self::One(_) => url,
            Self::Cluster(_) => url.replacen("redis://", "redis+cluster://", 1),
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers().into_iter().filter_map(Server::pid).collect()
    }

    /// Writes a value to the one server there is.
    pub(crate) fn set(&self, key: &str, value: &str) -> anyhow::Result<()> {
        self.servers()[0].command(&["SET", key, value])?;
        Ok(())
    }

    /// Keys of all servers.
    pub(crate) fn keys(&self) -> anyhow::Result<u64> {
        let of = |server: &Server| {
            let reply = server.command(&["DBSIZE"])?;
            reply.integer().and_then(|keys| u64::try_from(keys).ok()).context("DBSIZE is no number")
        };
        self.servers().into_iter().map(of).sum()
    }

    /// Reads of all servers that found their key.
    pub(crate) fn hits(&self) -> anyhow::Result<u64> {
        Ok(self.counters("stats")?.get("keyspace_hits").copied().unwrap_or(0))
    }

    /// The whole numbers of a section of INFO, added up over all servers.
    pub(crate) fn counters(&self, section: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut counters = BTreeMap::new();
        for server in self.servers() {
            for line in server.command(&["INFO", section])?.text().lines() {
                let Some((name, value)) = line.split_once(':') else { continue };
                if let Ok(value) = value.trim().parse::<u64>() {
                    *counters.entry(name.to_owned()).or_default() += value;
                }
            }
        }
        Ok(counters)
    }

    /// Where the servers listen.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers().into_iter().map(Server::addr).collect()
    }

    /// The number of the server that has a slot.
    pub(crate) fn owner(&self, slot: u16) -> usize {
        ((usize::from(slot) + 1) * self.servers().len() - 1) / SLOTS
    }

    /// Forgets everything.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        self.servers().into_iter().try_for_each(|server| server.command(&["FLUSHALL"]).map(drop)).map_err(Into::into)
    }
}
