//! What may be said about what was measured: ratios inside rounds, their intervals, and a verdict where two equals were
//! told to be equal.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::Question;
use super::model::{
    Comparison, Control, GroupResults, Latency, Metric, Noise, Phase, Role, Summary, VariantResults, Verdict,
};
use super::run::{Lane, Measured};
use crate::stats::{Interval, Level, Times, median, median_interval, signed_rank};

/// What is kept of a distribution, in percent.
const PERCENTILES: [f64; 12] = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.9, 99.99, 100.0];

/// A verdict may come from chance alone once in so many comparisons of equals (signed-rank test). The 95 % interval
/// would let one of twenty through, and a report has dozens of comparisons.
pub const MAX_CHANCE: f64 = 0.01;
/// Fewer rounds cannot reach [`MAX_CHANCE`], even if all of them say the same: 2 / 2⁸ is below it, 2 / 2⁷ is not.
pub const MIN_ROUNDS: usize = 8;

/// Whether the machine is quiet enough for verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// It is.
    Quiet,
    /// It is not: everything is shown, nothing is compared.
    Noisy,
}

impl Machine {
    /// By what was seen of it, and what was asked for.
    #[must_use]
    pub const fn of(noise: &Noise) -> Self {
        if noise.refused.is_none() || noise.overridden { Self::Quiet } else { Self::Noisy }
    }
}

/// Draws the conclusions of a group. The same seed gives the same intervals.
#[must_use]
pub fn judge(measured: &Measured, machine: Machine, seed: u64) -> GroupResults {
    let [id, title, workload] = measured.about.clone();
    let controls = controls(measured, seed);
    let compare = |question: &Question| compare(measured, question, &controls, machine, seed);
    GroupResults {
        id,
        title,
        workload,
        metrics: measured.metrics.clone(),
        rounds: u32::try_from(measured.rounds).unwrap_or(u32::MAX),
        seconds: measured.amount.duration.as_secs_f64(),
        variants: measured.lanes.iter().map(|lane| variant(lane, &measured.metrics, seed)).collect(),
        comparisons: measured.questions.iter().map(compare).collect(),
        controls,
    }
}

fn variant(lane: &Lane, metrics: &[Metric], seed: u64) -> VariantResults {
    let rounds = |sample: &super::Sample| sample.values.iter().copied().collect();
    let summary = |metric: &Metric| Some((*metric, summary(&values(lane, *metric), seed)?));
    VariantResults {
        id: lane.id.clone(),
        title: lane.title.clone(),
        role: lane.role,
        software: lane.software.clone(),
        failed: lane.failed.clone(),
        rounds: lane.samples.iter().map(rounds).collect(),
        summary: metrics.iter().filter_map(summary).collect(),
        cpu_us: medians(lane, |sample| &sample.cpu_us).into_iter().collect(),
        latency: latency(lane),
        phases: medians(lane, |sample| &sample.phases_ms).into_iter().map(|(name, ms)| Phase { name, ms }).collect(),
        requests: lane.samples.iter().map(|sample| sample.requests).sum(),
    }
}

/// Medians by name, in the order in which the names came first.
fn medians(lane: &Lane, of: impl Fn(&super::Sample) -> &Vec<(String, f64)>) -> Vec<(String, f64)> {
    let mut names: Vec<&String> = Vec::new();
    let mut all: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in lane.samples.iter().flat_map(&of) {
        if !all.contains_key(name) {
            names.push(name);
        }
        all.entry(name).or_default().push(*value);
    }
    names.into_iter().filter_map(|name| Some((name.clone(), median(&all[name])?))).collect()
}

fn latency(lane: &Lane) -> Option<Latency> {
    let mut all = Times::new();
    for times in lane.samples.iter().filter_map(|sample| sample.times.as_ref()) {
        all.merge(times);
    }
    (!all.is_empty()).then(|| Latency {
        from_intended_start: lane.samples.iter().any(|sample| sample.from_intended_start),
        percentiles: PERCENTILES.map(|percent| (percent, all.percentile_ms(percent))).to_vec(),
        hdr: all.hdr(),
    })
}

/// Of each round; `None` where it was not measured.
fn values(lane: &Lane, metric: Metric) -> Vec<Option<f64>> {
    let of = |sample: &super::Sample| sample.values.iter().find(|(of, _)| *of == metric).map(|(_, value)| *value);
    lane.samples.iter().map(of).collect()
}

fn summary(values: &[Option<f64>], seed: u64) -> Option<Summary> {
    summary_of(&values.iter().copied().flatten().collect::<Vec<f64>>(), seed)
}

