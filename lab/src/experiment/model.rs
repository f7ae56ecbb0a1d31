//! The report as data: what `report.json` has. Its shape is `docs/lab/report.schema.json`; whoever changes it raises
//! [`SCHEMA`].

mod metric;
mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Experiment;
use crate::machine::Machine;
pub use metric::Metric;
pub use table::{Column, RowResults, TableResults};

/// The name and version of this shape.
pub const SCHEMA: &str = "pilotlight-lab/2";
/// Those that are read as well: in the first an experiment had no tables and no software, and a figure no rounds.
pub const OLDER: [&str; 1] = ["pilotlight-lab/1"];

/// A run of the lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// How long it took.
    pub duration_seconds: f64,
    /// The command line.
    pub command: Vec<String>,
    /// Pilotlight's version.
    pub version: String,
    /// The commit that it was built from, where that is known.
    pub commit: Option<String>,
    /// Whether it was built without optimization: then its figures say nothing.
    pub debug_build: bool,
    /// Less of everything.
    pub quick: bool,
    /// Told to end before everything was measured: what is here was measured whole.
    pub interrupted: bool,
    /// Of random choices and intervals.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// How much the machine disturbs.
    pub noise: Noise,
    /// In the order of their running.
    pub experiments: Vec<Results>,
}

impl Report {
    /// The commit alone, without what is said of it, where it is known.
    #[must_use]
    pub fn commit_hash(&self) -> Option<&str> {
        let hash = self.commit.as_deref()?.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        (7..=64).contains(&hash.len()).then_some(hash)
    }

    /// For tables: `1bbab70e`, `1bbab70e+` where something was not committed, `-` where it is not known.
    #[must_use]
    pub fn commit_short(&self) -> String {
        let changed = if self.commit.as_deref().is_some_and(|commit| commit.contains("-dirty")) { "+" } else { "" };
        self.commit_hash().map_or_else(|| "-".to_owned(), |hash| format!("{}{changed}", &hash[..hash.len().min(8)]))
    }

    /// The day on which it began: `2026-11-22`.
    #[must_use]
    pub fn day(&self) -> &str {
        self.started_at.split('T').next().unwrap_or_default()
    }
}

/// How much the machine disturbs what is measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Processes that ran or wanted to: before and after.
    pub load_average: [f64; 2],
    /// Share of CPU time that other virtual machines took from this one during the run, where the system says.
    pub steal: Option<f64>,
    /// Spread of a fixed piece of work before the run, and after it: (p90 − p10) / median of its times.
    pub spread: [f64; 2],
    /// Share of all processors that other programs used meanwhile, where the system says.
    pub busy: [Option<f64>; 2],
    /// Why nothing is compared, if nothing is; or why nothing should have been, if [`Noise::overridden`].
    pub refused: Option<String>,
    /// Compared nevertheless, because that was asked for.
    pub overridden: bool,
}

/// What an experiment has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// As on the command line.
    pub name: String,
    /// For people.
    pub title: String,
    /// What was believed before.
    pub hypothesis: String,
    /// What was measured.
    pub groups: Vec<GroupResults>,
    /// What was measured without being compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableResults>,
    /// Programs that took part in the tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<Software>,
    /// What was wanted, and what was measured.
    pub figures: Vec<Figure>,
    /// In sentences.
    pub findings: Vec<String>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
    /// Figures of other machines.
    pub published: Vec<Published>,
    /// Why there is nothing, if the whole experiment failed.
    pub failed: Option<String>,
}

impl Results {
    /// Nothing yet of this experiment.
    #[must_use]
    pub fn of(experiment: &dyn Experiment) -> Self {
        Self {
            name: experiment.name().to_owned(),
            title: experiment.title().to_owned(),
            hypothesis: experiment.hypothesis().to_owned(),
            groups: Vec::new(),
            tables: Vec::new(),
            software: Vec::new(),
            figures: Vec::new(),
            findings: Vec::new(),
            skipped: Vec::new(),
            published: Vec::new(),
            failed: None,
        }
    }
}

/// What was measured of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupResults {
    /// Unique in its experiment.
    pub id: String,
    /// For people.
    pub title: String,
    /// What each variant did.
    pub workload: String,
    /// The first is what the group is about.
    pub metrics: Vec<Metric>,
    /// How many rounds.
    pub rounds: u32,
    /// Seconds that count, of each variant in each round; 0 where requests are counted instead.
    pub seconds: f64,
    /// Who took part, the control last.
    pub variants: Vec<VariantResults>,
    /// Two equals beside each other: what this machine cannot tell apart.
    pub controls: Vec<Control>,
    /// What was asked.
    pub comparisons: Vec<Comparison>,
}

