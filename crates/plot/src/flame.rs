//! Where something was spent, by who called whom: a flame graph. Each box is as wide as what was spent in a call and in
//! all that it called, which stands on it; boxes beside each other are in the order of their names, not of time.

use std::collections::BTreeMap;

use crate::markup::{Markup, tag};
use crate::picture::{Area, Picture, label, rectangle};
use crate::text;

const ROW: f64 = 18.0;
const HEAD: f64 = 28.0;
/// Narrower boxes are not drawn.
const NARROWEST: f64 = 0.5;
/// Narrower ones have no name.
const NAMED: f64 = 28.0;
/// What is spent in deeper calls counts for the last that is kept.
pub const MAX_DEPTH: usize = 100;

/// A flame graph.
#[derive(Clone, Debug)]
pub struct Flame {
    /// What is shown.
    pub title: String,
    /// Of all values.
    pub unit: String,
    calls: Calls,
    total: f64,
}

/// Where a call's code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a program or a library.
    Program,
    /// In the kernel.
    Kernel,
}

/// By place and name.
type Calls = BTreeMap<(String, Place), Call>;

#[derive(Clone, Debug, Default)]
struct Call {
    /// What was spent in it and in what it called.
    value: f64,
    called: Calls,
}

impl Flame {
    /// Of nothing yet.
    #[must_use]
    pub fn new(title: &str, unit: &str) -> Self {
        Self { title: title.to_owned(), unit: unit.to_owned(), calls: Calls::new(), total: 0.0 }
    }

    /// So much was spent in the last of these calls, each of which was called by the one before it.
    pub fn add<'a>(&mut self, calls: impl IntoIterator<Item = (&'a str, Place)>, value: f64) {
        self.total += value;
        let mut into = &mut self.calls;
        for (name, place) in calls.into_iter().take(MAX_DEPTH) {
            let call = into.entry((name.to_owned(), place)).or_default();
            call.value += value;
            into = &mut call.called;
        }
    }

    /// What was spent altogether.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self, width: f64) -> Picture {
        let wide_enough = self.total * NARROWEST / width;
        let height = HEAD + depth(&self.calls, wide_enough) as f64 * ROW;
        let mut body = Markup::new();
        let words = format!("{}: {}", self.title, self.words(self.total));
        let legend = [("call", "program"), ("call kernel", "kernel")];
        let room = legend.iter().map(|(_, name)| text::width(name) + 30.0).sum::<f64>();
        body.push(label(2.0, HEAD / 2.0, "strong", &text::fitted(&words, width - room - 8.0)));
        let mut x = width - room;
        for (class, name) in legend {
            body.push(rectangle(class, Area { x, y: HEAD / 2.0 - 6.0, width: 12.0, height: 12.0 }));
            body.push(label(x + 16.0, HEAD / 2.0, "axis", name));
            x += text::width(name) + 30.0;
        }
        if self.total > 0.0 {
            self.boxes(&mut body, &self.calls, 0.0, height - ROW, width / self.total);
        }
        Picture::new(&self.title, width, height + 2.0, body)
    }

    /// `x` and `y` are the upper left corner of the first.
    fn boxes(&self, body: &mut Markup, calls: &Calls, mut x: f64, y: f64, scale: f64) {
        for ((name, place), call) in calls {
            let width = call.value * scale;
            if width >= NARROWEST {
                let class = if *place == Place::Kernel { "call kernel" } else { "call" };
                let share = call.value / self.total * 100.0;
                let title = format_args!("{name}: {}, {share:.1} %", self.words(call.value)).to_string();
                let mut one =
                    tag("g").with(tag("title").text(title)).with(rectangle(class, Area { x, y, width, height: ROW }));
                if width >= NAMED {
                    one = one.with(label(x + 3.0, y + ROW / 2.0, "inside", &text::fitted(&short(name), width - 6.0)));
                }
                body.push(one);
                self.boxes(body, &call.called, x, y - ROW, scale);
            }
            x += width;
        }
    }

    fn words(&self, value: f64) -> String {
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", self.unit)
    }
}

