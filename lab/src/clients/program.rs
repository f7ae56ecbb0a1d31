//! A program of `lab/peers/redis`: started as `NAME WORKLOAD ports=… secs=… warm=…`, it prints `START` when it begins
//! to measure and `END {json}` when it has. The servers are sampled at these two lines.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::Built;
use super::servers::{Counters, Servers};
use super::variant::{self, Variant};
use super::workload::Workload;
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Sample};
use crate::interrupt;
use crate::processes::{Held, Program};

/// Beyond its own time it may take so long to connect, and again to end and to sort its times.
pub(super) const EXTRA: Duration = Duration::from_secs(30);
/// Below this warm-ups are shorter by as much as what counts.
const BRIEF: Duration = Duration::from_secs(1);
/// While it measures, nothing is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What `END` says. Fields that are not used are not named.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Counted {
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) ops_s: f64,
    pub(super) cpu_us: f64,
    /// Microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Absent where it is not said.
    pub(super) p999: Option<f64>,
}

impl Counted {
    /// With the servers' CPU time for a command, where it is known.
    pub(super) fn sample(&self, servers_us: Option<f64>) -> Sample {
        let mut values = vec![
            (Metric::CpuUs, self.cpu_us),
            (Metric::PerSecond, self.ops_s),
            (Metric::P50Ms, self.p50 / 1000.0),
            (Metric::P99Ms, self.p99 / 1000.0),
        ];
        values.extend(self.p999.map(|us| (Metric::P999Ms, us / 1000.0)));
        let servers = servers_us.map(|us| ("redis".to_owned(), us));
        let cpu_us = [("client".to_owned(), self.cpu_us)].into_iter().chain(servers).collect();
        Sample { values, cpu_us, requests: self.ops, ..Sample::default() }
    }
}

pub(super) fn measure(
    servers: &Servers,
    variant: &Variant,
    workload: Workload,
    built: &Built,
    amount: Amount,
    scratch: &Path,
) -> anyhow::Result<Sample> {
    let warm_up = warm_up(variant, amount);
    let ports: Vec<String> = servers.ports().iter().map(u16::to_string).collect();
    let mut command = vec!["env".into()];
    command.extend(variant::ENVIRONMENT.iter().map(Into::into));
    let mut modules = std::ffi::OsString::from("NODE_PATH=");
    modules.push(built.dir.join("node/node_modules"));
    command.push(modules);
    command.extend(variant.command(built));
    command.push(workload.id().into());
    command.push(format!("ports={}", ports.join(",")).into());
    command.push(format!("secs={}", amount.duration.as_secs_f64()).into());
    command.push(format!("warm={}", warm_up.as_secs_f64()).into());
    command.extend(variant.settings().into_iter().map(Into::into));
    let output = scratch.join(format!("{}.output", variant.id()));
    let mut held = Program { name: variant.name.into(), command, dir: scratch.to_owned(), output }.start()?;
    let (before, after, counted) = follow(&mut held, servers, warm_up, amount.duration)?;
    sample(workload, &counted, &before, &after)
}

/// How long a program runs before it counts.
pub(super) fn warm_up(variant: &Variant, amount: Amount) -> Duration {
    variant.warm_up.mul_f64((amount.duration.as_secs_f64() / BRIEF.as_secs_f64()).min(1.0))
}

fn follow(
    held: &mut Held,
    servers: &Servers,
    warm_up: Duration,
    duration: Duration,
) -> anyhow::Result<(Counters, Counters, Counted)> {
    held.wait_until(warm_up + EXTRA, "it measures", |held| {
        held.output().lines().any(|line| line == "START").then_some(())
    })?;
    let before = servers.counters()?;
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| *left > LOOK) {
        interrupt::check()?;
        std::thread::sleep(LOOK.min(left - LOOK));
    }
    let line = held.wait_until(LOOK + EXTRA, "it has measured", |held| {
        let output = held.output();
        let (_, rest) = output.split_once("END ")?;
        Some(rest.split_once('\n')?.0.to_owned())
    })?;
    Ok((before, servers.counters()?, parse(&line)?))
}

fn parse(line: &str) -> anyhow::Result<Counted> {
    serde_json::from_str(line).with_context(|| format!("no END line of a program: {line}"))
}

/// Unless the workload says otherwise, every key that is asked for exists, so what was missing or wrong makes the
/// measurement worth nothing.
pub(super) fn sample(
    workload: Workload,
    counted: &Counted,
    before: &Counters,
    after: &Counters,
) -> anyhow::Result<Sample> {
    ensure!(counted.ops > 0, "not one answer came back");
    let missing = if workload.may_miss() { 0 } else { after.grown("keyspace_misses", before) };
    let wrong = counted.errors.max(missing);
    ensure!(wrong == 0, "{wrong} answers were wrong");
    let servers_us = after.cpu_since(before).as_secs_f64() * 1e6 / counted.ops as f64;
    Ok(counted.sample(Some(servers_us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_at_their_end() {
        let line = r#"{"workload":"w1","ops":10,"errors":0,"secs":1.5,"ops_s":6.7,"cpu_us":0.5,"p50":3.25,"p99":9,"p999":9.5}"#;
        let counted = parse(line).expect("an END line");
        assert_eq!((counted.ops, counted.cpu_us, counted.p999), (10, 0.5, Some(9.5)));
        assert!(parse("{}").is_err());
    }
}