impl GroupResults {
    /// Whether a figure of this metric is met, which nobody can say where two equals were told apart.
    #[must_use]
    pub fn judged(&self, metric: Metric, met: Option<bool>) -> Option<bool> {
        met.filter(|_| self.controls.iter().all(|control| control.metric != metric || control.passed))
    }
}

/// What was measured of a variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VariantResults {
    /// Unique in its group.
    pub id: String,
    /// For people.
    pub title: String,
    /// What it stands for.
    pub role: Role,
    /// Programs, versions and settings.
    pub software: Vec<Software>,
    /// Why it was given up; then none of its rounds counts.
    pub failed: Option<String>,
    /// Of each round, in their order.
    pub rounds: Vec<BTreeMap<Metric, f64>>,
    /// Of all rounds.
    pub summary: BTreeMap<Metric, Summary>,
    /// CPU time for one request of each process: medians of rounds, in microseconds.
    pub cpu_us: BTreeMap<String, f64>,
    /// Of all its requests, where each was timed.
    pub latency: Option<Latency>,
    /// Of a cold start, in their order: medians of rounds.
    pub phases: Vec<Phase>,
    /// Requests that count.
    pub requests: u64,
}

/// The median of rounds and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// Lower end; the median itself for fewer than two rounds.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Whether times are from the moment at which a request was due (open loop) or written (closed loop).
    pub from_intended_start: bool,
    /// Percent and milliseconds, rising.
    pub percentiles: Vec<(f64, f64)>,
    /// The HDR histogram in nanoseconds (V2, deflated where that is shorter), base64.
    pub hdr: String,
}

/// A part of a cold start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// As `Server-Timing` calls it.
    pub name: String,
    /// The median.
    pub ms: f64,
}

/// Two equals, measured beside each other in every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Which variant was measured twice.
    pub variant: String,
    /// What was compared.
    pub metric: Metric,
    /// The second to the first, median of rounds.
    pub ratio: f64,
    /// 99 % interval: a report has so many controls that of 95 % intervals some would fail by chance.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether 1 lies in the interval: if not, nothing may be said about this metric in this group.
    pub passed: bool,
}

impl Control {
    /// The ratio and its interval.
    #[must_use]
    pub const fn summary(&self) -> Summary {
        Summary { median: self.ratio, low: self.low, high: self.high }
    }
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The question.
    pub question: String,
    /// What was compared.
    pub metric: Metric,
    /// A variant's id.
    pub one: String,
    /// Another's.
    pub other: String,
    /// `one / other`, or `one − other` if [`Comparison::difference`]; absent for fewer than two rounds, or if either
    /// failed.
    pub value: Option<Summary>,
    /// A difference instead of a ratio.
    pub difference: bool,
    /// What may be said.
    pub verdict: Verdict,
    /// Why it is no more than [`Verdict::NoDifference`] or [`Verdict::NotComparable`].
    pub reason: Option<String>,
}

/// What may be said about a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// `one` takes less than `other`.
    Less,
    /// `one` takes more.
    More,
    /// The interval contains equality, or two equals differ as much.
    NoDifference,
    /// Too little was measured, the control failed, or the machine is too noisy.
    NotComparable,
}

/// What a variant stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Pilotlight.
    Subject,
    /// Other software.
    Peer,
    /// What cannot be done for less here: a bare loop.
    Floor,
    /// The second of two equals.
    Control,
}

/// A program that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// As it says itself.
    pub version: String,
    /// What was set, and why where its documentation says so: `worker_processes 1`.
    pub settings: Vec<String>,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would change that, as a command where there is one.
    pub install: String,
}

impl Skipped {
    /// All of it.
    #[must_use]
    pub fn new(what: &str, why: &str, install: &str) -> Self {
        Self { what: what.into(), why: why.into(), install: install.into() }
    }
}

/// Something that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub name: String,
    /// `≤ 1.3`.
    pub wanted: String,
    /// What was measured; absent if it was not.
    pub measured: Option<Summary>,
    /// Of each round that it was computed of, where it is one of a table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
    /// By its median. `None`: it was not measured, or what was measured cannot be right, which a finding or the
    /// metric's control says.
    pub met: Option<bool>,
}

impl Figure {
    /// One whose median is to be at most that much, of a metric of a group; the unit has its space before it.
    #[must_use]
    pub fn at_most(
        group: &GroupResults,
        metric: Metric,
        name: String,
        (most, unit): (f64, &str),
        measured: Option<Summary>,
    ) -> Self {
        let met = group.judged(metric, measured.map(|found| found.median <= most));
        Self { name, wanted: format!("≤ {most}{unit}"), measured, rounds: Vec::new(), met }
    }
}

/// A figure of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The group that it stands beside; empty: the whole experiment.
    pub group: String,
    /// What was measured there.
    pub name: String,
    /// What.
    pub metric: Metric,
    /// How much.
    pub value: f64,
    /// Which machine, whose measurement.
    pub source: String,
}
