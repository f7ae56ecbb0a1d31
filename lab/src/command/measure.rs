//! A run: every group that is asked for is measured and judged, and every experiment says what it has found.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::JSON_FILE;
use super::common::Common;
use super::resume::{Before, Kept};
use crate::experiment::judge::{self, MIN_ROUNDS, judge};
use crate::experiment::model::{Report, Results, SCHEMA, Skipped};
use crate::experiment::noise::Watch;
use crate::experiment::run::{End, Measured, Runner};
use crate::experiment::{Experiment, Extent, Group, Plan, Planned, Setting};
use crate::machine::{self, Machine};
use crate::profile::Profiler;
use crate::report;

/// Rounds and seconds of each group in `lab all`; what takes less takes less there, too.
const ROUNDS_OF_ALL: u32 = MIN_ROUNDS as u32;
const DURATION_OF_ALL: Duration = Duration::from_millis(250);
const LONGEST_SHORTENED: Duration = Duration::from_secs(1);
/// What `lab all` leaves out: of which experiment, which group of it, and why.
const LEFT_OUT: [(&str, &str, &str); 23] = [
    ("layers", "instructions", "callgrind takes ten minutes for it"),
    ("layers", "generator", "the load beside another generator is no figure"),
    ("gateway", "chunks-upload-http", CHUNKS),
    ("gateway", "chunks-upload-pipe", CHUNKS),
    ("gateway", "chunks-download-http", CHUNKS),
    ("gateway", "chunks-download-pipe", CHUNKS),
    ("gateway", "traces-stored", TRACES),
    ("gateway", "traces-passed", TRACES),
    ("gateway", "bounds", "what bounds cost takes a minute"),
    ("gateway", "websocket", "WebSockets take a minute"),
    ("front", "file-large", "large files over TLS show what files cost; these take half a minute"),
    ("cache", "large", "large files over TLS show what long answers cost; these take a minute"),
    ("cache", "proxy-one-python", ONE_CONNECTION),
    ("cache", "proxy-one-node", ONE_CONNECTION),
    ("instructions", EVERY_GROUP, "it takes two minutes, and any machine counts the same at any time"),
    ("capacity", EVERY_GROUP, "it takes ten minutes"),
    ("eviction", EVERY_GROUP, "it takes ten minutes, and any machine finds the same at any time"),
    ("limits", EVERY_GROUP, "it takes three minutes"),
    ("php", EVERY_GROUP, "it takes a quarter of an hour, and it needs WordPress and its database"),
    ("tool", "bench", TOOL),
    ("tool", "agree", TOOL),
    ("tool", "fill", TOOL),
    ("tunnel", EVERY_GROUP, "it takes a minute and a half"),
];
/// What `lab all --quick` leaves out besides.
const LEFT_OUT_OF_QUICK: [(&str, &str, &str); 1] = [("layers", "one", "64 connections show whether everything works")];
const TOOL: &str = "whole programs that run for seconds take four minutes";
const CHUNKS: &str = "small chunks take two minutes";
const ONE_CONNECTION: &str = "services in Rust show what one connection costs; these take a minute";
const TRACES: &str = "traces take a minute";
const EVERY_GROUP: &str = "";

/// An experiment with what was measured of it, before anything is said about it.
struct Ran<'a> {
    experiment: &'a dyn Experiment,
    results: Results,
    groups: Vec<Measured>,
}

impl<'a> Ran<'a> {
    /// Nothing was measured yet.
    fn of(experiment: &'a dyn Experiment) -> Self {
        Self { experiment, results: Results::of(experiment), groups: Vec::new() }
    }
}

