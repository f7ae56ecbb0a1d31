//! What pictures with lines share: how each line looks, and the legend.

use std::ops::Range;

use crate::markup::{Markup, tag};
use crate::picture::{Kind, label};
use crate::text;

/// Of the looks of peers; the rules have as many.
const LOOKS: usize = 6;
const SUBJECT_LOOKS: usize = 3;

/// The classes of each line.
pub(crate) fn looks(kinds: impl Iterator<Item = Kind>) -> Vec<String> {
    let (mut peers, mut subjects) = (0, 0);
    let next = |counted: &mut usize| {
        *counted += 1;
        *counted - 1
    };
    kinds
        .map(|kind| match kind {
            Kind::Peer => format!("curve k{}", next(&mut peers) % LOOKS),
            Kind::Subject => format!("curve subject s{}", next(&mut subjects) % SUBJECT_LOOKS),
            kind => format!("curve {}", kind.class()),
        })
        .collect()
}

/// A piece of a line, before its name.
pub(crate) fn sample(look: &str, x: f64, y: f64) -> Markup {
    tag("path").class(look).attribute("d", format_args!("M{x:.1} {y:.1}h22")).into()
}

/// A line's name.
pub(crate) fn name(kind: Kind) -> &'static str {
    if kind == Kind::Subject { "strong" } else { "name" }
}

/// Names of lines one below the other, side to side `within`, beginning at `top`; gives where they end.
pub(crate) fn legend<'a>(
    lines: impl Iterator<Item = (&'a str, Kind)>,
    looks: &[String],
    within: Range<f64>,
    top: f64,
    body: &mut Markup,
) -> f64 {
    let mut y = top + text::LINE / 2.0;
    for ((words, kind), look) in lines.zip(looks) {
        body.push(sample(look, within.start - 30.0, y));
        body.push(label(within.start, y, name(kind), &text::fitted(words, within.end - within.start)));
        y += text::LINE + 2.0;
    }
    y
}
