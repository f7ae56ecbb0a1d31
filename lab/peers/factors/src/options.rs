//! The command line: `--db PATH --redis URL --listen ADDRESS:PORT [--threads COUNT]`, as examples/users takes it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// What a program is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// A database that examples/users has filled.
    pub db: PathBuf,
    /// Redis, with options of the client: `redis://localhost?lanes=2`.
    pub redis: String,
    /// Port 0: any free one.
    pub listen: SocketAddr,
    /// Threads that answer requests. Default: one for each core.
    pub threads: usize,
}

impl Options {
    /// Reads arguments.
    ///
    /// # Errors
    /// One is missing, unknown, or makes no sense.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let (mut db, mut redis, mut listen) = (None, None, None);
        let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
        while let Some(name) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{name} has no value"))?;
            match name.as_str() {
                "--db" => db = Some(value.into()),
                "--redis" => redis = Some(value),
                "--listen" => listen = Some(value.parse().with_context(|| format!("--listen {value}"))?),
                "--threads" => threads = value.parse().with_context(|| format!("--threads {value}"))?,
                _ => bail!("{name} is not known: there are --db, --redis, --listen, --threads"),
            }
        }
        Ok(Self {
            db: db.context("--db is missing")?,
            redis: redis.context("--redis is missing")?,
            listen: listen.context("--listen is missing")?,
            threads: threads.max(1),
        })
    }
}
