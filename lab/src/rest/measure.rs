//! One measurement: a fresh process on a fresh copy of the database, an empty cache, a warm-up, the load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::case::{Case, every_user};
use super::redis::Redis;
use super::variant::{Programs, Running, Variant};
use crate::load::{self, Load};
use crate::processes::usage;

/// A warm-up that has to be whole may take so long.
const FILL_LIMIT: Duration = Duration::from_secs(60);
/// Emails of the warm-up begin otherwise than those that count.
const WARM_UP: &str = "w";
const COUNTED: &str = "n";

/// How long, and with what random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    pub(super) seed: u64,
}

/// What one variant did in one round of a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Round {
    pub(super) per_second: f64,
    /// CPU time of the service, and of the gateway before it, for an answer.
    pub(super) cpu_us: f64,
    /// CPU time of Redis for an answer.
    pub(super) redis_cpu_us: f64,
    pub(super) p50_ms: f64,
    pub(super) p97_5_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p99_9_ms: f64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) rss_bytes: u64,
}

/// Measures once.
///
/// # Errors
/// The service does not start, does not answer, or answers what the case does not expect.
pub(super) fn measure(
    programs: &Programs,
    (variant, case): (Variant, Case),
    (redis, seed_db): (&Redis, &Path),
    dir: PathBuf,
    amount: Amount,
) -> anyhow::Result<Round> {
    redis.flush().context("Redis cannot be flushed")?;
    let running = Running::start(programs, variant, case, (redis, seed_db), dir)?;
    let round = (|| {
        warm_up(&running, case, amount)?;
        if !case.is_warm() {
            redis.flush().context("Redis cannot be flushed")?;
        }
        run(&running, case, redis, amount)
    })();
    round.with_context(|| match running.output() {
        output if output.trim().is_empty() => format!("{} printed nothing", variant.name()),
        output => format!("{} printed: {}", variant.name(), output.trim().lines().last().unwrap_or_default()),
    })
}

/// Compilers of the service, its connections, and, where the case wants it, its cache.
fn warm_up(running: &Running, case: Case, amount: Amount) -> anyhow::Result<()> {
    let load = case.load(running.address, amount.warm_up);
    // A cold cache must stay cold, in Redis and in the gateway.
    let kind = if case == Case::GetCold { Case::List } else { case };
    let outcome = load::run(load, kind.requests(amount.seed + 1, WARM_UP)).context("warm-up")?;
    check(kind, &outcome.statuses)?;
    if case.is_warm() {
        let whole = Load { duration: FILL_LIMIT, ..load };
        let outcome = load::run(whole, every_user()).context("filling the cache")?;
        check(case, &outcome.statuses)?;
    }
    Ok(())
}

fn run(running: &Running, case: Case, redis: &Redis, amount: Amount) -> anyhow::Result<Round> {
    let (pids, redis_pids) = (running.pids(), redis.pids());
    let used = || (usage::cpu_time(&pids), usage::cpu_time(&redis_pids));
    let before = used();
    let outcome = load::run(case.load(running.address, amount.duration), case.requests(amount.seed, COUNTED))?;
    let after = used();
    check(case, &outcome.statuses)?;
    ensure!(outcome.answers > 0, "no answer in {} s", amount.duration.as_secs_f64());
    let each =
        |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / outcome.answers as f64;
    Ok(Round {
        per_second: outcome.per_second(),
        cpu_us: each(before.0, after.0),
        redis_cpu_us: each(before.1, after.1),
        p50_ms: outcome.times.median_ms(),
        p97_5_ms: outcome.times.percentile_ms(97.5),
        p99_ms: outcome.times.percentile_ms(99.0),
        p99_9_ms: outcome.times.percentile_ms(99.9),
        statuses: outcome.statuses,
        rss_bytes: usage::memory(&pids).rss_bytes,
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
