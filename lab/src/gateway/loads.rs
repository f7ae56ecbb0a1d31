//! Groups under load: hits and misses by turns, answers from Redis, one gateway and eight, a flood of targets.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::running::{Running, head, own_service, route, service};
use super::{Lab, SECOND, group, of, software, variant};
use crate::cache::origin::{DISTINCT, Origin};
use crate::cores;
use crate::experiment::model::Metric;
use crate::experiment::{AROUND, Amount, Group, MAX_OVERTIME, Measure, Question, Sample};
use crate::load::{self, Load, Outcome, Pace, Requests, get, in_turn};
use crate::processes::usage;
use crate::rest::redis::{Redis, Topology};
use crate::service::SERVICE;

pub(crate) const CONNECTIONS: usize = 64;
/// The admin socket, in the folder of each gateway.
pub(crate) const ADMIN: &str = "admin.sock";
const FILL_LIMIT: Duration = Duration::from_secs(300);
/// How often all targets are asked for until Redis has them: what is written behind answers may be dropped.
const MAX_FILLS: u32 = 5;
/// More than the small memory holds by far, so that it has none of them when their turn comes again.
const TARGETS: u32 = 20_000;
const SMALL_MEMORY: &str = "1MiB";
/// Requests that Redis answers, at least, or it is not Redis that is measured.
const LEAST_HITS: f64 = 0.95;
pub(super) const GATEWAYS: usize = 8;
const LOAD_METRICS: [Metric; 4] = [Metric::GatewayCpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms];

/// A load on a core; every answer has to be a 200.
pub(crate) fn ask(
    core: Option<usize>,
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    requests: Requests,
) -> anyhow::Result<Outcome> {
    let load = Load { to: address.into(), connections, pace: Pace::Closed { depth: 1 }, duration };
    let outcome = cores::on(core, || load::run(&load, requests))??;
    ensure!(outcome.answers > 0, "not one answer came back");
    ensure!(outcome.statuses.keys().all(|status| *status == 200), "answers of status {:?}", outcome.statuses);
    Ok(outcome)
}

