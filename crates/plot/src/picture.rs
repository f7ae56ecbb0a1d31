//! A picture: markup within a page, or a file.

use crate::markup::{Markup, Tag, tag};
use crate::style::{RULES, THEME};
use crate::{plain, text};

/// For renderers that take no style sheet.
const FONTS: &str = "system-ui, Roboto, 'Helvetica Neue', Arial, sans-serif";

/// What something stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the picture is about.
    Subject,
    /// What it stands beside.
    Peer,
    /// What cannot be done for less.
    Floor,
    /// A figure of another machine.
    Elsewhere,
}

impl Kind {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Peer => "peer",
            Self::Floor => "floor",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// A value, and between which it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A picture of a fixed width; it scales with the room that it has.
#[derive(Clone, Debug)]
pub struct Picture {
    title: String,
    width: f64,
    height: f64,
    body: Markup,
}

impl Picture {
    pub(crate) fn new(title: &str, width: f64, height: f64, body: Markup) -> Self {
        Self { title: title.to_owned(), width, height, body }
    }

    /// Whether there is so little room that labels stand above what they name.
    pub(crate) fn is_narrow(width: f64) -> bool {
        width < 480.0
    }

    /// For a page that has [`THEME`] and [`RULES`].
    #[must_use]
    pub fn inline(&self) -> Markup {
        self.svg().attribute("aria-label", &self.title).with(self.body.clone()).into()
    }

    /// A file of its own.
    #[must_use]
    pub fn file(&self) -> String {
        let style = tag("style").with(Markup::raw(THEME)).with(Markup::raw(RULES));
        let ground = tag("rect").class("ground").attribute("width", "100%").attribute("height", "100%");
        let svg = self.svg().attribute("font-family", FONTS).attribute("font-size", text::SIZE);
        let svg = svg.attribute("aria-label", &self.title).with(tag("title").text(&self.title));
        plain::painted(&Markup::from(svg.with(style).with(ground).with(self.body.clone())).into_string()) + "\n"
    }

    fn svg(&self) -> Tag {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        tag("svg")
            .attribute("xmlns", "http://www.w3.org/2000/svg")
            .class("plot")
            .attribute("viewBox", format_args!("0 0 {width} {height}"))
            .attribute("width", width)
            .attribute("height", height)
            .attribute("role", "img")
    }
}

/// A text that begins at a place; `y` is the middle of its line.
pub(crate) fn label(x: f64, y: f64, class: &str, words: &str) -> Tag {
    tag("text").class(class).number("x", x).number("y", y + text::SIZE * 0.35).text(words)
}

/// A level line.
pub(crate) fn level(class: &str, y: f64, left: f64, right: f64) -> Tag {
    tag("line").class(class).number("x1", left).number("y1", y).number("x2", right).number("y2", y)
}

/// An upright line.
pub(crate) fn upright(class: &str, x: f64, top: f64, bottom: f64) -> Tag {
    tag("line").class(class).number("x1", x).number("y1", top).number("x2", x).number("y2", bottom)
}

/// Where a box is: its upper left corner, and how far it goes from there.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A box.
pub(crate) fn rectangle(class: &str, area: Area) -> Tag {
    let Area { x, y, width, height } = area;
    tag("rect").class(class).number("x", x).number("y", y).number("width", width).number("height", height)
}
