//! What is measured: examples/users alone and behind the gateway, and the peers. Each starts as a process of its own on
//! a copy of the seeded database.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;

use super::case::{Case, SLOW_FSYNC};
use super::redis::{Redis, Topology};
use crate::experiment::model::Skipped;
use crate::processes::{Held, Program, find_program, gateway_program, usage};
use crate::transport::target::free_address;

const START_LIMIT: Duration = Duration::from_secs(30);
/// Users of the gateway's cache are kept for so long, as in Redis.
const GATEWAY_TTL: &str = "60s";

/// Fixed, so that a heap that grows is no part of what is measured.
const JVM: [&str; 3] = ["-XX:+UseParallelGC", "-Xms512m", "-Xmx512m"];
const JVM_AND_SETTINGS: [&str; 7] = [
    JVM[0],
    JVM[1],
    JVM[2],
    "epoll, an event loop for each core",
    "2 reading threads for each core, 1 that writes",
    "Netty's flush consolidation on the connections to Redis",
    "a connection to SQLite for each thread",
];

/// What the published measurement of a service in Haskell has found best.
pub(crate) const BEST_RTS: [&str; 7] = ["+RTS", "-N", "-H1024m", "-A128m", "-n8m", "-qb", "-RTS"];
const HASKELL: [&str; 3] = [
    "-H1024m -A128m -n8m -qb, as published",
    "hedis's pool, of each primary in a cluster",
    "2 reading connections to SQLite for each core, 1 that writes",
];

/// A service, and how it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Variant {
    /// examples/users alone
    Users,
    /// examples/users behind the gateway, which caches nothing
    Gateway,
    /// examples/users behind the gateway, which caches for 60 s
    GatewayCache,
    /// axum, fred, rusqlite
    AxumFred,
    /// axum, redis-rs, rusqlite
    AxumRedis,
    /// net/http, rueidis, go-sqlite3
    GoRueidis,
    /// fastify, ioredis, better-sqlite3
    NodeIoredis,
    /// Vert.x, Lettuce, sqlite-jdbc
    JavaLettuce,
    /// Warp, hedis, SQLite
    HaskellWarp,
    /// ASP.NET Core, StackExchange.Redis, Microsoft.Data.Sqlite
    DotnetKestrel,
}

impl Variant {
    pub(super) const ALL: [Self; 10] = [
        Self::Users,
        Self::Gateway,
        Self::GatewayCache,
        Self::AxumFred,
        Self::AxumRedis,
        Self::GoRueidis,
        Self::NodeIoredis,
        Self::JavaLettuce,
        Self::HaskellWarp,
        Self::DotnetKestrel,
    ];

    /// As on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is, in a line.
    pub(super) fn description(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }

    pub(super) fn is_peer(self) -> bool {
        !matches!(self, Self::Users | Self::Gateway | Self::GatewayCache)
    }

    /// How long it is asked before anything counts, at least: until a compiler that works meanwhile has done most of
    /// its work.
    pub(super) fn min_warm_up(self) -> Duration {
        Duration::from_secs(match self {
            Self::JavaLettuce | Self::DotnetKestrel => 5,
            Self::NodeIoredis => 2,
            _ => 0,
        })
    }

    /// What it is told, and what its program has settled.
    pub(super) fn settings(self) -> &'static [&'static str] {
        const RUST: &[&str] = &["tokio's multi-thread runtime", "4 connections to SQLite", "mimalloc"];
        match self {
            Self::Users => &["--listen", "a thread for each core"],
            Self::Gateway => &["cache = false"],
            Self::GatewayCache => &["cache = \"60s\""],
            Self::AxumFred | Self::AxumRedis => RUST,
            Self::GoRueidis => &["auto-pipelining", "2 reading connections to SQLite for each core, 1 that writes"],
            Self::NodeIoredis => &["auto-pipelining", "1 process", "1 connection to SQLite"],
            Self::JavaLettuce => &JVM_AND_SETTINGS,
            Self::HaskellWarp => &HASKELL,
            Self::DotnetKestrel => &["as it comes", "pooled connections to SQLite, 1 writes"],
        }
    }
}

/// Where programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// examples/users.
    pub(crate) users: PathBuf,
    /// What `lab/peers/rest/build.sh` has built.
    pub(crate) peers: PathBuf,
}

