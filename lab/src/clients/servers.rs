//! The cluster: five primaries that the lab starts, with every key of every workload.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use pilotlight_redis::Slot;

use super::variant::version_of;
use super::workload::{KEYS, PUBLISHED_BYTES, VALUES, published_keys};
use crate::experiment::model::Software;
use crate::processes::{find_program, usage};
use crate::rest::redis::{Redis, Topology};

/// Commands that are written before their replies are read.
const AT_ONCE: usize = 1000;
const REPLY_LIMIT: Duration = Duration::from_secs(20);
const OK: &[u8] = b"+OK\r\n";

/// What is started.
fn program() -> Option<&'static str> {
    ["redis-server", "valkey-server"].into_iter().find(|name| find_program(name).is_some())
}

/// Whether there is a server to start.
pub(super) fn is_installed() -> bool {
    program().is_some()
}

/// The servers, for the report.
pub(super) fn software() -> Option<Software> {
    let name = program()?;
    let settings = vec!["five primaries".into(), "save \"\"".into(), "appendonly no".into()];
    Some(Software { name: name.into(), version: version_of(name), settings })
}

/// Running servers.
#[derive(Debug)]
pub(super) struct Servers {
    redis: Redis,
    /// redis-benchmark has keys of its own, which are written when it is first measured.
    pub(super) has_benchmark_keys: bool,
    has_published_keys: bool,
}

/// What the servers have used and counted so far.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    cpu: Duration,
    counted: BTreeMap<String, u64>,
}

impl Counters {
    /// CPU time since then.
    pub(super) fn cpu_since(&self, before: &Self) -> Duration {
        self.cpu.saturating_sub(before.cpu)
    }

    /// By how much a counter of `INFO stats` has grown.
    pub(super) fn grown(&self, name: &str, before: &Self) -> u64 {
        let of = |counters: &Self| counters.counted.get(name).copied().unwrap_or(0);
        of(self).saturating_sub(of(before))
    }
}

impl Servers {
    pub(super) fn start() -> anyhow::Result<Self> {
        let servers =
            Self { redis: Redis::start(Topology::Cluster)?, has_benchmark_keys: false, has_published_keys: false };
        servers.fill().context("filling the cluster")?;
        Ok(servers)
    }

    /// Of the first of them, of whom clients learn the others.
    pub(super) fn port(&self) -> u16 {
        self.redis.port()
    }

    /// Of the one that has a key.
    pub(super) fn port_of(&self, key: &str) -> u16 {
        self.redis.addresses()[self.redis.owner(Slot::of(key.as_bytes()).number())].port()
    }

    /// Forgets everything.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        self.redis.flush()
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.redis.addresses().iter().map(SocketAddr::port).collect()
    }

    pub(super) fn counters(&self) -> anyhow::Result<Counters> {
        Ok(Counters { cpu: usage::cpu_time(&self.redis.pids()), counted: self.redis.counters("stats")? })
    }

    fn fill(&self) -> anyhow::Result<()> {
        let keys = VALUES
            .into_iter()
            .flat_map(|(prefix, bytes)| (0..KEYS).map(move |number| (format!("{prefix}:{number}"), bytes)));
        self.write(keys)
    }

    /// The keys of the published workloads, when the first of them is measured.
    pub(super) fn fill_published(&mut self) -> anyhow::Result<()> {
        if !self.has_published_keys {
            self.write(published_keys().map(|key| (key, PUBLISHED_BYTES))).context("the published keys")?;
            self.has_published_keys = true;
        }
        Ok(())
    }

    /// Keys, with values of so many bytes.
    pub(super) fn write(&self, keys: impl Iterator<Item = (String, usize)>) -> anyhow::Result<()> {
        let addresses = self.redis.addresses();
        let mut commands: Vec<Vec<Vec<u8>>> = vec![Vec::new(); addresses.len()];
        for (key, bytes) in keys {
            let node = self.redis.owner(Slot::of(key.as_bytes()).number());
            commands[node].push(set(key.as_bytes(), &vec![b'x'; bytes]));
        }
        for (address, commands) in addresses.iter().zip(&commands) {
            let mut socket = TcpStream::connect_timeout(address, REPLY_LIMIT)?;
            socket.set_read_timeout(Some(REPLY_LIMIT))?;
            for commands in commands.chunks(AT_ONCE) {
                socket.write_all(&commands.concat())?;
                let mut replies = vec![0; OK.len() * commands.len()];
                socket.read_exact(&mut replies)?;
                ensure!(
                    replies.chunks(OK.len()).all(|reply| reply == OK),
                    "{address} answered a SET with {}",
                    replies[..replies.len().min(80)].escape_ascii()
                );
            }
        }
        Ok(())
    }
}

fn set(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).into_bytes();
    out.extend_from_slice(key);
    out.extend_from_slice(format!("\r\n${}\r\n", value.len()).as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    out
}
