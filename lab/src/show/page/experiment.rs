//! An experiment and its groups.

use pilotlight_plot::markup::{Markup, Tag, tag};

use super::super::charts::Chart;
use super::super::layout::{Part, Section};
use super::super::{columns, words};
use super::tables;
use super::{chip, code, list};
use crate::experiment::model::{GroupResults, Skipped, TableResults};

/// Of pictures beside tables, and on a phone.
const WIDE: f64 = 840.0;
const NARROW: f64 = 320.0;

pub(super) fn section(section: &Section<'_>) -> Tag {
    let results = section.results;
    let title_id = format!("{}-title", section.anchor);
    let (tone, held) = words::held(section.report, results);
    // Tables are other programs', which the command of the run names.
    let command = if results.tables.is_empty() { "pilotlight lab " } else { "" };
    let card = tag("section")
        .class("card")
        .attribute("id", &section.anchor)
        .attribute("aria-labelledby", &title_id)
        .with(tag("p").class("eyebrow").text(format_args!("{command}{}", results.name)))
        .with(tag("h2").attribute("id", title_id).text(&results.title))
        .with(
            tag("div")
                .class("hypothesis")
                .with(tag("p").with(tag("b").text("Hypothesis. ")).text(&results.hypothesis))
                .with(chip(tone, &held)),
        )
        .with(results.failed.as_ref().map(|why| tag("p").class("failure").with(tag("b").text("Failed. ")).text(why)));
    card.with(list("ul", results.findings.iter().map(|finding| tag("li").text(finding))))
        .with(tables::figures(section.report, results))
        .with_all(section.parts.iter().map(|part| group(part, section)))
        .with_all(section.tables.iter().map(|(anchor, table)| uncompared(anchor, table)))
        .with(tables::programs(&results.software))
        .with(tables::published(results))
        .with(skipped(&results.skipped))
}

fn group(part: &Part<'_>, section: &Section<'_>) -> Tag {
    let Part { group, anchor, charts } = part;
    let title_id = format!("{anchor}-title");
    let empty = words::shown(group).next().is_none().then(|| tag("p").class("quiet").text("Nothing was measured."));
    tag("article")
        .attribute("id", anchor)
        .attribute("aria-labelledby", &title_id)
        .with(tag("h3").attribute("id", title_id).text(&group.title))
        .with(tag("p").class("quiet").text(words::workload(group)))
        .with(empty)
        .with(charts.values.as_ref().map(figure))
        .with(tables::variants(group, &section.results.published))
        .with_all(words::shown(group).filter_map(|variant| {
            let why = variant.failed.as_ref()?;
            let name = tag("b").text(format_args!("{} failed. ", variant.title));
            Some(tag("p").class("failure").with(name).text(why))
        }))
        .with(charts.answers.as_ref().map(figure))
        .with(tables::comparisons(group))
        .with(charts.times.as_ref().map(figure))
        .with(charts.phases.as_ref().map(figure))
        .with(details(group, section))
}

/// A table that nothing was compared in.
fn uncompared(anchor: &str, table: &TableResults) -> Tag {
    let title_id = format!("{anchor}-title");
    tag("article")
        .attribute("id", anchor)
        .attribute("aria-labelledby", &title_id)
        .with(tag("h3").attribute("id", title_id).text(&table.title))
        .with(tag("p").class("quiet").text(columns::workload(table)))
        .with(tables::rows(table))
        .with_all(table.rows.iter().filter_map(|row| {
            let name = tag("b").text(format_args!("{} failed. ", row.title));
            Some(tag("p").class("failure").with(name).text(row.failed.as_ref()?))
        }))
}

/// A picture twice: as wide as tables, and for a phone. Styles show one.
pub(crate) fn figure(chart: &Chart) -> Tag {
    tag("figure")
        .with(tag("figcaption").text(&chart.title))
        .with(tag("div").class("wide").with(chart.draw(WIDE).inline()))
        .with(tag("div").class("narrow").with(chart.draw(NARROW).inline()))
}

fn details(group: &GroupResults, section: &Section<'_>) -> Option<Tag> {
    let parts =
        [tables::controls(group), tables::processes(group), tables::percentiles(group), tables::software(group)];
    let content: Markup = parts.into_iter().flatten().collect();
    let title = format!("Controls, processor time, percentiles, programs of {}: {}", section.results.name, group.title);
    (!content.is_empty()).then(|| {
        tag("details")
            .with(tag("summary").attribute("aria-label", title).text("Controls, processor time, percentiles, programs"))
            .with(content)
    })
}

fn skipped(skipped: &[Skipped]) -> Option<Tag> {
    let items = skipped.iter().map(|one| {
        let install = (!one.install.is_empty()).then(|| code(&one.install));
        tag("li").with(tag("b").text(&one.what)).text(format_args!(": {}", one.why)).with(install)
    });
    let items = list("ul", items)?;
    Some(tag("article").class("skipped").with(tag("h3").text("Not measured here")).with(items))
}