pub(super) fn measure(
    experiments: &[Box<dyn Experiment>],
    setting: &Setting,
    common: &Common,
    extent: Extent,
) -> anyhow::Result<Report> {
    let (begin, now) = (Instant::now(), SystemTime::now());
    let mut plans = plans(experiments, setting, common, extent);
    let all = || plans.iter().filter_map(|(_, plan)| plan.as_ref().ok()).flat_map(|plan| &plan.groups);
    if let Some(unknown) = common.groups.iter().find(|wanted| !all().any(|group| is_of(group, wanted))) {
        anyhow::bail!(
            "there is no group {unknown} here; docs/lab has those of each experiment, and --quick leaves some out"
        );
    }
    let before = common.resume.then(|| Before::read(&common.out.join(JSON_FILE), setting, &plans)).transpose()?;
    let kept: Vec<Kept> = plans.iter_mut().map(|(experiment, plan)| take(before.as_ref(), *experiment, plan)).collect();
    let profiler = common.profiler(setting)?;
    let groups = plans.iter().filter_map(|(_, plan)| plan.as_ref().ok()).flat_map(|plan| &plan.groups);
    let mut runner = Runner::new(groups, profiler.clone())?;
    if cfg!(debug_assertions) {
        runner.note("warning: this is a debug build; its figures say nothing about Pilotlight");
    }
    let watch = Watch::begin(common.noisy(), |why| runner.waiting(&format!("waiting for a quiet machine: {why}")))?;
    if let Some(why) = watch.refused() {
        let then = if common.noisy_anyway {
            "compared nevertheless"
        } else {
            "nothing will be compared (--noisy-anyway compares)"
        };
        runner.note(&format!("noise: {why}: {then}"));
    }
    let (mut ran, end) = run_all(plans, &mut runner);
    drop(runner);
    // What comes after an interruption may have been measured before.
    let after = experiments.iter().zip(&kept).skip(ran.len()).filter(|(_, kept)| !kept.is_empty());
    ran.extend(after.map(|(experiment, _)| Ran::of(experiment.as_ref())));
    let noise = watch.end(common.noisy());
    let machine = judge::Machine::of(&noise);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        started_at: report::timestamp(now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())),
        experiments: Vec::new(),
        duration_seconds: begin.elapsed().as_secs_f64(),
        command: ["pilotlight", "lab"].map(String::from).into_iter().chain(std::env::args().skip(1)).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: machine::commit(),
        debug_build: cfg!(debug_assertions),
        quick: setting.quick,
        interrupted: end == End::Interrupted,
        seed: setting.seed,
        machine: Machine::here(),
        noise,
    };
    if let Some(before) = &before {
        before.begin(&mut report);
    }
    let mut kept: HashMap<&str, Kept> = experiments.iter().map(|experiment| experiment.name()).zip(kept).collect();
    for ran in ran {
        let kept = kept.remove(ran.experiment.name()).unwrap_or_default();
        report.experiments.push(concluded(ran, kept, machine, profiler.as_ref(), &report));
    }
    Ok(report)
}

/// What an experiment has found, now and before.
fn concluded(
    ran: Ran<'_>,
    kept: Kept,
    machine: judge::Machine,
    profiler: Option<&Profiler>,
    about: &Report,
) -> Results {
    let mut results = ran.results;
    results.groups = ran.groups.iter().map(|measured| judge(measured, machine, about.seed)).collect();
    results.groups.extend(kept.groups);
    results.groups.sort_by_key(|group| kept.order.iter().position(|id| *id == group.id));
    ran.experiment.conclude(&mut results, about);
    results.tables.extend(kept.tables);
    if let Some(profiler) = profiler {
        let table = |of: Measured| profiler.table(&of.about[0], &of.about[1], of.profiles);
        results.tables.extend(ran.groups.into_iter().map(table));
    }
    results
}

fn take(before: Option<&Before>, experiment: &dyn Experiment, plan: &mut anyhow::Result<Plan>) -> Kept {
    let Ok(plan) = plan else { return Kept::default() };
    before.map(|before| before.take(experiment, plan)).unwrap_or_default()
}

