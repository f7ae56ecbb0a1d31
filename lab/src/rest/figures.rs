//! What is wanted of examples/users, and what was measured: ratios of rounds, to the best peer of the same round.

use fastrand::Rng;

use super::case::{Case, SLOW_FSYNC};
use super::group_id;
use super::redis::Topology;
use super::variant::Variant;
use crate::experiment::model::{Figure, GroupResults, Metric, Role, Summary, VariantResults};
use crate::stats::{median, ratio_interval};

#[derive(Clone, Copy)]
enum Wanted {
    /// At most so many times the best peer's.
    AtMost(f64),
    /// At least so many times the best peer's.
    AtLeast(f64),
    /// At most so many times the time that an fsync takes on the slow disk.
    Fsyncs(f64),
}

struct Rule {
    case: Case,
    metric: Metric,
    wanted: Wanted,
}

const RULES: [Rule; 10] = [
    Rule { case: Case::GetWarm, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.55) },
    Rule { case: Case::List, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.5) },
    Rule { case: Case::Post, metric: Metric::PerSecond, wanted: Wanted::AtLeast(1.7) },
    Rule { case: Case::PostSlow, metric: Metric::PerSecond, wanted: Wanted::AtLeast(4.8) },
    Rule { case: Case::PostSlow100, metric: Metric::PerSecond, wanted: Wanted::AtLeast(30.0) },
    Rule { case: Case::Mixed, metric: Metric::PerSecond, wanted: Wanted::AtLeast(1.3) },
    Rule { case: Case::MixedSlow, metric: Metric::PerSecond, wanted: Wanted::AtLeast(7.0) },
    Rule { case: Case::Mixed, metric: Metric::P99Ms, wanted: Wanted::AtMost(1.0) },
    Rule { case: Case::MixedSlow, metric: Metric::P99Ms, wanted: Wanted::AtMost(1.0) },
    Rule { case: Case::PostSlow, metric: Metric::P99Ms, wanted: Wanted::Fsyncs(3.0) },
];

/// Beside the stack of the published measurement alone.
const HASKELL: [Rule; 8] = [
    Rule { case: Case::GetWarm, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.3) },
    Rule { case: Case::GetWarm, metric: Metric::PerSecond, wanted: Wanted::AtLeast(3.0) },
    Rule { case: Case::List, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.3) },
    Rule { case: Case::List, metric: Metric::PerSecond, wanted: Wanted::AtLeast(3.0) },
    Rule { case: Case::Post, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.3) },
    Rule { case: Case::Post, metric: Metric::PerSecond, wanted: Wanted::AtLeast(3.0) },
    Rule { case: Case::Mixed, metric: Metric::CpuUs, wanted: Wanted::AtMost(0.3) },
    Rule { case: Case::Mixed, metric: Metric::PerSecond, wanted: Wanted::AtLeast(3.0) },
];

/// What stands beside examples/users.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The best peer of each round.
    Best,
    /// This one, where it was measured.
    One(Variant),
}

impl Beside {
    fn has(self, variant: &VariantResults) -> bool {
        match self {
            Self::Best => variant.role == Role::Peer,
            Self::One(peer) => variant.id == peer.name(),
        }
    }

    fn title(self) -> String {
        match self {
            Self::Best => "best peer".into(),
            Self::One(peer) => peer.name(),
        }
    }
}

/// All of them for what was measured.
pub(super) fn compare(groups: &[GroupResults], seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for topology in [Topology::Standalone, Topology::Cluster] {
        for rule in &RULES {
            let id = group_id(rule.case, topology);
            let group = groups.iter().find(|group| group.id == id);
            figures.extend(group.map(|group| figure(rule, topology, group, Beside::Best, seed)));
        }
        let haskell = Beside::One(Variant::HaskellWarp);
        for rule in &HASKELL {
            let id = group_id(rule.case, topology);
            let group = groups.iter().find(|group| group.id == id);
            let group = group.filter(|group| group.variants.iter().any(|variant| haskell.has(variant)));
            figures.extend(group.map(|group| figure(rule, topology, group, haskell, seed)));
        }
    }
    figures
}

