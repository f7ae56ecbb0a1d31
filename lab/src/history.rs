//! `pilotlight lab history`: each figure of stored reports over commits. `docs/lab/history.md`.
//!
//! Reports of one processor kind and experiment are a series. Beside the files given stand the versions of them that
//! the checkout's history has, so that a report that was replaced is not lost.

mod page;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use pilotlight_plot::Kind;
use serde::Serialize;

use crate::experiment::judge::Machine;
use crate::experiment::model::{Report, Summary};
use crate::figures::places::{self, Of, Place};
use crate::git::Git;
use crate::report::Table;
use crate::show::{self, words};

/// The name and version of what `--json` prints.
const SCHEMA: &str = "pilotlight-lab-history/1";

/// What `pilotlight lab history` takes.
#[derive(Args, Clone, Debug)]
pub struct HistoryArguments {
    /// Reports, and folders of them [default: lab/reports of the checkout]
    #[arg(value_name = "REPORTS")]
    reports: Vec<PathBuf>,
    /// Only figures whose names begin so: cache, cache/cached/cpu-us
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Commits that a table has, the last ones; the page has all
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    last: u16,
    /// Write a page, history.html, and its pictures into this folder instead of tables; made if it is not there
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct History {
    schema: &'static str,
    series: Vec<Series>,
}

/// An experiment on one kind of processor.
#[derive(Debug, Serialize)]
struct Series {
    experiment: String,
    #[serde(skip)]
    title: String,
    processor: String,
    /// In the order in which they were measured.
    runs: Vec<Run>,
    figures: Vec<Line>,
}

/// A report.
#[derive(Debug, Serialize)]
struct Run {
    commit: String,
    started_at: String,
    /// Nothing of it may be compared.
    noisy: bool,
}

/// A figure.
#[derive(Debug, Serialize)]
struct Line {
    figure: String,
    unit: String,
    #[serde(skip)]
    title: [String; 2],
    #[serde(skip)]
    kind: Kind,
    points: Vec<Point>,
}

/// A figure in a run.
#[derive(Debug, Serialize)]
struct Point {
    /// Its place among the runs.
    run: usize,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip)]
    text: String,
}

/// Reads, and prints or writes.
///
/// # Errors
/// A report cannot be read, there is none, or a file cannot be written.
pub fn run(arguments: &HistoryArguments) -> anyhow::Result<()> {
    let given = match arguments.reports.is_empty() {
        true => vec![show::kept()?],
        false => arguments.reports.clone(),
    };
    let history = History::new(&stored(&given)?, &arguments.only);
    ensure!(!history.series.is_empty(), "there is no such figure in the reports");
    let text = match (&arguments.out, arguments.json) {
        (Some(folder), _) => page::write(&history, folder)?,
        (None, true) => format!("{}\n", serde_json::to_string_pretty(&history)?),
        (None, false) => history.series.iter().map(|series| series.text(arguments.last.into())).collect(),
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}

/// All reports, the older first, none of them twice. What is no report is refused if it was named, and left out with a
/// note if it only lies in a folder or was replaced.
fn stored(given: &[PathBuf]) -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    let mut keep = |name: String, report: anyhow::Result<Report>| match report {
        Ok(report) if report.debug_build => eprintln!("left out: {name}: of a debug build"),
        Ok(report) => reports.push(report),
        Err(why) => eprintln!("left out: {name}: {why:#}"),
    };
    for path in given {
        if path.is_dir() {
            for file in show::files(path)? {
                keep(file.display().to_string(), show::read(&file));
            }
        } else {
            keep(path.display().to_string(), Ok(show::read(path)?));
        }
        for (name, text) in replaced(path)? {
            keep(name, show::parse(&text));
        }
    }
    reports.sort_by(|one, other| one.started_at.cmp(&other.started_at));
    reports.dedup_by(|one, other| one.started_at == other.started_at && one.command == other.command);
    Ok(reports)
}

/// What the checkout's history has below a path: each version of each file.
fn replaced(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let path = std::path::absolute(path)?;
    let Some(git) = Git::around(&path) else { return Ok(Vec::new()) };
    // Outside of the checkout's folders (an untracked one) there is nothing, which is no mistake.
    let mut arguments =
        ["log", "--format=commit %H", "--name-only", "--no-renames", "--diff-filter=AM", "--"].map(Into::into).to_vec();
    arguments.push(path.clone().into_os_string());
    let Ok(listed) = git.run(&arguments) else { return Ok(Vec::new()) };
    let (mut commit, mut versions) = ("", Vec::new());
    for line in listed.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("commit ") {
            Some(hash) => commit = hash,
            None if line.ends_with(".json") => {
                let name = format!("{commit}:{line}");
                let text = git.run(&["show", &name])?;
                versions.push((name, text));
            }
            None => {}
        }
    }
    Ok(versions)
}

