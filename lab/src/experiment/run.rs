//! The running of a group: every round measures every variant once. The order turns by one place every second round and
//! runs backwards in between, so that whoever comes first, and what grows or fades meanwhile, falls on all of them
//! alike.
//!
//! Invariant: a variant that has failed once counts in no round. A round that was not finished counts for nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use super::model::{Metric, Role, Software};
use super::watchdog::Watchdog;
use super::{Amount, Group, Measure, Question, Sample, Variant, usual};
use crate::interrupt;
use crate::processes::usage;
use crate::profile::{Profile, Profiler, Whose};
use crate::progress::Progress;

/// What was measured of a group, as it was measured.
#[derive(Debug)]
pub struct Measured {
    /// Its id, title and workload.
    pub about: [String; 3],
    /// What was taken of each measurement.
    pub metrics: Vec<Metric>,
    /// How much was to be measured.
    pub amount: Amount,
    /// Rounds that were finished.
    pub rounds: usize,
    /// Each variant; its control last.
    pub lanes: Vec<Lane>,
    /// What is asked.
    pub questions: Vec<Question>,
    /// What was learnt of the variants beneath perf, where that was asked for.
    pub profiles: Vec<Profile>,
}

/// A variant with what was measured of it.
#[derive(Debug)]
pub struct Lane {
    /// Unique in its group.
    pub id: String,
    /// For people.
    pub title: String,
    /// What it stands for.
    pub role: Role,
    /// Programs that take part.
    pub software: Vec<Software>,
    /// One of each round that was finished; none if it has failed.
    pub samples: Vec<Sample>,
    /// Why it has failed.
    pub failed: Option<String>,
    /// The measure that it has, in the runner's list.
    measured: usize,
    /// Equal for two equals.
    pair: usize,
}

/// Whether a run was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has measured everything.
    Whole,
    /// It was told to end before.
    Interrupted,
}

/// Runs groups, one after the other.
#[derive(Debug)]
pub struct Runner {
    watchdog: Watchdog,
    progress: Progress,
    profiler: Option<Profiler>,
}

impl Runner {
    /// `groups` are ahead; how long they usually take is what progress is measured in.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn new<'a>(groups: impl Iterator<Item = &'a Group>, profiler: Option<Profiler>) -> std::io::Result<Self> {
        let usual = |group: &Group| group.usual() + profiler.as_ref().map_or(Duration::ZERO, |it| it.usual(group));
        let progress = Progress::new(groups.map(usual).sum());
        Ok(Self { watchdog: Watchdog::start()?, progress, profiler })
    }

    /// Something that the reader has to know at once.
    pub fn note(&mut self, what: &str) {
        self.progress.note(what);
    }

    /// Something that goes on.
    pub fn waiting(&mut self, what: &str) {
        self.progress.milestone(what);
    }

    /// Measures a group. Its programs are ended before this returns.
    pub fn run(&mut self, name: &str, group: Group) -> (Measured, End) {
        let end = self.progress.done() + group.usual();
        let Group { id, title, workload, metrics, variants, control, questions, amount } = group;
        let heading = format!("{name} {id}");
        let (mut lanes, mut measures) = open(variants, &control);
        let rounds = amount.rounds as usize;
        let mut finished_rounds = rounds;
        for round in 0..rounds {
            self.progress.milestone(&format!("{heading}: round {} of {rounds}", round + 1));
            let finished = order(lanes.len(), round).into_iter().all(|index| {
                self.measure(&heading, (&mut lanes, index), &mut measures, amount);
                interrupt::check().is_ok()
            });
            if !finished {
                return (close([id, title, workload], metrics, amount, round, lanes, questions), End::Interrupted);
            }
            if lanes.iter().all(|lane| lane.failed.is_some()) {
                finished_rounds = round;
                break;
            }
        }
        self.progress.reach(end);
        let profiles = self.profile(name, &id, &lanes, &mut measures, amount);
        self.progress.show(&format!("{heading}: stopping"));
        drop(measures);
        let measured = close([id, title, workload], metrics, amount, finished_rounds, lanes, questions);
        (Measured { profiles, ..measured }, End::Whole)
    }

    fn measure(
        &mut self,
        heading: &str,
        (lanes, index): (&mut [Lane], usize),
        measures: &mut [Running],
        amount: Amount,
    ) {
        let lane = &mut lanes[index];
        let what = format!("{heading}: {}", lane.title);
        self.progress.show(&what);
        let usual = usual(measures[lane.measured].measure.as_ref(), amount);
        if lane.failed.is_none() {
            let others = others(measures, lane.measured);
            let running = &mut measures[lane.measured];
            let limit = running.measure.limit(amount);
            let before = descendants();
            let (sample, late) = self.watchdog.guard(&what, limit, others, || running.measure.measure(amount));
            running.processes.retain(|pid| usage::runs(*pid));
            running.processes.extend(descendants().difference(&before));
            match sample {
                Ok(sample) if !late => lane.samples.push(sample),
                outcome => {
                    let why = if late {
                        let seconds = limit.as_secs_f64();
                        format!("no end after {seconds} s: its processes were killed")
                    } else {
                        outcome.err().map_or_else(String::new, |error| format!("{error:#}"))
                    };
                    self.fail(heading, lanes, index, &why);
                }
            }
        }
        self.progress.advance(usual);
    }

    /// Looks at each variant that has not failed once more, where that was asked for.
    fn profile(
        &mut self,
        name: &str,
        group: &str,
        lanes: &[Lane],
        measures: &mut [Running],
        amount: Amount,
    ) -> Vec<Profile> {
        let Some(profiler) = &self.profiler else { return Vec::new() };
        let mut profiles = Vec::new();
        for lane in lanes.iter().filter(|lane| lane.role != Role::Control && lane.failed.is_none()) {
            if interrupt::check().is_err() {
                break;
            }
            let what = format!("{name} {group}: {} beneath perf", lane.title);
            self.progress.milestone(&what);
            let others = others(measures, lane.measured);
            let running = &mut measures[lane.measured];
            let (usual, limit) =
                (profiler.usual_of(running.measure.as_ref(), amount), profiler.limit(running.measure.as_ref(), amount));
            let pids = running.processes.iter().copied().collect();
            let whose = Whose { experiment: name, group, id: &lane.id, title: &lane.title, pids };
            let measure = running.measure.as_mut();
            let (profile, _) = self.watchdog.guard(&what, limit, others, || profiler.profile(&whose, amount, measure));
            profiles.push(profile);
            self.progress.advance(usual);
        }
        profiles
    }

    /// With a variant fails its control, and the other way round.
    fn fail(&mut self, heading: &str, lanes: &mut [Lane], index: usize, why: &str) {
        if interrupt::check().is_err() {
            return; // what is told to end may fail
        }
        self.progress.note(&format!("FAILED: {heading}: {}: {why}", lanes[index].title));
        let pair = lanes[index].pair;
        for lane in lanes.iter_mut().filter(|lane| lane.pair == pair) {
            lane.failed = Some(why.to_owned());
            lane.samples.clear();
        }
    }
}

