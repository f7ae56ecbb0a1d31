//! What gateways on one Redis Cluster tell each other, and what that takes of them and of the primaries.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Scale;
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Measure, Sample};
use crate::gateway::loads::{self, Kept, Tier};
use crate::gateway::running::wait;
use crate::load::{self, Load, Pace, Requests, get};
use crate::processes::usage;

const PURGES: u32 = 100;
const RECORDS: u32 = 500;
const LIMIT: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 8;

/// What is done, at the first of the gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing, for a second.
    Second,
    /// An answer is stored that none has had.
    Record,
    /// A tag is purged, and all others have confirmed it.
    Purge,
}

/// Gateways that are started once and kept.
pub(super) struct Told {
    pub(super) kept: Kept,
    pub(super) work: Work,
    pub(super) scale: Scale,
    /// Records so far.
    pub(super) stored: u32,
}

impl Measure for Told {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let (work, scale, first) = (self.work, self.scale, self.stored);
        let core = self.kept.lab.load_core();
        self.stored += scale.of(RECORDS);
        self.kept.with(|tier| {
            let count = match work {
                Work::Second => amount.duration.as_secs_f64(),
                Work::Record => f64::from(scale.of(RECORDS)),
                Work::Purge => f64::from(scale.of(PURGES)),
            };
            sample(tier, count, || match work {
                Work::Second => {
                    thread::sleep(amount.duration);
                    Ok(())
                }
                Work::Record => store(tier, core, first..first + scale.of(RECORDS)),
                Work::Purge => purge(tier, scale.of(PURGES)),
            })
        })
    }

    fn beside(&self, amount: Amount) -> Duration {
        self.kept.beside(amount)
    }

    fn limit(&self, amount: Amount) -> Duration {
        self.kept.limit(amount) + 2 * LIMIT
    }
}

/// CPU time for each of so many: of all gateways, of all primaries, and of the busiest one.
fn sample(tier: &Tier, count: f64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Sample> {
    let mut groups = vec![("gateway", tier.own_pids())];
    groups.extend(tier.redis.pids().into_iter().map(|pid| ("redis", vec![pid])));
    let ((), used) = usage::during(&groups, work)?;
    let each: Vec<f64> = used.iter().map(|used| used.as_secs_f64() * 1e6 / count).collect();
    let (gateways, primaries) = each.split_first().context("CPU time of the gateways")?;
    // Each primary is asked on a connection of its own.
    let connected = tier.redis.counters("clients")?.get("connected_clients").copied().unwrap_or(0) as f64;
    let primary = connected / primaries.len() as f64 - 1.0;
    let busiest = primaries.iter().copied().fold(0.0, f64::max);
    let named = [("gateway", *gateways), ("redis", primaries.iter().sum()), (super::BUSIEST, busiest)];
    Ok(Sample {
        values: vec![(Metric::GatewayCpuUs, *gateways), (Metric::Connections, primary)],
        cpu_us: named.map(|(name, us)| (name.to_owned(), us)).into(),
        requests: count as u64,
        ..Sample::default()
    })
}

/// Each is fetched by one gateway, written to Redis behind its answer, and told to all.
fn store(tier: &Tier, core: Option<usize>, numbers: std::ops::Range<u32>) -> anyhow::Result<()> {
    let (gateway, _) = tier.gateways.first().context("no gateway")?;
    let (before, count) = (tier.redis.keys()?, u64::from(numbers.end - numbers.start));
    let mut numbers = numbers;
    let next = move |out: &mut Vec<u8>| {
        let number = numbers.next();
        out.extend(number.map(|number| get(&format!("/new/{number}"))).unwrap_or_default());
        number.is_some()
    };
    loads::ask(core, gateway.address, CONNECTIONS, LIMIT, Requests::Each(Box::new(next)))?;
    wait("Redis has all records", || tier.redis.keys().is_ok_and(|keys| keys >= before + count))
}

/// One after the other; each is answered when all gateways have confirmed it.
fn purge(tier: &Tier, count: u32) -> anyhow::Result<()> {
    let (gateway, _) = tier.gateways.first().context("no gateway")?;
    let socket: PathBuf = gateway.dir().join(loads::ADMIN);
    let body = r#"{"tags":["lab"]}"#;
    let head = format!("POST /purge HTTP/1.1\r\nhost: pilotlight\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut left = count;
    let next = move |out: &mut Vec<u8>| {
        let more = left > 0;
        if more {
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(body.as_bytes());
            left -= 1;
        }
        more
    };
    let to = load::Target::Unix(socket);
    let load = Load { to, connections: 1, pace: Pace::Closed { depth: 1 }, duration: LIMIT };
    let outcome = load::run(&load, Requests::Each(Box::new(next)))?;
    ensure!(outcome.statuses.get(&200) == Some(&u64::from(count)), "purges answered {:?}", outcome.statuses);
    Ok(())
}
