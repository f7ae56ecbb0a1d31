//! Distributions of times: percentile to the right, each step ten times rarer than the one before; time upwards,
//! logarithmic.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::lines::{legend, looks, name, sample};
use crate::markup::{Markup, tag};
use crate::picture::{Kind, Picture, label, level, upright};
use crate::scale::{Scale, time};
use crate::text;

const HEIGHT: f64 = 320.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
const LEFT: f64 = 58.0;
const LABELS: f64 = 190.0;
const LEADER: f64 = 22.0;
/// Up to 99.999 %.
const MAX_NINES: f64 = 5.0;
const POINTS: u32 = 160;
const STEPS: [(&str, f64); 6] =
    [("50 %", 0.301), ("90 %", 1.0), ("99 %", 2.0), ("99.9 %", 3.0), ("99.99 %", 4.0), ("99.999 %", 5.0)];

/// Distributions beside each other.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// What is shown, for those who do not see it.
    pub title: String,
    /// Whose percentiles: `percentile of requests`.
    pub axis: String,
    /// In the order of their looks.
    pub curves: Vec<Curve>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Whose.
    pub label: String,
    /// What it stands for.
    pub kind: Kind,
    /// Nines (2 is 99 %) and nanoseconds, rising.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Of a histogram of nanoseconds; no further than there were times. `None` if it is empty.
    #[must_use]
    pub fn new(label: &str, kind: Kind, times: &Histogram<u64>) -> Option<Self> {
        if times.is_empty() {
            return None;
        }
        let last = (times.len() as f64).log10().min(MAX_NINES);
        let points = (0..=POINTS).map(|point| {
            let nines = last * f64::from(point) / f64::from(POINTS);
            (nines, times.value_at_quantile(1.0 - 10_f64.powf(-nines)).max(1) as f64)
        });
        Some(Self { label: label.to_owned(), kind, points: points.collect() })
    }

    fn end(&self) -> (f64, f64) {
        self.points.last().copied().unwrap_or((0.0, 1.0))
    }
}

/// Where percentiles and times are.
struct Axes {
    /// Of nines.
    x: Scale,
    /// Of nanoseconds.
    y: Scale,
    /// Up to how many.
    nines: f64,
}

