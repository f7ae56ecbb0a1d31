//! `pilotlight lab figures`: the figures in documents are those of stored reports, and nobody types them.

mod blocks;
pub(crate) mod places;
mod select;
mod stale;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::command::Completeness;
use crate::git::Git;
use crate::show;
use select::Reports;
use stale::Quoted;

/// Those of a checkout that have figures.
const DOCUMENTS: [&str; 2] = ["docs/figures.md", "README.md"];

/// What places say, and what becomes of them.
pub const HELP: &str = "\
A place in a document:
  <!-- figures: cache/cached/cpu-us -->
  what is here is replaced
  <!-- /figures -->
Where both ends stand in one line, so does what is between them: a number within a sentence.

What it may name:
  EXPERIMENT/run                             when, where and how its report was made
  EXPERIMENT/findings                        what was found
  EXPERIMENT/figures                         what was wanted, and what was measured
  EXPERIMENT/GROUP                           a table of all variants
  EXPERIMENT/GROUP/answers                   what was asked, and what may be said
  EXPERIMENT/GROUP/METRIC[,METRIC]           a table with these columns: cpu-us, per-second, p50-ms, p99-ms, cold-ms, rss-bytes …
  EXPERIMENT/GROUP/METRIC/VARIANT            one number and its interval
  EXPERIMENT/GROUP/METRIC/VARIANT:OTHER      the answer to how much of the other's it takes
  EXPERIMENT/TABLE                           of what is compared with nothing: a table as it is
  EXPERIMENT/TABLE/COLUMN[,COLUMN]           a table with these columns
  EXPERIMENT/TABLE/COLUMN/ROW                one number and its interval
Each experiment is to be in one of the reports.

Examples:
  pilotlight lab figures --report lab/reports/NAME.json README.md docs/figures.md
  pilotlight lab figures --report lab/reports/NAME.json --check README.md docs/figures.md
  pilotlight lab figures --report cache.json --report rest.json docs/figures.md
  pilotlight lab figures --stale                     which are older than what they measure; fails never";

/// What `pilotlight lab figures` takes.
#[derive(Args, Clone, Debug)]
pub struct FiguresArguments {
    /// A stored report; can be given more than once
    #[arg(long = "report", value_name = "REPORT.json", required_unless_present = "stale")]
    reports: Vec<PathBuf>,
    /// Change nothing; fail where a document says something else than the report
    #[arg(long)]
    check: bool,
    /// Change nothing; say which figures are older than the last change of what they measure. Reports and documents are
    /// those of the checkout unless given
    #[arg(long, conflicts_with = "check")]
    stale: bool,
    /// The documents
    #[arg(value_name = "FILE", required_unless_present = "stale")]
    files: Vec<PathBuf>,
}

/// Fills the places of all documents, or says which differ. A mistake in one changes none.
///
/// # Errors
/// A report or a document cannot be read, a place names what the reports do not have, or a document has no place.
pub fn run(arguments: &FiguresArguments) -> anyhow::Result<Completeness> {
    if arguments.stale {
        return stale(arguments);
    }
    let reports = Reports::read(&arguments.reports)?;
    let mut documents = Vec::new();
    for file in &arguments.files {
        documents.push((file, Document::filled(file, &reports)?));
    }
    let mut out = std::io::stdout();
    let mut say = |line: String| writeln!(out, "{line}").context("cannot write to the standard output");
    let mut differ = false;
    for (file, Document { text, changed }) in documents {
        let shown = file.display();
        if arguments.check {
            differ |= !changed.is_empty();
            for place in changed {
                say(place)?;
            }
        } else if !changed.is_empty() {
            fs::write(file, text).with_context(|| format!("cannot write {shown}"))?;
            say(format!("written: {shown}: {} of its places have changed", changed.len()))?;
        }
    }
    if differ {
        let reports = arguments.reports.iter().map(|report| format!(" --report {}", report.display()));
        let files = arguments.files.iter().map(|file| format!(" {}", file.display()));
        let words: String = reports.chain(files).collect();
        say(format!("to write what was measured: pilotlight lab figures{words}"))?;
        return Ok(Completeness::Failures);
    }
    Ok(Completeness::Complete)
}

fn stale(arguments: &FiguresArguments) -> anyhow::Result<Completeness> {
    let (mut reports, mut files) = (arguments.reports.clone(), arguments.files.clone());
    if reports.is_empty() {
        reports = show::files(&show::kept()?)?;
    }
    if files.is_empty() {
        let root = show::kept()?.join("../..");
        files = DOCUMENTS.map(|file| root.join(file)).to_vec();
    }
    let reports = Reports::read(&reports)?;
    let mut quoted = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        for block in blocks::find(&text).with_context(|| file.display().to_string())? {
            let (_, report, results) = reports.experiment(&block.selector)?;
            quoted.push(Quoted { experiment: results.name.clone(), report });
        }
    }
    let text = stale::listing(Git::around(Path::new(".")).as_ref(), quoted);
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")?;
    Ok(Completeness::Complete)
}

/// A document with the reports' figures.
#[derive(Debug)]
struct Document {
    text: String,
    /// Each place that had something else, in a sentence.
    changed: Vec<String>,
}

impl Document {
    fn filled(file: &Path, reports: &Reports) -> anyhow::Result<Self> {
        let shown = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        let blocks = blocks::find(&text).with_context(|| shown.to_string())?;
        ensure!(!blocks.is_empty(), "{shown} has no place for figures: <!-- figures: … -->");
        let (mut filled, mut end, mut changed) = (String::new(), 0, Vec::new());
        for block in blocks {
            let place = format!("{shown}:{}", block.line);
            let (report, content) = reports.select(&block.selector).with_context(|| place.clone())?;
            let content = block.framed(&content).with_context(|| place.clone())?;
            if text[block.inside.clone()] != content {
                changed.push(format!("{place}: {} is not what {} says", block.selector, report.display()));
            }
            filled.push_str(&text[end..block.inside.start]);
            filled.push_str(&content);
            end = block.inside.end;
        }
        filled.push_str(&text[end..]);
        Ok(Self { text: filled, changed })
    }
}
