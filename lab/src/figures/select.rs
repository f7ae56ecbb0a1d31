//! What of the reports a place names.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::experiment::model::{Column, GroupResults, Metric, Report, Results, TableResults, VariantResults};
use crate::report::Table;
use crate::show::markdown::{self, escape};
use crate::show::{self, columns, words};

/// What was measured, each experiment in one report.
pub(super) struct Reports(Vec<(PathBuf, Report)>);

impl Reports {
    /// # Errors
    /// A report cannot be read, or its figures say nothing.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut reports = Vec::new();
        for file in files {
            let report = show::read(file)?;
            let shown = file.display();
            ensure!(
                !report.debug_build,
                "{shown} is of a debug build, whose figures say nothing: measure with a release build"
            );
            reports.push((file.clone(), report));
        }
        Ok(Self(reports))
    }

    /// What is named, as Markdown, and the report that it is from.
    ///
    /// # Errors
    /// No report has this experiment, two have it, or the one has nothing of this name; what there is is said.
    pub(super) fn select(&self, selector: &str) -> anyhow::Result<(&Path, String)> {
        let (file, report, results) = self.experiment(selector)?;
        let rest: Vec<&str> = selector.split('/').map(str::trim).skip(1).collect();
        let named = of_experiment(report, results, &rest);
        Ok((file, named.with_context(|| format!("{selector} is not in {}", file.display()))?))
    }

    /// The experiment that is named, its report and its file.
    ///
    /// # Errors
    /// No report has it, or two have.
    pub(super) fn experiment(&self, selector: &str) -> anyhow::Result<(&Path, &Report, &Results)> {
        let name = selector.split('/').next().unwrap_or_default().trim();
        let mut having = self.0.iter().filter_map(|(file, report)| {
            let results = report.experiments.iter().find(|results| results.name == name)?;
            Some((file.as_path(), report, results))
        });
        let (file, report, results) = having.next().with_context(|| {
            let all = self.0.iter().flat_map(|(_, report)| &report.experiments);
            let names: Vec<String> = all.map(|results| results.name.clone()).collect();
            format!("{selector}: there is no experiment {name:?} in a report, but {}", list(&names))
        })?;
        if let Some((other, ..)) = having.next() {
            bail!("{selector}: {name} is in two reports, {} and {}", file.display(), other.display());
        }
        Ok((file, report, results))
    }
}

fn of_experiment(report: &Report, results: &Results, rest: &[&str]) -> anyhow::Result<String> {
    match rest {
        [] => bail!("what of {}: run, findings, figures, or a group ({})", results.name, groups(results)),
        ["run"] => Ok(made(report, results)),
        ["findings"] => {
            let findings = words::findings(results);
            ensure!(!findings.is_empty(), "{} has no findings", results.name);
            Ok(findings.iter().map(|finding| format!("- {}\n", escape(finding))).collect())
        }
        ["figures"] => table(markdown::figures(report, results), "figures"),
        [id, rest @ ..] => {
            if let Some(table) = results.tables.iter().find(|table| table.id == *id) {
                return of_table(table, rest);
            }
            let group = results.groups.iter().find(|group| group.id == *id);
            let group = group.with_context(|| format!("there is no group {id}, but {}", groups(results)))?;
            of_group(group, rest)
        }
    }
}

fn of_group(group: &GroupResults, rest: &[&str]) -> anyhow::Result<String> {
    match rest {
        [] => table(markdown::variants(group, &group.metrics), "variants"),
        ["answers"] => table(markdown::comparisons(group), "questions"),
        [metrics] => {
            let metrics =
                metrics.split(',').map(|name| metric(group, name.trim())).collect::<anyhow::Result<Vec<_>>>()?;
            table(markdown::variants(group, &metrics), "variants")
        }
        [name, ids] => match ids.split_once(':') {
            None => value(group, metric(group, name)?, ids),
            Some(ids) => answer(group, metric(group, name)?, ids),
        },
        more => bail!("nothing of a group is named by {}", more.join("/")),
    }
}

