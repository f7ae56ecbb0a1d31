//! Values of several beside each other, from zero, each with its interval.

use crate::markup::{Markup, tag};
use crate::picture::{Area, Kind, Picture, Range, label, level, rectangle, upright};
use crate::scale::{Scale, tick};
use crate::text;

const BAR: f64 = 14.0;
const ROW: f64 = 28.0;
const AXIS: f64 = 24.0;
const LEAST_LABELS: f64 = 120.0;
const MAX_LABELS: f64 = 270.0;
const GAP: f64 = 12.0;

/// Bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What is shown, for those who do not see it.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Whose.
    pub label: String,
    /// What it stands for.
    pub kind: Kind,
    /// How much; `None` leaves the place of the bar to the text.
    pub range: Option<Range>,
    /// The value as text, or why there is none.
    pub text: String,
}

impl Bars {
    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let narrow = Picture::is_narrow(width);
        let texts = self.bars.iter().filter(|bar| bar.range.is_some()).map(|bar| text::width(&bar.text));
        let values = texts.fold(0.0, f64::max).min(width * 0.5);
        let names = self.bars.iter().map(|bar| text::width(&bar.label)).fold(0.0, f64::max);
        let labels = (names + GAP).clamp(LEAST_LABELS, MAX_LABELS);
        let row = if narrow { ROW + text::LINE } else { ROW };
        let (left, right) = if narrow { (2.0, width - 6.0) } else { (labels, width - values - GAP) };
        let most = self.bars.iter().filter_map(|bar| bar.range).map(|range| range.high.max(range.value));
        let scale = Scale::linear(most.fold(0.0, f64::max), (left, right));
        let bottom = self.bars.len() as f64 * row + 4.0;
        let mut body = Markup::new();
        self.axis(&scale, bottom, narrow, &mut body);
        for (index, bar) in self.bars.iter().enumerate() {
            let top = index as f64 * row;
            let y = if narrow { top + text::LINE + ROW / 2.0 } else { top + ROW / 2.0 };
            let mut group = tag("g").with(tag("title").text(format_args!("{}: {}", bar.label, bar.text)));
            let name = if bar.kind == Kind::Subject { "strong" } else { "name" };
            let label_y = if narrow { top + text::LINE / 2.0 + 4.0 } else { y };
            match bar.range {
                Some(range) => {
                    group = group.with(drawn(bar.kind, range, &scale, y));
                    group = group.with(label(width - 2.0, label_y, "end", &text::fitted(&bar.text, values)));
                    let room = if narrow { width - values - GAP } else { labels - GAP };
                    group = group.with(label(2.0, label_y, name, &text::fitted(&bar.label, room)));
                }
                None => {
                    let room = if narrow { width - 4.0 } else { labels - GAP };
                    group = group.with(label(2.0, label_y, name, &text::fitted(&bar.label, room)));
                    group = group.with(label(left, y, "failed", &text::fitted(&bar.text, width - left - 2.0)));
                }
            }
            body.push(group);
        }
        Picture::new(&self.title, width, bottom + AXIS, body)
    }

    fn axis(&self, scale: &Scale, bottom: f64, narrow: bool, body: &mut Markup) {
        let ticks = scale.ticks();
        let widest = ticks.iter().map(|value| text::width(&tick(*value))).fold(0.0, f64::max);
        // Where there is no place beside the axis, its end has the unit.
        let (last, right) = (ticks.len() - 1, scale.at(f64::MAX));
        let end = format!("{} {}", tick(ticks[last]), self.unit);
        let apart = scale.at(ticks[1]) - scale.at(ticks[0]);
        let every = if apart < widest + GAP { 2 } else { 1 };
        for (index, value) in ticks.iter().enumerate() {
            let x = scale.at(*value);
            body.push(upright(if index == 0 { "base" } else { "grid" }, x, 0.0, bottom));
            let free = if narrow { right - text::width(&end) - GAP / 2.0 } else { f64::INFINITY };
            if index % every != 0 || x + text::width(&tick(*value)) / 2.0 > free {
                continue;
            }
            let anchor = if index == 0 && narrow { "axis" } else { "axis middle" };
            body.push(label(x, bottom + AXIS / 2.0, anchor, &tick(*value)));
        }
        if narrow {
            body.push(label(right, bottom + AXIS / 2.0, "axis end", &end));
        } else {
            body.push(label(2.0, bottom + AXIS / 2.0, "axis", &self.unit));
        }
    }
}

fn drawn(kind: Kind, range: Range, scale: &Scale, y: f64) -> Markup {
    let (zero, end) = (scale.at(0.0), scale.at(range.value));
    let (low, high) = (scale.at(range.low), scale.at(range.high));
    let class = format!("bar {}", kind.class());
    let area = Area { x: zero, y: y - BAR / 2.0, width: (end - zero).max(1.0), height: BAR };
    let mut drawn = Markup::from(rectangle(&class, area));
    if high - low >= 1.0 {
        for (class, overhang) in [("halo", 1.0), ("whisker", 0.0)] {
            drawn.push(level(class, y, low - overhang, high + overhang));
            drawn.push(upright(class, low, y - 3.5 - overhang, y + 3.5 + overhang));
            drawn.push(upright(class, high, y - 3.5 - overhang, y + 3.5 + overhang));
        }
    }
    drawn
}
