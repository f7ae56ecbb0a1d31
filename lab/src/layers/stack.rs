//! A layer and everything below it, running.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use anyhow::{Context as _, ensure};

use super::layer::{Layer, Shared};
use super::{COUNTED_LIMIT, START_LIMIT};
use crate::callgrind::{self, Callgrind};
use crate::cores;
use crate::front::h2load::H2load;
use crate::front::server::write_shared;
use crate::load::{self, Load, Outcome, Pace, Requests, get, in_turn};
use crate::processes::{Held, OwnPrograms, Program, usage};
use crate::rest::redis::{Redis, Topology};
use crate::service::{REDIS_KEY, SERVICE, answer_body};
use crate::transport::target::free_address;

/// More targets than the small memory holds by far, so that it has none of them when their turn comes again.
const TARGETS: u32 = 20_000;
/// How often they are all asked for until Redis has them: what is written behind answers may be dropped.
const MAX_FILLS: u32 = 5;
const FILL_CONNECTIONS: usize = 16;
pub(crate) const FILL_LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

/// How a stack is started.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// A folder of its own.
    pub(crate) dir: PathBuf,
    /// The core of all its processes.
    pub(crate) core: Option<usize>,
    /// What is started.
    pub(crate) programs: OwnPrograms,
    /// What counts its instructions.
    pub(crate) callgrind: Option<Callgrind>,
}

/// Running processes. Fields are dropped in this order: who asks before who is asked.
#[derive(Debug)]
pub(crate) struct Stack {
    layer: Layer,
    address: SocketAddr,
    /// Where TLS is spoken, if it is.
    secure: Option<SocketAddr>,
    front: Held,
    redis: Option<Redis>,
    counted: Vec<PathBuf>,
    /// How many requests to different targets were made: each load goes on where the last one ended, so that memory has
    /// none of its targets.
    asked: Arc<AtomicUsize>,
}

