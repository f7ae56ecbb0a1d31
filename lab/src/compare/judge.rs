//! What may be said of a figure in two runs.
//!
//! Rounds of two runs have no partner, and the machine is another one an hour later. So a figure is compared twice: as
//! it was measured, and beside those of its group that did not change between the runs (peers and floors of the same
//! version and settings), round by round. What these, and the controls of both runs, differ by is noise.

use fastrand::Rng;
use serde::Serialize;

use crate::experiment::judge::{MAX_CHANCE, Machine, said};
use crate::experiment::model::{GroupResults, Metric, Report, Role, Summary, VariantResults, Verdict};
use crate::figures::places::{Of, Place};
use crate::stats::{Interval, Level, least_rank_sum, median, medians_interval, rank_sum};

/// Less than this is never a difference: the place of code in memory alone makes as much.
const LEAST: f64 = 0.02;
/// Nor is this, where nothing tells the machine's own change: peers that had not changed differed by up to 13 % from
/// one hour to the next.
const LEAST_ALONE: f64 = 0.15;
/// Of intervals.
const SEED: u64 = 1;

/// What has become of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Worse,
    Better,
    NotToldApart,
    NotComparable,
}

impl Outcome {
    pub(super) const ALL: [Self; 4] = [Self::Worse, Self::Better, Self::NotToldApart, Self::NotComparable];

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::NotToldApart => "not told apart",
            Self::NotComparable => "not comparable",
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    /// `after / before` as measured, with its 95 % interval.
    pub(super) ratio: Option<Summary>,
    /// Likewise, each round beside what did not change; absent where all have changed.
    pub(super) beside: Option<Summary>,
    pub(super) verdict: Outcome,
    /// Why it is no more.
    pub(super) reason: Option<String>,
}

/// Why nothing of two reports can be compared.
pub(super) fn refused(before: &Report, after: &Report) -> Option<String> {
    let machine = |report: &Report| {
        let machine = &report.machine;
        format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.architecture)
    };
    let (one, other) = (machine(before), machine(after));
    if one != other {
        return Some(format!("another processor: {one} before, {other} after"));
    }
    [("before", before), ("after", after)].into_iter().find_map(|(name, report)| {
        if report.debug_build {
            return Some(format!("the report {name} is of a debug build, whose figures say nothing"));
        }
        let noisy = report.noise.refused.as_ref().filter(|_| Machine::of(&report.noise) == Machine::Noisy);
        noisy.map(|why| format!("the machine was too noisy {name}: {why}"))
    })
}

/// Compares a figure of two reports that both have it; `refused` is why nothing can be.
pub(super) fn judge(before: Place<'_>, after: Place<'_>, refused: Option<&str>) -> Judged {
    let pair = Pair { before: before.rounds(), after: after.rounds() };
    let unchanged = unchanged(before.of, after.of);
    let reference = Pair::reference(&unchanged);
    let beside = reference.as_ref().map(|reference| pair.over(reference));
    let (ratio, relative) = (pair.ratio(), beside.as_ref().and_then(Pair::ratio));
    let mut judged = Judged {
        ratio: ratio.map(Summary::from),
        beside: relative.map(Summary::from),
        verdict: Outcome::NotComparable,
        reason: refused.map(str::to_owned).or_else(|| other_settings(before.of, after.of)).or_else(|| pair.too_few()),
    };
    let controls = controls(before.of, after.of);
    judged.reason = judged.reason.or_else(|| controls.as_ref().err().cloned());
    let (Ok(controls), Some(ratio), None) = (controls, ratio, &judged.reason) else { return judged };
    let least = if reference.is_some() { LEAST } else { LEAST_ALONE };
    let noise = deviations(&unchanged, reference.as_ref()).into_iter().chain(controls).fold(least, f64::max);
    let verdict = match beside.zip(relative) {
        None => pair.said(ratio, noise),
        // As measured it has to be so as well, however little.
        Some((beside, relative)) => match (beside.said(relative, noise), side(ratio) == side(relative)) {
            ((Verdict::Less | Verdict::More, _), false) => {
                (Verdict::NoDifference, Some("only beside what did not change, not as measured".to_owned()))
            }
            (said, _) => said,
        },
    };
    judged.verdict = match verdict.0 {
        Verdict::NotComparable => Outcome::NotComparable,
        Verdict::NoDifference => Outcome::NotToldApart,
        Verdict::More if after.more_is_better() => Outcome::Better,
        Verdict::Less if !after.more_is_better() => Outcome::Better,
        Verdict::More | Verdict::Less => Outcome::Worse,
    };
    judged.reason = verdict.1;
    judged
}

/// On which side of equality all of an interval is.
fn side(interval: Interval) -> (bool, bool) {
    (interval.low > 1.0, interval.high < 1.0)
}

/// What one thing did in the rounds of both runs.
struct Pair {
    before: Vec<Option<f64>>,
    after: Vec<Option<f64>>,
}

