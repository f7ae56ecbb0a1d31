//! What is wanted of Pilotlight's client, and what was measured.

use super::variant::{ALL, Kind, Variant};
use super::workload::Workload;
use crate::experiment::model::{Comparison, Figure, GroupResults, Metric, Summary};
use crate::show::words;

const MAX_FLOOR_RATIO: f64 = 1.4;
const MAX_OTHER_RATIO: f64 = 0.6;
const MAX_BATCH_US: f64 = 0.9;
const MAX_P50_RATIO: f64 = 1.05;

/// Of every group and every variant of ours that was measured in it.
pub(super) fn figures(groups: &[GroupResults]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (group, workload) in known(groups) {
        for ours in ALL.iter().filter(|variant| variant.kind == Kind::Ours) {
            if group.variants.iter().any(|variant| variant.id == ours.id()) {
                figures.extend(of(group, workload, ours));
            }
        }
    }
    figures
}

/// In sentences: each variant of ours beside its floor and beside the best other client.
pub(super) fn findings(groups: &[GroupResults]) -> Vec<String> {
    let mut findings = Vec::new();
    for (group, workload) in known(groups) {
        for ours in ALL.iter().filter(|variant| variant.kind == Kind::Ours) {
            let both = [to_floor(group, workload, ours), to_best(group, ours)];
            let says = |ratio: Ratio<'_>| format!("{}: {}", workload.id(), words::answer(ratio.comparison));
            findings.extend(both.into_iter().flatten().map(says));
        }
    }
    findings
}

fn known(groups: &[GroupResults]) -> impl Iterator<Item = (&GroupResults, Workload)> {
    let workload = |id: &str| Workload::ALL.into_iter().find(|workload| workload.id() == id);
    groups.iter().filter_map(move |group| Some((group, workload(&group.id)?)))
}

fn of(group: &GroupResults, workload: Workload, ours: &Variant) -> Vec<Figure> {
    let name = |what: &str| format!("{}, {}: {what}", workload.id(), ours.name);
    let floor = workload.floor(ours.shape);
    let to_floor = to_floor(group, workload, ours).map(|ratio| ratio.value);
    match workload {
        // What is wanted is of keys that are not 512 bytes long.
        _ if workload.is_published() => Vec::new(),
        Workload::W2 => {
            let result = group.variants.iter().find(|variant| variant.id == ours.id());
            let used = result.and_then(|variant| variant.summary.get(&Metric::CpuUs).copied());
            vec![Figure::at_most(group, Metric::CpuUs, name("CPU of a command"), (MAX_BATCH_US, " µs"), used)]
        }
        Workload::W5 => {
            vec![Figure::at_most(group, Metric::P50Ms, name(&format!("p50 / {floor}")), (MAX_P50_RATIO, ""), to_floor)]
        }
        _ => {
            let best = to_best(group, ours);
            let who = best.as_ref().map_or_else(String::new, |ratio| format!(" ({})", ratio.other.name));
            vec![
                Figure::at_most(group, Metric::CpuUs, name(&format!("CPU / {floor}")), (MAX_FLOOR_RATIO, ""), to_floor),
                Figure::at_most(
                    group,
                    Metric::CpuUs,
                    name(&format!("CPU / best other client{who}")),
                    (MAX_OTHER_RATIO, ""),
                    best.map(|ratio| ratio.value),
                ),
            ]
        }
    }
}

/// How much ours takes of another's.
struct Ratio<'a> {
    other: &'static Variant,
    comparison: &'a Comparison,
    value: Summary,
}

fn to_floor<'a>(group: &'a GroupResults, workload: Workload, ours: &Variant) -> Option<Ratio<'a>> {
    compared(group, ours, |other| other.name == workload.floor(ours.shape)).next()
}

/// The best other client is the one that ours takes most of.
fn to_best<'a>(group: &'a GroupResults, ours: &Variant) -> Option<Ratio<'a>> {
    let others = compared(group, ours, |other| other.kind == Kind::Other);
    others.max_by(|one, other| one.value.median.total_cmp(&other.value.median))
}

fn compared<'a>(
    group: &'a GroupResults,
    ours: &Variant,
    is_wanted: impl Fn(&Variant) -> bool,
) -> impl Iterator<Item = Ratio<'a>> {
    let ours = ours.id();
    let of = move |other: &'static Variant| {
        let is_it = |comparison: &&Comparison| comparison.one == ours && comparison.other == other.id();
        let comparison = group.comparisons.iter().find(is_it)?;
        Some(Ratio { other, comparison, value: comparison.value? })
    };
    ALL.iter().filter(move |other| is_wanted(other)).filter_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::judge;
    use crate::experiment::model::Verdict;

    #[test]
    fn the_best_other_client_is_the_one_that_takes_least() {
        let summary = |median| Summary { median, low: median, high: median };
        let comparison = |other: &str, median| Comparison {
            question: format!("ours / {other}"),
            metric: Metric::CpuUs,
            one: "pilotlight-ct".into(),
            other: other.into(),
            value: Some(summary(median)),
            difference: false,
            verdict: Verdict::Less,
            reason: None,
        };
        let mut group: GroupResults = serde_json::from_value(serde_json::json!({
            "id": "w1", "title": "", "workload": "", "metrics": [], "rounds": 1, "seconds": 1.0, "controls": [],
            "comparisons": [],
            "variants": [{
                "id": "pilotlight-ct", "title": "", "role": "subject", "software": [], "failed": null, "rounds": [],
                "summary": {}, "cpu_us": {}, "latency": null, "phases": [], "requests": 1,
            }],
        }))
        .expect("a group");
        group.comparisons = vec![
            comparison("floor-tokio-ct", 1.5),
            comparison("fred-10-1-0-ct", 0.5),
            comparison("redis-rs-1-8-1-ct", 0.3),
        ];
        let groups = [group];
        let figures = figures(&groups);
        let found: Vec<_> = figures.iter().map(|one| (one.measured.map(|one| one.median), one.met)).collect();
        assert_eq!(found, [(Some(1.5), Some(false)), (Some(0.5), Some(true))]);
        let sentences = findings(&groups);
        assert_eq!(
            (sentences.len(), sentences[1].contains("w1: ours / fred-10-1-0-ct: 0.50×, less")),
            (2, true),
            "{sentences:?}"
        );
        assert_eq!(figures[1].name, "w1, pilotlight ct: CPU / best other client (fred 10.1.0 ct)");
    }

    #[test]
    fn where_equals_differ_nothing_is_met() {
        let mut group: GroupResults = serde_json::from_value(serde_json::json!({
            "id": "w2", "title": "", "workload": "", "metrics": ["cpu-us"], "rounds": 8, "seconds": 1.0, "variants": [], "controls": [], "comparisons": []
        }))
        .expect("a group");
        for (ratios, met) in [([1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.0], Some(true)), ([1.5; 8], None)] {
            group.controls = judge::control("a", Metric::CpuUs, &ratios, 1).into_iter().collect();
            assert_eq!(Figure::at_most(&group, Metric::CpuUs, String::new(), (1.0, ""), None).met, None);
            let measured = Some(Summary { median: 0.5, low: 0.5, high: 0.5 });
            assert_eq!(Figure::at_most(&group, Metric::CpuUs, String::new(), (1.0, ""), measured).met, met);
            assert_eq!(Figure::at_most(&group, Metric::P50Ms, String::new(), (1.0, ""), measured).met, Some(true));
        }
    }
}