/// What a load took of these processes, the gateway's first.
pub(crate) fn measured(
    groups: &[(&'static str, Vec<u32>)],
    work: impl FnOnce() -> anyhow::Result<Vec<Outcome>>,
) -> anyhow::Result<Sample> {
    let (outcomes, used) = usage::during(groups, work)?;
    let requests: u64 = outcomes.iter().map(|outcome| outcome.answers).sum();
    let each = |used: Duration| used.as_secs_f64() * 1e6 / requests as f64;
    let mut values = vec![
        (Metric::GatewayCpuUs, each(used[0])),
        (Metric::PerSecond, outcomes.iter().map(Outcome::per_second).sum()),
    ];
    let mut times = crate::stats::Times::new();
    outcomes.iter().for_each(|outcome| times.merge(&outcome.times));
    values.extend([(Metric::P50Ms, times.median_ms()), (Metric::P99Ms, times.percentile_ms(99.0))]);
    let cpu_us = groups.iter().zip(used).map(|((name, _), used)| ((*name).to_owned(), each(used))).collect();
    Ok(Sample { values, cpu_us, requests, times: Some(times), ..Sample::default() })
}

pub(super) const HITS: &str = "hits";
pub(super) const MISSES: &str = "misses";
pub(super) const TURNS: &str = "turns";
pub(super) const STORED: &str = "/stored";
pub(super) const PASSED: &str = "/passed";

pub(super) fn turns(lab: &Rc<Lab>) -> Group {
    let all: [(&str, &str, &'static [&str]); 3] =
        [(HITS, "hits", &[STORED]), (MISSES, "misses", &[PASSED]), (TURNS, "by turns", &[STORED, PASSED])];
    let variants = all.map(|(id, title, paths)| {
        variant(lab, id, title, SECOND / 2, move |lab, amount| by_turns(lab, amount, paths, ""))
    });
    Group {
        variants: variants.into(),
        control: TURNS.into(),
        amount: lab.amount,
        ..group(
            "turns",
            "200 bytes of JSON from memory, from a service over HTTP, and by turns",
            format!("{CONNECTIONS} connections, one request in flight on each; gateway and service on one core"),
            &LOAD_METRICS,
        )
    }
}

/// Requests to these paths by turns; `tables`: what else the gateway is told.
pub(super) fn by_turns(lab: &Lab, amount: Amount, paths: &[&str], tables: &str) -> anyhow::Result<Sample> {
    let routes = own_service(&lab.service, &["http"], "") + &route(STORED, "service", "\"10h\"");
    let gateway = lab.start(&(routes + tables))?;
    let load = |duration| {
        let requests = Requests::Turns(paths.iter().map(|path| get(path)).collect());
        ask(lab.load_core(), gateway.address, CONNECTIONS, duration, requests)
    };
    load(amount.warm_up)?;
    let groups = [("gateway", gateway.own_pids()), ("service", gateway.service_pids())];
    measured(&groups, || Ok(vec![load(amount.duration)?]))
}

/// Answers come from there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    /// And each request counts against a limit that gateways share.
    Limited,
    Redis,
}

impl Store {
    /// Far more than is asked: each request is let in, by Redis.
    fn limit(self) -> &'static str {
        if self == Self::Limited { "\nlimit = { rate = \"1000000/s\", burst = 1000000, shared = true }" } else { "" }
    }
}

/// Gateways before five primaries and a service. Fields are dropped in this order: who asks before who is asked.
pub(crate) struct Tier {
    pub(crate) gateways: Vec<(Running, Arc<AtomicUsize>)>,
    pub(crate) redis: Redis,
}

impl Tier {
    /// All gateways and their helpers.
    pub(crate) fn own_pids(&self) -> Vec<u32> {
        self.gateways.iter().flat_map(|(gateway, _)| gateway.own_pids()).collect()
    }
}

/// A tier that is started and filled when it is first measured, and kept.
pub(crate) struct Kept {
    pub(crate) lab: Rc<Lab>,
    from: Store,
    gateways: usize,
    connections: usize,
    /// Each has its core for itself, for its part of the time.
    in_turn: bool,
    running: Option<Tier>,
}

pub(crate) const MEMORY_HIT: &str = "memory";
pub(crate) const REDIS_HIT: &str = "redis";
pub(super) const REDIS_ALONE: &str = "redis-one";

pub(super) fn redis_tier(lab: &Rc<Lab>) -> Group {
    let variant = |id, title, from, connections| kept(lab, id, title, from, 1, connections);
    Group {
        variants: vec![
            variant(MEMORY_HIT, "memory hit", Store::Memory, CONNECTIONS),
            variant(REDIS_HIT, "Redis hit", Store::Redis, CONNECTIONS),
            variant(REDIS_ALONE, "Redis hit, 1 connection", Store::Redis, 1),
        ],
        control: REDIS_HIT.into(),
        questions: vec![Question::ratio(
            "CPU of the gateway, Redis hit / memory hit",
            Metric::GatewayCpuUs,
            REDIS_HIT,
            MEMORY_HIT,
        )],
        amount: lab.amount,
        ..group(
            "redis-tier",
            "Answers of 200 bytes from memory and from Redis",
            format!(
                "five primaries on loopback, {CONNECTIONS} connections; gateway on one core, load and Redis on another"
            ),
            &LOAD_METRICS,
        )
    }
}

pub(super) const MEMORY_EIGHT: &str = "memory-8";
pub(super) const REDIS_EIGHT: &str = "redis-8";
pub(super) const MEMORY_IN_TURN: &str = "memory-8-in-turn";
pub(super) const REDIS_IN_TURN: &str = "redis-8-in-turn";

pub(super) fn gateways(lab: &Rc<Lab>) -> Group {
    let variant = |id, title, from, gateways| kept(lab, id, title, from, gateways, GATEWAYS);
    let in_turn = |id, title, from| {
        let kept = Kept { in_turn: true, ..Kept::new(lab, from, GATEWAYS, GATEWAYS) };
        of(id, title, software("redis-server"), Box::new(kept))
    };
    let asked = |text: &str, one, eight| Question::ratio(text, Metric::GatewayCpuUs, eight, one);
    Group {
        variants: vec![
            variant(MEMORY_HIT, "memory hit, 1 gateway", Store::Memory, 1),
            variant(MEMORY_EIGHT, "memory hit, 8 gateways", Store::Memory, GATEWAYS),
            in_turn(MEMORY_IN_TURN, "memory hit, 8 gateways in turn", Store::Memory),
            variant(REDIS_HIT, "Redis hit, 1 gateway", Store::Redis, 1),
            variant(REDIS_EIGHT, "Redis hit, 8 gateways", Store::Redis, GATEWAYS),
            in_turn(REDIS_IN_TURN, "Redis hit, 8 gateways in turn", Store::Redis),
        ],
        control: REDIS_HIT.into(),
        questions: vec![
            asked("CPU of a gateway for a memory hit, of eight / of one", MEMORY_HIT, MEMORY_EIGHT),
            asked("CPU of a gateway for a memory hit, of eight in turn / of one", MEMORY_HIT, MEMORY_IN_TURN),
            asked("CPU of a gateway for a Redis hit, of eight / of one", REDIS_HIT, REDIS_EIGHT),
            asked("CPU of a gateway for a Redis hit, of eight in turn / of one", REDIS_HIT, REDIS_IN_TURN),
        ],
        amount: lab.amount,
        ..group(
            "gateways",
            "Answers of 200 bytes, by one gateway and by eight",
            format!(
                "five primaries on loopback, {GATEWAYS} connections to each gateway; all gateways on one core, load and Redis on another; in turn: each is asked for an eighth of the time, while the others run"
            ),
            &LOAD_METRICS,
        )
    }
}

pub(crate) fn kept(
    lab: &Rc<Lab>,
    id: &str,
    title: &str,
    from: Store,
    gateways: usize,
    connections: usize,
) -> crate::experiment::Variant {
    of(id, title, software("redis-server"), Box::new(Kept::new(lab, from, gateways, connections)))
}

impl Measure for Kept {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let (from, load) = (self.from, self.load());
        self.with(|tier| {
            load(tier, amount.warm_up)?;
            let services = tier.gateways.iter().flat_map(|(gateway, _)| gateway.service_pids()).collect();
            let groups = [("gateway", tier.own_pids()), ("redis", tier.redis.pids()), ("service", services)];
            let before = tier.redis.hits()?;
            let sample = measured(&groups, || load(tier, amount.duration))?;
            let hits = tier.redis.hits()? - before;
            ensure!(
                from == Store::Memory || hits as f64 >= LEAST_HITS * sample.requests as f64,
                "only {hits} of {} requests were answered by Redis",
                sample.requests
            );
            Ok(sample)
        })
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let new = Self::new(&self.lab, self.from, self.gateways, self.connections);
        Some(Box::new(Self { in_turn: self.in_turn, ..new }))
    }

    fn beside(&self, amount: Amount) -> Duration {
        AROUND + SECOND * 4 / amount.rounds.max(1)
    }

    fn limit(&self, amount: Amount) -> Duration {
        amount.warm_up + amount.duration + FILL_LIMIT + MAX_OVERTIME
    }
}

impl Kept {
    pub(crate) fn new(lab: &Rc<Lab>, from: Store, gateways: usize, connections: usize) -> Self {
        Self { lab: Rc::clone(lab), from, gateways, connections, in_turn: false, running: None }
    }

    /// Does something with what runs, which is started for the first time. If it fails, nothing runs any more.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce(&Tier) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let tier = match self.running.take() {
            Some(tier) => tier,
            None => self.started()?,
        };
        let done = work(&tier)?;
        self.running = Some(tier);
        Ok(done)
    }

    fn started(&self) -> anyhow::Result<Tier> {
        let redis = cores::on(self.lab.load_core(), || Redis::start(Topology::Cluster))??;
        let memory = if self.from == Store::Redis { SMALL_MEMORY } else { "64MiB" };
        let text = format!(
            "{}[admin]\nsocket = \"{ADMIN}\"\n\n[cache.redis]\nurl = \"{}\"\nbudget = \"1s\"\nqueue = 100000\nqueue_memory = \"512MiB\"\n\n{}{}",
            head(memory),
            redis.url(),
            service("service", &[&self.lab.service, SERVICE, "pipe"], "transport = \"pipe\"\nidle_timeout = \"none\""),
            route("/", "service", &format!("\"10h\"{}", self.from.limit()))
        );
        let start = |_| {
            let gateway = Running::start(&self.lab.scratch, self.lab.server_core(), &text)?;
            anyhow::Ok((gateway, Arc::default()))
        };
        let gateways = (0..self.gateways).map(start).collect::<anyhow::Result<_>>()?;
        let tier = Tier { gateways, redis };
        self.fill(&tier).context("filling the caches")?;
        Ok(tier)
    }

    /// All answers are stored where they are to come from.
    fn fill(&self, tier: &Tier) -> anyhow::Result<()> {
        let Some((gateway, asked)) = tier.gateways.first() else { return Ok(()) };
        for _ in 0..MAX_FILLS {
            let requests = self.requests(Arc::clone(asked), Some(self.targets()));
            ask(self.lab.load_core(), gateway.address, GATEWAYS, FILL_LIMIT, requests)?;
            if tier.redis.keys()? >= u64::from(self.targets()) {
                return Ok(());
            }
        }
        bail!("of {} answers Redis has {}", self.targets(), tier.redis.keys()?)
    }

    fn targets(&self) -> u32 {
        if self.from == Store::Redis { TARGETS } else { 1 }
    }

    fn requests(&self, asked: Arc<AtomicUsize>, count: Option<u32>) -> Requests {
        requests(self.targets(), asked, count)
    }

    /// A load for each gateway, all at once or in turn.
    fn load(&self) -> impl Fn(&Tier, Duration) -> anyhow::Result<Vec<Outcome>> + use<> {
        let (targets, connections, core) = (self.targets(), self.connections, self.lab.load_core());
        let in_turn = self.in_turn;
        move |tier, duration| {
            let load = |(gateway, asked): &(Running, Arc<AtomicUsize>), duration| {
                let (address, asked) = (gateway.address, Arc::clone(asked));
                move || ask(core, address, connections, duration, requests(targets, asked, None))
            };
            if in_turn {
                let each = duration / GATEWAYS as u32;
                return tier.gateways.iter().map(|gateway| load(gateway, each)()).collect();
            }
            std::thread::scope(|scope| {
                let start = |gateway| scope.spawn(load(gateway, duration));
                let loads: Vec<_> = tier.gateways.iter().map(start).collect();
                let end = |load: std::thread::ScopedJoinHandle<'_, _>| {
                    load.join().unwrap_or_else(|_| bail!("a load panicked"))
                };
                loads.into_iter().map(end).collect()
            })
        }
    }
}

