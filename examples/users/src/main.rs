//! Example: a REST service with its users in SQLite and cache-aside in Redis, over the pipe behind a gateway or alone
//! over HTTP.
//!
//! `main` reads arguments and wires the parts together: [`http`] and [`pipe`] take requests, [`api`] answers them,
//! [`store`] is SQLite, [`cache`] is Redis or memory, [`user`] knows what a valid user is, [`json`] writes it,
//! [`problem`] words every refusal. `docs/guide/users-service.md` goes through it.

mod api;
mod cache;
mod http;
mod json;
mod pipe;
mod problem;
mod store;
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use clap::builder::RangedU64ValueParser;

use crate::api::Api;
use crate::cache::Shared;
use crate::store::{Store, StoreSettings};

/// Requests make many small allocations; the gateway uses the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit code of a service that cannot do its work.
const FAILED: u8 = 1;

/// Users in SQLite, with cache-aside in Redis. Behind pilotlight (see `command` in pilotlight.toml), or alone with
/// --listen.
#[derive(Parser, Debug)]
#[command(name = "users", version)]
struct Arguments {
    /// The database file; created and filled with 10,000 users on first use
    #[arg(long, value_name = "PATH", default_value = "data/users.db")]
    db: PathBuf,
    /// Make no index of ids: nothing but the table, for programs that must find it so; pages of the list take longer
    #[arg(long)]
    no_index: bool,
    /// Serve HTTP on this address, without a gateway; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Keep users in Redis or Valkey: redis://HOST, or redis+cluster://HOST,HOST; without it in this process's memory
    #[arg(long, value_name = "URL", env = "USERS_REDIS", hide_env_values = true)]
    redis: Option<String>,
    /// Threads that answer requests, with --listen; default: one for each core
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    threads: Option<usize>,
    /// Connections of each thread, with --listen; those above wait
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    max_connections: usize,
    /// Writes that may wait for the writer; those above are answered with 503
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    max_waiting_writes: usize,
    /// Milliseconds that another process may hold the database's write lock before writes are answered with 503
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(..=600_000))]
    lock_wait_ms: u64,
    /// Milliseconds that a command to Redis may take before the request goes on without it
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    redis_budget_ms: u64,
    /// Bytes of users in this process's memory, without --redis
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    max_cache_bytes: u64,
    /// Seconds that open requests get to finish after SIGTERM, with --listen
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=3600))]
    grace_s: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("users: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.db.clone();
    let settings = StoreSettings {
        max_waiting_writes: arguments.max_waiting_writes,
        lock_wait: Duration::from_millis(arguments.lock_wait_ms),
        index: !arguments.no_index,
    };
    let store = Store::open(&path, settings).with_context(|| format!("cannot open the database {}", path.display()))?;
    let cache = match &arguments.redis {
        Some(url) => Shared::redis(url, Duration::from_millis(arguments.redis_budget_ms)).context("--redis")?,
        None => Shared::memory(arguments.max_cache_bytes),
    };
    let cache = Arc::new(cache);
    let make = {
        let store = store.handle();
        move || -> anyhow::Result<Rc<Api>> { Ok(Rc::new(Api::new(store.reader()?, store.writer(), cache.worker()?))) }
    };
    match arguments.listen {
        None => pipe::serve(&make()?)?,
        Some(address) => {
            let settings = http::Settings {
                address,
                threads: arguments
                    .threads
                    .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
                max_connections: arguments.max_connections,
                grace: Duration::from_secs(arguments.grace_s),
            };
            http::serve(&settings, make)?;
        }
    }
    // What waits is written, and the log is folded into the database.
    drop(store);
    Ok(())
}
