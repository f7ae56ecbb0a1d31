//! Tables of a page: with a caption for those who do not see it, headings for rows and columns, and scrolling of their
//! own.

use std::collections::BTreeSet;

use pilotlight_plot::markup::{Markup, Tag, tag};

use super::super::{columns, elsewhere, words};
use super::chip;
use crate::experiment::model::{
    GroupResults, Metric, Published, Report, Results, Role, Software, TableResults, VariantResults,
};
use crate::report::number;

pub(super) fn figures(report: &Report, results: &Results) -> Option<Tag> {
    let rows = results.figures.iter().map(|figure| {
        let (tone, met) = words::met(report, figure);
        row(&figure.name, None)
            .with(tag("td").text(&figure.wanted))
            .with(tag("td").with(apart(&words::figure(figure))))
            .with(tag("td").class("words").with(chip(tone, met)))
    });
    table(
        &format!("{}: what was wanted, and what was measured", results.title),
        &["figure", "wanted", "measured", "result"],
        rows,
    )
}

pub(super) fn variants(group: &GroupResults, published: &[Published]) -> Option<Tag> {
    let headings: Vec<String> = std::iter::once("variant".to_owned())
        .chain(group.metrics.iter().map(|metric| words::heading(*metric)))
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows = words::shown(group).map(|variant| {
        let row = row(&variant.title, words::role(variant.role));
        let row = if variant.role == Role::Subject { row.class("subject") } else { row };
        row.with_all(group.metrics.iter().map(|metric| measured(variant, *metric)))
    });
    let beside = elsewhere::rows(group, published).into_iter().map(|of| {
        row(&of.title(), None).with_all(group.metrics.iter().map(|metric| match of.values.get(metric) {
            Some(value) => tag("td").attribute("data-value", value).text(words::amount(*metric, *value)),
            None => tag("td").text("–"),
        }))
    });
    let rows = rows.chain(beside);
    table(&format!("{}: medians of rounds and their 95 % intervals", group.title), &headings, rows)
}

fn measured(variant: &VariantResults, metric: Metric) -> Tag {
    if variant.failed.is_some() {
        return tag("td").class("failed").text("failed");
    }
    let Some(summary) = variant.summary.get(&metric) else { return tag("td").text("–") };
    let interval = words::interval(metric, *summary).map(|interval| tag("span").class("interval").text(interval));
    tag("td").attribute("data-value", summary.median).text(words::amount(metric, summary.median)).with(interval)
}

pub(super) fn rows(results: &TableResults) -> Option<Tag> {
    let headings: Vec<String> =
        std::iter::once("variant".to_owned()).chain(results.columns.iter().map(columns::heading)).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows = results.rows.iter().map(|of| {
        row(&of.title, None).with_all(results.columns.iter().map(|column| {
            let cell = tag("td").with(apart(&columns::cell(results, of, column)));
            match of.summary.get(&column.id) {
                Some(summary) => cell.attribute("data-value", summary.median),
                None => cell,
            }
        }))
    });
    table(&format!("{}: medians of rounds and their 95 % intervals", results.title), &headings, rows)
}

/// Programs of an experiment's tables.
pub(super) fn programs(software: &[Software]) -> Option<Tag> {
    let items = software.iter().map(|one| tag("li").text(format_args!("{} {}", one.name, one.version)));
    super::list("ul", items)
}

pub(super) fn comparisons(group: &GroupResults) -> Option<Tag> {
    let rows = group.comparisons.iter().map(|comparison| {
        let value = tag("td").with(apart(&words::compared(comparison)));
        let value = match comparison.value {
            Some(summary) => value.attribute("data-value", summary.median),
            None => value,
        };
        let tone = words::tone(group, comparison);
        row(&comparison.question, None).with(tag("td").class("words").text(comparison.metric.title())).with(value).with(
            tag("td")
                .class("words")
                .with(chip(tone, words::verdict(comparison.verdict)))
                .with(comparison.reason.as_ref().map(|reason| tag("span").class("reason").text(reason))),
        )
    });
    table(
        &format!("{}: what was asked, and what may be said", group.title),
        &["question", "of", "answer", "verdict"],
        rows,
    )
}

pub(super) fn controls(group: &GroupResults) -> Option<Markup> {
    let title = |id: &str| {
        group.variants.iter().find(|variant| variant.id == id).map_or(id, |variant| &variant.title).to_owned()
    };
    let rows = group.controls.iter().map(|control| {
        let (tone, words) = if control.passed {
            (pilotlight_plot::Tone::Good, "equal")
        } else {
            (pilotlight_plot::Tone::Bad, "differ: nothing is said")
        };
        row(&title(&control.variant), None)
            .with(tag("td").class("words").text(control.metric.title()))
            .with(tag("td").attribute("data-value", control.ratio).with(apart(&words::times(control.summary()))))
            .with(tag("td").class("words").with(chip(tone, words)))
    });
    let caption = format!("{}: one variant measured twice (A/A)", group.title);
    let table = table(&caption, &["variant", "of", "second / first", "result"], rows)?;
    Some(titled("A/A controls: one variant measured twice", table))
}

