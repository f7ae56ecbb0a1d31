//! Which transport to use for which language, and what of the results is to be doubted: sentences of the report.

use clap::ValueEnum as _;

use super::cases::{Case, Front, Variant};
use super::experiment::Kind;
use super::services::Language;
use crate::experiment::model::{Comparison, GroupResults, Metric, Results, Role, VariantResults, Verdict};
use crate::report::number;

/// The pipe is advised where it takes at most this part of what HTTP takes, in cold starts or in CPU time.
const WORTH_IT: f64 = 0.9;
const OPEN: &str = "this run leaves it open";
/// Fewer have no p99.
const ENOUGH_FOR_P99: u64 = 1000;

/// What to use for each language, then what is to be doubted.
pub(super) fn findings(results: &Results) -> Vec<String> {
    let advice = Language::value_variants().iter().filter_map(|language| advice(*language, &results.groups));
    advice.chain(doubts(&results.groups)).collect()
}

/// What is asked of the pipe and HTTP in one language.
struct Fact<'a> {
    what: &'static str,
    comparison: &'a Comparison,
    /// The HTTP server's name.
    server: &'a str,
}

/// The rule: the pipe where it saves a tenth of a cold start or of CPU time; HTTP, which everything speaks, where it
/// saves less than that of both; undecided where the intervals leave it open.
fn advice(language: Language, groups: &[GroupResults]) -> Option<String> {
    let cold = fact(groups, language, (Case::PipeCold, Case::HttpCold), Metric::ColdMs, "a cold start");
    let cpu = fact(groups, language, (Case::PipeWarm, Case::HttpWarm), Metric::CpuUs, "CPU time of a warm request");
    let time = fact(groups, language, (Case::PipeWarm, Case::HttpWarm), Metric::P50Ms, "a warm request");
    let deciding: Vec<&Comparison> = [&cold, &cpu].into_iter().flatten().map(|fact| fact.comparison).collect();
    let worth_it = |found: &&Comparison| {
        found.verdict == Verdict::Less && found.value.is_some_and(|ratio| ratio.median <= WORTH_IT)
    };
    let not_worth_it = |found: &&Comparison| found.value.is_some_and(|ratio| ratio.low > WORTH_IT);
    let (known, unknown): (Vec<Fact<'_>>, Vec<Fact<'_>>) =
        [cold, cpu, time].into_iter().flatten().partition(|fact| fact.comparison.verdict != Verdict::NotComparable);
    if known.is_empty() {
        let reason = unknown.first()?.comparison.reason.as_deref().unwrap_or("nothing is comparable");
        return Some(format!("{}: {OPEN} ({reason})", language.title()));
    }
    let advice = if deciding.iter().any(worth_it) {
        "use the pipe"
    } else if deciding.len() == 2 && deciding.iter().all(not_worth_it) {
        "use HTTP"
    } else {
        OPEN
    };
    let because: Vec<String> = known.iter().map(Fact::sentence).collect();
    Some(format!("{}: {advice} ({})", language.title(), because.join("; ")))
}

impl Fact<'_> {
    /// `a cold start: the pipe takes 0.61 of what http.server takes`
    fn sentence(&self) -> String {
        let (what, server) = (self.what, self.server);
        let ratio = self.comparison.value.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median));
        match self.comparison.verdict {
            Verdict::Less => format!("{what}: the pipe takes {ratio} of what {server} takes"),
            Verdict::More => format!("{what}: the pipe does not win, it takes {ratio} of what {server} takes"),
            Verdict::NoDifference | Verdict::NotComparable => {
                format!("{what}: no difference that can be told here ({ratio})")
            }
        }
    }
}

