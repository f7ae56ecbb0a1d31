//! What is wanted of the experiment, beside what was measured.

use super::gateways::Kind;
use super::load_groups::{FLOOR, OWN, PIPE};
use crate::experiment::model::{Figure, GroupResults, Metric, Results, Summary, Verdict};

const NGINX: &str = Kind::Nginx.id();
const HAPROXY: &str = Kind::Haproxy.id();
/// Of one cached answer with requests in flight.
const PIPELINED_US: f64 = 2.5;
/// What a gateway may add to a cold start.
const START_MS: f64 = 2.0;

/// Adds the figures.
pub(super) fn add(results: &mut Results) {
    let figures = results.groups.iter().flat_map(of_group).collect::<Vec<_>>();
    results.figures.extend(figures);
    let findings = results.groups.iter().flat_map(|group| findings(group).into_iter().chain(doubts(group)));
    let findings = findings.collect::<Vec<_>>();
    results.findings.extend(findings);
}

fn of_group(group: &GroupResults) -> Vec<Figure> {
    let ratio = |name: &str, limit: f64, metric, others: &[&str]| {
        let worst = others.iter().filter_map(|other| compared(group, metric, OWN, other));
        let worst = worst.max_by(|one, other| one.median.total_cmp(&other.median));
        Figure::at_most(group, metric, format!("{}: {name}", group.id), (limit, " ×"), worst)
    };
    let pipe = |name: &str, metric| {
        let name = format!("{}: {name}, the pipe / HTTP", group.id);
        Figure::at_most(group, metric, name, (1.0, " ×"), compared(group, metric, PIPE, OWN))
    };
    match group.id.as_str() {
        "cached" => vec![
            ratio("CPU of a request / the floor", 1.3, Metric::CpuUs, &[FLOOR]),
            ratio("CPU of a request / nginx", 0.6, Metric::CpuUs, &[NGINX]),
        ],
        "pipelined" => {
            let own = group.variants.iter().find(|variant| variant.id == OWN && variant.failed.is_none());
            let cpu = own.and_then(|own| own.summary.get(&Metric::CpuUs).copied());
            vec![Figure::at_most(
                group,
                Metric::CpuUs,
                "pipelined: CPU of a request".into(),
                (PIPELINED_US, " µs"),
                cpu,
            )]
        }
        id if id.starts_with("proxy-one") => vec![
            ratio("time of a request / the better of nginx and HAProxy", 1.0, Metric::P50Ms, &[NGINX, HAPROXY]),
            pipe("CPU of gateway and service", Metric::CpuUs),
        ],
        id if id.starts_with("proxy") => vec![
            ratio(
                "CPU of the gateway / the better of nginx and HAProxy",
                0.75,
                Metric::GatewayCpuUs,
                &[NGINX, HAPROXY],
            ),
            ratio("p99 / the better of nginx and HAProxy", 1.0, Metric::P99Ms, &[NGINX, HAPROXY]),
            pipe("CPU of gateway and service", Metric::CpuUs),
        ],
        id if id.starts_with("cold") => {
            let added = |name: &str, one, other| {
                let part = compared(group, Metric::ColdMs, one, other);
                let name = format!("{id}: what the gateway adds to a start, {name}");
                let found = Figure::at_most(group, Metric::ColdMs, name, (START_MS, " ms"), part);
                Figure { met: found.met.filter(|_| !part.is_some_and(is_below_nothing)), ..found }
            };
            vec![added("the pipe", PIPE, super::cold::BARE_PIPE), added("HTTP", OWN, super::cold::BARE_HTTP)]
        }
        _ => Vec::new(),
    }
}

/// No gateway makes a start shorter. Where a start takes less with one for certain, the start beside it was slow, and
/// what it says of the gateway is worth nothing.
fn is_below_nothing(added: Summary) -> bool {
    added.high < 0.0
}

fn compared(group: &GroupResults, metric: Metric, one: &str, other: &str) -> Option<Summary> {
    let asked = group
        .comparisons
        .iter()
        .find(|asked| (asked.metric, asked.one.as_str(), asked.other.as_str()) == (metric, one, other));
    asked?.value
}

/// Figures that are not judged although they were measured.
fn doubts(group: &GroupResults) -> Vec<String> {
    let sides = [("the pipe", PIPE, super::cold::BARE_PIPE), ("HTTP", OWN, super::cold::BARE_HTTP)];
    let below = sides
        .into_iter()
        .filter(|(_, one, other)| compared(group, Metric::ColdMs, one, other).is_some_and(is_below_nothing));
    below
        .map(|(name, ..)| {
            format!(
                "{}: over {name}, a start takes less with the gateway than without one, which cannot be: the start without one was disturbed, \
                 and what the gateway adds is not judged.",
                group.title
            )
        })
        .collect()
}

