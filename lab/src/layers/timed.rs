//! A layer under load: times, and CPU time of each process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;

use super::START_LIMIT;
use super::layer::Layer;
use super::stack::{FILL_LIMIT, Place, Stack, folder};
use crate::cores::{self, Cores};
use crate::experiment::model::Metric;
use crate::experiment::{Amount, MAX_OVERTIME, Measure, Sample};
use crate::processes::{OwnPrograms, usage};

/// A service that is asked takes some microseconds for each request; more than this for each means that not all were
/// hits.
const MAX_IDLE_US: f64 = 0.5;
/// So many requests have to be answered by Redis, of those that are to be.
const LEAST_HITS: f64 = 0.9;

/// A layer, started when it is first measured, and kept.
#[derive(Debug)]
pub(super) struct Timed {
    layer: Layer,
    connections: usize,
    dir: PathBuf,
    running: Option<Stack>,
}

impl Timed {
    pub(super) fn new(layer: Layer, connections: usize, dir: &Path) -> Self {
        Self { layer, connections, dir: folder(dir, layer), running: None }
    }
}

impl Measure for Timed {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let cores = Cores::here();
        let stack = match self.running.take() {
            Some(stack) => stack,
            None => {
                let (core, programs) = (cores.map(|cores| cores.server), OwnPrograms::here()?);
                Stack::start(self.layer, &Place { dir: self.dir.clone(), core, programs, callgrind: None })?
            }
        };
        let sample = cores::on(cores.map(|cores| cores.load), || self.sample(&stack, amount))??;
        self.running = Some(stack);
        Ok(sample)
    }

    fn limit(&self, amount: Amount) -> Duration {
        amount.warm_up + amount.duration + START_LIMIT + FILL_LIMIT + MAX_OVERTIME
    }
}

impl Timed {
    fn sample(&self, stack: &Stack, amount: Amount) -> anyhow::Result<Sample> {
        stack.load(self.connections, amount.warm_up, None)?;
        let processes = stack.processes();
        let hits = stack.redis_hits()?;
        let (outcome, used) = usage::during(&processes, || stack.load(self.connections, amount.duration, None))?;
        let (hits, answers) = (stack.redis_hits()? - hits, outcome.answers as f64);
        let each = |((name, _), used): (&(&str, _), Duration)| ((*name).to_owned(), used.as_secs_f64() * 1e6 / answers);
        let mut cpu_us: Vec<(String, f64)> = processes.iter().zip(used).map(each).collect();
        let service_us = cpu_us.iter().find(|(name, _)| name == "service").map_or(0.0, |(_, us)| *us);
        ensure!(
            !self.layer.is_hit() || service_us <= MAX_IDLE_US,
            "the service used {service_us:.2} µs for each request where only stored answers were to be measured"
        );
        ensure!(
            self.layer != Layer::HitRedis || hits as f64 >= answers * LEAST_HITS,
            "only {hits} of {answers} requests were answered by Redis"
        );
        let sum = cpu_us.iter().map(|(_, us)| us).sum();
        cpu_us.push(("load".into(), outcome.cpu_us()));
        Ok(Sample {
            values: vec![
                (Metric::CpuUs, sum),
                (Metric::PerSecond, outcome.per_second()),
                (Metric::P50Ms, outcome.times.median_ms()),
                (Metric::P99Ms, outcome.times.percentile_ms(99.0)),
            ],
            cpu_us,
            requests: outcome.answers,
            times: Some(outcome.times),
            ..Sample::default()
        })
    }
}