impl Distribution {
    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let narrow = Picture::is_narrow(width);
        let right = if narrow { width - 8.0 } else { width - LABELS };
        let times = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|(_, time)| *time));
        let least = times().fold(f64::INFINITY, f64::min);
        let most = times().fold(0.0, f64::max);
        let nines = self.curves.iter().map(|curve| curve.end().0).fold(1.0, f64::max);
        let x = Scale::up_to(nines, (LEFT, right));
        let y = Scale::logarithmic(least * 0.9, most * 1.1, (HEIGHT - BOTTOM, TOP));
        let axes = Axes { x, y, nines };
        let mut body = Markup::new();
        self.grid(&axes, &mut body);
        let looks = looks(self.curves.iter().map(|curve| curve.kind));
        // What it is about lies on top.
        let order = |subject| move |(curve, _): &(&Curve, &String)| (curve.kind == Kind::Subject) == subject;
        for (curve, look) in self
            .curves
            .iter()
            .zip(&looks)
            .filter(order(false))
            .chain(self.curves.iter().zip(&looks).filter(order(true)))
        {
            body.push(tag("path").class(look).attribute("d", path(curve, &axes)).with(tag("title").text(&curve.label)));
        }
        let height = if narrow {
            let names = self.curves.iter().map(|curve| (curve.label.as_str(), curve.kind));
            legend(names, &looks, LEFT..width, HEIGHT, &mut body)
        } else {
            self.names(&looks, &axes, width, &mut body);
            HEIGHT
        };
        Picture::new(&self.title, width, height, body)
    }

    fn grid(&self, axes: &Axes, body: &mut Markup) {
        let Axes { x, y, nines } = axes;
        let (_, right) = x.ends();
        let bottom = HEIGHT - BOTTOM;
        for tick in y.ticks() {
            body.push(level("grid", y.at(tick), LEFT, right));
            body.push(label(LEFT - 8.0, y.at(tick), "axis end", &time(tick)));
        }
        let mut free = 0.0;
        for (name, at) in STEPS.iter().filter(|(_, at)| *at <= nines + 1e-9) {
            body.push(upright("grid", x.at(*at), TOP, bottom));
            let half = text::width(name) / 2.0;
            let middle = x.at(*at).min(right - half + 6.0);
            if middle - half >= free {
                body.push(label(middle, bottom + 13.0, "axis middle", name));
                free = middle + half + 4.0;
            }
        }
        body.push(label((LEFT + right) / 2.0, bottom + 32.0, "axis middle", &self.axis));
    }

    /// Beside the ends of the curves.
    fn names(&self, looks: &[String], axes: &Axes, width: f64, body: &mut Markup) {
        let Axes { x, y, .. } = axes;
        let (_, right) = x.ends();
        let ends: Vec<f64> = self.curves.iter().map(|curve| y.at(curve.end().1)).collect();
        let places = text::spread(&ends, text::LINE, TOP..=HEIGHT - 8.0);
        for ((curve, look), place) in self.curves.iter().zip(looks).zip(places) {
            let (nines, end) = curve.end();
            let from = (x.at(nines) + 3.0, y.at(end));
            body.push(
                tag("path").class("leader").attribute(
                    "d",
                    format_args!("M{:.1} {:.1}L{:.1} {place:.1}", from.0, from.1, right + LEADER - 6.0),
                ),
            );
            body.push(sample(look, right + LEADER - 4.0, place));
            let begin = right + LEADER + 22.0;
            body.push(label(begin, place, name(curve.kind), &text::fitted(&curve.label, width - begin)));
        }
    }
}

fn path(curve: &Curve, axes: &Axes) -> String {
    let Axes { x, y, .. } = axes;
    let mut path = String::new();
    let mut drawn = (f64::NAN, f64::NAN);
    let mut skipped = None;
    for (nines, time) in &curve.points {
        let place = (x.at(*nines), y.at(*time));
        // A level stretch needs its two ends.
        if (place.1 - drawn.1).abs() < 0.2 {
            skipped = Some(place);
            continue;
        }
        for (x, y) in skipped.take().into_iter().chain([place]) {
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
        }
        drawn = place;
    }
    if let Some((x, y)) = skipped {
        let _ = write!(path, "L{x:.1} {y:.1}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut times = Histogram::new(3).expect("valid");
        values.into_iter().for_each(|value| times.record(value).expect("it grows"));
        times
    }

    #[test]
    fn a_curve_ends_where_there_are_no_more_times() {
        assert!(Curve::new("none", Kind::Peer, &times([])).is_none());
        let curve = Curve::new("hundred", Kind::Peer, &times(1..=100)).expect("times");
        assert_eq!(curve.points.first(), Some(&(0.0, 1.0)));
        // The 99th of 100: beyond it there is one time, which is no percentile.
        assert_eq!(curve.end(), (2.0, 99.0));
        assert_eq!(Curve::new("one", Kind::Peer, &times([7])).expect("a time").end(), (0.0, 7.0));
    }

    #[test]
    fn each_curve_is_named_once_at_any_width() {
        let curves =
            ["a & b", "c"].iter().filter_map(|name| Curve::new(name, Kind::Peer, &times([10, 1_000]))).collect();
        let plot = Distribution { title: "t".into(), axis: "percentile of requests".into(), curves };
        for width in [720.0, 340.0] {
            let svg = plot.draw(width).file();
            assert_eq!(svg.matches("<text class=\"name\"").count(), 2, "{svg}");
            assert!(
                svg.contains(">a &amp; b</text>") && svg.contains("percentile of requests") && !svg.contains("NaN")
            );
        }
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        let svg = Distribution { title: "t".into(), axis: "a".into(), curves: vec![] }.draw(720.0).file();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