impl Pair {
    /// How slow the machine was in each round, as those who did not change saw it: the median of what each of them took
    /// to what it usually took before.
    fn reference(unchanged: &[Self]) -> Option<Self> {
        let usual: Vec<f64> = unchanged.iter().filter_map(|pair| median(&known(&pair.before))).collect();
        let at = |round: usize, of: fn(&Self) -> &Vec<Option<f64>>| {
            let values =
                unchanged.iter().zip(&usual).filter_map(|(pair, usual)| Some((*of(pair).get(round)?)? / usual));
            median(&values.collect::<Vec<_>>())
        };
        let rounds = |of: fn(&Self) -> &Vec<Option<f64>>| {
            let most = unchanged.iter().map(|pair| of(pair).len()).max().unwrap_or(0);
            (0..most).map(|round| at(round, of)).collect()
        };
        let is_known =
            !unchanged.is_empty() && usual.len() == unchanged.len() && usual.iter().all(|usual| *usual > 0.0);
        is_known.then(|| Self { before: rounds(|pair| &pair.before), after: rounds(|pair| &pair.after) })
    }

    fn over(&self, reference: &Self) -> Self {
        let over = |one: &[Option<f64>], other: &[Option<f64>]| {
            one.iter().zip(other).map(|(one, other)| Some((*one)? / (*other)?)).collect()
        };
        Self { before: over(&self.before, &reference.before), after: over(&self.after, &reference.after) }
    }

    /// The ratio of the medians.
    fn middle(&self) -> Option<f64> {
        Some(median(&known(&self.after))? / median(&known(&self.before))?).filter(|ratio| ratio.is_finite())
    }

    /// With its interval.
    fn ratio(&self) -> Option<Interval> {
        medians_interval(&known(&self.after), &known(&self.before), Level::Percent95, &mut Rng::with_seed(SEED))
    }

    fn too_few(&self) -> Option<String> {
        let (before, after) = (known(&self.before).len(), known(&self.after).len());
        let few = format!("{before} and {after} rounds are too few");
        (least_rank_sum(before, after) > MAX_CHANCE).then_some(few)
    }

    fn said(&self, ratio: Interval, noise: f64) -> (Verdict, Option<String>) {
        said(ratio, 1.0, rank_sum(&known(&self.after), &known(&self.before)), noise)
    }
}

fn known(rounds: &[Option<f64>]) -> Vec<f64> {
    rounds.iter().copied().flatten().filter(|value| value.is_finite()).collect()
}

/// Peers and floors that both runs had, of the same versions and settings, with what they did.
fn unchanged(before: Of<'_>, after: Of<'_>) -> Vec<Pair> {
    let (Of::Variant(old, of, metric), Of::Variant(new, ..)) = (before, after) else { return Vec::new() };
    let is_other = |variant: &&VariantResults| {
        matches!(variant.role, Role::Peer | Role::Floor) && variant.failed.is_none() && variant.id != of.id
    };
    let rounds = |variant: &VariantResults, metric: Metric| -> Vec<Option<f64>> {
        variant.rounds.iter().map(|round| round.get(&metric).copied()).collect()
    };
    old.variants
        .iter()
        .filter(is_other)
        .filter_map(|old| {
            let new = new.variants.iter().filter(is_other).find(|new| new.id == old.id && new.software == old.software);
            let pair = Pair { before: rounds(old, metric), after: rounds(new?, metric) };
            pair.middle().is_some().then_some(pair)
        })
        .collect()
}

/// What each of those who did not change differs by from the others.
fn deviations(unchanged: &[Pair], reference: Option<&Pair>) -> Vec<f64> {
    let Some(reference) = reference.filter(|_| unchanged.len() > 1) else { return Vec::new() };
    unchanged.iter().filter_map(|pair| pair.over(reference).middle()).map(|ratio| (ratio - 1.0).abs()).collect()
}

/// What two equals differed by in each run, or which of them failed.
fn controls(before: Of<'_>, after: Of<'_>) -> Result<Vec<f64>, String> {
    let mut differed = Vec::new();
    for (name, of) in [("before", before), ("after", after)] {
        let Of::Variant(group, _, metric) = of else { continue };
        for control in group.controls.iter().filter(|control| control.metric == metric) {
            if !control.passed {
                return Err(format!("two equals differed by a factor of {:.3} {name}", control.ratio));
            }
            differed.push((control.ratio - 1.0).abs());
        }
    }
    Ok(differed)
}

/// What was set otherwise.
fn other_settings(before: Of<'_>, after: Of<'_>) -> Option<String> {
    let differ = |what: &str, before: &str, after: &str| {
        (before != after).then(|| format!("other settings: {what} was {before:?}, and is {after:?}"))
    };
    match (before, after) {
        (Of::Variant(old, one, _), Of::Variant(new, other, _)) => {
            let settings = |variant: &VariantResults| {
                let software = variant.software.iter();
                software.map(|one| format!("{} {}", one.name, one.settings.join("; "))).collect::<Vec<_>>().join(", ")
            };
            let length = |group: &GroupResults| format!("{} s", group.seconds);
            differ("the workload", &old.workload, &new.workload)
                .or_else(|| differ("a round", &length(old), &length(new)))
                .or_else(|| differ("what ran", &settings(one), &settings(other)))
        }
        (Of::Row(old, ..), Of::Row(new, ..)) => differ("the workload", &old.workload, &new.workload),
        _ => Some("it is a table in one of them, and a group in the other".to_owned()),
    }
}
