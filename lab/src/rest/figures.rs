//! What is wanted of examples/users, and what was measured: ratios of rounds, to the best peer of the same round.

use fastrand::Rng;
use serde::Serialize;

use super::case::{Case, SLOW_FSYNC};
use super::measure::Round;
use super::redis::Topology;
use super::results::CaseResult;
use super::variant::Variant;
use crate::stats::{median, ratio_interval};

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) wanted: String,
    pub(super) measured: Option<f64>,
    /// 95 %; `None` for fewer than two rounds.
    pub(super) interval: Option<(f64, f64)>,
    /// By its median; `None`: not measured.
    pub(super) met: Option<bool>,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// At most so many times the best peer's.
    AtMost(f64),
    /// At least so many times the best peer's.
    AtLeast(f64),
}

struct Rule {
    case: Case,
    what: &'static str,
    value: fn(&Round) -> f64,
    wanted: Wanted,
}

const RULES: [Rule; 10] = [
    Rule { case: Case::GetWarm, what: "CPU of a request", value: cpu, wanted: Wanted::AtMost(0.55) },
    Rule { case: Case::List, what: "CPU of a request", value: cpu, wanted: Wanted::AtMost(0.5) },
    Rule { case: Case::Post, what: "req/s", value: rate, wanted: Wanted::AtLeast(1.7) },
    Rule { case: Case::PostSlow, what: "req/s", value: rate, wanted: Wanted::AtLeast(4.8) },
    Rule { case: Case::PostSlow100, what: "req/s", value: rate, wanted: Wanted::AtLeast(30.0) },
    Rule { case: Case::Mixed, what: "req/s", value: rate, wanted: Wanted::AtLeast(1.3) },
    Rule { case: Case::MixedSlow, what: "req/s", value: rate, wanted: Wanted::AtLeast(7.0) },
    Rule { case: Case::Mixed, what: "p99", value: p99, wanted: Wanted::AtMost(1.0) },
    Rule { case: Case::MixedSlow, what: "p99", value: p99, wanted: Wanted::AtMost(1.0) },
    Rule { case: Case::PostSlow, what: "p99 in fsyncs", value: p99, wanted: Wanted::AtMost(3.0) },
];

fn cpu(round: &Round) -> f64 {
    round.cpu_us
}

fn rate(round: &Round) -> f64 {
    round.per_second
}

fn p99(round: &Round) -> f64 {
    round.p99_ms
}

/// All of them for what was measured.
pub(super) fn compare(results: &[CaseResult], seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for topology in [Topology::Standalone, Topology::Cluster] {
        for rule in &RULES {
            let of_case: Vec<&CaseResult> =
                results.iter().filter(|result| result.case == rule.case && result.redis == topology).collect();
            if !of_case.is_empty() {
                figures.push(figure(rule, topology, &of_case, seed));
            }
        }
    }
    figures
}

fn figure(rule: &Rule, topology: Topology, results: &[&CaseResult], seed: u64) -> Figure {
    let own = results.iter().find(|result| result.service == Variant::Users).map(|result| result.each(rule.value));
    let own = own.unwrap_or_default();
    let in_fsyncs = rule.what.ends_with("fsyncs");
    let other: Vec<Option<f64>> = if in_fsyncs {
        own.iter().map(|_| Some(SLOW_FSYNC.as_secs_f64() * 1e3)).collect()
    } else {
        let peers: Vec<_> =
            results.iter().filter(|result| result.service.is_peer()).map(|peer| peer.each(rule.value)).collect();
        (0..own.len()).map(|round| best(peers.iter().filter_map(|peer| *peer.get(round)?), rule.wanted)).collect()
    };
    let ratios: Vec<f64> = own.iter().zip(&other).filter_map(|(own, other)| Some((*own)? / (*other)?)).collect();
    let measured = median(&ratios);
    let interval =
        ratio_interval(&own, &other, &mut Rng::with_seed(seed)).map(|interval| (interval.low, interval.high));
    let (wanted, met) = match rule.wanted {
        Wanted::AtMost(most) => (format!("≤ {most}"), measured.map(|measured| measured <= most)),
        Wanted::AtLeast(least) => (format!("≥ {least}"), measured.map(|measured| measured >= least)),
    };
    let beside = if in_fsyncs { "" } else { ", × best peer" };
    let name = format!("{} ({topology:?}): {}{beside}", rule.case.name(), rule.what).to_lowercase();
    Figure { name, wanted, measured, interval, met }
}

fn best(values: impl Iterator<Item = f64>, wanted: Wanted) -> Option<f64> {
    match wanted {
        Wanted::AtMost(_) => values.reduce(f64::min),
        Wanted::AtLeast(_) => values.reduce(f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn result(case: Case, service: Variant, values: &[(f64, f64)]) -> CaseResult {
        let round = |&(per_second, cpu_us): &(f64, f64)| {
            Some(Round {
                per_second,
                cpu_us,
                redis_cpu_us: 0.0,
                p50_ms: 1.0,
                p97_5_ms: 1.0,
                p99_ms: 12.5,
                p99_9_ms: 1.0,
                statuses: BTreeMap::new(),
                rss_bytes: 0,
            })
        };
        let mut result = CaseResult::new(case, service, Topology::Standalone);
        result.rounds = values.iter().map(round).collect();
        result
    }

    #[test]
    fn the_best_peer_of_each_round_counts() {
        let results = [
            result(Case::GetWarm, Variant::Users, &[(1.0, 5.0), (1.0, 6.0)]),
            result(Case::GetWarm, Variant::AxumFred, &[(1.0, 10.0), (1.0, 40.0)]),
            result(Case::GetWarm, Variant::GoRueidis, &[(1.0, 20.0), (1.0, 12.0)]),
            result(Case::PostSlow, Variant::Users, &[(900.0, 1.0)]),
            result(Case::PostSlow, Variant::AxumFred, &[(100.0, 1.0)]),
            result(Case::PostSlow, Variant::NodeIoredis, &[(300.0, 1.0)]),
            result(Case::Mixed, Variant::AxumFred, &[(300.0, 1.0)]),
        ];
        let figures = compare(&results, 1);
        let found = |start: &str| figures.iter().find(|figure| figure.name.starts_with(start)).expect("a figure");
        assert_eq!((found("get-warm").measured, found("get-warm").met), (Some(0.5), Some(true)));
        assert_eq!((found("post-slow (standalone): req").measured, found("post-slow (").met), (Some(3.0), Some(false)));
        assert_eq!(
            (found("post-slow (standalone): p99").measured, found("post-slow (standalone): p99").met),
            (Some(2.5), Some(true))
        );
        assert_eq!(found("mixed (").met, None);
    }
}
