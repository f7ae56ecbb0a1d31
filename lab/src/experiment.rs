//! What every experiment of the lab is made of: groups of variants that do the same work in different ways and
//! alternate in rounds, what was measured of each, and what may be said about their differences.
//! `docs/adr/0022-one-model-of-experiments.md`.
//!
//! An experiment describes itself ([`Experiment`]), says what it can measure on this machine ([`Plan`]), and leaves the
//! rest to what is shared: one runner alternates the variants, one judge compares them, [`model`] is the report as
//! data, and everything that shows a report reads only that.

pub mod catalogue;
pub mod judge;
pub mod measures;
pub mod model;
pub mod noise;
pub mod run;
pub mod terminal;
mod watchdog;

use std::path::PathBuf;
use std::time::Duration;

use crate::stats::Times;
use judge::MIN_ROUNDS;
use model::{Metric, Published, Report, Results, Role, Skipped, Software};

/// An experiment: one of the names after `pilotlight lab`.
pub trait Experiment {
    /// As on the command line.
    fn name(&self) -> &'static str;
    /// For people.
    fn title(&self) -> &'static str;
    /// What is believed before it is measured; the report says whether it was so.
    fn hypothesis(&self) -> &'static str;
    /// What takes part, for `--list`, and whether it can here; needs nothing to be started.
    fn participants(&self, setting: &Setting) -> Vec<Participant>;
    /// What will be measured. Programs are started by the variants themselves, as late as possible.
    ///
    /// # Errors
    /// Nothing can be measured here at all.
    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan>;
    /// Adds what follows from what was measured and judged: figures that are wanted, findings in sentences. `about` has
    /// everything of the run but experiments.
    fn conclude(&self, _results: &mut Results, _about: &Report) {}
}

/// What all experiments of a run are told.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Less of everything: two minutes at most for all experiments together.
    pub quick: bool,
    /// Folder for what variants write; it goes when the run ends.
    pub scratch: PathBuf,
    /// The `lab/peers` of a checkout, where built peers are found; `None`: an installed binary without one.
    pub peers: Option<PathBuf>,
    /// Of every random choice.
    pub seed: u64,
}

impl Setting {
    /// What suits most variants: many short rounds tell more than a few long ones.
    #[must_use]
    pub fn amount(&self) -> Amount {
        // A quick run takes as few rounds as a verdict needs.
        let (rounds, duration, warm_up) = if self.quick { (MIN_ROUNDS as u32, 50, 10) } else { (30, 1000, 200) };
        let (duration, warm_up) = (Duration::from_millis(duration), Duration::from_millis(warm_up));
        Amount { rounds, duration, warm_up, seed: self.seed }
    }

    /// A quick run has no time for starts.
    #[must_use]
    pub fn lifetime(&self) -> Lifetime {
        if self.quick { Lifetime::Group } else { Lifetime::Measurement }
    }
}

/// How much time there is for an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As much as its page says: it is measured for itself.
    Alone,
    /// Little: it is one of many in a run.
    AmongOthers,
}

/// How long a server lives that needs no warming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// One measurement, so that what differs between two starts of one program is in the intervals.
    Measurement,
    /// As long as its group.
    Group,
}

/// What takes part in an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub what: String,
    /// Why it cannot take part here, and what would change that.
    pub missing: Option<Skipped>,
}

/// What an experiment will measure.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of the report.
    pub groups: Vec<Group>,
    /// What cannot be measured here.
    pub skipped: Vec<Skipped>,
    /// Figures of other machines.
    pub published: Vec<Published>,
}

impl Plan {
    /// How long it usually takes to measure all of it.
    #[must_use]
    pub fn usual(&self) -> Duration {
        self.groups.iter().map(Group::usual).sum()
    }
}

/// An experiment and what it will measure, or why it can measure nothing.
pub type Planned<'a> = (&'a dyn Experiment, anyhow::Result<Plan>);

/// Variants that do the same work, measured beside each other.
#[derive(Debug)]
pub struct Group {
    /// Unique in its experiment; in names of files.
    pub id: String,
    /// For people.
    pub title: String,
    /// What each variant does: requests, sizes, connections.
    pub workload: String,
    /// What is taken of each measurement; the first is what the group is about.
    pub metrics: Vec<Metric>,
    /// Who takes part.
    pub variants: Vec<Variant>,
    /// The variant that is measured twice in each round, as a control: two equals, whose difference is noise.
    pub control: String,
    /// What is asked of the measurements.
    pub questions: Vec<Question>,
    /// How much.
    pub amount: Amount,
}

impl Group {
    /// How long it usually takes: programs start with the first round, and every round measures every variant once and
    /// one of them twice.
    #[must_use]
    pub fn usual(&self) -> Duration {
        let of = |variant: &Variant| {
            let times = if variant.id == self.control { 2 } else { 1 };
            (START + usual(variant.measure.as_ref(), self.amount) * self.amount.rounds) * times
        };
        self.variants.iter().map(of).sum()
    }
}