pub(super) fn processes(group: &GroupResults) -> Option<Markup> {
    let names: BTreeSet<&str> =
        words::shown(group).flat_map(|variant| variant.cpu_us.keys().map(String::as_str)).collect();
    if names.is_empty() {
        return None;
    }
    let headings: Vec<&str> = std::iter::once("variant").chain(names.iter().copied()).collect();
    let rows = words::shown(group).map(|variant| {
        row(&variant.title, None).with_all(names.iter().map(|name| match variant.cpu_us.get(*name) {
            Some(us) if variant.failed.is_none() => tag("td").attribute("data-value", us).text(number(*us)),
            _ => tag("td").text("–"),
        }))
    });
    let caption = format!("{}: CPU time of each process for one request, µs", group.title);
    let table = table(&caption, &headings, rows)?;
    Some(titled("CPU time of each process for one request, µs", table))
}

pub(super) fn percentiles(group: &GroupResults) -> Option<Markup> {
    let timed: Vec<_> = words::shown(group)
        .filter(|variant| variant.failed.is_none())
        .filter_map(|v| Some((v, v.latency.as_ref()?)))
        .collect();
    let mut steps: Vec<f64> =
        timed.iter().flat_map(|(_, latency)| latency.percentiles.iter().map(|(step, _)| *step)).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    if steps.is_empty() {
        return None;
    }
    let names: Vec<String> = steps.iter().map(|step| format!("{step} %")).collect();
    let headings: Vec<&str> = ["variant", "from"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let rows = timed.iter().map(|(variant, latency)| {
        let from = if latency.from_intended_start { "intended start" } else { "writing" };
        let at = |step: &f64| latency.percentiles.iter().find(|(percent, _)| percent == step).map(|(_, ms)| *ms);
        row(&variant.title, None).with(tag("td").class("words").text(from)).with_all(steps.iter().map(|step| match at(
            step,
        ) {
            Some(ms) => tag("td").attribute("data-value", ms).text(number(ms)),
            None => tag("td").text("–"),
        }))
    });
    let caption = format!("{}: times of requests by percentile, ms", group.title);
    let table = table(&caption, &headings, rows)?;
    Some(titled("Times of requests by percentile, ms", table))
}

pub(super) fn software(group: &GroupResults) -> Option<Markup> {
    let listed = words::software(group);
    if listed.is_empty() {
        return None;
    }
    let items = listed.into_iter().map(|software| {
        let settings: Markup =
            software.settings.iter().map(|setting| tag("dd").with(tag("code").text(setting))).collect();
        let name = tag("dt").with(tag("b").text(&software.name)).text(format_args!(" {}", software.version));
        let none = settings.is_empty().then(|| tag("dd").text("as it comes"));
        tag("div").with(name).with(settings).with(none)
    });
    Some(titled("Programs, versions and settings", tag("dl").class("software").with_all(items)))
}

pub(super) fn published(results: &Results) -> Option<Tag> {
    let rows = results.published.iter().map(|published| {
        row(&published.name, None)
            .with(tag("td").class("words").text(published.metric.title()))
            .with(tag("td").attribute("data-value", published.value).text(format_args!(
                "{} {}",
                words::amount(published.metric, published.value),
                words::unit(published.metric)
            )))
            .with(tag("td").class("words").text(&published.source))
    });
    let table = table(
        &format!("{}: published figures of other machines", results.title),
        &["what", "of", "value", "source"],
        rows,
    )?;
    Some(
        tag("article")
            .class("elsewhere")
            .with(tag("h3").text("Published figures of other machines"))
            .with(tag("p").class("quiet").text("Another machine's figures: compare proportions, not values."))
            .with(table),
    )
}

/// `6.46 (6.28–6.54) µs` with its interval apart, so that values stand below each other.
fn apart(text: &str) -> Markup {
    let parts = text.split_once(" (").and_then(|(value, rest)| Some((value, rest.split_once(')')?)));
    let Some((value, (interval, unit))) = parts else { return Markup::text(text) };
    let mut apart = Markup::text(format_args!("{value}{unit}"));
    apart.push(tag("span").class("interval").text(interval));
    apart
}

fn titled(title: &str, content: Tag) -> Markup {
    [tag("h4").text(title), content].into_iter().collect()
}

/// A table as it stands on a terminal.
pub(crate) fn of_table(caption: &str, of: &crate::report::Table) -> Option<Tag> {
    let (headings, rows) = of.rows().split_first()?;
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let cells = |row: &[String]| row.iter().skip(1).map(|cell| tag("td").with(apart(cell))).collect::<Vec<_>>();
    let rows = rows.iter().map(|cells_of| row(&cells_of[0], None).with_all(cells(cells_of)));
    table(caption, &headings, rows)
}

/// A row with its heading, and what that stands for.
fn row(title: &str, role: Option<&str>) -> Tag {
    let role = role.map(|role| tag("span").class("role").text(role));
    let space = if role.is_some() { " " } else { "" };
    tag("tr").with(tag("th").attribute("scope", "row").text(title).text(space).with(role))
}

/// `None` without rows.
fn table(caption: &str, headings: &[&str], rows: impl Iterator<Item = Tag>) -> Option<Tag> {
    let rows: Vec<Tag> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let words = ["of", "verdict", "result", "source", "from"];
    let headings = headings.iter().enumerate().map(|(index, heading)| {
        let heading_tag = tag("th").attribute("scope", "col").text(heading);
        if index == 0 || words.contains(heading) { heading_tag.class("words") } else { heading_tag }
    });
    let table = tag("table")
        .with(tag("caption").text(caption))
        .with(tag("thead").with(tag("tr").with_all(headings)))
        .with(tag("tbody").with_all(rows));
    Some(
        tag("div")
            .class("scroll")
            .attribute("role", "region")
            .attribute("tabindex", "0")
            .attribute("aria-label", caption)
            .with(table),
    )
}
