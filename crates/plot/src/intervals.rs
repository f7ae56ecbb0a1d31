//! Ratios and their intervals around equality, on a logarithmic scale: half and double are equally far from 1.

use crate::markup::{Markup, Tag, tag};
use crate::picture::{Picture, Range, label, level, upright};
use crate::scale::{self, Scale};
use crate::text;

const AXIS: f64 = 40.0;
const PLOT: f64 = 20.0;
const EDGE: f64 = 16.0;
const MAX_LINES: usize = 2;
const MAX_LABELS: f64 = 300.0;
/// The scale shows at least this much around 1.
const LEAST: f64 = 1.25;

/// What may be said of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// In favour of what the picture is about.
    Good,
    /// Against it.
    Bad,
    /// Neither, or nothing.
    Plain,
}

/// Ratios.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// What is shown, for those who do not see it.
    pub title: String,
    /// From top to bottom.
    pub intervals: Vec<Interval>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Of what to what.
    pub label: String,
    /// The ratio.
    pub range: Range,
    /// As text.
    pub text: String,
    /// What may be said.
    pub tone: Tone,
}

impl Intervals {
    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let values = self.intervals.iter().map(|one| text::width(&one.text)).fold(0.0, f64::max).min(width * 0.6);
        let ends = || self.intervals.iter().flat_map(|one| [one.range.low, one.range.high, one.range.value]);
        let least = ends().filter(|end| *end > 0.0).fold(1.0 / LEAST, f64::min);
        let most = ends().fold(LEAST, f64::max);
        let narrow = Picture::is_narrow(width);
        let names = self.intervals.iter().map(|one| text::width(&one.label)).fold(0.0, f64::max);
        let place = if narrow {
            (EDGE, width - EDGE)
        } else {
            (names.min(MAX_LABELS) + 2.0 * EDGE, width - values - 2.0 * EDGE)
        };
        let scale = Scale::logarithmic(least * 0.95, most * 1.05, place);
        let mut rows = Markup::new();
        let mut y = 4.0;
        for one in &self.intervals {
            rows.push(if narrow {
                one.below(&scale, values, width, &mut y)
            } else {
                one.beside(&scale, width, &mut y)
            });
        }
        let mut body = grid(&scale, width, y);
        body.push(rows);
        Picture::new(&self.title, width, y + AXIS, body)
    }
}

impl Interval {
    /// The label, the interval and its text in one row.
    fn beside(&self, scale: &Scale, width: f64, y: &mut f64) -> Markup {
        let lines = text::wrapped(&self.label, MAX_LABELS, MAX_LINES);
        let height = lines.len().max(1) as f64 * text::LINE + 9.0;
        let middle = *y + height / 2.0;
        let first = middle - (lines.len() as f64 - 1.0) * text::LINE / 2.0;
        let names =
            lines.iter().enumerate().map(|(index, words)| label(2.0, first + index as f64 * text::LINE, "name", words));
        let row = self.group().with_all(names).with(self.drawn(scale, middle)).with(label(
            width - 2.0,
            middle,
            "end",
            &self.text,
        ));
        *y += height;
        row.into()
    }

    /// The interval below its label and its text.
    fn below(&self, scale: &Scale, values: f64, width: f64, y: &mut f64) -> Markup {
        let mut group = self.group();
        let lines = text::wrapped(&self.label, width - values - 16.0, MAX_LINES);
        group = group.with(label(width - 2.0, *y + text::LINE / 2.0, "end", &text::fitted(&self.text, values)));
        for words in &lines {
            group = group.with(label(2.0, *y + text::LINE / 2.0, "name", words));
            *y += text::LINE;
        }
        group = group.with(self.drawn(scale, *y + PLOT / 2.0 - 2.0));
        *y += PLOT + 6.0;
        group.into()
    }

    fn group(&self) -> Tag {
        tag("g").with(tag("title").text(format_args!("{}: {}", self.label, self.text)))
    }

    fn drawn(&self, scale: &Scale, middle: f64) -> Markup {
        let tone = match self.tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        };
        let (low, high) = (scale.at(self.range.low), scale.at(self.range.high));
        let span = level(&format!("span {tone}"), middle, low, high.max(low + 0.5));
        let dot = tag("circle").class(&format!("dot {tone}")).number("cx", scale.at(self.range.value));
        [span, dot.number("cy", middle).number("r", 5.0)].into_iter().collect()
    }
}

fn grid(scale: &Scale, width: f64, bottom: f64) -> Markup {
    let mut grid = Markup::new();
    let (left, right) = scale.ends();
    let equal = scale.at(1.0);
    let mut ticks: Vec<f64> = scale.ticks().into_iter().filter(|tick| (tick - 1.0).abs() > 1e-9).collect();
    ticks.insert(0, 1.0);
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for tick in ticks {
        let x = scale.at(tick);
        let name = if tick == 1.0 { "equal".to_owned() } else { format!("{}×", scale::tick(tick)) };
        let (from, to) = (x - text::width(&name) / 2.0, x + text::width(&name) / 2.0);
        grid.push(upright(if tick == 1.0 { "base" } else { "grid" }, x, 0.0, bottom));
        if from < left - EDGE || taken.iter().any(|(a, b)| from < b + 6.0 && *a < to + 6.0) || to > right + EDGE {
            continue;
        }
        taken.push((from, to));
        grid.push(label(x, bottom + 12.0, "axis middle", &name));
    }
    for (words, anchor, x) in [("← takes less", "axis end", equal - 26.0), ("takes more →", "axis", equal + 26.0)] {
        let room = if anchor == "axis" { width - x } else { x };
        if text::width(words) <= room {
            grid.push(label(x, bottom + 30.0, anchor, words));
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_is_marked_wherever_the_ratios_are() {
        for (low, high) in [(0.3, 0.4), (0.99, 1.01), (12.0, 90.0), (0.0, 0.0)] {
            let range = Range { value: low, low, high };
            let interval = Interval { label: "a / b".into(), range, text: "x".into(), tone: Tone::Plain };
            let svg = Intervals { title: "t".into(), intervals: vec![interval] }.draw(340.0).file();
            assert!(svg.contains(">equal</text>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
