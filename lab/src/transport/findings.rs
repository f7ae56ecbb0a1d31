//! What results say in sentences, for the report and for `transport.md` alike.

use super::cases::Front;
use super::compare::{Comparison, Metric, Verdict};
use super::results::{CaseResult, Results};
use crate::report::number;

/// The sentences that matter most: for each language how the transports compare, also where the pipe does not win.
#[must_use]
pub(crate) fn key_findings(results: &Results) -> Vec<String> {
    let mut findings: Vec<String> =
        results.comparisons.iter().filter(|c| between_transports(c)).map(sentence).collect();
    if let Some(noise) = noise(results) {
        findings.push(noise);
    }
    findings
}

/// Whether a comparison is one of the pipe with HTTP behind Pilotlight.
#[must_use]
pub(crate) fn between_transports(comparison: &Comparison) -> bool {
    comparison.one.starts_with("pilotlight/")
        && comparison.one.contains("/pipe-")
        && comparison.other.starts_with("pilotlight/")
}

/// `time of Python pipe warm / Python HTTP warm (uvicorn): 0.61 (0.58–0.66), less`
#[must_use]
pub(crate) fn sentence(comparison: &Comparison) -> String {
    let spread = match (comparison.ratio, comparison.low, comparison.high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2}–{high:.2})"),
        _ => "–".into(),
    };
    let verdict = match comparison.verdict {
        Verdict::Less if between_transports(comparison) => "the pipe wins",
        Verdict::More if between_transports(comparison) => "**the pipe does not win**",
        Verdict::Less => "less",
        Verdict::More => "**more**",
        Verdict::NoDifference => "no difference that can be told here",
        Verdict::Unknown => "nothing may be said: too few rounds, a noisy machine, or equals that differ",
    };
    format!("{}: {spread}: {verdict}", comparison.question)
}

/// What two equals differ by.
#[must_use]
pub(crate) fn noise(results: &Results) -> Option<String> {
    let times = results.controls.iter().filter(|control| control.metric == Metric::Time);
    let parts: Vec<String> = times
        .filter_map(|control| {
            Some(format!("{:.2} ({:.2}–{:.2}) for {}", control.ratio?, control.low?, control.high?, control.variant))
        })
        .collect();
    (!parts.is_empty())
        .then(|| format!("two equals beside each other: {}; ratios as near to 1 as that say nothing", parts.join(", ")))
}

/// Why figures may be worthless, if they may.
#[must_use]
pub(crate) fn warnings(results: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    if results.software.get("pilotlight").is_some_and(|version| version.contains("debug build")) {
        warnings.push("This was a debug build: the figures say nothing about Pilotlight.".to_owned());
    }
    let below = results.own_parts.iter().filter(|part| part.high_ms.is_some_and(|high| high < 0.0));
    warnings.extend(below.map(|part| {
        format!(
            "{}: a start takes less with the gateway than without one ({} ms), which cannot be: the start without one was disturbed.",
            part.title,
            number(part.own_ms)
        )
    }));
    if results.configuration.requests < 1000 {
        let few = "p99 and p99.9 of fewer than 1,000 requests are little more than the longest; ask for more with --requests.";
        warnings.push(few.to_owned());
    }
    warnings
}

/// Rows in which Pilotlight or a peer answered a client.
pub(crate) fn answered(results: &Results) -> impl Iterator<Item = &CaseResult> {
    results.results.iter().filter(|result| result.front != Front::Bare && !result.control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::fixture;

    #[test]
    fn a_start_that_is_shorter_with_a_gateway_is_doubted() {
        let mut results = fixture::results();
        let before = warnings(&results).len();
        let part = &mut results.own_parts[0];
        (part.own_ms, part.low_ms, part.high_ms) = (-3.8, Some(-6.6), Some(-2.9));
        let doubted = format!("{}: a start takes less with the gateway than without one (-3.80 ms)", part.title);
        let warnings = warnings(&results);
        assert!(warnings.len() == before + 1 && warnings.iter().any(|text| text.starts_with(&doubted)), "{warnings:?}");
    }
}