fn figure(rule: &Rule, topology: Topology, group: &GroupResults, beside: Beside, seed: u64) -> Figure {
    let own = group.variants.iter().find(|variant| variant.id == Variant::Users.name());
    let own = own.map(|own| rounds(own, rule.metric)).unwrap_or_default();
    let peers = group.variants.iter().filter(|variant| beside.has(variant));
    let peers: Vec<Vec<Option<f64>>> = peers.map(|peer| rounds(peer, rule.metric)).collect();
    let best = |pick: fn(f64, f64) -> f64| {
        let of_round = |round: usize| peers.iter().filter_map(move |peer| *peer.get(round)?);
        (0..own.len()).map(|round| of_round(round).reduce(pick)).collect::<Vec<_>>()
    };
    let other = match rule.wanted {
        Wanted::AtMost(_) => best(f64::min),
        Wanted::AtLeast(_) => best(f64::max),
        Wanted::Fsyncs(_) => vec![Some(SLOW_FSYNC.as_secs_f64() * 1e3); own.len()],
    };
    let measured = ratio(&own, &other, seed);
    let (wanted, met) = match rule.wanted {
        Wanted::AtMost(most) | Wanted::Fsyncs(most) => (format!("≤ {most}"), measured.map(|m| m.median <= most)),
        Wanted::AtLeast(least) => (format!("≥ {least}"), measured.map(|m| m.median >= least)),
    };
    let is_fsyncs = matches!(rule.wanted, Wanted::Fsyncs(_));
    let beside = if is_fsyncs { "in fsyncs".into() } else { format!("× {}", beside.title()) };
    let name =
        format!("{} ({}): {}, {beside}", rule.case.name(), format!("{topology:?}").to_lowercase(), rule.metric.title());
    Figure { name, wanted, measured, rounds: Vec::new(), met: group.judged(rule.metric, met) }
}

fn rounds(variant: &VariantResults, metric: Metric) -> Vec<Option<f64>> {
    variant.rounds.iter().map(|round| round.get(&metric).copied()).collect()
}

/// The median of the rounds' ratios; of one round without an interval.
fn ratio(own: &[Option<f64>], other: &[Option<f64>], seed: u64) -> Option<Summary> {
    let ratios: Vec<f64> = own.iter().zip(other).filter_map(|(own, other)| Some((*own)? / (*other)?)).collect();
    let middle = median(&ratios)?;
    let interval = ratio_interval(own, other, &mut Rng::with_seed(seed));
    Some(interval.map_or(Summary { median: middle, low: middle, high: middle }, Summary::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn variant(service: Variant, metric: Metric, values: &[f64]) -> VariantResults {
        VariantResults {
            id: service.name(),
            title: service.name(),
            role: if service.is_peer() { Role::Peer } else { Role::Subject },
            software: Vec::new(),
            failed: None,
            rounds: values.iter().map(|value| BTreeMap::from([(metric, *value)])).collect(),
            summary: BTreeMap::new(),
            cpu_us: BTreeMap::new(),
            latency: None,
            phases: Vec::new(),
            requests: 0,
        }
    }

    fn group(case: Case, variants: Vec<VariantResults>) -> GroupResults {
        GroupResults {
            id: group_id(case, Topology::Standalone),
            title: String::new(),
            workload: String::new(),
            metrics: Vec::new(),
            rounds: 2,
            seconds: 1.0,
            variants,
            controls: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    #[test]
    fn the_best_peer_of_each_round_counts() {
        let (cpu, rate) = (Metric::CpuUs, Metric::PerSecond);
        let groups = [
            group(
                Case::GetWarm,
                vec![
                    variant(Variant::Users, cpu, &[5.0, 6.0]),
                    variant(Variant::AxumFred, cpu, &[10.0, 40.0]),
                    variant(Variant::GoRueidis, cpu, &[20.0, 12.0]),
                ],
            ),
            group(
                Case::PostSlow,
                vec![
                    variant(Variant::Users, rate, &[900.0]),
                    variant(Variant::AxumFred, rate, &[100.0]),
                    variant(Variant::NodeIoredis, rate, &[300.0]),
                ],
            ),
            group(Case::Mixed, vec![variant(Variant::AxumFred, rate, &[300.0])]),
        ];
        let figures = compare(&groups, 1);
        #[track_caller]
        fn check(figures: &[Figure], start: &str, measured: Option<f64>, met: Option<bool>) {
            let found = figures.iter().find(|figure| figure.name.starts_with(start)).expect("a figure");
            assert_eq!((found.measured.map(|summary| summary.median), found.met), (measured, met), "{found:?}");
        }
        check(&figures, "get-warm (standalone): CPU", Some(0.5), Some(true));
        check(&figures, "post-slow (standalone): throughput", Some(3.0), Some(false));
        check(&figures, "mixed (standalone): throughput", None, None);
        let haskell = [variant(Variant::Users, rate, &[9.0, 8.0]), variant(Variant::HaskellWarp, rate, &[3.0, 2.0])];
        let figures = compare(&[group(Case::GetWarm, haskell.into())], 1);
        let found =
            figures.iter().find(|figure| figure.name.ends_with("throughput, × haskell-warp")).expect("a figure");
        assert_eq!((found.measured.map(|summary| summary.median), found.met), (Some(3.5), Some(true)));
        let in_fsyncs = group(Case::PostSlow, vec![variant(Variant::Users, Metric::P99Ms, &[12.5, 12.5])]);
        check(&compare(&[in_fsyncs], 1), "post-slow (standalone): p99, in fsyncs", Some(2.5), Some(true));
    }
}