fn requests(targets: u32, asked: Arc<AtomicUsize>, count: Option<u32>) -> Requests {
    in_turn((0..targets).map(|number| get(&format!("/users/{number}"))).collect(), asked, count)
}

const FLOOD_WARM_UP: u64 = 2000;
const STEPS: u64 = 50;
/// `cache.memory` of the flooded gateway, in units of 1,048,576 bytes.
pub(super) const LIMIT_MIB: f64 = 64.0;
/// So long a step may take: more than this, and than so many requests and bytes in a second, and it has come to a halt.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOWEST_REQUESTS: f64 = 500.0;
const SLOWEST_BYTES: f64 = 5e6;

/// Bytes of a body on average, and how many requests a shape is worth beside the others.
const SHAPES: [(&str, &str, u64, u64); 3] = [
    ("1-kb", "bodies of 0 to 1 KB", 500, 1),
    ("40-kb", "bodies of 0 to 40 KB", 20_000, 20),
    ("1-mb", "bodies of 0 to 1 MB", 500_000, 500),
];

pub(super) fn flood(lab: &Rc<Lab>) -> Group {
    let variant = |(id, title, bytes, part): (&str, &str, u64, u64)| {
        let each = (lab.of.flood_requests / part / STEPS).max(CONNECTIONS as u64);
        let title = format!("{title}, {} requests", each * STEPS);
        let usual = Duration::from_secs_f64((each * STEPS) as f64 * (2.5e-5 + bytes as f64 * 2e-9));
        variant(lab, id, &title, usual, move |lab, _| flooded(lab, bytes, each))
    };
    Group {
        variants: SHAPES.map(variant).into(),
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "flood",
            "A flood of distinct targets that may all be stored",
            format!(
                "memory of the gateway's own, from a warm start to its peak; cache.memory is {LIMIT_MIB} MiB; {CONNECTIONS} connections"
            ),
            &[Metric::GrowthBytes, Metric::PerSecond],
        )
    }
}

