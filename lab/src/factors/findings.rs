//! What follows for each layer: how much another choice costs on a hit and on a miss, and whether the service should
//! have it.

use super::layers::{Change, Layer};
use super::{HIT, MISS};
use crate::experiment::model::{Comparison, GroupResults, Metric, Summary, Verdict};

/// A smaller difference decides nothing.
const THRESHOLD: f64 = 0.05;
/// Each of them has a say.
const PATHS: [&str; 2] = [HIT, MISS];
const ELSEWHERE: &str = "published, another machine's";

/// What was measured of a change on one path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effect {
    path: &'static str,
    /// CPU time of a request, times that of the base.
    cpu: Summary,
    seen: bool,
}

/// A sentence for a change; `None` if it was not measured. The names of its groups begin with `prefix`.
pub(super) fn sentence(prefix: &str, exchanged: &(Layer, Change), groups: &[GroupResults]) -> Option<String> {
    let (layer, change) = exchanged;
    let of_path = |path| effect(groups, prefix, path, change.id);
    let effects: Vec<Effect> = PATHS.into_iter().filter_map(of_path).collect();
    if effects.is_empty() {
        return None;
    }
    let decided = effects.len() == PATHS.len();
    let measured: Vec<String> = effects.iter().map(Effect::text).collect();
    let published = layer
        .published
        .filter(|text| !text.is_empty())
        .map_or_else(String::new, |text| format!(" ({ELSEWHERE}: {text})"));
    let decision =
        if decided { decision(layer, change, &effects) } else { "one path alone decides nothing".to_owned() };
    Some(format!(
        "{}: {} instead of {}: {}; {decision}{published}",
        layer.title,
        change.title,
        layer.applied,
        measured.join(", ")
    ))
}

fn effect(groups: &[GroupResults], prefix: &str, path: &'static str, id: &str) -> Option<Effect> {
    let group = groups.iter().find(|group| group.id.strip_prefix(prefix) == Some(path))?;
    let asked = |comparison: &&Comparison| comparison.metric == Metric::CpuUs && comparison.one == id;
    let comparison = group.comparisons.iter().find(asked)?;
    let seen = matches!(comparison.verdict, Verdict::Less | Verdict::More);
    Some(Effect { path, cpu: comparison.value?, seen })
}

impl Effect {
    fn text(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let Summary { median, low, high } = self.cpu;
        let seen = if self.seen { "" } else { ", no difference seen" };
        format!(
            "CPU of a {} {:+.1} % ({:+.1} to {:+.1}{seen})",
            self.path,
            percent(median),
            percent(low),
            percent(high)
        )
    }

    /// Whether the change surely costs the threshold or more.
    fn costs(&self) -> bool {
        self.seen && self.cpu.low >= 1.0 + THRESHOLD
    }

    /// Whether it is surely less than the threshold, either way.
    fn is_small(&self) -> bool {
        self.cpu.low > 1.0 - THRESHOLD && self.cpu.high < 1.0 + THRESHOLD
    }

    fn saves(&self) -> bool {
        self.seen && self.cpu.high <= 1.0 - THRESHOLD
    }
}

