//! Redis for the services: one server, or a cluster of five primaries as published; no replicas, nothing on the disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;

use super::ports::free_address;
use crate::experiment::model::Skipped;
use crate::interrupt;
use crate::processes::{Held, Program, find_program};

const PRIMARIES: usize = 5;
const SLOTS: usize = 16_384;
const START_LIMIT: Duration = Duration::from_secs(15);
const FORM_LIMIT: Duration = Duration::from_secs(30);
const REPLY_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

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
pub(crate) struct Redis {
    pub(crate) topology: Topology,
    servers: Vec<(Held, SocketAddr)>,
}

impl Redis {
    pub(crate) fn start(topology: Topology, dir: &Path) -> anyhow::Result<Self> {
        Self::start_with(topology, dir, &[])
    }

    /// With more options for each server.
    pub(crate) fn start_with(topology: Topology, dir: &Path, more: &[OsString]) -> anyhow::Result<Self> {
        Self::start_servers(topology, if topology == Topology::Cluster { PRIMARIES } else { 1 }, dir, more)
    }

    /// A cluster of so many primaries.
    pub(crate) fn start_cluster(primaries: usize, dir: &Path) -> anyhow::Result<Self> {
        Self::start_servers(Topology::Cluster, primaries, dir, &[])
    }

    fn start_servers(topology: Topology, count: usize, dir: &Path, more: &[OsString]) -> anyhow::Result<Self> {
        let program = program().context("there is no redis-server and no valkey-server in the PATH")?;
        let mut servers = Vec::new();
        for number in 0..count {
            let dir = dir.join(format!("redis-{topology:?}-{number}").to_lowercase());
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let address = free_address()?;
            let port = address.port().to_string();
            let mut command = vec![program.clone().into_os_string()];
            let cluster = if topology == Topology::Cluster { "yes" } else { "no" };
            let options = [
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--cluster-enabled",
                cluster,
            ];
            command.extend(options.map(Into::into));
            command.extend_from_slice(more);
            let output = dir.join("output");
            let mut held = Program { name: "redis-server".into(), command, dir, output }.start()?;
            held.wait_until(START_LIMIT, "it answers", |_| ask(address, &["PING"]).ok())?;
            servers.push((held, address));
        }
        let redis = Self { topology, servers };
        if topology == Topology::Cluster {
            redis.form()?;
        }
        Ok(redis)
    }

    /// The port of a server, of whom clients learn the others.
    pub(crate) fn port(&self) -> u16 {
        self.servers.first().map_or(0, |(_, address)| address.port())
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.topology == Topology::Cluster { "redis+cluster" } else { "redis" };
        format!("{scheme}://{}:{}", Ipv4Addr::LOCALHOST, self.port())
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(|(held, _)| held.pid()).collect()
    }

    /// Writes a value to the one server there is.
    pub(crate) fn set(&self, key: &str, value: &str) -> anyhow::Result<()> {
        self.servers.iter().take(1).try_for_each(|(_, address)| ask(*address, &["SET", key, value]).map(drop))
    }

    /// Keys of all servers.
    pub(crate) fn keys(&self) -> anyhow::Result<u64> {
        self.sum(|address| Ok(ask(address, &["DBSIZE"])?.trim_start_matches(':').parse()?))
    }

    /// Reads of all servers that found their key.
    pub(crate) fn hits(&self) -> anyhow::Result<u64> {
        Ok(self.counters("stats")?.get("keyspace_hits").copied().unwrap_or(0))
    }

    /// The whole numbers of a section of INFO, added up over all servers.
    pub(crate) fn counters(&self, section: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut counters = BTreeMap::new();
        for (_, address) in &self.servers {
            for line in ask(*address, &["INFO", section])?.lines() {
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
        self.servers.iter().map(|(_, address)| *address).collect()
    }

    /// The number of the server that has a slot.
    pub(crate) fn owner(&self, slot: u16) -> usize {
        (usize::from(slot) / (SLOTS / self.servers.len())).min(self.servers.len() - 1)
    }

    fn sum(&self, of: impl Fn(SocketAddr) -> anyhow::Result<u64>) -> anyhow::Result<u64> {
        self.servers.iter().map(|(_, address)| of(*address)).sum()
    }

    /// Forgets everything.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        self.servers.iter().try_for_each(|(_, address)| ask(*address, &["FLUSHALL"]).map(drop))
    }

    fn form(&self) -> anyhow::Result<()> {
        let count = self.servers.len();
        let share = SLOTS / count;
        let seed = self.port().to_string();
        for (number, (_, address)) in self.servers.iter().enumerate() {
            let first = number * share;
            let last = if number + 1 == count { SLOTS - 1 } else { first + share - 1 };
            // CLUSTER ADDSLOTSRANGE would need Redis 7.
            let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
            let command: Vec<&str> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            ask(*address, &command)?;
            ask(*address, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            if number > 0 {
                ask(*address, &["CLUSTER", "MEET", "127.0.0.1", &seed])?;
            }
        }
        let end = Instant::now() + FORM_LIMIT;
        let agreed = |address| {
            ask(address, &["CLUSTER", "INFO"])
                .is_ok_and(|info| info.contains("cluster_state:ok") && info.contains(&format!("cluster_size:{count}")))
        };
        while !self.servers.iter().all(|(_, address)| agreed(*address)) {
            ensure!(Instant::now() < end, "the cluster has not formed within {} s", FORM_LIMIT.as_secs());
            interrupt::check()?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// One command on a connection of its own; the reply as text.
fn ask(address: SocketAddr, words: &[&str]) -> anyhow::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, REPLY_LIMIT)?;
    socket.set_read_timeout(Some(REPLY_LIMIT))?;
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    socket.write_all(command.as_bytes())?;
    let (mut reply, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut piece)?;
        ensure!(read > 0, "redis-server closed the connection");
        reply.extend_from_slice(&piece[..read]);
        if let Some(text) = whole(&reply) {
            return match text.strip_prefix('-') {
                Some(error) => bail!("{} {}: {error}", words[0], words.get(1).unwrap_or(&"")),
                None => Ok(text),
            };
        }
    }
}

/// A simple string, an error or a bulk string, if it is whole.
fn whole(reply: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(reply).ok()?;
    let (line, rest) = text.split_once("\r\n")?;
    match line.strip_prefix('$') {
        None => Some(line.to_owned()),
        Some(length) => rest.get(..length.parse().ok()?).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        assert_eq!(whole(b"+OK\r\n").as_deref(), Some("+OK"));
        assert_eq!(whole(b"-ERR no\r\n").as_deref(), Some("-ERR no"));
        assert_eq!(whole(b"$3\r\nab"), None);
        assert_eq!(whole(b"$3\r\nabc\r\n").as_deref(), Some("abc"));
    }
}