fn of_table(results: &TableResults, rest: &[&str]) -> anyhow::Result<String> {
    match rest {
        [] => table(markdown::rows(results, &results.columns.iter().collect::<Vec<_>>()), "rows"),
        [names] => {
            let names = names.split(',').map(|name| column(results, name.trim()));
            table(markdown::rows(results, &names.collect::<anyhow::Result<Vec<_>>>()?), "rows")
        }
        [name, id] => {
            let column = column(results, name)?;
            let row = results.rows.iter().find(|row| row.id == *id).with_context(|| {
                let ids: Vec<String> = results.rows.iter().map(|row| row.id.clone()).collect();
                format!("{} has no row {id}, but {}", results.id, list(&ids))
            })?;
            ensure!(row.failed.is_none(), "{id} failed: {}", row.failed.as_deref().unwrap_or_default());
            let summary = row.summary.get(&column.id).with_context(|| format!("{id} has no {}", column.id))?;
            Ok(escape(&columns::measured(results, column, *summary)))
        }
        more => bail!("nothing of a table is named by {}", more.join("/")),
    }
}

fn column<'a>(table: &'a TableResults, wanted: &str) -> anyhow::Result<&'a Column> {
    let names: Vec<String> = table.columns.iter().map(|column| column.id.clone()).collect();
    let found = table.columns.iter().find(|column| column.id == wanted);
    found.with_context(|| format!("{} has no column {wanted}, but {}", table.id, list(&names)))
}

fn value(group: &GroupResults, metric: Metric, id: &str) -> anyhow::Result<String> {
    let variant = variant(group, id)?;
    ensure!(variant.failed.is_none(), "{id} failed: {}", variant.failed.as_deref().unwrap_or_default());
    let summary = variant.summary.get(&metric).with_context(|| format!("{id} has no {}", metric.title()))?;
    Ok(words::measured(metric, *summary))
}

fn answer(group: &GroupResults, metric: Metric, (one, other): (&str, &str)) -> anyhow::Result<String> {
    let asked =
        group.comparisons.iter().find(|asked| (asked.metric, &*asked.one, &*asked.other) == (metric, one, other));
    let asked = asked.with_context(|| {
        let all: Vec<String> =
            group.comparisons.iter().map(|c| format!("{}/{}:{}", c.metric.id(), c.one, c.other)).collect();
        format!("{}/{one}:{other} was not asked, but {}", metric.id(), list(&all))
    })?;
    Ok(format!("{}, {}", words::compared(asked), words::verdict(asked.verdict)))
}

fn metric(group: &GroupResults, wanted: &str) -> anyhow::Result<Metric> {
    let found = group.metrics.iter().copied().find(|metric| metric.id() == wanted);
    let names: Vec<String> = group.metrics.iter().map(|metric| metric.id()).collect();
    found.with_context(|| format!("{} has no metric {wanted}, but {}, answers", group.id, list(&names)))
}

fn variant<'a>(group: &'a GroupResults, id: &str) -> anyhow::Result<&'a VariantResults> {
    let ids: Vec<String> = words::shown(group).map(|variant| variant.id.clone()).collect();
    let found = words::shown(group).find(|variant| variant.id == id);
    found.with_context(|| format!("{} has no variant {id}, but {}", group.id, list(&ids)))
}

fn groups(results: &Results) -> String {
    let tables = results.tables.iter().map(|table| &table.id);
    list(&results.groups.iter().map(|group| &group.id).chain(tables).cloned().collect::<Vec<_>>())
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn table(table: Option<Table>, what: &str) -> anyhow::Result<String> {
    Ok(format!("\n{}", table.with_context(|| format!("it has no {what}"))?.markdown()))
}

/// When, where and how the report was made.
fn made(report: &Report, results: &Results) -> String {
    let machine = &report.machine;
    let commit = report.commit.as_deref().map_or_else(String::new, |commit| format!(" at {}", escape(commit)));
    let [before, after] = report.noise.load_average.map(words::ratio);
    let mut made = format!(
        "`{}`, {}, Pilotlight {}{commit}, on {} with {} cores ({}, {}); load average {before} before and {after} after.",
        words::command(report).replace('`', "'"),
        escape(report.day()),
        escape(&report.version),
        escape(&machine.cpu),
        machine.cores,
        escape(&machine.system),
        escape(&machine.kernel),
    );
    if !results.software.is_empty() {
        let programs = results.software.iter().map(|one| format!("{} {}", escape(&one.name), escape(&one.version)));
        made.push_str(&format!(" With {}.", programs.collect::<Vec<_>>().join(", ")));
    }
    for warning in words::warnings(report) {
        made.push_str(&format!(" {}", escape(&warning)));
    }
    made
}
