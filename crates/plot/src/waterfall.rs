//! Phases one after the other, each beginning where the one before it ended.

use crate::markup::{Markup, tag};
use crate::picture::{Area, Kind, Picture, label, rectangle, upright};
use crate::scale::{Scale, tick};
use crate::text;

const ROW: f64 = 20.0;
const BAR: f64 = 11.0;
const BEFORE: f64 = 8.0;
const AXIS: f64 = 24.0;
const LABELS: f64 = 180.0;
const NARROW_LABELS: f64 = 96.0;
const VALUES: f64 = 76.0;

/// Courses below each other, on one scale.
#[derive(Clone, Debug)]
pub struct Waterfall {
    /// What is shown, for those who do not see it.
    pub title: String,
    /// Of all numbers.
    pub unit: String,
    /// From top to bottom.
    pub courses: Vec<Course>,
}

/// Phases of one thing.
#[derive(Clone, Debug)]
pub struct Course {
    /// Whose.
    pub label: String,
    /// What it stands for.
    pub kind: Kind,
    /// Name, length and length as text, in their order.
    pub phases: Vec<(String, f64, String)>,
    /// All together, as text.
    pub total: String,
}

impl Waterfall {
    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let labels = if Picture::is_narrow(width) { NARROW_LABELS } else { LABELS };
        let sum = |course: &Course| course.phases.iter().map(|(_, length, _)| length.max(0.0)).sum::<f64>();
        let most = self.courses.iter().map(sum).fold(0.0, f64::max);
        let scale = Scale::linear(most, (labels, width - VALUES));
        let (mut rows, mut y) = (Markup::new(), 0.0);
        for course in &self.courses {
            y += BEFORE;
            let name = if course.kind == Kind::Subject { "strong" } else { "name" };
            let room = width - text::width(&course.total) - 16.0;
            rows.push(label(2.0, y + ROW / 2.0, name, &text::fitted(&course.label, room)));
            rows.push(label(width - 2.0, y + ROW / 2.0, "end", &course.total));
            y += ROW;
            let mut begin = 0.0;
            for (name, length, words) in &course.phases {
                let end = begin + length.max(0.0);
                let (from, to) = (scale.at(begin), scale.at(end));
                let class = if course.kind == Kind::Subject { "phase subject" } else { "phase" };
                let area = Area { x: from, y: y + (ROW - BAR) / 2.0, width: (to - from).max(1.0), height: BAR };
                rows.push(
                    tag("g")
                        .with(tag("title").text(format_args!("{}: {name}: {words}", course.label)))
                        .with(rectangle(class, area))
                        .with(label(14.0, y + ROW / 2.0, "axis", &text::fitted(name, labels - 22.0)))
                        .with(label(width - 2.0, y + ROW / 2.0, "axis end", words)),
                );
                begin = end;
                y += ROW;
            }
        }
        let mut body = Markup::new();
        let ticks = scale.ticks();
        let apart = scale.at(ticks[1]) - scale.at(ticks[0]);
        let every = if apart < 40.0 { 2 } else { 1 };
        for (index, value) in ticks.iter().enumerate() {
            let x = scale.at(*value);
            body.push(upright(if index == 0 { "base" } else { "grid" }, x, 0.0, y + 4.0));
            if index % every == 0 {
                body.push(label(x, y + 4.0 + AXIS / 2.0, "axis middle", &tick(*value)));
            }
        }
        body.push(label(2.0, y + 4.0 + AXIS / 2.0, "axis", &self.unit));
        body.push(rows);
        Picture::new(&self.title, width, y + 4.0 + AXIS, body)
    }
}