/// Process ids by what they are.
pub(crate) type Processes = Vec<(&'static str, Vec<u32>)>;

impl Stack {
    pub(crate) fn start(layer: Layer, place: &Place) -> anyhow::Result<Self> {
        if place.dir.exists() {
            fs::remove_dir_all(&place.dir).with_context(|| format!("cannot empty {}", place.dir.display()))?;
        }
        fs::create_dir_all(&place.dir).with_context(|| format!("cannot make {}", place.dir.display()))?;
        cores::on(place.core, || Self::start_here(layer, place))?
    }

    fn start_here(layer: Layer, place: &Place) -> anyhow::Result<Self> {
        let redis = layer.has_redis().then(|| Redis::start(Topology::Standalone)).transpose()?;
        if layer == Layer::HitRedis && place.callgrind.is_some() {
            // Who fills Redis need not be counted, which takes fifty times as long.
            let filler = Self::start_with(layer, &Place { callgrind: None, ..place.clone() }, redis)?;
            filler.fill().context("filling the cache")?;
            let Self { front, redis, .. } = filler;
            drop(front);
            return Self::start_with(layer, place, redis);
        }
        let stack = Self::start_with(layer, place, redis)?;
        stack.fill().context("filling the cache")?;
        Ok(stack)
    }

    fn start_with(layer: Layer, place: &Place, redis: Option<Redis>) -> anyhow::Result<Self> {
        let url = redis.as_ref().map(Redis::url);
        if let Some(redis) = &redis {
            redis.set(REDIS_KEY, &answer_body())?;
        }
        let mut counted = Vec::new();
        let mut before = |name: &str| match &place.callgrind {
            Some(callgrind) => {
                let out = place.dir.join(format!("callgrind.{name}"));
                counted.push(out.clone());
                callgrind.before(&out)
            }
            None => Vec::new(),
        };
        let lab: OsString = place.programs.lab.clone().into();
        let service = |words: &[&str]| -> Vec<OsString> {
            [lab.clone(), SERVICE.into()].into_iter().chain(words.iter().map(Into::into)).collect()
        };
        let secure = layer.is_secure().then(free_address).transpose()?;
        let mut command = before("front");
        match layer {
            Layer::Bare => command.extend(service(&["bare"])),
            Layer::Hyper => command.extend(service(&["http-tcp"])),
            Layer::BareRedis => {
                let address =
                    url.as_deref().and_then(|url| url.strip_prefix("redis://")).context("Redis was started")?;
                command.extend(service(&["bare-redis", address]));
            }
            _ => {
                let mut behind = if layer.has_service() { before("service") } else { Vec::new() };
                behind.extend(match (layer, url.as_deref()) {
                    (Layer::Http, _) => service(&["http"]),
                    (Layer::PipeRedis, Some(url)) => service(&["pipe-redis", url]),
                    _ => service(&["pipe"]),
                });
                let words: Option<Vec<String>> = behind.into_iter().map(|word| word.into_string().ok()).collect();
                let words = words.context("the path of this program or of the temporary folder is not UTF-8")?;
                let file = place.dir.join("pilotlight.toml");
                let shared = Shared { dir: &place.dir.join("shared"), secure };
                if secure.is_some() || layer == Layer::File {
                    write_shared(shared.dir)?;
                }
                fs::write(&file, layer.configuration(&words, url.as_deref(), &shared)?)
                    .with_context(|| format!("cannot write {}", file.display()))?;
                command.extend([place.programs.gateway.clone().into(), "run".into(), "--config".into(), file.into()]);
            }
        }
        let (dir, output) = (place.dir.clone(), place.dir.join("output"));
        let mut front = Program { name: layer.id().into(), command, dir, output }.start()?;
        let limit = if place.callgrind.is_some() { COUNTED_LIMIT } else { START_LIMIT };
        let address = front.listening(limit)?;
        Ok(Self { layer, address, secure, front, redis, counted, asked: Arc::default() })
    }

    /// All answers are stored where they are to come from.
    fn fill(&self) -> anyhow::Result<()> {
        if self.layer.is_hit() {
            self.ask(2)?;
        }
        let Some(redis) = self.redis.as_ref().filter(|_| self.layer == Layer::HitRedis) else { return Ok(()) };
        for _ in 0..MAX_FILLS {
            self.load(FILL_CONNECTIONS, FILL_LIMIT, Some(TARGETS))?;
            if redis.keys()? >= u64::from(TARGETS) {
                return Ok(());
            }
        }
        anyhow::bail!("of {TARGETS} answers Redis has {}", redis.keys()?)
    }

    /// Asks so often on one connection, as clients of the layer do.
    pub(crate) fn ask(&self, count: u32) -> anyhow::Result<()> {
        let Some(secure) = self.secure else { return self.load(1, FILL_LIMIT, Some(count)).map(drop) };
        let load = H2load::counted(count.into()).of(format!("https://{secure}{}", self.layer.target(0)));
        let load = if self.layer == Layer::HitH2 { load } else { load.http1() };
        let outcome = load.run().with_context(|| self.said())?;
        ensure!(
            outcome.answers == u64::from(count),
            "{} answers to {count} requests; {}",
            outcome.answers,
            self.said()
        );
        Ok(())
    }

    /// Asks for the layer's answer: as long as it takes, or so often.
    pub(crate) fn load(
        &self,
        connections: usize,
        duration: std::time::Duration,
        count: Option<u32>,
    ) -> anyhow::Result<Outcome> {
        let pace = Pace::Closed { depth: self.layer.depth() };
        let load = Load { to: self.address.into(), connections, pace, duration };
        let outcome = load::run(&load, self.requests(count)).with_context(|| self.said())?;
        let wanted = self.layer.status();
        ensure!(
            outcome.statuses.keys().all(|status| *status == wanted),
            "answers of status {:?} where only {wanted} was due; {}",
            outcome.statuses,
            self.said()
        );
        Ok(outcome)
    }

    fn requests(&self, count: Option<u32>) -> Requests {
        let body = (self.layer.status() == 200).then(|| answer_body().into_bytes());
        if !self.layer.has_targets() && count.is_none() {
            return Requests::Same { request: get("/users/0"), body };
        }
        let targets = if self.layer.has_targets() { TARGETS } else { 1 };
        let requests = (0..targets).map(|number| get(&self.layer.target(number))).collect();
        in_turn(requests, Arc::clone(&self.asked), count)
    }

    fn said(&self) -> String {
        let output = self.front.output();
        let last = output.trim().lines().last().unwrap_or_default();
        format!("{}: {last}", self.layer.id())
    }

    pub(crate) fn processes(&self) -> Processes {
        let pid = self.front.pid();
        let tree = usage::tree(pid);
        let pids = |service: bool| {
            // The gateway and its guardian; what the guardian has started is the service.
            let is_service = |process: &&usage::Process| (process.pid != pid && process.parent != pid) == service;
            tree.iter().filter(is_service).map(|process| process.pid).collect::<Vec<_>>()
        };
        let front = if self.layer.is_floor() { "server" } else { "gateway" };
        let redis = self.redis.as_ref().map(Redis::pids).unwrap_or_default();
        let all = [(front, pids(false)), ("service", pids(true)), ("redis", redis)];
        all.into_iter().filter(|(_, pids)| !pids.is_empty()).collect()
    }

    /// Reads that Redis has answered so far.
    pub(crate) fn redis_hits(&self) -> anyhow::Result<u64> {
        self.redis.as_ref().map_or(Ok(0), Redis::hits)
    }

    /// Ends what was counted and says how many instructions it has taken.
    pub(crate) fn end_counted(mut self) -> anyhow::Result<u64> {
        self.front.end(COUNTED_LIMIT)?;
        self.counted.iter().map(|file| callgrind::total(file)).sum()
    }
}

/// A folder for a stack.
pub(crate) fn folder(dir: &Path, layer: Layer) -> PathBuf {
    dir.join(layer.id())
}