impl Programs {
    /// The command of a variant's service; why there is none.
    pub(super) fn command(&self, variant: Variant) -> Result<Vec<OsString>, Skipped> {
        let skipped = |why: String, install: &str| Skipped { what: variant.name(), why, install: install.into() };
        let built = |name: &str| {
            let file = self.peers.join(name);
            let missing =
                || skipped(format!("there is no {}", file.display()), "build it with lab/peers/rest/build.sh");
            file.is_file().then(|| file.clone().into_os_string()).ok_or_else(missing)
        };
        match variant {
            Variant::Users | Variant::Gateway | Variant::GatewayCache => {
                let why = || format!("there is no {}", self.users.display());
                let missing = || skipped(why(), "build it with `cargo build --release -p users`");
                self.users.is_file().then(|| vec![self.users.clone().into_os_string()]).ok_or_else(missing)
            }
            Variant::AxumFred => Ok(vec![built("axum-fred")?]),
            Variant::AxumRedis => Ok(vec![built("axum-redis")?]),
            Variant::GoRueidis => Ok(vec![built("go-rueidis")?]),
            Variant::NodeIoredis => {
                let node = find_program("node");
                let node = node.ok_or_else(|| skipped("there is no node in the PATH".into(), "apt install nodejs"))?;
                built("node/node_modules/better-sqlite3/package.json")?;
                Ok(vec![node.into(), built("node/server.js")?])
            }
            Variant::HaskellWarp => {
                let command = vec![built("haskell-warp")?];
                Ok(command.into_iter().chain(BEST_RTS.map(OsString::from)).collect())
            }
            Variant::DotnetKestrel => {
                let dotnet = find_program("dotnet");
                let install = "install the .NET SDK, 8 or later, and build it with lab/peers/rest/build.sh dotnet";
                let dotnet = dotnet.ok_or_else(|| skipped("there is no dotnet in the PATH".into(), install))?;
                Ok(vec![dotnet.into(), built("dotnet/Users.dll")?])
            }
            Variant::JavaLettuce => {
                let java = find_program("java");
                let install = "apt install default-jdk-headless maven";
                let java = java.ok_or_else(|| skipped("there is no java in the PATH".into(), install))?;
                built("java/classes/Main.class")?;
                let mut path = self.peers.join("java/classes").into_os_string();
                path.push(":");
                path.push(self.peers.join("java/dependency/*"));
                let options = JVM.into_iter().chain(["-cp"]).map(OsString::from);
                Ok([java.into()].into_iter().chain(options).chain([path, "Main".into()]).collect())
            }
        }
    }

    /// What a variant is made of, with versions.
    pub(super) fn version(&self, variant: Variant) -> String {
        if !variant.is_peer() {
            return env!("CARGO_PKG_VERSION").into();
        }
        let said = fs::read_to_string(self.peers.join(format!("{}.versions", variant.name())));
        said.map_or_else(|_| "versions unknown: not built by this build.sh".into(), |line| line.trim().to_owned())
    }

    /// What a variant is, with its version and settings.
    pub(super) fn about(&self, variant: Variant) -> String {
        format!("{} ({}; {})", variant.description(), self.version(variant), variant.settings().join(", "))
    }

    /// The library that makes a disk slow; why there is none.
    pub(super) fn slow_disk(&self) -> Result<PathBuf, Skipped> {
        let file = self.peers.join("slowsync.so");
        let missing = || Skipped {
            what: "post-slow, post-slow100, mixed-slow".into(),
            why: format!("there is no {}", file.display()),
            install: "build it with lab/peers/rest/build.sh slowsync".into(),
        };
        file.is_file().then(|| file.clone()).ok_or_else(missing)
    }
}

/// What is missing, as an error.
fn missing(Skipped { why, install, .. }: Skipped) -> anyhow::Error {
    anyhow::anyhow!("{why}; {install}")
}

/// A running service.
#[derive(Debug)]
pub(super) struct Running {
    held: Held,
    pub(super) address: SocketAddr,
}

