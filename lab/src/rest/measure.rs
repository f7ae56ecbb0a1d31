//! One measurement: a fresh process on a fresh copy of the database, an empty cache, a look whether it answers rightly,
//! a warm-up, the load.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::case::{Case, every_user};
use super::redis::{Redis, Topology};
use super::right;
use super::variant::{Programs, Running, Variant, seed};
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Measure, Sample};
use crate::load::{self, Load};
use crate::processes::usage;

/// What is taken of each measurement.
pub(super) const METRICS: [Metric; 7] =
    [Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P975Ms, Metric::P99Ms, Metric::P999Ms, Metric::RssBytes];

/// A process starts, reads every user where the case wants it, and ends.
const RESTART: Duration = Duration::from_millis(250);
/// A warm-up that has to be whole may take so long.
const FILL_LIMIT: Duration = Duration::from_secs(60);
/// Emails of the warm-up begin otherwise than those that count.
const WARM_UP: &str = "w";
const COUNTED: &str = "n";

/// What all services of a topology share: its Redis and the seeded database, made when the first of them is measured.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) programs: Programs,
    pub(super) topology: Topology,
    dir: PathBuf,
    made: OnceCell<(Redis, PathBuf)>,
    measured: Cell<u32>,
}

impl Stage {
    pub(super) fn new(programs: &Programs, topology: Topology, scratch: &Path) -> Self {
        let dir = scratch.join(format!("rest-{topology:?}").to_lowercase());
        Self { programs: programs.clone(), topology, dir, made: OnceCell::new(), measured: Cell::new(0) }
    }

    fn made(&self) -> anyhow::Result<&(Redis, PathBuf)> {
        if self.made.get().is_none() {
            let seeded = seed(&self.programs, &self.dir.join("seed"))?;
            let redis = Redis::start(self.topology)?;
            // It was empty, and nobody else is here.
            let _ = self.made.set((redis, seeded));
        }
        self.made.get().context("it was made")
    }
}

/// A service in a case.
pub(super) struct Service {
    pub(super) stage: Rc<Stage>,
    pub(super) variant: Variant,
    pub(super) case: Case,
}

impl Measure for Service {
    /// The service does not start, does not answer, or answers what the case does not expect: it has failed.
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let (redis, seeded) = self.stage.made()?;
        self.stage.measured.set(self.stage.measured.get() + 1);
        let dir = self.stage.dir.join(self.stage.measured.get().to_string());
        let sample = measure(&self.stage.programs, (self.variant, self.case), (redis, seeded), dir.clone(), amount);
        // Databases of a run of hours would fill a disk; what is left goes with the folder.
        let _left = std::fs::remove_dir_all(dir);
        sample
    }

    fn beside(&self, amount: Amount) -> Duration {
        RESTART + self.variant.min_warm_up().saturating_sub(amount.warm_up)
    }
}

fn measure(
    programs: &Programs,
    (variant, case): (Variant, Case),
    (redis, seed_db): (&Redis, &Path),
    dir: PathBuf,
    amount: Amount,
) -> anyhow::Result<Sample> {
    redis.flush().context("Redis cannot be flushed")?;
    let running = Running::start(programs, variant, case, (redis, seed_db), dir)?;
    let sample = (|| {
        right::check(running.address)?;
        warm_up(&running, case, Amount { warm_up: amount.warm_up.max(variant.min_warm_up()), ..amount })?;
        if !case.is_warm() {
            redis.flush().context("Redis cannot be flushed")?;
        }
        run(&running, case, redis, amount)
    })();
    sample.with_context(|| match running.output() {
        output if output.trim().is_empty() => format!("{} printed nothing", variant.name()),
        output => format!("{} printed: {}", variant.name(), output.trim().lines().last().unwrap_or_default()),
    })
}

/// Compilers of the service, its connections, and, where the case wants it, its cache.
fn warm_up(running: &Running, case: Case, amount: Amount) -> anyhow::Result<()> {
    let load = case.load(running.address, amount.warm_up);
    // A cold cache must stay cold, in Redis and in the gateway.
    let kind = if case == Case::GetCold { Case::List } else { case };
    let outcome = load::run(&load, kind.requests(amount.seed + 1, WARM_UP)).context("warm-up")?;
    check(kind, &outcome.statuses)?;
    if case.is_warm() {
        let whole = Load { duration: FILL_LIMIT, ..load };
        let outcome = load::run(&whole, every_user()).context("filling the cache")?;
        check(case, &outcome.statuses)?;
    }
    Ok(())
}

fn run(running: &Running, case: Case, redis: &Redis, amount: Amount) -> anyhow::Result<Sample> {
    let (pids, redis_pids) = (running.pids(), redis.pids());
    let used = || (usage::cpu_time(&pids), usage::cpu_time(&redis_pids));
    let before = used();
    let outcome = load::run(&case.load(running.address, amount.duration), case.requests(amount.seed, COUNTED))?;
    let after = used();
    check(case, &outcome.statuses)?;
    ensure!(outcome.answers > 0, "no answer in {} s", amount.duration.as_secs_f64());
    let each =
        |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / outcome.answers as f64;
    let cpu_us = each(before.0, after.0);
    let value = |metric: Metric| match metric {
        Metric::CpuUs => cpu_us,
        Metric::PerSecond => outcome.per_second(),
        Metric::P50Ms => outcome.times.median_ms(),
        Metric::P975Ms => outcome.times.percentile_ms(97.5),
        Metric::P99Ms => outcome.times.percentile_ms(99.0),
        Metric::P999Ms => outcome.times.percentile_ms(99.9),
        _ => usage::memory(&pids).rss_bytes as f64,
    };
    Ok(Sample {
        values: METRICS.map(|metric| (metric, value(metric))).to_vec(),
        cpu_us: vec![("service".into(), cpu_us), ("redis".into(), each(before.1, after.1))],
        requests: outcome.answers,
        times: Some(outcome.times),
        ..Sample::default()
    })
}

fn check(case: Case, statuses: &BTreeMap<u16, u64>) -> anyhow::Result<()> {
    let wrong: Vec<String> = statuses
        .iter()
        .filter(|(status, _)| !case.expects(**status))
        .map(|(status, count)| format!("{count} answers of status {status}"))
        .collect();
    ensure!(wrong.is_empty(), "not expected: {}", wrong.join(", "));
    Ok(())
}