/// The last two parts of a path, of types without where they are: `Vec::push` of `<alloc::vec::Vec<u8>>::push`.
fn short(name: &str) -> String {
    let mut parts = parts(name);
    let kept = if parts.last().is_some_and(|last| last.starts_with('{')) { 3 } else { 2 };
    let parts = parts.split_off(parts.len().saturating_sub(kept));
    let short = |part: &str| match part.strip_prefix('<') {
        Some(inner) => {
            let inner = inner.split(" as ").next().unwrap_or(inner).trim_end_matches('>');
            let plain = inner.split('<').next().unwrap_or(inner);
            plain.rsplit("::").next().unwrap_or(plain).to_owned()
        }
        None => part.to_owned(),
    };
    let joined = parts.into_iter().map(short).collect::<Vec<_>>().join("::");
    if joined.is_empty() { name.to_owned() } else { joined }
}

/// What `::` stands between, but not within `<…>`.
fn parts(name: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut open) = (Vec::new(), 0, 0_i32);
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => open += 1,
            b'>' => open -= 1,
            b':' if open == 0 && name[at..].starts_with("::") => {
                parts.push(&name[begin..at]);
                begin = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&name[begin..]);
    parts
}

/// How many boxes stand on each other.
fn depth(calls: &Calls, least: f64) -> usize {
    calls.values().filter(|call| call.value >= least).map(|call| 1 + depth(&call.called, least)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(flame: &Flame) -> String {
        flame.draw(1000.0).inline().into_string()
    }

    #[test]
    fn a_box_is_as_wide_as_what_was_spent_in_it_and_in_what_it_called() {
        let mut flame = Flame::new("work", "samples");
        let (run, read, write) = (("run", Place::Program), ("read", Place::Kernel), ("<write>", Place::Program));
        flame.add([run, read], 3.0);
        flame.add([run, write], 1.0);
        flame.add([run], 1.0);
        flame.add([run, read], 1.0);
        let svg = drawn(&flame);
        assert!(svg.contains("<title>run: 6 samples, 100.0 %</title>"), "{svg}");
        assert!(svg.contains("<title>read: 4 samples, 66.7 %</title>"), "{svg}");
        assert!(svg.contains("<title>&lt;write&gt;: 1 samples, 16.7 %</title>"), "{svg}");
        // By their names: what is written in `<` comes first.
        assert!(svg.contains("class=\"call kernel\" x=\"166.7\""), "{svg}");
        assert_eq!((flame.total(), svg.matches("class=\"call").count()), (6.0, 5));
    }

    #[track_caller]
    fn is_short(name: &str, wanted: &str) {
        assert_eq!(short(name), wanted);
    }

    #[test]
    fn names_are_short_where_there_is_little_room() {
        is_short("tcp_sendmsg", "tcp_sendmsg");
        is_short("tokio::runtime::context::runtime::enter_runtime", "runtime::enter_runtime");
        is_short("<&mio::net::UnixStream as std::io::Write>::write", "UnixStream::write");
        is_short("<alloc::vec::Vec<u8> as core::Fn<()>>::push", "Vec::push");
        is_short("a::b::run::{{closure}}", "b::run::{{closure}}");
        is_short("<>>::", "<>>::");
    }

    #[test]
    fn what_is_too_narrow_is_not_drawn_and_what_is_too_deep_is_counted() {
        let mut flame = Flame::new("work", "ms");
        flame.add([("wide", Place::Program)], 10_000.0);
        flame.add([("narrow", Place::Program), ("below", Place::Program)], 1.5);
        assert!(!drawn(&flame).contains("narrow") && drawn(&flame).contains("10001.50 ms"), "{}", drawn(&flame));
        let mut flame = Flame::new("work", "ms");
        flame.add(std::iter::repeat_n(("again", Place::Program), MAX_DEPTH * 2), 2.0);
        assert_eq!(drawn(&flame).matches("<title>again").count(), MAX_DEPTH);
        assert!(drawn(&Flame::new("nothing", "ms")).contains("nothing: 0 ms"));
    }
}