impl Running {
    /// Starts a variant in `dir`, on a database of its own.
    pub(super) fn start(
        programs: &Programs,
        variant: Variant,
        case: Case,
        (redis, seed): (&Redis, &Path),
        dir: PathBuf,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let db = dir.join("users.db");
        fs::copy(seed, &db).with_context(|| format!("cannot copy {}", seed.display()))?;
        let service = programs.command(variant).map_err(missing)?;
        let mut environment: Vec<(String, OsString)> = Vec::new();
        if case.is_slow() {
            environment.push(("LD_PRELOAD".into(), programs.slow_disk().map_err(missing)?.into()));
            environment.push(("SLOWSYNC_US".into(), SLOW_FSYNC.as_micros().to_string().into()));
        }
        let own: [OsString; 4] = ["--db".into(), db.clone().into(), "--redis".into(), redis.url().into()];
        match variant {
            Variant::Users => {
                let arguments = own.into_iter().chain(["--listen".into(), "127.0.0.1:0".into()]);
                Self::listening(start(variant, environment, service.into_iter().chain(arguments), dir)?)
            }
            Variant::Gateway | Variant::GatewayCache => {
                let file = dir.join("pilotlight.toml");
                let service: Vec<OsString> = service.into_iter().chain(own).collect();
                fs::write(&file, configuration(&service, &environment, variant)?)
                    .with_context(|| format!("cannot write {}", file.display()))?;
                let gateway = [gateway_program()?.into(), "run".into(), "--config".into(), file.into_os_string()];
                Self::listening(start(variant, Vec::new(), gateway.into_iter(), dir)?)
            }
            _ => {
                let address = free_address()?;
                let cluster = if redis.topology() == Topology::Cluster { "1" } else { "0" };
                environment.push(("PORT".into(), address.port().to_string().into()));
                environment.push(("SQLITE_DB".into(), db.into()));
                environment.push(("REDIS_PORT".into(), redis.port().to_string().into()));
                environment.push(("REDIS_CLUSTER".into(), cluster.into()));
                environment.push(("WRITE_CONNS".into(), "1".into()));
                let mut held = start(variant, environment, service.into_iter(), dir)?;
                held.wait_until(START_LIMIT, "it listens", |_| TcpStream::connect(address).ok())?;
                Ok(Self { held, address })
            }
        }
    }

    fn listening(mut held: Held) -> anyhow::Result<Self> {
        let address = held.listening(START_LIMIT)?;
        Ok(Self { held, address })
    }

    /// The service's processes, the gateway's among them.
    pub(super) fn pids(&self) -> Vec<u32> {
        usage::tree(self.held.pid()).into_iter().map(|process| process.pid).collect()
    }

    /// What it has printed.
    pub(super) fn output(&self) -> String {
        self.held.output()
    }
}

/// A database with its 10,000 users: `users` fills it when it starts, and closes it when it ends. It has the table
/// alone, as peers know it.
pub(crate) fn seed(programs: &Programs, dir: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let db = dir.join("seed.db");
    let service = programs.command(Variant::Users).map_err(missing)?;
    let arguments =
        ["--no-index".into(), "--db".into(), db.clone().into_os_string(), "--listen".into(), "127.0.0.1:0".into()];
    let running =
        Running::listening(start(Variant::Users, Vec::new(), service.into_iter().chain(arguments), dir.to_owned())?)?;
    drop(running);
    anyhow::ensure!(!dir.join("seed.db-wal").exists(), "the seeded database was not closed");
    Ok(db)
}

fn start(
    variant: Variant,
    environment: Vec<(String, OsString)>,
    command: impl Iterator<Item = OsString>,
    dir: PathBuf,
) -> anyhow::Result<Held> {
    let mut words: Vec<OsString> = vec!["env".into()];
    words.extend(environment.into_iter().map(|(name, value)| {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        word
    }));
    words.extend(command);
    Program { name: variant.name(), command: words, output: dir.join("output"), dir }.start()
}

fn configuration(service: &[OsString], environment: &[(String, OsString)], variant: Variant) -> anyhow::Result<String> {
    let text = |word: &OsString| {
        let word = word.to_str().with_context(|| format!("{} is not UTF-8", word.display()))?;
        anyhow::Ok(format!("{word:?}"))
    };
    let command = service.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(", ");
    let env = environment.iter().map(|(name, value)| Ok(format!("{name} = {}", text(value)?)));
    let env = env.collect::<anyhow::Result<Vec<_>>>()?.join(", ");
    let cache = if variant == Variant::GatewayCache { format!("{GATEWAY_TTL:?}") } else { "false".into() };
    Ok(format!(
        "listen = \"127.0.0.1:0\"\n\n[services.users]\ncommand = [{command}]\nenv = {{ {env} }}\n\n\
         [[routes]]\npath = \"/\"\nservice = \"users\"\ncache = {cache}\n"
    ))
}