/// How long one measurement usually takes.
fn usual(measure: &dyn Measure, amount: Amount) -> Duration {
    amount.warm_up + amount.duration + measure.beside(amount)
}

/// A program that is kept takes about so long until it listens, and again to end.
const START: Duration = Duration::from_millis(250);
/// Around each measurement: connections are made, processes are looked for.
pub const AROUND: Duration = Duration::from_millis(20);

/// One way to do the work of a group.
pub struct Variant {
    /// Unique in its group.
    pub id: String,
    /// For people.
    pub title: String,
    /// What it stands for.
    pub role: Role,
    /// Programs that take part, their versions and settings.
    pub software: Vec<Software>,
    /// Measures it once.
    pub measure: Box<dyn Measure>,
}

impl std::fmt::Debug for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variant").field("id", &self.id).field("role", &self.role).finish_non_exhaustive()
    }
}

/// How a variant is measured. It may keep its programs running between rounds, for as long as it lives.
pub trait Measure {
    /// One measurement: what does not count (`amount.warm_up`), then what does.
    ///
    /// # Errors
    /// A program does not start, dies, hangs or answers wrongly: the variant has failed, and none of its rounds counts.
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample>;

    /// Another one that is equal to it, with programs of its own: the control. `None`: the same one is measured twice,
    /// which does not show what differs between two starts of one program.
    fn again(&self) -> Option<Box<dyn Measure>> {
        None
    }

    /// What one measurement usually takes besides its warm-up and its duration: what is started for it alone, what is
    /// filled. Progress and the time that a run is said to take are made of it.
    fn beside(&self, _: Amount) -> Duration {
        AROUND
    }

    /// How long one measurement takes at most, starts of programs included. Whatever takes longer hangs, and its
    /// processes are ended from outside.
    fn limit(&self, amount: Amount) -> Duration {
        amount.warm_up + amount.duration + MAX_OVERTIME
    }
}

/// A measurement may take so much longer than it was to: programs start, caches are filled, what is in flight ends.
pub const MAX_OVERTIME: Duration = Duration::from_secs(120);

impl<F: FnMut(Amount) -> anyhow::Result<Sample>> Measure for F {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        self(amount)
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Rounds in which the variants alternate.
    pub rounds: u32,
    /// What counts, of each variant in each round.
    pub duration: Duration,
    /// What does not, before it.
    pub warm_up: Duration,
    /// Of the requests.
    pub seed: u64,
}

/// What was measured of one variant in one round.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The metrics of its group.
    pub values: Vec<(Metric, f64)>,
    /// CPU time for one request of each process that took part, the load's among them: `("gateway", 4.2)`.
    pub cpu_us: Vec<(String, f64)>,
    /// Of each request.
    pub times: Option<Times>,
    /// Whether they are from the moment at which a request was due (open loop), not from its writing (closed loop).
    pub from_intended_start: bool,
    /// Phases of a cold start in their order, in milliseconds.
    pub phases_ms: Vec<(String, f64)>,
    /// Requests that count.
    pub requests: u64,
}

/// A comparison that the report draws: how much of `other`'s metric `one` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// For people: `CPU of a request, Pilotlight / nginx`.
    pub text: String,
    /// What is compared.
    pub metric: Metric,
    /// A variant's id.
    pub one: String,
    /// Another's.
    pub other: String,
    /// A difference is taken instead of a ratio: what a layer costs.
    pub difference: bool,
}

impl Question {
    /// How many times the metric of `other` that of `one` is.
    pub(crate) fn ratio(
        text: impl Into<String>,
        metric: Metric,
        one: impl Into<String>,
        other: impl Into<String>,
    ) -> Self {
        Self { text: text.into(), metric, one: one.into(), other: other.into(), difference: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts something for each measurement.
    struct Starting;

    impl Measure for Starting {
        fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
            Ok(Sample::default())
        }

        fn beside(&self, _: Amount) -> Duration {
            Duration::from_millis(100)
        }
    }

    #[test]
    fn a_group_takes_what_its_variants_take_and_its_control_again() {
        let variant = |id: &str, measure: Box<dyn Measure>| Variant {
            id: id.into(),
            title: id.into(),
            role: Role::Peer,
            software: Vec::new(),
            measure,
        };
        let kept = |_: Amount| Ok(Sample::default());
        let quick = Setting { quick: true, scratch: PathBuf::new(), peers: None, seed: 1 };
        let amount = quick.amount();
        let group = Group {
            id: "group".into(),
            title: String::new(),
            workload: String::new(),
            metrics: Vec::new(),
            variants: vec![variant("kept", Box::new(kept)), variant("starting", Box::new(Starting))],
            control: "kept".into(),
            questions: Vec::new(),
            amount,
        };
        let each = amount.warm_up + amount.duration;
        let kept = START + (each + AROUND) * amount.rounds;
        let starting = START + (each + Duration::from_millis(100)) * amount.rounds;
        assert_eq!(group.usual(), kept * 2 + starting);
        assert_eq!(amount.rounds as usize, MIN_ROUNDS, "as few as a verdict needs");
    }
}
