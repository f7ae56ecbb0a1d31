//! `pilotlight lab gate`: instructions of the hot paths, counted by callgrind, held against what was committed. A path
//! that takes more or less than 3 % of it has changed, and whoever changed it commits the new count.
//! `docs/lab/gate.md`.
//!
//! Counts are of one toolchain: of another one nothing is compared, and that is said.

mod baseline;
mod checkout;
mod path;
mod users;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::callgrind::Callgrind;
use crate::command::Completeness;
use crate::progress::Progress;
use crate::{interrupt, machine};
use baseline::{Baseline, Counts, Toolchain, compare, table, take_medians};
use checkout::{Checkout, Programs};
use path::HotPath;

/// A path that has changed is counted so often again, and the median is taken.
const RECOUNTS: usize = 2;
/// A path takes about so long.
const USUAL: Duration = Duration::from_secs(10);

/// What `pilotlight lab gate` takes.
#[derive(Args, Clone, Debug)]
pub struct GateArguments {
    /// Write what was counted as the new baseline
    #[arg(long)]
    accept: bool,
    /// Paths; those of the baseline unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<HotPath>,
    /// The baseline; lab/gate/baseline.json of the checkout unless given
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// A folder with `pilotlight`, `pilotlight-lab`, `pilotlight-gate` and `users` that is counted instead of what is
    /// built here
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Fail if nothing can be compared, because the baseline is of another toolchain
    #[arg(long)]
    strict: bool,
}

/// Counts, compares and prints.
///
/// # Errors
/// Nothing can be counted: valgrind is missing, this is no checkout, something does not build or does not answer.
pub fn run(arguments: &GateArguments) -> anyhow::Result<Completeness> {
    machine::require_proc()?;
    interrupt::watch().context("signals cannot be watched")?;
    let callgrind = Callgrind::find("the gate")
        .map_err(|missing| anyhow::anyhow!("{}; install it: {}", missing.why, missing.install))?;
    let checkout = Checkout::find()?;
    let file = arguments.baseline.clone().unwrap_or_else(|| checkout.baseline());
    let toolchain = Toolchain::here(&callgrind)?;
    let baseline = match Baseline::read(&file)? {
        None if !arguments.accept => {
            bail!("there is no {}; write it with `pilotlight lab gate --accept`", file.display())
        }
        baseline => baseline,
    };
    let is_gated = |path: &HotPath| baseline.as_ref().is_none_or(|known| known.counts.contains_key(&path.name()));
    let paths: Vec<HotPath> = match arguments.only.is_empty() {
        true => HotPath::ALL.into_iter().filter(is_gated).collect(),
        false => arguments.only.clone(),
    };
    let same = baseline.as_ref().filter(|baseline| baseline.toolchain == toolchain);
    if let (Some(baseline), None, false) = (&baseline, same, arguments.accept) {
        print(&not_compared(baseline, &toolchain))?;
        return Ok(if arguments.strict { Completeness::Failures } else { Completeness::Complete });
    }
    let programs = programs(arguments, &checkout)?;
    let mut counts = count(&paths, &callgrind, &programs)?;
    let changed: Vec<HotPath> = match same {
        Some(_) => paths
            .into_iter()
            .zip(compare(same, &counts))
            .filter_map(|(path, row)| row.has_changed().then_some(path))
            .collect(),
        None => Vec::new(),
    };
    // On a busy machine a count may be some percent off.
    let again = (0..RECOUNTS).map(|_| count(&changed, &callgrind, &programs)).collect::<anyhow::Result<Vec<_>>>()?;
    take_medians(&mut counts, &again);
    let rows = compare(same, &counts);
    print(&table(&rows))?;
    if arguments.accept {
        Baseline::accepted(same, toolchain, &counts).write(&file)?;
        print(&format!("written: {}; commit it with the change\n", file.display()))?;
        return Ok(Completeness::Complete);
    }
    if rows.iter().all(|row| row.verdict.is_fine()) {
        return Ok(Completeness::Complete);
    }
    print("changed: if that is as it should be, run `pilotlight lab gate --accept` and commit the baseline\n")?;
    Ok(Completeness::Failures)
}

fn not_compared(baseline: &Baseline, toolchain: &Toolchain) -> String {
    let mut text = "NOT COMPARED: the baseline is of another toolchain\n".to_owned();
    for (name, of_baseline, here) in baseline.toolchain.differences(toolchain) {
        text.push_str(&format!("  {name}: {of_baseline} in the baseline, {here} here\n"));
    }
    text.push_str("Count the commit before your change with `pilotlight lab gate --accept`, then compare with that; or use the baseline's toolchain.\n");
    text
}

fn programs(arguments: &GateArguments, checkout: &Checkout) -> anyhow::Result<Programs> {
    match &arguments.programs {
        Some(dir) => Programs::of(&std::path::absolute(dir)?),
        None => checkout.build(),
    }
}

fn count(paths: &[HotPath], callgrind: &Callgrind, programs: &Programs) -> anyhow::Result<Counts> {
    if paths.is_empty() {
        return Ok(Counts::new());
    }
    let scratch = tempfile::Builder::new().prefix("pilotlight-gate-").tempdir()?;
    pilotlight_testkit::keep_port_locks_in(scratch.path().join("ports"));
    let mut progress = Progress::new(paths.iter().map(|_| USUAL).sum());
    let mut counts = Counts::new();
    for path in paths {
        interrupt::check()?;
        progress.milestone(&path.name());
        let each =
            path.count(callgrind, programs, scratch.path()).with_context(|| format!("{} failed", path.name()))?;
        counts.push((path.name(), each));
        progress.advance(USUAL);
    }
    Ok(counts)
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}