fn decision(layer: &Layer, change: &Change, effects: &[Effect]) -> String {
    let percent = THRESHOLD * 100.0;
    let paths = |which: fn(&Effect) -> bool| {
        effects.iter().filter(|effect| which(effect)).map(|effect| format!("a {}", effect.path)).collect::<Vec<_>>()
    };
    let (costs, saves) = (paths(Effect::costs).join(" and "), paths(Effect::saves).join(" and "));
    match (costs.is_empty(), saves.is_empty()) {
        (false, true) => {
            format!("{} is applied: the other costs {percent} % and more on {costs}", layer.applied)
        }
        (true, false) => {
            format!(
                "{} should be applied: it saves {percent} % and more on {saves}; so far: {}",
                change.title, layer.why
            )
        }
        (false, false) => format!("{} stays: the other saves on {saves} what it costs on {costs}", layer.applied),
        (true, true) if effects.iter().all(Effect::is_small) => {
            format!("{} stays, though not for {percent} %: {}", layer.applied, layer.why)
        }
        (true, true) => {
            format!("whether it is {percent} % is not decided here; {} stays: {}", layer.applied, layer.why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::LAYERS;
    use super::*;

    fn group(id: &str, one: &str, (low, median, high): (f64, f64, f64), verdict: Verdict) -> GroupResults {
        let comparison = Comparison {
            question: String::new(),
            metric: Metric::CpuUs,
            one: one.into(),
            other: super::super::layers::BASE.into(),
            value: Some(Summary { median, low, high }),
            difference: false,
            verdict,
            reason: None,
        };
        GroupResults {
            id: id.into(),
            title: String::new(),
            workload: String::new(),
            metrics: vec![Metric::CpuUs],
            rounds: 10,
            seconds: 1.0,
            variants: Vec::new(),
            controls: Vec::new(),
            comparisons: vec![comparison],
        }
    }

    #[track_caller]
    fn check(hit: (f64, f64, f64), miss: (f64, f64, f64), verdict: Verdict, expected: &str) {
        let exchanged = (LAYERS[2], LAYERS[2].changes[0]);
        let change = exchanged.1;
        let groups = [group(HIT, change.id, hit, verdict), group(MISS, change.id, miss, verdict)];
        let sentence = sentence("", &exchanged, &groups).expect("it was measured");
        assert!(sentence.contains(expected), "{sentence}");
        assert!(sentence.ends_with("(published, another machine's: +1.4 % throughput)"), "{sentence}");
    }

    #[test]
    fn a_choice_needs_a_sure_difference_of_the_threshold() {
        let (dear, cheap, even) = ((1.06, 1.1, 1.2), (0.8, 0.85, 0.9), (0.99, 1.01, 1.04));
        check(dear, even, Verdict::More, "hyper alone is applied: the other costs 5 % and more on a hit");
        check(dear, dear, Verdict::More, "5 % and more on a hit and a miss");
        check(even, cheap, Verdict::Less, "axum on hyper should be applied: it saves 5 % and more on a miss");
        check(even, even, Verdict::More, "hyper alone stays, though not for 5 %: three routes need no router");
        check(even, (0.9, 1.01, 1.04), Verdict::More, "whether it is 5 % is not decided here; hyper alone stays");
        check(dear, cheap, Verdict::More, "hyper alone stays: the other saves on a miss what it costs on a hit");
    }

    #[test]
    fn what_the_judge_has_not_seen_decides_nothing() {
        let text = "CPU of a hit +10.0 % (+6.0 to +20.0, no difference seen)";
        check((1.06, 1.1, 1.2), (1.06, 1.1, 1.2), Verdict::NotComparable, text);
        check((1.06, 1.1, 1.2), (1.06, 1.1, 1.2), Verdict::NotComparable, "is not decided here; hyper alone stays");
    }

    #[test]
    fn one_path_alone_decides_nothing() {
        let exchanged = (LAYERS[2], LAYERS[2].changes[0]);
        let change = exchanged.1;
        let groups = [group(HIT, change.id, (0.8, 0.85, 0.9), Verdict::Less)];
        let sentence = sentence("", &exchanged, &groups).expect("it was measured");
        assert!(
            sentence.contains("CPU of a hit -15.0 % (-20.0 to -10.0); one path alone decides nothing ("),
            "{sentence}"
        );
    }

    #[test]
    fn what_was_not_measured_is_not_spoken_of() {
        let groups = [group(HIT, "another", (1.0, 1.0, 1.0), Verdict::NoDifference)];
        assert_eq!(sentence("", &(LAYERS[0], LAYERS[0].changes[0]), &groups), None);
    }
}
