//! `--resume`: a group that an interrupted run has measured whole is taken from its report, and the others are
//! measured.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use crate::experiment::model::{GroupResults, Report, SCHEMA, TableResults};
use crate::experiment::{Amount, Experiment, Group, Plan, Planned, Setting};
use crate::machine::{self, Machine};
use crate::profile::table_of;

/// A run that was told to end before it had measured everything.
pub(super) struct Before(Report);

/// What there is of an experiment.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) groups: Vec<GroupResults>,
    /// What was counted of them beneath perf.
    pub(super) tables: Vec<TableResults>,
    /// All groups that were planned, in their order.
    pub(super) order: Vec<String>,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Before {
    /// # Errors
    /// There is no such report, nothing is left to measure, what is measured now could not stand beside it, or
    /// something of it is not asked for now.
    pub(super) fn read(file: &Path, setting: &Setting, plans: &[Planned<'_>]) -> anyhow::Result<Self> {
        let place = file.display();
        let text =
            fs::read_to_string(file).with_context(|| format!("--resume: there is no report {place} to go on with"))?;
        let report: Report =
            serde_json::from_str(&text).with_context(|| format!("{place} is no report of this lab"))?;
        ensure!(report.interrupted, "--resume: {place} is whole: nothing is left to measure");
        if let Some(what) = differs(&report, setting) {
            bail!("--resume: {place} is of {what}: leave out --resume, or choose another --out");
        }
        // It would go with the report that is written anew.
        let is_planned = |of: &str, id: &str| {
            let plan =
                plans.iter().find(|(experiment, _)| experiment.name() == of).and_then(|(_, plan)| plan.as_ref().ok());
            plan.is_some_and(|plan| plan.groups.iter().any(|group| group.id == id))
        };
        for results in &report.experiments {
            if let Some(lost) = results.groups.iter().find(|group| !is_planned(&results.name, &group.id)) {
                bail!(
                    "--resume: {place} has the group {} of {}, which is not asked for now: give the same command",
                    lost.id,
                    results.name
                );
            }
        }
        Ok(Self(report))
    }

    /// Takes from a plan what was measured whole.
    pub(super) fn take(&self, experiment: &dyn Experiment, plan: &mut Plan) -> Kept {
        let order = plan.groups.iter().map(|group| group.id.clone()).collect();
        let results = self.0.experiments.iter().find(|results| results.name == experiment.name());
        let Some(results) = results else {
            return Kept { order, ..Kept::default() };
        };
        let measured = |group: &Group| results.groups.iter().find(|before| is_whole(before, group));
        let groups: Vec<GroupResults> = plan.groups.iter().filter_map(measured).cloned().collect();
        plan.groups.retain(|group| measured(group).is_none());
        let is_theirs = |table: &&TableResults| groups.iter().any(|group| table_of(&group.id) == table.id);
        let tables = results.tables.iter().filter(is_theirs).cloned().collect();
        Kept { groups, tables, order }
    }

    /// The run began with this one.
    pub(super) fn begin(&self, report: &mut Report) {
        report.started_at.clone_from(&self.0.started_at);
        report.duration_seconds += self.0.duration_seconds;
        if self.0.noise.refused.is_some() {
            report.noise = self.0.noise.clone();
        }
    }
}

/// What keeps two runs from standing in one report.
fn differs(before: &Report, setting: &Setting) -> Option<&'static str> {
    let commit = machine::commit();
    let differences = [
        (before.schema != SCHEMA, "another version of the lab"),
        (before.version != env!("CARGO_PKG_VERSION") || before.commit != commit, "another version of Pilotlight"),
        (before.debug_build != cfg!(debug_assertions), "another build"),
        (before.machine != Machine::here(), "another machine, or another kernel"),
        (before.quick != setting.quick, if before.quick { "a quick run" } else { "a run that was not quick" }),
        (before.seed != setting.seed, "another seed"),
    ];
    differences.into_iter().find_map(|(differs, what)| differs.then_some(what))
}

/// Whether everything of a group was measured as it is to be now, and nothing has failed.
fn is_whole(before: &GroupResults, group: &Group) -> bool {
    let Amount { rounds, duration, .. } = group.amount;
    let variants = group.variants.iter().map(|variant| &variant.id);
    let measured = |id: &String| before.variants.iter().any(|one| one.id == *id && one.failed.is_none());
    before.id == group.id
        && before.rounds == rounds
        && (before.seconds - duration.as_secs_f64()).abs() < 1e-9
        && variants.clone().all(measured)
}
