//! The measurement of a server under load: its first answers are looked at, then it is warmed up, then the load counts.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};

use super::server::{Place, Server};
use crate::cores::{self, Cores};
use crate::experiment::model::Metric;
use crate::experiment::{AROUND, Amount, Lifetime, Measure, Sample};
use crate::load::{self, Load, Outcome, Pace, Requests, Target};
use crate::processes::usage;
use crate::transport::client::Client;

/// The longest that a first answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Of a measurement in which nobody is answered, on a machine that is busy.
const LONGEST: Duration = Duration::from_secs(5);
const OK: u16 = 200;

/// What is asked, and how.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The path.
    pub(super) path: &'static str,
    /// What has to be answered.
    pub(super) body: String,
    /// Connections.
    pub(super) connections: usize,
    /// Requests in flight on each.
    pub(super) depth: usize,
}

/// Starts a server in a folder, on a core.
pub(super) type Start = dyn Fn(Place) -> anyhow::Result<Server>;

/// A server under load.
pub(super) struct Loaded {
    pub(super) shape: Shape,
    pub(super) cores: Option<Cores>,
    pub(super) lifetime: Lifetime,
    pub(super) dir: PathBuf,
    pub(super) start: Rc<Start>,
    pub(super) running: Option<Server>,
}

/// A server starts and ends again.
const RESTART: Duration = Duration::from_millis(300);

impl Measure for Loaded {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let server = match (self.running.take(), self.lifetime) {
            (Some(server), Lifetime::Group) => server,
            (server, _) => {
                drop(server);
                self.started()?
            }
        };
        let sample =
            sample(&server, &self.shape, self.cores, amount).map_err(|e| anyhow!("{e:#} ({})", said(&server)))?;
        self.running = Some(server);
        Ok(sample)
    }

    fn beside(&self, _: Amount) -> Duration {
        if self.lifetime == Lifetime::Measurement { AROUND + RESTART } else { AROUND }
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let Self { shape, cores, lifetime, dir, start, .. } = self;
        let (shape, dir, start) = (shape.clone(), dir.with_extension("again"), Rc::clone(start));
        Some(Box::new(Self { shape, cores: *cores, lifetime: *lifetime, dir, start, running: None }))
    }
}

impl Loaded {
    fn started(&self) -> anyhow::Result<Server> {
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).with_context(|| format!("cannot empty {}", self.dir.display()))?;
        }
        std::fs::create_dir_all(&self.dir).with_context(|| format!("cannot make {}", self.dir.display()))?;
        (self.start)(Place { dir: self.dir.clone(), core: self.cores.map(|cores| cores.server) })
    }
}

fn said(server: &Server) -> String {
    server.last_words().map_or_else(|| "it printed nothing".into(), |line| format!("its last words: {line}"))
}

fn sample(server: &Server, shape: &Shape, cores: Option<Cores>, amount: Amount) -> anyhow::Result<Sample> {
    let core = cores.map(|cores| cores.load);
    check(server, shape)?;
    let asked = server.asked();
    cores::on(core, || under_load(server, shape, amount.warm_up))?.context("warm-up")?;
    let processes = server.processes();
    let used = || (usage::cpu_time(&processes.gateway), usage::cpu_time(&processes.service));
    let (mut duration, mut before) = (amount.duration, used());
    let mut outcome = cores::on(core, || under_load(server, shape, duration))??;
    // Whoever is slow is asked for longer; whoever hangs has failed by now.
    while outcome.answers == 0 && duration < LONGEST {
        duration *= 4;
        before = used();
        outcome = cores::on(core, || under_load(server, shape, duration))??;
    }
    let after = used();
    let more = server.asked() - asked;
    if more > 0 {
        bail!("the origin was asked {more} times where only hits were to be measured");
    }
    check(server, shape).context("after the load")?;
    ensure!(outcome.answers > 0, "no answer in {} s", duration.as_secs_f64());
    let each =
        |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / outcome.answers as f64;
    let (gateway, service) = (each(before.0, after.0), each(before.1, after.1));
    let mut cpu_us = Vec::new();
    for (name, pids, us) in [("gateway", &processes.gateway, gateway), ("service", &processes.service, service)] {
        if !pids.is_empty() {
            cpu_us.push((name.to_owned(), us));
        }
    }
    cpu_us.push(("load".into(), outcome.cpu_us()));
    let mut values = vec![
        (Metric::CpuUs, gateway + service),
        (Metric::PerSecond, outcome.per_second()),
        (Metric::P50Ms, outcome.times.median_ms()),
        (Metric::P99Ms, outcome.times.percentile_ms(99.0)),
    ];
    if !processes.gateway.is_empty() {
        values.push((Metric::GatewayCpuUs, gateway));
    }
    Ok(Sample { values, cpu_us, requests: outcome.answers, times: Some(outcome.times), ..Sample::default() })
}

/// Two answers: the first may have been fetched, and has been stored when the second is asked for.
fn check(server: &Server, shape: &Shape) -> anyhow::Result<()> {
    // A service alone has nothing to fetch; its answers are looked at by the load.
    let Target::Tcp(address) = server.to else { return Ok(()) };
    let mut client = Client::new(address, shape.path, &shape.body).with_limit(ANSWER_LIMIT);
    for _ in 0..2 {
        client.get()?;
    }
    Ok(())
}

fn under_load(server: &Server, shape: &Shape, duration: Duration) -> anyhow::Result<Outcome> {
    let pace = Pace::Closed { depth: shape.depth };
    let load = Load { to: server.to.clone(), connections: shape.connections, pace, duration };
    // The same address as in `check`: a cache has an answer for each.
    let host = if let Target::Tcp(address) = server.to { address.to_string() } else { "localhost".into() };
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n", shape.path).into_bytes();
    let body = Some(shape.body.clone().into_bytes());
    let outcome = load::run(&load, Requests::Same { request, body })?;
    let others: Vec<String> = outcome.statuses.keys().filter(|status| **status != OK).map(u16::to_string).collect();
    ensure!(others.is_empty(), "answers of status {}", others.join(", "));
    Ok(outcome)
}
