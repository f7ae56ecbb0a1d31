//! The report as data, and on a terminal.

use serde::Serialize;

use super::case::Case;
use super::figures::Figure;
use super::measure::Round;
use super::published::Published;
use super::redis::Topology;
use super::variant::{Programs, Variant};
use crate::machine::Machine;
use crate::report::{Table, maybe, number};
use crate::stats::median;

/// The name and version of this shape.
pub(super) const SCHEMA: &str = "pilotlight-lab-rest/1";

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    pub(super) schema: &'static str,
    /// RFC 3339.
    pub(super) started_at: String,
    pub(super) duration_seconds: f64,
    pub(super) machine: Machine,
    /// Processes that ran or wanted to, before and after.
    pub(super) load_average: [f64; 2],
    pub(super) configuration: Configuration,
    pub(super) skipped: Vec<Skipped>,
    pub(super) results: Vec<CaseResult>,
    pub(super) figures: Vec<Figure>,
    pub(super) published: Vec<Published>,
    pub(super) published_note: &'static str,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    pub(super) secs: u64,
    pub(super) warmup: u64,
    pub(super) rounds: u32,
    pub(super) cases: Vec<Case>,
    pub(super) services: Vec<Variant>,
    pub(super) redis: Vec<Topology>,
    pub(super) seed: u64,
}

/// What was not measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Skipped {
    pub(super) what: String,
    pub(super) why: String,
}

/// A service in a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CaseResult {
    pub(super) case: Case,
    pub(super) service: Variant,
    pub(super) redis: Topology,
    /// In order.
    pub(super) rounds: Vec<Option<Round>>,
    /// Why it was given up.
    pub(super) failed: Option<String>,
}

impl CaseResult {
    pub(super) fn new(case: Case, service: Variant, redis: Topology) -> Self {
        Self { case, service, redis, rounds: Vec::new(), failed: None }
    }

    pub(super) fn title(&self) -> String {
        format!("{} {} ({:?})", self.case.name(), self.service.name(), self.redis).to_lowercase()
    }

    /// One value of each round.
    pub(super) fn each(&self, value: impl Fn(&Round) -> f64) -> Vec<Option<f64>> {
        self.rounds.iter().map(|round| round.as_ref().map(&value)).collect()
    }

    pub(super) fn median(&self, value: impl Fn(&Round) -> f64) -> Option<f64> {
        median(&self.each(value).into_iter().flatten().collect::<Vec<_>>())
    }
}

/// What there is to measure.
pub(super) fn list(programs: &Programs) -> String {
    let mut out = String::from("scenarios (--cases)\n");
    let slow = programs.slow_disk().err();
    for case in Case::ALL {
        let missing = slow.as_ref().filter(|_| case.is_slow()).map_or_else(String::new, |why| format!("  [{why}]"));
        out.push_str(&format!("  {:<14} {}{missing}\n", case.name(), case.description()));
    }
    out.push_str("services (--services)\n");
    for variant in Variant::ALL {
        let missing = programs.command(variant).err().map_or_else(String::new, |why| format!("  [{why}]"));
        out.push_str(&format!("  {:<14} {}{missing}\n", variant.name(), variant.description()));
    }
    out
}

/// Tables: one for each scenario, then the figures.
pub(super) fn terminal(results: &Results) -> String {
    let mut out = String::new();
    for topology in &results.configuration.redis {
        for case in &results.configuration.cases {
            let of_case = || results.results.iter().filter(|result| result.case == *case && result.redis == *topology);
            out.push_str(&format!("{}, Redis {topology:?}: {}\n", case.name(), case.description()));
            out.push_str(&table(of_case()).text());
            for failed in of_case().filter(|result| result.failed.is_some()) {
                out.push_str(&format!(
                    "FAILED: {}: {}\n",
                    failed.title(),
                    failed.failed.as_deref().unwrap_or_default()
                ));
            }
            for row in results.published.iter().filter(|row| row.case == *case) {
                let p99 = row.p99_ms.map_or_else(String::new, |ms| format!(", p99 {} ms", number(ms)));
                let (stack, rate) = (row.stack, number(row.per_second));
                out.push_str(&format!("published, {}: {stack}: {rate}/s{p99}\n", results.published_note));
            }
            out.push('\n');
        }
    }
    if !results.figures.is_empty() {
        out.push_str("What is wanted of examples/users (alone), beside the best peer of each round\n");
        out.push_str(&figures(&results.figures).text());
    }
    for skipped in &results.skipped {
        out.push_str(&format!("skipped: {}: {}\n", skipped.what, skipped.why));
    }
    let [before, after] = results.load_average;
    out.push_str(&format!(
        "{} rounds of {} s; {} cores; load average {} before, {} after\n",
        results.configuration.rounds,
        results.configuration.secs,
        results.machine.cores,
        number(before),
        number(after)
    ));
    out
}

fn table<'a>(results: impl Iterator<Item = &'a CaseResult>) -> Table {
    let headings = [
        "service",
        "req/s",
        "least – most",
        "CPU µs",
        "Redis µs",
        "p50 ms",
        "p97.5",
        "p99",
        "p99.9",
        "RSS MB",
        "statuses",
    ];
    let mut table = Table::new(headings);
    for result in results {
        let rates: Vec<f64> = result.each(|round| round.per_second).into_iter().flatten().collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let spread = if rates.is_empty() { "–".into() } else { format!("{} – {}", number(least), number(most)) };
        table.row([
            result.service.name(),
            maybe(result.median(|round| round.per_second)),
            spread,
            maybe(result.median(|round| round.cpu_us)),
            maybe(result.median(|round| round.redis_cpu_us)),
            maybe(result.median(|round| round.p50_ms)),
            maybe(result.median(|round| round.p97_5_ms)),
            maybe(result.median(|round| round.p99_ms)),
            maybe(result.median(|round| round.p99_9_ms)),
            maybe(result.median(|round| round.rss_bytes as f64 / 1e6)),
            statuses(result),
        ]);
    }
    table
}

fn statuses(result: &CaseResult) -> String {
    let mut sums = std::collections::BTreeMap::<u16, u64>::new();
    for round in result.rounds.iter().flatten() {
        for (status, count) in &round.statuses {
            *sums.entry(*status).or_default() += count;
        }
    }
    sums.iter().map(|(status, count)| format!("{status}:{count}")).collect::<Vec<_>>().join(" ")
}

fn figures(figures: &[Figure]) -> Table {
    let mut table = Table::new(["figure", "wanted", "measured", "95 % interval", "met"]);
    for figure in figures {
        let interval =
            figure.interval.map_or_else(|| "–".into(), |(low, high)| format!("{} – {}", number(low), number(high)));
        let met = figure.met.map_or("not measured", |met| if met { "yes" } else { "no" });
        table.row([figure.name.clone(), figure.wanted.clone(), maybe(figure.measured), interval, met.into()]);
    }
    table
}
