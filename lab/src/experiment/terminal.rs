//! A report as text, and the list of what there is to measure.

use std::time::Duration;

use pilotlight_plot::Tone;

use super::model::{
    Comparison, Control, Figure, GroupResults, Metric, Noise, Published, Report, Results, Summary, TableResults,
    VariantResults, Verdict,
};
use super::noise::{MAX_WAIT, percent};
use super::{Plan, Planned, Setting};
use crate::report::{Table, maybe, number};
use crate::show::{columns, elsewhere, words};

/// Whether escape sequences are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A file, or another program.
    Plain,
    /// A terminal.
    Colours,
}

impl Style {
    fn line(self, code: &str, line: &str) -> String {
        match self {
            Self::Plain => format!("{line}\n"),
            Self::Colours => format!("\x1b[{code}m{line}\x1b[0m\n"),
        }
    }
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const DIM: &str = "2";

/// The whole report.
#[must_use]
pub fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for results in &report.experiments {
        experiment(&mut out, report, results, style);
    }
    if report.debug_build {
        out.push_str(&style.line(RED, "warning: this was a debug build; its figures say nothing about Pilotlight"));
    }
    if report.quick {
        out.push_str("this was a quick run: it shows that everything works, with wider intervals than a whole run\n");
    }
    if report.interrupted {
        out.push_str(&style.line(RED, "interrupted: what is here was measured whole, the rest is missing"));
    }
    noise(&mut out, &report.noise, report.machine.cores, style);
    out
}

/// What there is to measure, what is believed of it, and what is missing for it.
#[must_use]
pub fn list(plans: &[Planned<'_>], setting: &Setting) -> String {
    let mut out = String::new();
    for (experiment, plan) in plans {
        out.push_str(&format!(
            "{}: {}\n  believed: {}\n  takes: {}\n",
            experiment.name(),
            experiment.title(),
            experiment.hypothesis(),
            match plan {
                Ok(plan) if plan.groups.is_empty() => match plan.skipped.first() {
                    Some(skipped) => format!("no time here: {}; {}", skipped.why, skipped.install),
                    None => "no time, as it needs what is missing".to_owned(),
                },
                Ok(plan) => about(plan.usual()),
                Err(error) => format!("no time: {error:#}"),
            }
        ));
        let participants = experiment.participants(setting);
        let width = participants.iter().map(|participant| participant.name.chars().count()).max().unwrap_or(0);
        for participant in participants {
            out.push_str(&format!("    {:<width$}  {}\n", participant.name, participant.what));
            if let Some(missing) = participant.missing {
                out.push_str(&format!("    {:<width$}  missing: {}; {}\n", "", missing.why, missing.install));
            }
        }
        if let Ok(plan) = plan {
            out.push_str(&groups(plan));
        }
        out.push('\n');
    }
    if plans.len() > 1 {
        let all = plans.iter().filter_map(|(_, plan)| plan.as_ref().ok()).map(Plan::usual).sum();
        out.push_str(&format!(
            "everything takes {}, and up to {} s until the machine is quiet\n",
            about(all),
            MAX_WAIT.as_secs()
        ));
    }
    out
}

/// Columns of a line of groups.
const GROUPS_WIDTH: usize = 100;

/// The groups of an experiment, as `--groups` takes them, with what each takes.
fn groups(plan: &Plan) -> String {
    let mut lines: Vec<String> = Vec::new();
    for group in &plan.groups {
        let text = format!("{} ({:.0} s)", group.id, group.usual().as_secs_f64().ceil());
        match lines.last_mut() {
            Some(line) if line.len() + text.len() < GROUPS_WIDTH => *line += &format!(", {text}"),
            _ => lines.push(text),
        }
    }
    if lines.is_empty() { String::new() } else { format!("  groups: {}\n", lines.join(",\n          ")) }
}

/// `about 90 s`, `about 12 min`, `about 6.5 h`.
fn about(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 120.0 => format!("about {:.0} s", seconds.ceil()),
        seconds if seconds < 7200.0 => format!("about {:.0} min", seconds / 60.0),
        seconds => format!("about {:.1} h", seconds / 3600.0),
    }
}

