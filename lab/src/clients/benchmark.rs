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
    if !servers.has_benchmark_keys {
        let count = KEYS * SETS_FOR_EACH_KEY;
        run(servers, ("set", count), &["-P", "64", "-c", "16"], FILL_LIMIT, scratch).context("its keys")?;
        servers.has_benchmark_keys = true;
    }
    let per_second = PER_SECOND[usize::from(variant.options.windows(2).any(|pair| pair == ["-P", "64"]))];
    let count = (per_second * amount.duration.as_secs_f64()).ceil() as u64;
    let test = if workload == Workload::W3 { "set" } else { "get" };
    let (before, used_before) = (servers.counters()?, usage::ended_children_cpu_time()?);
    let limit = amount.duration * MAX_TIMES_SLOWER + EXTRA;
    let output = run(servers, (test, count), variant.options, limit, scratch)?;
    let used = usage::ended_children_cpu_time()?.saturating_sub(used_before);
    let after = servers.counters()?;
    let (ops_s, p50, p99) = parse(&output)?;
    let cpu_us = used.as_secs_f64() * 1e6 / count as f64;
    sample(workload, &Counted { ops: count, errors: 0, ops_s, cpu_us, p50, p99, p999: None }, &before, &after)
}

fn run(
    servers: &Servers,
    (test, count): (&str, u64),
    options: &[&str],
    limit: Duration,
    scratch: &Path,
) -> anyhow::Result<String> {
    let port = servers.ports().first().copied().unwrap_or_default().to_string();
    let (count, keys, bytes) = (count.to_string(), KEYS.to_string(), SMALL.to_string());
    let own =
        ["-h", "127.0.0.1", "-p", &port, "--cluster", "-t", test, "-n", &count, "-r", &keys, "-d", &bytes, "--csv"];
    let words = ["redis-benchmark"].iter().chain(&own).chain(options).map(Into::into);
    let output = scratch.join("redis-benchmark.output");
    let program = Program { name: "redis-benchmark".into(), command: words.collect(), dir: scratch.to_owned(), output };
    let mut held = program.start()?;
    held.ended_within(limit)?;
    Ok(held.output())
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