fn flooded(lab: &Lab, bytes: u64, each: u64) -> anyhow::Result<Sample> {
    let origin = Origin::start()?;
    let tables =
        format!("[services.origin]\nurl = \"http://{}\"\n\n{}", origin.address(), route("/", "origin", "true"));
    let gateway = lab.start(&tables)?;
    let ask = |first: u64, count: u64, bytes: u64| {
        let (mut next, end) = (first, first + count);
        let limit = PATIENCE.as_secs_f64() + count as f64 / SLOWEST_REQUESTS + (count * bytes) as f64 / SLOWEST_BYTES;
        let requests = Requests::Each(Box::new(move |out| {
            let more = next < end;
            if more {
                // Spread evenly, the same in every run.
                let length = next.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (2 * bytes + 1);
                out.extend(get(&format!("{DISTINCT}{next}/of/distinct/targets/{length}")));
                next += 1;
            }
            more
        }));
        let outcome =
            self::ask(lab.load_core(), gateway.address, CONNECTIONS, Duration::from_secs_f64(limit), requests)?;
        ensure!(outcome.answers == count, "{} of {count} answers within {limit:.0} s", outcome.answers);
        Ok(outcome.elapsed)
    };
    let memory = || usage::status_bytes(&gateway.own_pids(), "RssAnon");
    ask(0, FLOOD_WARM_UP, 0)?;
    let (before, mut peak, mut took) = (memory(), 0, Duration::ZERO);
    for step in 0..STEPS {
        took += ask(FLOOD_WARM_UP + step * each, each, bytes)?;
        peak = peak.max(memory());
    }
    let values = vec![
        (Metric::GrowthBytes, peak.saturating_sub(before) as f64),
        (Metric::PerSecond, (each * STEPS) as f64 / took.as_secs_f64()),
    ];
    Ok(Sample { values, requests: each * STEPS, ..Sample::default() })
}