fn experiment(out: &mut String, report: &Report, results: &Results, style: Style) {
    out.push_str(&style.line(BOLD, &format!("{}: {}", results.name, results.title)));
    out.push_str(&format!("believed before: {}\n\n", results.hypothesis));
    if let Some(failed) = &results.failed {
        out.push_str(&style.line(RED, &format!("FAILED: {failed}\n")));
    }
    for of_group in &results.groups {
        group(out, of_group, &results.published, style);
    }
    for of_table in &results.tables {
        table(out, of_table, style);
    }
    for row in results.published.iter().filter(|row| row.group.is_empty()) {
        out.push_str(&published(row, style));
    }
    if results.published.iter().any(|row| row.group.is_empty()) {
        out.push('\n');
    }
    if !results.figures.is_empty() {
        out.push_str(&style.line(BOLD, "What is wanted"));
        figures(out, report, &results.figures, style);
        out.push('\n');
    }
    for finding in &results.findings {
        out.push_str(&format!("- {finding}\n"));
    }
    for skipped in &results.skipped {
        out.push_str(&format!("skipped: {}: {}; {}\n", skipped.what, skipped.why, skipped.install));
    }
    if !results.findings.is_empty() || !results.skipped.is_empty() {
        out.push('\n');
    }
}

fn group(out: &mut String, group: &GroupResults, rows: &[Published], style: Style) {
    out.push_str(&style.line(BOLD, &group.title));
    let rounds = if group.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", group.rounds) };
    let seconds = if group.seconds > 0.0 { format!(" of {} s", group.seconds) } else { String::new() };
    out.push_str(&style.line(DIM, &format!("{}; {rounds}{seconds}; medians and their 95 % intervals", group.workload)));
    out.push_str(&variants(group, rows).text());
    for variant in &group.variants {
        if let Some(failed) = &variant.failed {
            out.push_str(&style.line(RED, &format!("FAILED: {}: {failed}", variant.title)));
        }
    }
    for row in rows.iter().filter(|row| row.group == group.id && !elsewhere::is_in(group, row)) {
        out.push_str(&published(row, style));
    }
    if !group.comparisons.is_empty() {
        out.push('\n');
        comparisons(out, &group.comparisons, style);
    }
    for control in group.controls.iter().filter(|control| !control.passed) {
        out.push_str(&style.line(RED, &failed_control(control)));
    }
    out.push('\n');
}

fn table(out: &mut String, results: &TableResults, style: Style) {
    out.push_str(&style.line(BOLD, &results.title));
    out.push_str(&style.line(DIM, &columns::workload(results)));
    let headings = results.columns.iter().map(columns::heading);
    let mut table = Table::of(std::iter::once(String::new()).chain(headings).collect());
    for row in &results.rows {
        let cells = results.columns.iter().map(|column| columns::cell(results, row, column));
        table.push(std::iter::once(row.title.clone()).chain(cells).collect());
    }
    out.push_str(&table.text());
    for row in &results.rows {
        if let Some(failed) = &row.failed {
            out.push_str(&style.line(RED, &format!("FAILED: {}: {failed}", row.title)));
        }
    }
    out.push('\n');
}

fn variants(group: &GroupResults, published: &[Published]) -> Table {
    let heading = |metric: &Metric| match metric.unit() {
        "" => metric.title().to_owned(),
        unit => format!("{}, {unit}", metric.title()),
    };
    let mut table = Table::of(std::iter::once(String::new()).chain(group.metrics.iter().map(heading)).collect());
    for variant in &group.variants {
        let cell = |metric: &Metric| cell(variant, *metric);
        table.push(std::iter::once(variant.title.clone()).chain(group.metrics.iter().map(cell)).collect());
    }
    for row in elsewhere::rows(group, published) {
        let cell = |metric: &Metric| row.values.get(metric).map_or_else(|| maybe(None), |value| number(*value));
        table.push(std::iter::once(row.title()).chain(group.metrics.iter().map(cell)).collect());
    }
    table
}

