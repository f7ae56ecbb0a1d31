//! The report as Markdown, for GitHub.

use super::layout::{Layout, Part, Section};
use super::{columns, elsewhere, words};
use crate::experiment::model::{
    Column, GroupResults, Metric, Published, Report, Results, Role, TableResults, VariantResults,
};
use crate::report::Table;

/// All of it; pictures are links into the folder `plots`.
#[must_use]
pub(super) fn render(layout: &Layout<'_>, plots: &str) -> String {
    let report = layout.report;
    let mut out = String::from("# Lab report\n\n");
    for warning in words::warnings(report) {
        out.push_str(&format!("> **Warning**: {}\n>\n", escape(&warning)));
    }
    out.push_str("\n## What was found\n\n");
    if let Some(tally) = words::tally(report) {
        out.push_str(&format!("{tally}\n\n"));
    }
    for section in &layout.sections {
        let (_, held) = words::held(section.report, section.results);
        out.push_str(&format!("**{}** ({held})\n\n", escape(&section.results.title)));
        items(&mut out, words::findings(section.results).iter().map(|finding| escape(finding)));
    }
    let facts = words::machine(report).into_iter().chain(words::noise(report)).chain(words::run(report));
    items(&mut out, facts.map(|(name, value)| format!("{name}: {}", escape(&value))));
    out.push_str(&format!("{}\n\n", fenced(&words::command(report))));
    for section in &layout.sections {
        experiment(&mut out, section, plots);
    }
    out
}

fn experiment(out: &mut String, section: &Section<'_>, plots: &str) {
    let results = section.results;
    let (_, held) = words::held(section.report, results);
    out.push_str(&format!("## {}\n\n", escape(&results.title)));
    out.push_str(&format!("**Hypothesis** ({held}): {}\n\n", escape(&results.hypothesis)));
    if let Some(failed) = &results.failed {
        out.push_str(&format!("**Failed**: {}\n\n", escape(failed)));
    }
    items(out, results.findings.iter().map(|finding| escape(finding)));
    figures(section.report, results).iter().for_each(|table| push_table(out, table));
    for part in &section.parts {
        group(out, part, &results.published, plots);
    }
    for (_, table) in &section.tables {
        out.push_str(&format!("### {}\n\n{}\n\n", escape(&table.title), escape(&columns::workload(table))));
        rows(table, &table.columns.iter().collect::<Vec<_>>()).iter().for_each(|table| push_table(out, table));
    }
    items(out, results.software.iter().map(|one| format!("{} {}", escape(&one.name), escape(&one.version))));
    published(out, results);
    if !results.skipped.is_empty() {
        out.push_str("### Not measured here\n\n");
        items(
            out,
            results.skipped.iter().map(|one| {
                let install = if one.install.is_empty() { String::new() } else { format!(": {}", code(&one.install)) };
                format!("**{}**: {}{install}", escape(&one.what), escape(&one.why))
            }),
        );
    }
}

fn group(out: &mut String, part: &Part<'_>, published: &[Published], plots: &str) {
    let Part { group, charts, .. } = part;
    out.push_str(&format!("### {}\n\n{}\n\n", escape(&group.title), escape(&words::workload(group))));
    some(beside(group, published)).iter().for_each(|table| push_table(out, table));
    items(
        out,
        words::shown(group).filter_map(|variant| {
            let why = variant.failed.as_ref()?;
            Some(format!("**Failed**: {}: {}", escape(&variant.title), escape(why)))
        }),
    );
    comparisons(group).iter().for_each(|table| push_table(out, table));
    for chart in charts.iter() {
        out.push_str(&format!("![{}]({plots}/{}.svg)\n\n", escape(&chart.title), chart.name));
    }
    controls(group).iter().for_each(|table| push_table(out, table));
    items(
        out,
        words::software(group).into_iter().map(|software| {
            let settings: Vec<String> = software.settings.iter().map(|setting| code(setting)).collect();
            let settings = if settings.is_empty() { String::new() } else { format!(": {}", settings.join(", ")) };
            format!("{} {}{settings}", escape(&software.name), escape(&software.version))
        }),
    );
}

/// What was wanted of an experiment; `None` if nothing was.
pub(crate) fn figures(report: &Report, results: &Results) -> Option<Table> {
    let mut table = Table::new(["figure", "wanted", "measured", "met"]);
    for figure in &results.figures {
        let (_, met) = words::met(report, figure);
        table.row([escape(&figure.name), escape(&figure.wanted), words::figure(figure), met.into()]);
    }
    some(table)
}

