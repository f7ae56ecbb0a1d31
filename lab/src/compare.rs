//! `pilotlight lab compare`: what has become of each figure between two stored reports. `docs/lab/history.md`.

mod judge;
#[cfg(test)]
pub(crate) mod simulated;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;

use crate::command::Completeness;
use crate::experiment::model::{Report, Summary};
use crate::figures::places::{self, Place};
use crate::report::Table;
use crate::show::{self, words};
use judge::{Outcome, judge};

/// The name and version of what `--json` prints.
const SCHEMA: &str = "pilotlight-lab-compare/1";

/// What `pilotlight lab compare` takes.
#[derive(Args, Clone, Debug)]
pub struct CompareArguments {
    /// The report before
    #[arg(value_name = "BEFORE.json")]
    before: PathBuf,
    /// The report after
    #[arg(value_name = "AFTER.json")]
    after: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What has become of all figures.
#[derive(Debug, Serialize)]
struct Compared {
    schema: &'static str,
    before: Source,
    after: Source,
    /// Why nothing can be compared.
    not_comparable: Option<String>,
    figures: Vec<Row>,
}

/// A report.
#[derive(Debug, Serialize)]
struct Source {
    file: PathBuf,
    started_at: String,
    commit: String,
    processor: String,
    cores: usize,
}

/// A figure of both.
#[derive(Debug, Serialize)]
struct Row {
    figure: String,
    unit: String,
    before: Option<Summary>,
    after: Option<Summary>,
    /// As they stand in a table.
    #[serde(skip)]
    shown: [String; 2],
    #[serde(flatten)]
    judged: judge::Judged,
}

/// Compares, and prints.
///
/// # Errors
/// A report cannot be read, or the two have no figure in common.
pub fn run(arguments: &CompareArguments) -> anyhow::Result<Completeness> {
    let (before, after) = (show::read(&arguments.before)?, show::read(&arguments.after)?);
    let compared = compare((&arguments.before, &before), (&arguments.after, &after))?;
    let text = match arguments.json {
        true => format!("{}\n", serde_json::to_string_pretty(&compared)?),
        false => compared.text(),
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")?;
    Ok(if compared.count(Outcome::Worse) > 0 { Completeness::Failures } else { Completeness::Complete })
}

fn compare(before: (&Path, &Report), after: (&Path, &Report)) -> anyhow::Result<Compared> {
    let old = places::of_report(before.1);
    // Of two of one name the first is meant, as everywhere.
    let old: BTreeMap<String, Place<'_>> = old.into_iter().rev().map(|place| (place.name(), place)).collect();
    let not_comparable = judge::refused(before.1, after.1);
    let new = places::of_report(after.1);
    let both = new.iter().filter_map(|place| Some((*old.get(&place.name())?, *place)));
    let figures: Vec<Row> = both
        .map(|(before, after)| Row {
            figure: after.name(),
            unit: after.unit().to_owned(),
            before: before.summary(),
            after: after.summary(),
            shown: [before.text(), after.text()],
            judged: judge(before, after, not_comparable.as_deref()),
        })
        .collect();
    if figures.is_empty() {
        let names = |report: &Report| {
            let names: Vec<&str> = report.experiments.iter().map(|results| results.name.as_str()).collect();
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        bail!(
            "{} and {} have no figure in common: the one has {}, the other {}",
            before.0.display(),
            after.0.display(),
            names(before.1),
            names(after.1)
        );
    }
    let source = |(file, report): (&Path, &Report)| Source {
        file: file.to_owned(),
        started_at: report.started_at.clone(),
        commit: report.commit_short(),
        processor: report.machine.cpu.clone(),
        cores: report.machine.cores,
    };
    Ok(Compared { schema: SCHEMA, before: source(before), after: source(after), not_comparable, figures })
}

impl Compared {
    fn count(&self, outcome: Outcome) -> usize {
        self.figures.iter().filter(|row| row.judged.verdict == outcome).count()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, source) in [("before", &self.before), ("after", &self.after)] {
            let Source { file, started_at, commit, processor, cores } = source;
            let file = file.display();
            text.push_str(&format!("{name:6}  {file}: {started_at}, {commit}, {processor}, {cores} cores\n"));
        }
        let mut table = Table::new(["figure", "before", "after", "after / before", "beside the unchanged", "verdict"]);
        let times = |ratio: Option<Summary>| ratio.map_or_else(|| "–".to_owned(), words::times);
        for row in &self.figures {
            let [before, after] = row.shown.clone();
            // Said once, below, where it is the same for all.
            let reason = row.judged.reason.as_ref().filter(|_| self.not_comparable.is_none());
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let verdict = format!("{}{reason}", row.judged.verdict.words());
            table.row([row.figure.clone(), before, after, times(row.judged.ratio), times(row.judged.beside), verdict]);
        }
        text.push_str(&format!("\n{}\n", table.text()));
        if let Some(why) = &self.not_comparable {
            text.push_str(&format!("nothing can be compared: {why}\n"));
        }
        let counts = Outcome::ALL.map(|outcome| format!("{} {}", self.count(outcome), outcome.words()));
        text.push_str(&format!("{}\n", counts.join(", ")));
        text
    }
}

#[cfg(test)]
mod tests;