/// The median of rounds and its 95 % interval; `None` of nothing.
#[must_use]
pub fn summary_of(values: &[f64], seed: u64) -> Option<Summary> {
    let middle = median(values)?;
    let interval = median_interval(values, Level::Percent95, &mut Rng::with_seed(seed));
    Some(interval.map_or(Summary { median: middle, low: middle, high: middle }, Summary::from))
}

impl From<Interval> for Summary {
    fn from(interval: Interval) -> Self {
        Self { median: interval.median, low: interval.low, high: interval.high }
    }
}

fn controls(measured: &Measured, seed: u64) -> Vec<Control> {
    let mut controls = Vec::new();
    for second in measured.lanes.iter().filter(|lane| lane.role == Role::Control) {
        let Some(first) = measured.lanes.iter().find(|lane| super::run::again(&lane.id) == second.id) else { continue };
        for metric in &measured.metrics {
            let ratios = pairs(&values(second, *metric), &values(first, *metric), |second, first| second / first);
            controls.extend(control(&first.id, *metric, &ratios, seed));
        }
    }
    controls
}

/// Two equals by the ratios of their rounds; `None` for fewer than two.
#[must_use]
pub fn control(variant: &str, metric: Metric, ratios: &[f64], seed: u64) -> Option<Control> {
    let found = median_interval(ratios, Level::Percent99, &mut Rng::with_seed(seed))?;
    let passed = found.low <= 1.0 && 1.0 <= found.high;
    Some(Control { variant: variant.into(), metric, ratio: found.median, low: found.low, high: found.high, passed })
}

fn compare(measured: &Measured, question: &Question, controls: &[Control], machine: Machine, seed: u64) -> Comparison {
    let lane = |id: &str| measured.lanes.iter().find(|lane| lane.id == id);
    let take = |one: f64, other: f64| if question.difference { one - other } else { one / other };
    let (one, other) = (lane(&question.one), lane(&question.other));
    let unit = if question.difference { Unit::Difference } else { Unit::Ratio };
    let of = |lane: &Lane| both_times(measured, lane, question.metric, unit);
    let rounds = one.zip(other).map_or_else(Vec::new, |(one, other)| pairs(&of(one), &of(other), take));
    let control = controls.iter().find(|control| control.metric == question.metric);
    // What two equals differ by, in the unit of what is compared.
    let scale =
        if question.difference { other.and_then(|lane| middle(lane, question.metric)).unwrap_or(0.0) } else { 1.0 };
    let noise = control.map_or(0.0, |control| (control.ratio - 1.0).abs() * scale);
    let interval = median_interval(&rounds, Level::Percent95, &mut Rng::with_seed(seed));
    let failed = [one, other].into_iter().flatten().find(|lane| lane.failed.is_some());
    let reason = match (failed, control) {
        (Some(lane), _) => Some(format!("{} failed", lane.title)),
        (None, _) if machine == Machine::Noisy => Some("the machine is too noisy".to_owned()),
        (None, None) if measured.rounds < 2 => Some("one round can tell nothing".to_owned()),
        (None, None) => Some("there is no control".to_owned()),
        (None, Some(control)) if !control.passed => Some(format!(
            "two equals differ by a factor of {:.3} ({:.3}–{:.3})",
            control.ratio, control.low, control.high
        )),
        (None, Some(_)) => None,
    };
    let (verdict, reason) = match (reason, interval) {
        (None, Some(interval)) => verdict(&rounds, interval, unit, noise),
        (reason, _) => (Verdict::NotComparable, reason.or_else(|| Some("nothing was measured".into()))),
    };
    Comparison {
        question: question.text.clone(),
        metric: question.metric,
        one: question.one.clone(),
        other: question.other.clone(),
        value: interval.map(Summary::from),
        difference: question.difference,
        verdict,
        reason,
    }
}

/// What is compared in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `one / other`, 1 for equals.
    Ratio,
    /// `one − other`, 0 for equals.
    Difference,
}

/// The rule of all verdicts: a difference is one if the 95 % interval of the median excludes equality, if chance alone
/// would hardly have made the rounds so one-sided, and if it is larger than `noise`, which is what two equals differ
/// by. Why not, if not.
#[must_use]
pub fn verdict(rounds: &[f64], interval: Interval, unit: Unit, noise: f64) -> (Verdict, Option<String>) {
    if rounds.len() < MIN_ROUNDS {
        let few = format!("{} rounds are too few; {MIN_ROUNDS} can tell something", rounds.len());
        return (Verdict::NotComparable, Some(few));
    }
    let (equal, away): (f64, Vec<f64>) = match unit {
        Unit::Ratio => (1.0, rounds.iter().map(|ratio| ratio.ln()).collect()),
        Unit::Difference => (0.0, rounds.to_vec()),
    };
    said(interval, equal, signed_rank(&away), noise)
}