/// What takes long.
fn leave_out(experiment: &str, plan: &mut Plan, is_quick: bool) {
    let of_quick: &[_] = if is_quick { &LEFT_OUT_OF_QUICK } else { &[] };
    for (of, id, why) in LEFT_OUT.iter().chain(of_quick).copied() {
        let is_it = |group: &Group| of == experiment && (id == group.id || id == EVERY_GROUP);
        if plan.groups.iter().any(is_it) {
            plan.groups.retain(|group| !is_it(group));
            let (what, groups) = if id == EVERY_GROUP {
                (of.to_owned(), String::new())
            } else {
                (format!("{of} {id}"), format!(" --groups {id}"))
            };
            plan.skipped.push(Skipped::new(&what, why, &format!("pilotlight lab {of}{groups}")));
        }
    }
}

/// As few rounds as a verdict needs, and short ones.
fn shorten(plan: &mut Plan) {
    for amount in plan.groups.iter_mut().map(|group| &mut group.amount) {
        amount.rounds = amount.rounds.min(ROUNDS_OF_ALL);
        // Longer ones are of whole programs, whose start is a part of it.
        if amount.duration <= LONGEST_SHORTENED {
            amount.duration = amount.duration.min(DURATION_OF_ALL);
            amount.warm_up = amount.warm_up.min(DURATION_OF_ALL);
        }
    }
}

/// Whether a group has this name, or is one of several whose names begin with it: `published` is `published-get`, too.
fn is_of(group: &Group, wanted: &str) -> bool {
    group.id.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

pub(super) fn plans<'a>(
    experiments: &'a [Box<dyn Experiment>],
    setting: &Setting,
    common: &Common,
    extent: Extent,
) -> Vec<Planned<'a>> {
    let plan = |experiment: &'a dyn Experiment| {
        let mut plan = experiment.plan(setting);
        if let Ok(plan) = &mut plan {
            plan.groups
                .retain(|group| common.groups.is_empty() || common.groups.iter().any(|wanted| is_of(group, wanted)));
        }
        if let (Extent::AmongOthers, Ok(plan)) = (extent, &mut plan) {
            // What is asked for by its name is not left out.
            if common.groups.is_empty() {
                leave_out(experiment.name(), plan, setting.quick);
            }
            if !setting.quick {
                shorten(plan);
            }
        }
        for group in plan.iter_mut().flat_map(|plan| &mut plan.groups) {
            group.amount.rounds = common.rounds.unwrap_or(group.amount.rounds);
            // What is counted in requests stays so.
            if !group.amount.duration.is_zero() {
                group.amount.duration = common.secs.map_or(group.amount.duration, Duration::from_secs_f64);
            }
        }
        (experiment, plan)
    };
    experiments.iter().map(|experiment| plan(experiment.as_ref())).collect()
}

fn run_all<'a>(plans: Vec<Planned<'a>>, runner: &mut Runner) -> (Vec<Ran<'a>>, End) {
    let mut all = Vec::new();
    for (experiment, plan) in plans {
        let mut ran = Ran::of(experiment);
        let mut end = End::Whole;
        match plan {
            Ok(plan) => {
                for skipped in &plan.skipped {
                    runner.note(&format!("skipped: {}: {}; {}", skipped.what, skipped.why, skipped.install));
                }
                (ran.results.skipped, ran.results.published) = (plan.skipped, plan.published);
                for group in plan.groups {
                    let (measured, ended) = runner.run(experiment.name(), group);
                    // Without a round it says nothing, unless because all have failed.
                    let says = measured.rounds > 0 || measured.lanes.iter().any(|lane| lane.failed.is_some());
                    ran.groups.extend(says.then_some(measured));
                    end = ended;
                    if end == End::Interrupted {
                        break;
                    }
                }
            }
            Err(error) => {
                runner.note(&format!("FAILED: {}: {error:#}", experiment.name()));
                ran.results.failed = Some(format!("{error:#}"));
            }
        }
        all.push(ran);
        if end == End::Interrupted {
            return (all, end);
        }
    }
    (all, End::Whole)
}