/// The pipe beside the better HTTP server, if there are several.
fn fact<'a>(
    groups: &'a [GroupResults],
    language: Language,
    (pipe, http): (Case, Case),
    metric: Metric,
    what: &'static str,
) -> Option<Fact<'a>> {
    let id = Kind::of(pipe).group_id(language);
    let group = groups.iter().find(|group| group.id == id)?;
    let best = |case| {
        let prefix = Variant::prefix(Front::Pilotlight, language, case);
        let time = |variant: &VariantResults| Some(variant.summary.get(&group.metrics[0])?.median);
        let stands_for_it = |variant: &&VariantResults| {
            variant.id.starts_with(&prefix) && variant.role != Role::Control && variant.failed.is_none()
        };
        let (variant, _) = group
            .variants
            .iter()
            .filter(stands_for_it)
            .filter_map(|variant| Some((variant, time(variant)?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some((variant.id.as_str(), &variant.id[prefix.len()..]))
    };
    let ((pipe, _), (http, server)) = (best(pipe)?, best(http)?);
    let asked = |found: &&Comparison| found.one == pipe && found.other == http && found.metric == metric;
    Some(Fact { what, comparison: group.comparisons.iter().find(asked)?, server })
}

/// Why figures may be worthless, if they may.
fn doubts(groups: &[GroupResults]) -> Vec<String> {
    let own_parts = groups.iter().flat_map(|group| &group.comparisons).filter(|found| found.difference);
    let below = own_parts.filter_map(|found| Some((found, found.value.filter(|value| value.high < 0.0)?)));
    let mut doubts: Vec<String> = below
        .map(|(found, own)| {
            format!(
                "{}: a start takes less with the gateway than without one ({} ms), which cannot be: the start without one was disturbed.",
                found.question,
                number(own.median)
            )
        })
        .collect();
    let counts = groups.iter().flat_map(|group| &group.variants).filter(|variant| variant.failed.is_none());
    if counts.map(|variant| variant.requests).max().is_some_and(|most| most < ENOUGH_FOR_P99) {
        let few = "p99 and p99.9 of fewer than 1,000 requests are little more than the longest; ask for more with --requests.";
        doubts.push(few.to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::model::Summary;

    /// A server of Python's, and its median.
    type Measured<'a> = (Case, &'a str, f64);

    fn around(median: f64) -> Summary {
        Summary { median, low: median * 0.98, high: median * 1.02 }
    }

    fn verdict(ratio: f64) -> Verdict {
        match ratio {
            less if less < 0.95 => Verdict::Less,
            more if more > 1.05 => Verdict::More,
            _ => Verdict::NoDifference,
        }
    }

    /// The group of these, in which the first, which is the pipe, is compared with the others.
    fn group(measured: &[Measured<'_>]) -> GroupResults {
        let kind = Kind::of(measured[0].0);
        let metrics = if kind == Kind::Cold { [Metric::ColdMs, Metric::CpuUs] } else { [Metric::P50Ms, Metric::CpuUs] };
        let id = |case, server: &str| format!("{}{server}", Variant::prefix(Front::Pilotlight, Language::Python, case));
        let variant = |&(case, server, median): &Measured<'_>| VariantResults {
            id: id(case, server),
            title: String::new(),
            role: Role::Subject,
            software: Vec::new(),
            failed: None,
            rounds: Vec::new(),
            summary: BTreeMap::from([(metrics[0], around(median))]),
            cpu_us: BTreeMap::new(),
            latency: None,
            phases: Vec::new(),
            requests: 50,
        };
        let (case, server, pipe) = measured[0];
        let one = id(case, server);
        let comparison = |&(case, server, median): &Measured<'_>| {
            let (one, other) = (one.clone(), id(case, server));
            metrics.map(move |metric| Comparison {
                question: "asked".into(),
                metric,
                one: one.clone(),
                other: other.clone(),
                value: Some(around(pipe / median)),
                difference: false,
                verdict: verdict(pipe / median),
                reason: None,
            })
        };
        GroupResults {
            id: kind.group_id(Language::Python),
            title: String::new(),
            workload: String::new(),
            metrics: metrics.into(),
            rounds: 10,
            seconds: 0.0,
            variants: measured.iter().map(variant).collect(),
            controls: Vec::new(),
            comparisons: measured[1..].iter().flat_map(comparison).collect(),
        }
    }

    fn warm(pipe: f64, http: f64) -> GroupResults {
        group(&[(Case::PipeWarm, "SDK", pipe), (Case::HttpWarm, "http.server", http)])
    }

    fn cold(pipe: f64, http: f64) -> GroupResults {
        group(&[(Case::PipeCold, "SDK", pipe), (Case::HttpCold, "http.server", http)])
    }

    #[track_caller]
    fn assert_advice(groups: &[GroupResults], wanted: &str) {
        let found = advice(Language::Python, groups).unwrap_or_default();
        assert!(found.starts_with("Python: ") && found.contains(wanted), "{found:?} has no {wanted:?}");
    }

    #[test]
    fn the_pipe_is_advised_where_it_saves_a_tenth() {
        let groups = [warm(10.0, 10.0), cold(50.0, 80.0)];
        assert_advice(&groups, "use the pipe");
        assert_advice(&groups, "a cold start: the pipe takes 0.62 of what http.server takes");
        assert_advice(&[warm(5.0, 10.0), cold(80.0, 80.0)], "use the pipe");
    }

    #[test]
    fn http_is_advised_where_the_pipe_does_not_win() {
        let groups = [warm(15.0, 10.0), cold(99.0, 80.0)];
        assert_advice(&groups, "use HTTP");
        assert_advice(&groups, "a warm request: the pipe does not win, it takes 1.50");
    }

    #[test]
    fn without_cold_starts_the_advice_is_open_unless_the_pipe_wins() {
        assert_advice(&[warm(10.0, 10.0)], "this run leaves it open");
        assert_advice(&[warm(5.0, 10.0)], "use the pipe");
        assert_eq!(advice(Language::Python, &[group(&[(Case::PipeWarm, "SDK", 1.0)])]), None);
        assert_eq!(advice(Language::Node, &[warm(5.0, 10.0)]), None);
    }

    #[test]
    fn the_better_http_server_counts() {
        let pipe = (Case::PipeCold, "SDK", 50.0);
        let (slow, fast) = ((Case::HttpCold, "uvicorn", 160.0), (Case::HttpCold, "http.server", 80.0));
        assert_advice(&[group(&[pipe, slow, fast])], "0.62 of what http.server takes");
    }

    #[test]
    fn the_control_stands_for_nothing_even_where_it_is_faster() {
        let mut groups = [cold(50.0, 80.0)];
        let mut again = groups[0].variants[0].clone();
        again.id += " (again)";
        again.role = Role::Control;
        again.summary.values_mut().for_each(|summary| *summary = around(49.0));
        groups[0].variants.push(again);
        assert_advice(&groups, "0.62 of what http.server takes");
    }

    #[test]
    fn what_is_not_comparable_is_no_reason() {
        let mut group = warm(5.0, 10.0);
        for comparison in &mut group.comparisons {
            comparison.verdict = Verdict::NotComparable;
            comparison.reason = Some("one failed in round 2".into());
        }
        assert_advice(&[group], "this run leaves it open (one failed in round 2)");
    }

    #[test]
    fn a_start_that_is_shorter_with_a_gateway_is_doubted() {
        let mut group = cold(50.0, 80.0);
        let few = doubts(std::slice::from_ref(&group));
        assert!(few.len() == 1 && few[0].starts_with("p99 and p99.9 of fewer"), "{few:?}");
        group.variants[0].requests = 1000;
        assert_eq!(doubts(std::slice::from_ref(&group)), [""; 0]);
        let own = &mut group.comparisons[0];
        (own.difference, own.value) = (true, Some(Summary { median: -3.8, low: -6.6, high: -2.9 }));
        let doubted = "asked: a start takes less with the gateway than without one (-3.80 ms)";
        let found = doubts(&[group]);
        assert!(found.len() == 1 && found[0].starts_with(doubted), "{found:?}");
    }
}