/// A variant's measure and the processes that have appeared while it measured.
struct Running {
    measure: Box<dyn Measure>,
    processes: BTreeSet<u32>,
}

/// Processes of the lab that are not those of this measure.
fn others(measures: &[Running], measured: usize) -> BTreeSet<u32> {
    let others = measures.iter().enumerate().filter(|(at, _)| *at != measured);
    others.flat_map(|(_, running)| running.processes.iter().copied()).chain(unowned(measures)).collect()
}

/// Processes of the lab that are no variant's: they were there before.
fn unowned(measures: &[Running]) -> Vec<u32> {
    let owned = |pid: &u32| measures.iter().any(|running| running.processes.contains(pid));
    descendants().into_iter().filter(|pid| !owned(pid)).collect()
}

fn descendants() -> BTreeSet<u32> {
    usage::tree(std::process::id()).into_iter().skip(1).map(|process| process.pid).collect()
}

fn open(variants: Vec<Variant>, control: &str) -> (Vec<Lane>, Vec<Running>) {
    let (mut lanes, mut measures) = (Vec::new(), Vec::new());
    let mut equal = None;
    for (pair, variant) in variants.into_iter().enumerate() {
        let Variant { id, title, role, software, measure } = variant;
        let lane = |id, title, role, software, measured| {
            let (samples, failed) = (Vec::new(), None);
            Lane { id, title, role, software, samples, failed, measured, pair }
        };
        if id == control {
            equal = Some((lane(again(&id), again(&title), Role::Control, software.clone(), pair), measure.again()));
        }
        lanes.push(lane(id, title, role, software, pair));
        measures.push(Running { measure, processes: BTreeSet::new() });
    }
    if let Some((mut lane, measure)) = equal {
        if let Some(measure) = measure {
            lane.measured = measures.len();
            measures.push(Running { measure, processes: BTreeSet::new() });
        }
        lanes.push(lane);
    }
    (lanes, measures)
}

/// What the second of two equals is called.
#[must_use]
pub fn again(id: &str) -> String {
    format!("{id} (again)")
}

/// Who comes when: `0 1 2`, `2 1 0`, `1 2 0`, `0 2 1`, …
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).map(|place| (place + round / 2) % count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn close(
    about: [String; 3],
    metrics: Vec<Metric>,
    amount: Amount,
    rounds: usize,
    mut lanes: Vec<Lane>,
    questions: Vec<Question>,
) -> Measured {
    for lane in &mut lanes {
        lane.samples.truncate(rounds);
    }
    Measured { about, metrics, amount, rounds, lanes, questions, profiles: Vec::new() }
}
