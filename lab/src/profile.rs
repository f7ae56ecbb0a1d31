//! Where the time of a variant goes, asked for by `--flames`: after its rounds it is measured three times more beneath
//! `perf`, which
//! - counts system calls, switches of context and, where the processor lets it, cycles and instructions of its
//!   processes,
//! - looks at the stacks of all processes, the load's among them, some hundred times a second: `…-cpu.svg`,
//! - notes at what each thread stopped and when it went on: `…-waits.svg`. A thread that waits all the time is not in
//!   it.
//!
//! What was measured beneath `perf` counts in no round.

mod script;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use pilotlight_plot::Flame;

use crate::experiment::model::{Column, RowResults, TableResults};
use crate::experiment::{Amount, Group, Measure, Sample};
use crate::processes::{Program, find_program, first_line, usage};

/// What would bring it.
const INSTALL: &str = "apt install linux-perf";
/// How long a variant is measured beneath it, unless a number of requests is its measure.
const DURATION: Duration = Duration::from_secs(1);
const PASSES: u32 = 3;
/// Looks at the stacks in a second: no multiple of anything that a program does regularly.
const FREQUENCY: &str = "499";
/// Where threads stop.
pub(crate) const STOPS: &str = "sched:sched_switch";
/// Bytes of each stack that are kept: most programs have no frame pointers, so that it is unwound later.
const STACK: &str = "dwarf,16384";
/// Until it counts, until it has written what it has, until that is read.
const LIMIT: Duration = Duration::from_secs(60);
/// So long reading what was written takes, usually.
const READING: Duration = Duration::from_secs(4);
const WIDTH: f64 = 1400.0;
/// What is counted: as `perf` calls it, as a column of the report is called, and for people.
const COUNTED: [(&str, &str, &str); 4] = [
    ("raw_syscalls:sys_enter", "system-calls", "system calls"),
    ("context-switches", "context-switches", "switches of context"),
    ("instructions", "instructions", "instructions"),
    ("cycles", "cycles", "cycles"),
];

/// `perf`, as it is installed here.
#[derive(Clone, Debug)]
pub struct Profiler {
    program: PathBuf,
    version: String,
    /// What it counts here.
    events: String,
    /// Whether it sees where threads stop: not without the kernel's trace points.
    has_stops: bool,
    /// Where pictures are written.
    pub(crate) folder: PathBuf,
    scratch: PathBuf,
}

/// What was learnt of a variant.
#[derive(Clone, Debug)]
pub struct Profile {
    id: String,
    title: String,
    /// Of one request, by column; or why there is nothing.
    counted: Result<BTreeMap<String, f64>, String>,
}

/// Whose work is looked at.
pub(crate) struct Whose<'a> {
    pub(crate) experiment: &'a str,
    pub(crate) group: &'a str,
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// Its processes that run already.
    pub(crate) pids: Vec<u32>,
}