impl History {
    fn new(reports: &[Report], only: &[String]) -> Self {
        let mut series: Vec<Series> = Vec::new();
        for report in reports {
            let places = places::of_report(report);
            let wanted = |name: &str| only.is_empty() || only.iter().any(|only| is_below(name, only));
            for place in places.into_iter().filter(|place| wanted(&place.name())) {
                Series::of(&mut series, report, place).add(place);
            }
        }
        // An experiment's processors stand beside each other.
        series.sort_by(|one, other| (&one.experiment, &one.processor).cmp(&(&other.experiment, &other.processor)));
        Self { schema: SCHEMA, series }
    }
}

fn is_below(name: &str, only: &str) -> bool {
    name.strip_prefix(only.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Series {
    /// The one that a place of a report belongs to, with the report as its last run.
    fn of<'s>(all: &'s mut Vec<Self>, report: &Report, place: Place<'_>) -> &'s mut Self {
        let machine = &report.machine;
        let (experiment, processor) = (&place.results.name, format!("{}, {} cores", machine.cpu, machine.cores));
        let found = all.iter().position(|series| series.experiment == *experiment && series.processor == processor);
        let index = found.unwrap_or_else(|| {
            let (title, experiment) = (place.results.title.clone(), experiment.clone());
            all.push(Self { experiment, title, processor, runs: Vec::new(), figures: Vec::new() });
            all.len() - 1
        });
        let series = &mut all[index];
        if series.runs.last().is_none_or(|run| run.started_at != report.started_at) {
            series.runs.push(Run {
                commit: report.commit_short(),
                started_at: report.started_at.clone(),
                noisy: Machine::of(&report.noise) == Machine::Noisy,
            });
        }
        series
    }

    fn add(&mut self, place: Place<'_>) {
        let Some(summary) = place.summary() else { return };
        let (figure, run) = (place.name(), self.runs.len() - 1);
        let found = self.figures.iter().position(|line| line.figure == figure);
        let index = found.unwrap_or_else(|| {
            let kind = match place.of {
                Of::Variant(_, variant, _) => words::kind(variant.role),
                Of::Row(..) => Kind::Subject,
            };
            let (unit, title) = (place.unit().to_owned(), place.title());
            self.figures.push(Line { figure, unit, title, kind, points: Vec::new() });
            self.figures.len() - 1
        });
        let points = &mut self.figures[index].points;
        // Of two of one name the first is meant, as everywhere.
        if points.last().is_none_or(|point| point.run != run) {
            points.push(Point { run, summary, text: place.text() });
        }
    }

    /// A table of the last runs.
    fn table(&self, last: usize) -> Table {
        let begin = self.runs.len().saturating_sub(last);
        let headings = self.runs[begin..].iter().map(Run::label);
        let headings = ["figure".to_owned()].into_iter().chain(headings).chain(["last / first".to_owned()]);
        let mut table = Table::of(headings.collect());
        for line in &self.figures {
            let at =
                |run| line.points.iter().find(|point| point.run == run).map_or("–", |point| &point.text).to_owned();
            let mut cells = vec![line.figure.clone()];
            cells.extend((begin..self.runs.len()).map(at));
            cells.push(line.change());
            table.push(cells);
        }
        table
    }

    fn text(&self, last: usize) -> String {
        let left_out = self.runs.len().saturating_sub(last);
        let more = if left_out == 0 { String::new() } else { format!(" ({left_out} older ones are left out)") };
        format!("{}, {}{more}\n\n{}\n", self.experiment, self.processor, self.table(last).text())
    }
}

impl Run {
    /// `2026-11-22 1bbab70e`.
    fn label(&self) -> String {
        let day = self.started_at.split('T').next().unwrap_or_default();
        format!("{day} {}{}", self.commit, if self.noisy { " noisy" } else { "" })
    }
}

impl Line {
    /// How much of its first value the last is; nothing is said about whether that is a difference.
    fn change(&self) -> String {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) if first.run != last.run && first.summary.median > 0.0 => {
                format!("{}×", words::ratio(last.summary.median / first.summary.median))
            }
            _ => "–".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