fn cell(variant: &VariantResults, metric: Metric) -> String {
    variant.summary.get(&metric).map_or_else(|| maybe(None), |summary| interval(*summary))
}

/// `3.21 (3.10–3.40)`
fn interval(summary: Summary) -> String {
    format!("{} ({}–{})", number(summary.median), number(summary.low), number(summary.high))
}

/// `0.973 (0.965–0.981)`: ratios are about 1, where the third decimal is of interest.
fn ratio(Summary { median, low, high }: Summary) -> String {
    if high < 10.0 { format!("{median:.3} ({low:.3}–{high:.3})") } else { interval(Summary { median, low, high }) }
}

fn comparisons(out: &mut String, comparisons: &[Comparison], style: Style) {
    let mut table = Table::new(["compared", "95 % interval", "verdict"]);
    for comparison in comparisons {
        let value = match comparison.value {
            Some(_) if comparison.difference => words::compared(comparison),
            value => value.map_or_else(|| maybe(None), ratio),
        };
        let verdict = format!("{}{}", words::verdict(comparison.verdict), words::reason(comparison));
        table.row([comparison.question.clone(), value, verdict]);
    }
    let text = table.text();
    let mut lines = text.lines();
    out.extend(lines.by_ref().take(2).map(|line| format!("{line}\n")));
    for (line, comparison) in lines.zip(comparisons) {
        out.push_str(&match comparison.verdict {
            Verdict::Less | Verdict::More => {
                let better = (comparison.verdict == Verdict::More) == comparison.metric.more_is_better();
                style.line(if better { GREEN } else { RED }, line)
            }
            Verdict::NoDifference | Verdict::NotComparable => format!("{line}\n"),
        });
    }
}

/// `published, of another machine: HTTP cold: cold start 120 ms (…)`
fn published(row: &Published, style: Style) -> String {
    let Published { name, metric, value, source, .. } = row;
    let figure = format!("{} {} {}", metric.title(), number(*value), metric.unit());
    style.line(DIM, &format!("published, of another machine: {name}: {figure} ({source})"))
}

fn failed_control(control: &Control) -> String {
    let found = ratio(Summary { median: control.ratio, low: control.low, high: control.high });
    format!(
        "control failed: {}: {} of two equals differs by {found}; nothing is said about it here",
        control.variant,
        control.metric.title()
    )
}

fn figures(out: &mut String, report: &Report, figures: &[Figure], style: Style) {
    let mut table = Table::new(["figure", "wanted", "measured", ""]);
    for figure in figures {
        let (_, met) = words::met(report, figure);
        let measured = figure.measured.map_or_else(|| maybe(None), interval);
        table.row([figure.name.clone(), figure.wanted.clone(), measured, met.into()]);
    }
    let text = table.text();
    let mut lines = text.lines();
    out.extend(lines.by_ref().take(2).map(|line| format!("{line}\n")));
    for (line, figure) in lines.zip(figures) {
        out.push_str(&match words::met(report, figure).0 {
            Tone::Good => style.line(GREEN, line),
            Tone::Bad => style.line(RED, line),
            Tone::Plain => format!("{line}\n"),
        });
    }
}

fn noise(out: &mut String, noise: &Noise, cores: usize, style: Style) {
    let pair =
        |values: [Option<f64>; 2]| values.map(|value| value.map_or_else(|| "unknown".into(), percent)).join(" and ");
    let [before, after] = noise.load_average;
    out.push_str(&format!(
        "noise before and after: equal work spreads by {}, other programs use {} of {cores} processors, load average {} and {}; stolen {}\n",
        pair(noise.spread.map(Some)),
        pair(noise.busy),
        number(before),
        number(after),
        noise.steal.map_or_else(|| "unknown".into(), percent),
    ));
    if let Some(refused) = &noise.refused {
        let then = if noise.overridden {
            "compared nevertheless (--noisy-anyway): the verdicts may be wrong"
        } else {
            "nothing was compared: let the machine become quiet, or ask for it (--noisy-anyway)"
        };
        out.push_str(&style.line(RED, &format!("noise: {refused}: {then}")));
    }
}