impl Profiler {
    /// Looks for `perf`. `folder`: where pictures are to be written; `scratch`: for what goes with the run.
    ///
    /// # Errors
    /// It is not installed, or may not look at programs.
    pub fn find(folder: PathBuf, scratch: &Path) -> anyhow::Result<Self> {
        let program =
            find_program("perf").with_context(|| format!("--flames needs perf, which is not here: {INSTALL}"))?;
        let version = first_line(program.as_os_str(), &["--version"]);
        let version = version.with_context(|| format!("{} does not start: {INSTALL}", program.display()))?;
        let has = |event: &str| {
            let tried = Command::new(&program).args(["stat", "--event", event, "true"]).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        let events: Vec<&str> = COUNTED.iter().map(|(event, ..)| *event).filter(|event| has(event)).collect();
        ensure!(
            !events.is_empty(),
            "--flames: perf may count nothing here; root may, and others after sysctl kernel.perf_event_paranoid=1"
        );
        let (events, has_stops) = (events.join(","), has(STOPS));
        Ok(Self { program, version, events, has_stops, folder, scratch: scratch.to_owned() })
    }

    /// How long looking at all of a group usually takes.
    pub(crate) fn usual(&self, group: &Group) -> Duration {
        let of = |variant: &crate::experiment::Variant| self.usual_of(variant.measure.as_ref(), group.amount);
        group.variants.iter().map(of).sum()
    }

    pub(crate) fn usual_of(&self, measure: &dyn Measure, amount: Amount) -> Duration {
        let amount = beneath(amount);
        (amount.duration + amount.warm_up + measure.beside(amount)) * PASSES + READING
    }

    /// How long it takes at most.
    pub(crate) fn limit(&self, measure: &dyn Measure, amount: Amount) -> Duration {
        (measure.limit(beneath(amount)) + LIMIT * 3) * PASSES
    }

    /// Measures a variant beneath it.
    pub(crate) fn profile(&self, whose: &Whose<'_>, amount: Amount, measure: &mut dyn Measure) -> Profile {
        let counted = self.passes(whose, beneath(amount), measure).map_err(|error| format!("{error:#}"));
        Profile { id: whose.id.to_owned(), title: whose.title.to_owned(), counted }
    }

    fn passes(
        &self,
        whose: &Whose<'_>,
        amount: Amount,
        measure: &mut dyn Measure,
    ) -> anyhow::Result<BTreeMap<String, f64>> {
        let own = std::process::id();
        // Those that are started meanwhile are the lab's children.
        let counted = if whose.pids.is_empty() { vec![own] } else { whose.pids.clone() };
        let everything: Vec<u32> = whose.pids.iter().copied().chain([own]).collect();
        let words = ["stat", "--field-separator", ",", "--event", &self.events];
        let (sample, text) = self.under(&words, &counted, || measure.measure(amount))?;
        let text = fs::read_to_string(text).context("what perf has counted")?;
        let words = ["record", "--freq", FREQUENCY, "--call-graph", STACK];
        let (_, stacks) = self.under(&words, &everything, || measure.measure(amount))?;
        let flame = script::stacks(&self.read(&stacks)?, &format!("{}: on a processor", whose.title));
        self.write(whose, "cpu", &flame)?;
        if self.has_stops {
            let words = ["record", "--event", STOPS, "--call-graph", "fp", "--switch-events"];
            let (_, stops) = self.under(&words, &everything, || measure.measure(amount))?;
            let title = format!("{}: waiting, what it waited for on top", whose.title);
            self.write(whose, "waits", &script::waits(&self.read(&stops)?, &title))?;
        }
        each(&text, sample.requests)
    }

    /// Does something while perf looks at these processes and at those that they start; where perf has written what it
    /// saw.
    fn under(
        &self,
        words: &[&str],
        pids: &[u32],
        work: impl FnOnce() -> anyhow::Result<Sample>,
    ) -> anyhow::Result<(Sample, PathBuf)> {
        let out = self.scratch.join("perf.data");
        if out.exists() {
            fs::remove_file(&out).context("what perf has written before")?;
        }
        let alive: Vec<String> = pids.iter().filter(|pid| usage::runs(**pid)).map(u32::to_string).collect();
        let mut command = vec![self.program.clone().into_os_string()];
        command.extend(words.iter().map(Into::into));
        // It says when it begins if it is to wait before.
        command.extend(["--delay", "10", "--pid", &alive.join(","), "--output"].map(Into::into));
        command.push(out.clone().into());
        let output = self.scratch.join("perf.output");
        let perf = Program { name: "perf".into(), command, dir: self.scratch.clone(), output };
        let mut perf = perf.start()?;
        perf.wait_until(LIMIT, "it counts", |perf| perf.output().contains("Events enabled").then_some(()))?;
        let sample = work()?;
        perf.interrupt(LIMIT)?;
        ensure!(out.exists(), "perf has written nothing: {}", perf.output().trim());
        Ok((sample, out))
    }

    /// What was recorded, as text.
    fn read(&self, file: &Path) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["script", "--force", "--no-inline", "--show-switch-events"]);
        command.args(["--fields", "comm,pid,tid,time,event,ip,sym,dso", "--input"]).arg(file).env("LC_ALL", "C");
        let done = command.output().context("cannot start perf")?;
        ensure!(done.status.success(), "perf script: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn write(&self, whose: &Whose<'_>, what: &str, flame: &Flame) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot make {}", self.folder.display()))?;
        let id = whose.id.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        let file = self.folder.join(format!("{}-{}-{id}-{what}.svg", whose.experiment, whose.group));
        fs::write(&file, flame.draw(WIDTH).file()).with_context(|| format!("cannot write {}", file.display()))
    }

    /// What was counted of a group's variants.
    pub(crate) fn table(&self, group: &str, title: &str, profiles: Vec<Profile>) -> TableResults {
        let row = |profile: Profile| RowResults::once(profile.id, profile.title, profile.counted);
        let rows: Vec<RowResults> = profiles.into_iter().map(row).collect();
        let has = |id: &str| rows.iter().any(|row| row.summary.contains_key(id));
        let columns = COUNTED.iter().filter(|(_, id, _)| has(id));
        let column = |(_, id, title): &(&str, &str, &str)| Column {
            id: (*id).into(),
            title: (*title).into(),
            unit: String::new(),
        };
        TableResults {
            id: table_of(group),
            title: format!("Of a request: {title}"),
            workload: format!(
                "each once more beneath {}; of the variant's processes, the load's not among them; flame graphs are in {}",
                self.version,
                self.folder.display()
            ),
            rounds: 1,
            columns: columns.map(column).collect(),
            rows,
        }
    }
}

/// The table of a group.
pub(crate) fn table_of(group: &str) -> String {
    format!("{group}-counters")
}

/// How much is measured beneath perf.
fn beneath(amount: Amount) -> Amount {
    // What was measured before is warm.
    let duration = if amount.duration.is_zero() { amount.duration } else { DURATION };
    Amount { duration, warm_up: Duration::ZERO, ..amount }
}

/// Counts of one request, of what `perf stat` has written: `8,,context-switches,28525059,100.00,,`. What the processor
/// does not count is not there.
fn each(text: &str, requests: u64) -> anyhow::Result<BTreeMap<String, f64>> {
    ensure!(requests > 0, "it counts no requests");
    let count = |line: &str| {
        let mut fields = line.split(',');
        let value: f64 = fields.next()?.parse().ok()?;
        let event = fields.nth(1)?;
        let (_, id, _) = COUNTED.iter().find(|(name, ..)| event.starts_with(name))?;
        Some(((*id).to_owned(), value / requests as f64))
    };
    let counted: BTreeMap<_, _> = text.lines().filter_map(count).collect();
    ensure!(!counted.is_empty(), "perf has counted nothing: {}", text.trim());
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_of_one_request() {
        let text = "# started on Fri\n\n<not supported>,,cycles,0,100.00,,\n8,,context-switches,28525059,100.00,,\n\
                    12,,raw_syscalls:sys_enter,28525059,100.00,,\n900,,instructions:u,5,100.00,,\n";
        let counted = each(text, 4).expect("counted");
        let wanted = [("context-switches", 2.0), ("instructions", 225.0), ("system-calls", 3.0)];
        assert_eq!(counted, wanted.map(|(id, value)| (id.to_owned(), value)).into());
        assert!(each(text, 0).expect_err("no requests").to_string().contains("no requests"));
    }
}
