//! Which pictures a group has.

use anyhow::Context as _;
use pilotlight_plot::{
    Bar, Bars, Course, Curve, Distribution, Interval, Intervals, Kind, Picture, Range, Trend, Waterfall,
};

use super::stored::histogram;
use super::words;
use crate::experiment::model::{GroupResults, Metric, Published, Results, Summary, VariantResults};

/// A picture of a group, at any width.
pub(crate) struct Chart {
    /// Unique in a report, and a name of a file.
    pub(crate) name: String,
    /// For people.
    pub(crate) title: String,
    drawing: Drawing,
}

enum Drawing {
    Bars(Bars),
    Distribution(Distribution),
    Intervals(Intervals),
    Waterfall(Waterfall),
    Trend(Trend),
}

impl Chart {
    /// Values over commits.
    pub(crate) fn trend(name: &str, trend: Trend) -> Self {
        Self { name: slug(name), title: trend.title.clone(), drawing: Drawing::Trend(trend) }
    }

    pub(crate) fn draw(&self, width: f64) -> Picture {
        match &self.drawing {
            Drawing::Bars(bars) => bars.draw(width),
            Drawing::Distribution(distribution) => distribution.draw(width),
            Drawing::Intervals(intervals) => intervals.draw(width),
            Drawing::Waterfall(waterfall) => waterfall.draw(width),
            Drawing::Trend(trend) => trend.draw(width),
        }
    }
}

/// The pictures of a group, by what they show.
#[derive(Default)]
pub(super) struct Charts {
    pub(super) values: Option<Chart>,
    pub(super) answers: Option<Chart>,
    pub(super) times: Option<Chart>,
    pub(super) phases: Option<Chart>,
}

impl Charts {
    /// # Errors
    /// A histogram cannot be read.
    pub(super) fn new(results: &Results, group: &GroupResults, place: &str) -> anyhow::Result<Self> {
        let named = |what: &str, title: String, drawing| Chart { name: format!("{place}-{what}"), title, drawing };
        let values = group
            .metrics
            .first()
            .and_then(|metric| bars(results, group, *metric))
            .map(|(title, bars)| named("values", title, Drawing::Bars(bars)));
        let answers = intervals(group).map(|(title, drawn)| named("answers", title, Drawing::Intervals(drawn)));
        let times = distribution(group)?.map(|(title, drawn)| named("times", title, Drawing::Distribution(drawn)));
        let phases = waterfall(group).map(|(title, drawn)| named("phases", title, Drawing::Waterfall(drawn)));
        Ok(Self { values, answers, times, phases })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Chart> {
        [&self.values, &self.answers, &self.times, &self.phases].into_iter().flatten()
    }
}

/// The figures of other machines that stand beside a group.
pub(super) fn published<'a>(results: &'a Results, group: &GroupResults) -> Vec<&'a Published> {
    results.published.iter().filter(|published| published.group == group.id).collect()
}

fn bars(results: &Results, group: &GroupResults, metric: Metric) -> Option<(String, Bars)> {
    let scaled = |value: f64| if metric.is_memory() || metric == Metric::BytesPerSecond { value / 1e6 } else { value };
    let range = |summary: &Summary| Range {
        value: scaled(summary.median),
        low: scaled(summary.low),
        high: scaled(summary.high),
    };
    let measured = |variant: &VariantResults| {
        let summary = variant.summary.get(&metric).filter(|_| variant.failed.is_none());
        Bar {
            label: variant.title.clone(),
            kind: words::kind(variant.role),
            range: summary.map(range),
            text: summary.map_or_else(|| "failed".into(), |summary| words::with_interval(metric, *summary)),
        }
    };
    // What has no such metric (the service alone has no gateway) is in the table.
    let has = |variant: &&VariantResults| variant.failed.is_some() || variant.summary.contains_key(&metric);
    let mut bars: Vec<Bar> = words::shown(group).filter(has).map(measured).collect();
    let elsewhere = published(results, group).into_iter().filter(|published| published.metric == metric);
    bars.extend(elsewhere.map(|published| {
        let value = scaled(published.value);
        Bar {
            label: format!("{} (another machine)", published.name),
            kind: Kind::Elsewhere,
            range: Some(Range { value, low: value, high: value }),
            text: words::amount(metric, published.value),
        }
    }));
    let title = format!("{}: {}", group.title, metric.title());
    bars.iter()
        .any(|bar| bar.range.is_some())
        .then(|| (title.clone(), Bars { title, unit: words::unit(metric).into(), bars }))
}

fn intervals(group: &GroupResults) -> Option<(String, Intervals)> {
    let ratios = group.comparisons.iter().filter(|comparison| !comparison.difference);
    let intervals: Vec<Interval> = ratios
        .filter_map(|comparison| {
            let Summary { median, low, high } = comparison.value.filter(|value| value.median > 0.0)?;
            Some(Interval {
                label: comparison.question.clone(),
                range: Range { value: median, low, high },
                text: words::compared(comparison),
                tone: words::tone(group, comparison),
            })
        })
        .collect();
    let title = format!("{}: ratios and their 95 % intervals", group.title);
    (!intervals.is_empty()).then(|| (title.clone(), Intervals { title, intervals }))
}

fn distribution(group: &GroupResults) -> anyhow::Result<Option<(String, Distribution)>> {
    let mut curves = Vec::new();
    for variant in words::shown(group).filter(|variant| variant.failed.is_none()) {
        let Some(latency) = &variant.latency else { continue };
        let times = histogram(latency).with_context(|| format!("the histogram of {}/{}", group.id, variant.id))?;
        curves.extend(Curve::new(&variant.title, words::kind(variant.role), &times));
    }
    let title = format!("{}: times of requests by percentile", group.title);
    let axis = "percentile of requests".to_owned();
    Ok((!curves.is_empty()).then(|| (title.clone(), Distribution { title, axis, curves })))
}

fn waterfall(group: &GroupResults) -> Option<(String, Waterfall)> {
    let with_phases = words::shown(group).filter(|variant| variant.failed.is_none() && !variant.phases.is_empty());
    let courses: Vec<Course> = with_phases
        .map(|variant| Course {
            label: variant.title.clone(),
            kind: words::kind(variant.role),
            phases: variant.phases.iter().map(|p| (p.name.clone(), p.ms, words::milliseconds(p.ms))).collect(),
            total: words::milliseconds(variant.phases.iter().map(|phase| phase.ms).sum()),
        })
        .collect();
    let title = format!("{}: phases of a cold start", group.title);
    (!courses.is_empty()).then(|| (title.clone(), Waterfall { title, unit: "ms".into(), courses }))
}

/// A name for files and links: what is neither a letter nor a digit of ASCII is a hyphen.
pub(super) fn slug(text: &str) -> String {
    let kept = text.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), " ");
    let words: Vec<&str> = kept.split_whitespace().collect();
    words.join("-").chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_names_of_files() {
        assert_eq!(slug("Cached, 64 µ/../x"), "cached-64-x");
        assert_eq!(slug(&"ab ".repeat(100)).len(), 60);
    }
}
