//! redis-benchmark: it says nothing while it runs, so all of it is measured.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::program::{Counted, sample};
use super::servers::Servers;
use super::variant::Variant;
use super::workload::{SMALL, Workload};
use crate::experiment::{Amount, Sample};
use crate::processes::{Program, usage};

/// It draws keys at random, so many on each node; so many times as many SETs leave none of them out.
const KEYS: u64 = 20_000;
const SETS_FOR_EACH_KEY: u64 = 100;
pub(super) const FILL_LIMIT: Duration = Duration::from_secs(120);
/// It is told how many commands, not how long: about as many as it does in a second, one by one and 64 at once.
const PER_SECOND: [f64; 2] = [60_000.0, 700_000.0];
/// A machine may be so much slower than that.
const MAX_TIMES_SLOWER: u32 = 5;
const EXTRA: Duration = Duration::from_secs(30);

pub(super) fn measure(
    servers: &mut Servers,
    variant: &Variant,
    workload: Workload,
    amount: Amount,
    scratch: &Path,
) -> anyhow::Result<Sample> {
    let (keys, bytes) = (KEYS.to_string(), SMALL.to_string());
    let of = |test, count, limit, options: &[&str]| {
        let words = ["--cluster", "-t", test, "-r", &keys, "-d", &bytes];
        Run { port: servers.port(), count, limit, dir: scratch, words: &[&words, options].concat() }.counted()
    };
    if !servers.has_benchmark_keys {
        of("set", KEYS * SETS_FOR_EACH_KEY, FILL_LIMIT, &["-P", "64", "-c", "16"]).context("its keys")?;
    }
    let per_second = PER_SECOND[usize::from(variant.options.windows(2).any(|pair| pair == ["-P", "64"]))];
    let count = (per_second * amount.duration.as_secs_f64()).ceil() as u64;
    let test = if workload == Workload::W3 { "set" } else { "get" };
    let before = servers.counters()?;
    let counted = of(test, count, amount.duration * MAX_TIMES_SLOWER + EXTRA, variant.options)?;
    servers.has_benchmark_keys = true;
    sample(workload, &counted, &before, &servers.counters()?)
}

/// One run of it.
pub(super) struct Run<'a> {
    /// Of a server on the loopback interface.
    pub(super) port: u16,
    /// Commands.
    pub(super) count: u64,
    pub(super) limit: Duration,
    /// For what it prints.
    pub(super) dir: &'a Path,
    /// The rest of its arguments.
    pub(super) words: &'a [&'a str],
}

impl Run<'_> {
    pub(super) fn counted(&self) -> anyhow::Result<Counted> {
        let before = usage::ended_children_cpu_time()?;
        let (ops_s, p50, p99) = parse(&self.output()?)?;
        let used = usage::ended_children_cpu_time()?.saturating_sub(before);
        let cpu_us = used.as_secs_f64() * 1e6 / self.count as f64;
        Ok(Counted { ops: self.count, errors: 0, ops_s, cpu_us, p50, p99, p999: None })
    }

    fn output(&self) -> anyhow::Result<String> {
        let (port, count) = (self.port.to_string(), self.count.to_string());
        let own = ["redis-benchmark", "-h", "127.0.0.1", "-p", &port, "-n", &count, "--csv"];
        let command = own.iter().chain(self.words).map(Into::into).collect();
        let (name, output) = ("redis-benchmark".to_owned(), self.dir.join("redis-benchmark.output"));
        let mut held = Program { name, command, dir: self.dir.to_owned(), output }.start()?;
        held.ended_within(self.limit)?;
        Ok(held.output())
    }
}

/// Commands in a second, and microseconds, out of `redis-benchmark --csv`.
fn parse(output: &str) -> anyhow::Result<(f64, f64, f64)> {
    let rows: Vec<Vec<&str>> = output
        .lines()
        .filter(|line| line.starts_with('"'))
        .map(|line| line.split(',').map(|cell| cell.trim_matches('"')).collect())
        .collect();
    let value = |name: &str| {
        let column = rows.first()?.iter().position(|cell| *cell == name)?;
        rows.last()?.get(column)?.parse::<f64>().ok()
    };
    let found = value("rps").zip(value("p50_latency_ms")).zip(value("p99_latency_ms"));
    let ((ops_s, p50), p99) =
        found.with_context(|| format!("redis-benchmark printed something else: {}", output.trim()))?;
    ensure!(rows.len() > 1 && ops_s > 0.0, "redis-benchmark has measured nothing: {}", output.trim());
    Ok((ops_s, p50 * 1000.0, p99 * 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_prints() {
        let output = "Cluster has 5 master nodes:\n\n\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\",\"p99_latency_ms\"\n\
                      \"GET\",\"60000.00\",\"1.2\",\"1.103\",\"3.207\"\n";
        assert_eq!(parse(output).expect("numbers"), (60_000.0, 1103.0, 3207.0));
        assert!(parse("\"test\",\"rps\"\n").is_err());
        assert!(parse("Could not connect").expect_err("no table").to_string().contains("Could not connect"));
    }
}