/// What was measured of the variants of a group.
pub(crate) fn variants(group: &GroupResults, metrics: &[Metric]) -> Option<Table> {
    some(measured(group, metrics))
}

/// The same, and below it what was published.
fn beside(group: &GroupResults, published: &[Published]) -> Table {
    let mut table = measured(group, &group.metrics);
    for row in elsewhere::rows(group, published) {
        let cell =
            |metric: &Metric| row.values.get(metric).map_or("–".into(), |value| words::amount(*metric, *value));
        table.push(std::iter::once(escape(&row.title())).chain(group.metrics.iter().map(cell)).collect());
    }
    table
}

fn measured(group: &GroupResults, metrics: &[Metric]) -> Table {
    let headings = metrics.iter().map(|metric| words::heading(*metric));
    let mut table = Table::of(std::iter::once("variant".to_owned()).chain(headings).collect());
    for variant in words::shown(group) {
        let name = escape(&variant.title);
        let name = if variant.role == Role::Subject { format!("**{name}**") } else { name };
        table.push(std::iter::once(name).chain(metrics.iter().map(|metric| cell(variant, *metric))).collect());
    }
    table
}

fn cell(variant: &VariantResults, metric: Metric) -> String {
    match variant.summary.get(&metric) {
        _ if variant.failed.is_some() => "failed".to_owned(),
        Some(summary) => words::with_interval(metric, *summary),
        None => "–".to_owned(),
    }
}

/// These columns of a table.
pub(crate) fn rows(results: &TableResults, chosen: &[&Column]) -> Option<Table> {
    let headings = chosen.iter().map(|column| escape(&columns::heading(column)));
    let mut table = Table::of(std::iter::once("variant".to_owned()).chain(headings).collect());
    for row in &results.rows {
        let cells = chosen.iter().map(|column| columns::cell(results, row, column));
        table.push(std::iter::once(escape(&row.title)).chain(cells).collect());
    }
    some(table)
}

/// What was asked of a group.
pub(crate) fn comparisons(group: &GroupResults) -> Option<Table> {
    let mut table = Table::new(["question", "answer", "verdict"]);
    for comparison in &group.comparisons {
        let verdict = format!("{}{}", words::verdict(comparison.verdict), escape(&words::reason(comparison)));
        table.row([escape(&comparison.question), words::compared(comparison), verdict]);
    }
    some(table)
}

fn controls(group: &GroupResults) -> Option<Table> {
    let mut table = Table::new(["control: one variant measured twice", "second / first", "equal"]);
    for control in &group.controls {
        let ratio = words::times(control.summary());
        let name = format!("{}, {}", escape(&control.variant), control.metric.title());
        table.row([name, ratio, if control.passed { "yes" } else { "no" }.into()]);
    }
    some(table)
}

fn published(out: &mut String, results: &Results) {
    let mut table = Table::new(["published, of another machine", "of", "value", "source"]);
    for published in &results.published {
        let value = words::amount(published.metric, published.value);
        table.row([
            escape(&published.name),
            published.metric.title().into(),
            format!("{value} {}", words::unit(published.metric)),
            escape(&published.source),
        ]);
    }
    if let Some(table) = some(table) {
        out.push_str("### Published figures of other machines\n\nCompare proportions, not values.\n\n");
        push_table(out, &table);
    }
}

fn some(table: Table) -> Option<Table> {
    (!table.is_empty()).then_some(table)
}

fn push_table(out: &mut String, table: &Table) {
    out.push_str(&table.markdown());
    out.push('\n');
}

fn items(out: &mut String, items: impl Iterator<Item = String>) {
    let mut any = false;
    for item in items {
        out.push_str(&format!("- {item}\n"));
        any = true;
    }
    if any {
        out.push('\n');
    }
}

/// Text that is no Markdown: in one line, and nothing in it has a meaning. (Tables escape `|` themselves.)
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' | '$' => out.extend(['\\', character]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// Text as it is typed, within a line: between as many backticks as are not in it.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let fence = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markdown() {
        assert_eq!(escape("<b>*x*</b>\n[a](b)"), "&lt;b&gt;\\*x\\*&lt;/b&gt; \\[a\\](b)");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(fenced("a ``` b"), "````\na ``` b\n````");
    }
}