/// What a group says about its first metric, in a sentence.
fn findings(group: &GroupResults) -> Option<String> {
    let metric = group.metrics.first()?;
    let named = |verdict| {
        let asked =
            group.comparisons.iter().filter(|asked| asked.metric == *metric && asked.one == OWN && !asked.difference);
        let others = asked
            .filter(|asked| asked.verdict == verdict)
            .filter_map(|asked| Some(group.variants.iter().find(|variant| variant.id == asked.other)?.title.as_str()));
        others.collect::<Vec<_>>().join(", ")
    };
    let sides = [
        (Verdict::Less, "less than"),
        (Verdict::NoDifference, "not told apart from"),
        (Verdict::More, "more than"),
        (Verdict::NotComparable, "not comparable with"),
    ];
    let said: Vec<String> = sides
        .into_iter()
        .map(|(verdict, words)| (words, named(verdict)))
        .filter(|(_, names)| !names.is_empty())
        .map(|(words, names)| format!("{words} {names}"))
        .collect();
    (!said.is_empty()).then(|| format!("{}: {} of Pilotlight is {}.", group.title, metric.title(), said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::cold::{BARE_HTTP, BARE_PIPE};
    use crate::experiment::model::Comparison;

    fn group(id: &str, compared: &[(Metric, &str, &str, f64)]) -> GroupResults {
        let comparison = |(metric, one, other, median): &(Metric, &str, &str, f64)| Comparison {
            question: String::new(),
            metric: *metric,
            one: (*one).into(),
            other: (*other).into(),
            value: Some(Summary { median: *median, low: *median, high: *median }),
            difference: false,
            verdict: Verdict::Less,
            reason: None,
        };
        GroupResults {
            id: id.into(),
            title: "A title".into(),
            workload: String::new(),
            metrics: vec![Metric::CpuUs],
            rounds: 2,
            seconds: 1.0,
            variants: Vec::new(),
            controls: Vec::new(),
            comparisons: compared.iter().map(comparison).collect(),
        }
    }

    #[track_caller]
    fn check(group: &GroupResults, wanted: &[(&str, Option<bool>)]) {
        let found = of_group(group);
        let found: Vec<_> = found.iter().map(|figure| (figure.wanted.as_str(), figure.met)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_figure_is_met_by_its_median() {
        let both = [(Metric::CpuUs, OWN, FLOOR, 1.29), (Metric::CpuUs, OWN, NGINX, 0.61)];
        check(&group("cached", &both), &[("≤ 1.3 ×", Some(true)), ("≤ 0.6 ×", Some(false))]);
    }

    #[test]
    fn the_better_of_two_is_the_one_that_is_harder_to_beat() {
        let both = [(Metric::GatewayCpuUs, OWN, NGINX, 0.7), (Metric::GatewayCpuUs, OWN, HAPROXY, 0.9)];
        check(&group("proxy", &both), &[("≤ 0.75 ×", Some(false)), ("≤ 1 ×", None), ("≤ 1 ×", None)]);
    }

    #[test]
    fn a_start_that_is_shorter_with_a_gateway_says_nothing_about_the_gateway() {
        let both = [(Metric::ColdMs, PIPE, BARE_PIPE, 1.9), (Metric::ColdMs, OWN, BARE_HTTP, -3.8)];
        let mut group = group("cold-rust", &both);
        check(&group, &[("≤ 2 ms", Some(true)), ("≤ 2 ms", None)]);
        let doubts = doubts(&group);
        assert!(doubts.len() == 1 && doubts[0].starts_with("A title: over HTTP, a start takes less"), "{doubts:?}");
        // What may as well be nothing is nothing.
        let nothing = Summary { median: -0.1, low: -0.4, high: 0.2 };
        group.comparisons[1].value = Some(nothing);
        check(&group, &[("≤ 2 ms", Some(true)), ("≤ 2 ms", Some(true))]);
        assert_eq!(super::doubts(&group), [""; 0]);
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        check(&group("cold-rust", &[]), &[("≤ 2 ms", None), ("≤ 2 ms", None)]);
        check(&group("pipelined", &[]), &[("≤ 2.5 µs", None)]);
    }
}
