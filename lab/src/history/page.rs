//! The page and its pictures.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use pilotlight_plot::markup::{Tag, tag};
use pilotlight_plot::{Line as Drawn, Range, Trend};

use super::{History, Run, Series};
use crate::show::{Chart, PLOT_WIDTH, PLOTS, page};

/// Writes `history.html` and `plots/*.svg`, and says so.
pub(super) fn write(history: &History, folder: &Path) -> anyhow::Result<String> {
    let charts: Vec<Vec<Chart>> =
        history.series.iter().enumerate().map(|(index, series)| charts(series, index)).collect();
    let anchors: Vec<String> = (0..history.series.len()).map(|index| format!("series-{index}")).collect();
    let titles: Vec<String> =
        history.series.iter().map(|series| format!("{}: {}", series.title, series.processor)).collect();
    let sections = history.series.iter().zip(&charts).zip(&anchors).map(|((series, charts), anchor)| {
        let heading = format!("{anchor}-title");
        tag("section")
            .class("card")
            .attribute("id", anchor)
            .attribute("aria-labelledby", &heading)
            .with(tag("p").class("eyebrow").text(format_args!("pilotlight lab {}", series.experiment)))
            .with(tag("h2").attribute("id", heading).text(&series.title))
            .with(tag("p").class("quiet").text(&series.processor))
            .with_all(charts.iter().map(page::figure))
            .with(numbers(series))
    });
    let links = anchors.iter().map(String::as_str).zip(titles.iter().map(String::as_str));
    let file = folder.join("history.html");
    let plots = folder.join(PLOTS);
    fs::create_dir_all(&plots).with_context(|| format!("cannot make the folder {}", plots.display()))?;
    let pictures =
        charts.iter().flatten().map(|chart| (plots.join(format!("{}.svg", chart.name)), chart.draw(PLOT_WIDTH).file()));
    let html = page::document("Pilotlight lab: history", links, sections);
    for (file, content) in pictures.chain([(file.clone(), html)]) {
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(format!("written: {}\n", file.display()))
}

/// The same numbers as a table; all runs.
fn numbers(series: &Series) -> Option<Tag> {
    page::of_table(&format!("{}, {}", series.title, series.processor), &series.table(series.runs.len()))
}

/// Of each group and metric, with a line for each variant. `place` keeps the names of two processors apart.
fn charts(series: &Series, place: usize) -> Vec<Chart> {
    let mut trends: Vec<(String, Trend)> = Vec::new();
    for line in &series.figures {
        let [title, label] = &line.title;
        let found = trends.iter().position(|(_, trend)| trend.title == *title);
        let index = found.unwrap_or_else(|| {
            let name = format!("history {place} {} {}", trends.len(), line.figure);
            let steps = series.runs.iter().map(Run::label).collect();
            trends.push((name, Trend { title: title.clone(), unit: line.unit.clone(), steps, lines: Vec::new() }));
            trends.len() - 1
        });
        let points = line.points.iter().map(|point| {
            let range = Range { value: point.summary.median, low: point.summary.low, high: point.summary.high };
            (point.run, range, format!("{}, {}", series.runs[point.run].label(), point.text))
        });
        trends[index].1.lines.push(Drawn { label: label.clone(), kind: line.kind, points: points.collect() });
    }
    trends.into_iter().map(|(name, trend)| Chart::trend(&name, trend)).collect()
}
