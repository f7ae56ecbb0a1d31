//! Values over steps that are equally far from each other, such as commits: from zero upwards, each with its interval.

use crate::lines::{legend, looks};
use crate::markup::{Markup, tag};
use crate::picture::{Kind, Picture, Range, label, level, upright};
use crate::scale::{Scale, tick};
use crate::text;

const HEIGHT: f64 = 240.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 24.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 40.0;

/// Values over steps.
#[derive(Clone, Debug)]
pub struct Trend {
    /// What is shown, for those who do not see it.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// From left to right.
    pub steps: Vec<String>,
    /// In the order of their looks.
    pub lines: Vec<Line>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose.
    pub label: String,
    /// What it stands for.
    pub kind: Kind,
    /// At which step, what was there, and that as text; rising.
    pub points: Vec<(usize, Range, String)>,
}

impl Trend {
    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let ranges = self.lines.iter().flat_map(|line| &line.points).map(|(_, range, _)| range.high.max(range.value));
        let y = Scale::linear(ranges.fold(0.0, f64::max), (HEIGHT - BOTTOM, TOP));
        let right = width - RIGHT;
        let mut body = Markup::new();
        for value in y.ticks() {
            body.push(level(if value == 0.0 { "base" } else { "grid" }, y.at(value), LEFT, right));
            body.push(label(LEFT - 8.0, y.at(value), "axis end", &tick(value)));
        }
        body.push(label(2.0, TOP / 2.0 - 2.0, "axis", &self.unit));
        // One step alone stands in the middle.
        let last = self.steps.len().saturating_sub(1);
        let apart = if last == 0 { 0.0 } else { (right - LEFT) / (last as f64 + 1.0) };
        let first = (LEFT + right) / 2.0 - apart * last as f64 / 2.0;
        let x = |step: usize| first + apart * step as f64;
        let mut free = 0.0;
        for (step, name) in self.steps.iter().enumerate() {
            let half = text::width(name) / 2.0;
            if x(step) - half >= free {
                body.push(label(x(step), HEIGHT - BOTTOM + 13.0, "axis middle", name));
                free = x(step) + half + 6.0;
            }
        }
        let looks = looks(self.lines.iter().map(|line| line.kind));
        for (line, look) in self.lines.iter().zip(&looks) {
            body.push(line.drawn(look, x, &y));
        }
        let names = self.lines.iter().map(|line| (line.label.as_str(), line.kind));
        let height = legend(names, &looks, LEFT..width, HEIGHT, &mut body);
        Picture::new(&self.title, width, height, body)
    }
}

impl Line {
    fn drawn(&self, look: &str, x: impl Fn(usize) -> f64, y: &Scale) -> Markup {
        let places = self.points.iter().map(|(step, range, _)| format!("{:.1} {:.1}", x(*step), y.at(range.value)));
        let path = format!("M{}", places.collect::<Vec<_>>().join("L"));
        let tone = if self.kind == Kind::Subject { "dot good" } else { "dot" };
        let mut group = tag("g").with(tag("path").class(look).attribute("d", path));
        for (step, range, words) in &self.points {
            group = group.with(upright("whisker", x(*step), y.at(range.high), y.at(range.low)));
            let dot = tag("circle").class(tone).number("cx", x(*step)).number("cy", y.at(range.value));
            group = group.with(dot.number("r", 4.0).with(tag("title").text(format_args!("{}: {words}", self.label))));
        }
        group.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_values_have_places() {
        let point =
            |step, value: f64| (step, Range { value, low: value - 1.0, high: value + 1.0 }, format!("{value} µs"));
        let line = |label: &str, points| Line { label: label.into(), kind: Kind::Subject, points };
        let lines = vec![line("<a>", vec![point(0, 4.0), point(2, 9.0)]), line("b", vec![point(1, 5.0)])];
        let steps = ["one", "two", "three"].map(str::to_owned).to_vec();
        let trend = Trend { title: "t".into(), unit: "µs".into(), steps, lines };
        let svg = trend.draw(800.0).file();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("&lt;a&gt;: 9 µs") && !svg.contains("<a>") && !svg.contains("NaN"), "{svg}");
        let alone = Trend { steps: vec!["one".into()], lines: vec![line("b", vec![point(0, 5.0)])], ..trend };
        assert!(!alone.draw(300.0).file().contains("NaN"));
    }
}
