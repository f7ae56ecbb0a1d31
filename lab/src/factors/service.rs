//! One measurement: a fresh process, every user in Redis, a warm-up, the load; on the path of a miss Redis is emptied
//! again and again.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Kind;
use super::environment::{Environment, Started};
use super::layers::By;
use crate::experiment::model::Metric;
use crate::experiment::{AROUND, Amount, Lifetime, Measure, Sample};
use crate::load::{self, Outcome};
use crate::processes::{Held, Program, usage};
use crate::rest::case::{Case, every_user};
use crate::rest::redis::{Redis, Topology};

/// On the path of a miss Redis is emptied so often, as in the published study.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(500);
const START_LIMIT: Duration = Duration::from_secs(30);
/// A process starts and ends.
const RESTART: Duration = Duration::from_millis(100);
/// Reading every user once may take so long.
const FILL_LIMIT: Duration = Duration::from_secs(60);
/// The published load: 100 connections, 10 requests in flight on each.
const LOAD: Case = Case::GetWarm;

/// A variant of the service.
pub(super) struct Service {
    pub(super) id: String,
    /// The program, and arguments that only it understands.
    pub(super) command: Vec<OsString>,
    pub(super) told: Told,
    pub(super) kind: Kind,
    pub(super) lifetime: Lifetime,
    pub(super) environment: Rc<Environment>,
    pub(super) running: Option<(Held, SocketAddr)>,
}

/// How a program is told what to use.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// As examples/users.
    Arguments(Option<By>),
    /// As other peers, and by these words.
    Environment(Vec<String>),
}

impl Measure for Service {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let started = self.environment.started()?;
        let (held, address) = match self.running.take() {
            Some(running) => running,
            None => self.start(started)?,
        };
        let sample = self.sample(&held, address, &started.redis, amount).with_context(|| match held.output() {
            output if output.trim().is_empty() => format!("{} printed nothing", self.id),
            output => format!("{} printed: {}", self.id, output.trim().lines().last().unwrap_or_default()),
        })?;
        if self.lifetime == Lifetime::Group {
            self.running = Some((held, address));
        }
        Ok(sample)
    }

    fn beside(&self, _: Amount) -> Duration {
        if self.lifetime == Lifetime::Measurement { AROUND + RESTART } else { AROUND }
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let (id, command) = (format!("{}-again", self.id), self.command.clone());
        let (told, environment) = (self.told.clone(), Rc::clone(&self.environment));
        Some(Box::new(Self { id, command, told, environment, running: None, ..*self }))
    }
}

impl Service {
    fn start(&self, started: &Started) -> anyhow::Result<(Held, SocketAddr)> {
        let dir = &self.environment.dir;
        let command = self.words(started)?;
        let output = dir.join(format!("{}-{}.log", self.kind.id(), self.id));
        let mut held = Program { name: self.id.clone(), command, dir: dir.clone(), output }.start()?;
        let address = held.listening(START_LIMIT)?;
        Ok((held, address))
    }

    fn words(&self, started: &Started) -> anyhow::Result<Vec<OsString>> {
        let db = started.db.clone().into_os_string();
        let own = self.command.clone();
        Ok(match &self.told {
            Told::Arguments(by) => {
                let url = started.url(*by)?;
                let rest = ["--redis", &url, "--listen", "127.0.0.1:0"].map(OsString::from);
                own.into_iter().chain(["--db".into(), db]).chain(rest).collect()
            }
            Told::Environment(words) => {
                let mut file = OsString::from("SQLITE_DB=");
                file.push(db);
                let cluster = u8::from(started.redis.topology() == Topology::Cluster);
                let port = started.redis.port();
                let redis = [format!("REDIS_PORT={port}"), format!("REDIS_CLUSTER={cluster}"), "PORT=0".into()];
                let words = words.iter().cloned().chain(redis).map(OsString::from);
                ["env".into(), file].into_iter().chain(words).chain(own).collect()
            }
        })
    }

    fn sample(&self, held: &Held, address: SocketAddr, redis: &Redis, amount: Amount) -> anyhow::Result<Sample> {
        let load = |duration| LOAD.load(address, duration);
        if self.kind == Kind::Hit && self.environment.fill_is_due() {
            redis.flush().context("Redis cannot be flushed")?;
            let outcome = load::run(&load(FILL_LIMIT), every_user());
            check(&outcome.context("filling the cache")?)?;
            self.environment.filled();
        }
        let outcome = load::run(&load(amount.warm_up), LOAD.requests(amount.seed + 1, "warm-up"));
        check(&outcome.context("warm-up")?)?;
        let pids: Vec<u32> = usage::tree(held.pid()).into_iter().map(|process| process.pid).collect();
        let redis_pids = redis.pids();
        let used = || (usage::cpu_time(&pids), usage::cpu_time(&redis_pids));
        let hits = redis.hits()?;
        let before = used();
        let outcome = self.kind.around(redis, || load::run(&load(amount.duration), LOAD.requests(amount.seed, "")))?;
        let after = used();
        check(&outcome)?;
        ensure!(outcome.answers > 0, "no answer in {} s", amount.duration.as_secs_f64());
        let hits = redis.hits()? - hits;
        ensure!(
            self.kind == Kind::Miss || hits >= outcome.answers,
            "of {} requests only {hits} were found in Redis",
            outcome.answers
        );
        let each = |before: Duration, after: Duration| {
            after.saturating_sub(before).as_secs_f64() * 1e6 / outcome.answers as f64
        };
        let cpu = each(before.0, after.0);
        Ok(Sample {
            values: vec![
                (Metric::CpuUs, cpu),
                (Metric::PerSecond, outcome.per_second()),
                (Metric::P50Ms, outcome.times.median_ms()),
                (Metric::P99Ms, outcome.times.percentile_ms(99.0)),
            ],
            cpu_us: vec![
                ("service".into(), cpu),
                ("Redis".into(), each(before.1, after.1)),
                ("load".into(), outcome.cpu_us()),
            ],
            requests: outcome.answers,
            times: Some(outcome.times),
            ..Sample::default()
        })
    }
}

fn check(outcome: &Outcome) -> anyhow::Result<()> {
    let others: Vec<String> =
        outcome.statuses.keys().filter(|status| !LOAD.expects(**status)).map(u16::to_string).collect();
    ensure!(others.is_empty(), "answers of status {}", others.join(", "));
    Ok(())
}

impl Kind {
    /// Does `work` while Redis is as this kind wants it.
    fn around(self, redis: &Redis, work: impl FnOnce() -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
        if self == Self::Hit {
            return work();
        }
        let (ended, end) = channel::<()>();
        std::thread::scope(|scope| {
            let flusher = scope.spawn(move || flush(redis, &end));
            let outcome = work();
            drop(ended);
            let flushed = flusher.join().map_err(|_| anyhow::anyhow!("the thread that empties Redis panicked"))?;
            flushed.context("Redis cannot be flushed")?;
            outcome
        })
    }
}

/// At once, and then every 500 ms until the sender is gone.
fn flush(redis: &Redis, end: &Receiver<()>) -> anyhow::Result<()> {
    loop {
        redis.flush()?;
        if end.recv_timeout(FLUSH_EVERY) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}