/// The three rules, where chance was computed in another way.
#[must_use]
pub fn said(interval: Interval, equal: f64, chance: f64, noise: f64) -> (Verdict, Option<String>) {
    let none = |why: &str| (Verdict::NoDifference, Some(why.to_owned()));
    if interval.low <= equal && equal <= interval.high {
        none("the interval contains equality")
    } else if chance > MAX_CHANCE {
        none("chance may have made it")
    } else if (interval.median - equal).abs() <= noise {
        none("two equals differ as much")
    } else {
        (if interval.median < equal { Verdict::Less } else { Verdict::More }, None)
    }
}

fn middle(lane: &Lane, metric: Metric) -> Option<f64> {
    median(&values(lane, metric).into_iter().flatten().collect::<Vec<_>>())
}

/// Of each round; of a variant that is measured twice in each, the mean of both.
fn both_times(measured: &Measured, lane: &Lane, metric: Metric, unit: Unit) -> Vec<Option<f64>> {
    let first = values(lane, metric);
    let again = measured.lanes.iter().find(|second| second.id == super::run::again(&lane.id));
    let Some(again) = again.filter(|second| second.role == Role::Control && second.failed.is_none()) else {
        return first;
    };
    means(&first, &values(again, metric), unit)
}

/// The means of two measurements of equals in each round: half of their noise is gone from every comparison with them.
/// Of ratios they are geometric, so that it does not matter which side they stand on.
#[must_use]
pub fn means(first: &[Option<f64>], second: &[Option<f64>], unit: Unit) -> Vec<Option<f64>> {
    let mean = |first: f64, second: f64| match unit {
        Unit::Ratio => (first * second).sqrt(),
        Unit::Difference => f64::midpoint(first, second),
    };
    first.iter().zip(second).map(|(first, second)| Some(mean((*first)?, (*second)?))).collect()
}

/// `take(one, other)` of each round in which both were measured.
fn pairs(one: &[Option<f64>], other: &[Option<f64>], take: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    one.iter()
        .zip(other)
        .filter_map(|(one, other)| Some(take((*one)?, (*other)?)))
        .filter(|value| value.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rounds: &[f64], unit: Unit, noise: f64, wanted: Verdict, why: Option<&str>) {
        let interval = median_interval(rounds, Level::Percent95, &mut Rng::with_seed(1)).expect("two rounds and more");
        let (verdict, reason) = verdict(rounds, interval, unit, noise);
        assert_eq!((verdict, reason.as_deref()), (wanted, why), "{interval:?}");
    }

    #[test]
    fn a_difference_is_one_if_all_three_rules_say_so() {
        let less = [0.93, 0.95, 0.94, 0.96, 0.95, 0.94, 0.93, 0.97];
        check(&less, Unit::Ratio, 0.01, Verdict::Less, None);
        check(&less.map(f64::recip), Unit::Ratio, 0.01, Verdict::More, None);
        check(&less.map(|ratio| ratio - 1.0), Unit::Difference, 0.01, Verdict::Less, None);
        check(&less, Unit::Ratio, 0.06, Verdict::NoDifference, Some("two equals differ as much"));
        let both = [0.93, 1.05, 0.94, 1.06, 0.95, 1.04, 0.93, 1.07];
        check(&both, Unit::Ratio, 0.0, Verdict::NoDifference, Some("the interval contains equality"));
        // One of eight says the opposite, and strongly: the median is sure of itself, the ranks are not.
        let few = [0.93, 0.95, 0.94, 0.96, 0.95, 0.94, 0.92, 1.3];
        check(&few, Unit::Ratio, 0.0, Verdict::NoDifference, Some("chance may have made it"));
        let why = "7 rounds are too few; 8 can tell something";
        check(&less[1..], Unit::Ratio, 0.0, Verdict::NotComparable, Some(why));
    }

    #[test]
    fn equals_pass_as_a_control_and_others_do_not() {
        let near = [1.01, 0.98, 1.0, 1.02, 0.99, 0.97, 1.03, 1.0];
        let passed = |ratios: &[f64]| control("a", Metric::CpuUs, ratios, 1).map(|control| control.passed);
        assert_eq!(passed(&near), Some(true));
        assert_eq!(passed(&near.map(|ratio| ratio + 0.05)), Some(false));
        assert_eq!(passed(&near[..1]), None);
    }
}
