//! `pilotlight lab show`: a report from its JSON, and from nothing else: as a page, as Markdown, as pictures.

mod charts;
pub(crate) mod columns;
pub(crate) mod elsewhere;
mod layout;
pub(crate) mod markdown;
pub(crate) mod page;
mod stored;
pub(crate) mod words;

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::experiment::model::Report;
use crate::experiment::terminal::{self, Style};
pub(crate) use charts::Chart;
use layout::Layout;
pub(crate) use stored::parse;
pub use stored::read;

/// The folder of pictures, beside the report.
pub(crate) const PLOTS: &str = "plots";
/// Of a picture that is a file of its own.
pub(crate) const PLOT_WIDTH: f64 = 840.0;

/// Where a checkout keeps reports.
const KEPT: &str = "lab/reports";

/// What `pilotlight lab show` takes.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The report, as a run has written it
    #[arg(value_name = "REPORT.json")]
    report: PathBuf,
    /// The page only
    #[arg(long)]
    html: bool,
    /// Markdown and its pictures only
    #[arg(long)]
    md: bool,
    /// Tables on the standard output, and no files
    #[arg(long, conflicts_with_all = ["html", "md", "out"])]
    text: bool,
    /// Where files are written; made if it is not there [default: beside the report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Which files are made of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// All.
    All,
    /// The page.
    Html,
    /// Markdown and its pictures.
    Markdown,
}

/// The folder of reports of the checkout that this is run in.
///
/// # Errors
/// It is run in none.
pub(crate) fn kept() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("the current folder is not known")?;
    match here.ancestors().map(|folder| folder.join(KEPT)).find(|reports| reports.is_dir()) {
        Some(folder) => Ok(folder),
        None => bail!("there is no {KEPT} here: name reports"),
    }
}

/// The reports of a folder, by their names.
///
/// # Errors
/// It cannot be read.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let mut files: Vec<_> =
        files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    Ok(files)
}

/// Makes the files again, and says which.
///
/// # Errors
/// The report cannot be read or is of another version, or a file cannot be written.
pub fn run(arguments: &ShowArguments) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    if arguments.text {
        let style = if out.is_terminal() { Style::Colours } else { Style::Plain };
        let tables = terminal::render(&read(&arguments.report)?, style);
        return out.write_all(tables.as_bytes()).context("cannot write to the standard output");
    }
    let files = match (arguments.html, arguments.md) {
        (true, false) => Files::Html,
        (false, true) => Files::Markdown,
        _ => Files::All,
    };
    let beside = arguments.report.parent().map_or_else(PathBuf::new, Path::to_owned);
    let folder = arguments.out.clone().unwrap_or(beside);
    for file in write(&arguments.report, &folder, files)? {
        writeln!(out, "written: {}", file.display()).context("cannot write to the standard output")?;
    }
    Ok(())
}

/// Makes files of a stored report in a folder, named as the report: `report.html`, `report.md`, `plots/*.svg`. Gives
/// those that are to be opened; pictures are not listed.
///
/// # Errors
/// The report cannot be read or is of another version, or a file cannot be written.
pub fn write(stored: &Path, folder: &Path, files: Files) -> anyhow::Result<Vec<PathBuf>> {
    let report = read(stored)?;
    let layout = Layout::new(&report)?;
    let name = stored.file_stem().map_or_else(|| "report".into(), |stem| stem.to_string_lossy().into_owned());
    let mut written = Vec::new();
    if files != Files::Markdown {
        written.push((folder.join(format!("{name}.html")), page::render(&layout)));
    }
    if files != Files::Html {
        written.push((folder.join(format!("{name}.md")), markdown::render(&layout, PLOTS)));
    }
    let to_open = written.iter().map(|(file, _)| file.clone()).collect();
    if files != Files::Html {
        let plots = folder.join(PLOTS);
        written.extend(
            layout.charts().map(|chart| (plots.join(format!("{}.svg", chart.name)), chart.draw(PLOT_WIDTH).file())),
        );
    }
    for (file, content) in written {
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(to_open)
}

/// The page of a report.
///
/// # Errors
/// A histogram cannot be read.
pub fn html(report: &Report) -> anyhow::Result<String> {
    Ok(page::render(&Layout::new(report)?))
}

/// The report as Markdown.
///
/// # Errors
/// A histogram cannot be read.
pub fn markdown(report: &Report) -> anyhow::Result<String> {
    Ok(markdown::render(&Layout::new(report)?, PLOTS))
}
