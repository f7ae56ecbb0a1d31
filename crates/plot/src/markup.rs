//! Elements of HTML and SVG: a [`Tag`] with attributes and content, whose texts are escaped.

use std::fmt::{Display, Write};

use pilotlight_printable::html;

/// Elements of HTML that have no content and no end.
const VOID: [&str; 6] = ["meta", "br", "hr", "img", "col", "input"];

/// Markup: elements, and text that was escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known to be markup: a style sheet or a script of ours.
    #[must_use]
    pub fn raw(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Display) -> Self {
        let mut markup = Self::new();
        markup.push_text(text);
        markup
    }

    /// Appends.
    pub fn push(&mut self, more: impl Into<Self>) {
        self.0.push_str(&more.into().0);
    }

    /// Appends text.
    pub fn push_text(&mut self, text: impl Display) {
        escape(&text.to_string(), &mut self.0);
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it is written to a file.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<Tag> for Markup {
    fn from(tag: Tag) -> Self {
        let Tag { name, attributes, content } = tag;
        let mut out = String::with_capacity(attributes.len() + content.0.len() + 2 * name.len() + 5);
        let _ = write!(out, "<{name}{attributes}>");
        if !VOID.contains(&name) {
            let _ = write!(out, "{}</{name}>", content.0);
        }
        Self(out)
    }
}

impl<T: Into<Self>> FromIterator<T> for Markup {
    fn from_iter<I: IntoIterator<Item = T>>(parts: I) -> Self {
        let mut markup = Self::new();
        parts.into_iter().for_each(|part| markup.push(part));
        markup
    }
}

impl<T: Into<Self>> From<Option<T>> for Markup {
    fn from(part: Option<T>) -> Self {
        part.map_or_else(Self::new, Into::into)
    }
}

/// An element while it is made.
#[derive(Clone, Debug)]
pub struct Tag {
    name: &'static str,
    attributes: String,
    content: Markup,
}

/// An element with this name.
#[must_use]
pub fn tag(name: &'static str) -> Tag {
    Tag { name, attributes: String::new(), content: Markup::new() }
}

impl Tag {
    /// An attribute.
    #[must_use]
    pub fn attribute(mut self, name: &'static str, value: impl Display) -> Self {
        let _ = write!(self.attributes, " {name}=\"");
        escape(&value.to_string(), &mut self.attributes);
        self.attributes.push('"');
        self
    }

    /// A number with a decimal: what coordinates need.
    #[must_use]
    pub fn number(self, name: &'static str, value: f64) -> Self {
        let text = format!("{value:.1}");
        self.attribute(name, text.strip_suffix(".0").unwrap_or(&text))
    }

    /// The attribute `class`.
    #[must_use]
    pub fn class(self, names: &str) -> Self {
        self.attribute("class", names)
    }

    /// Text, at the end of the content.
    #[must_use]
    pub fn text(mut self, text: impl Display) -> Self {
        self.content.push_text(text);
        self
    }

    /// Markup, at the end of the content.
    #[must_use]
    pub fn with(mut self, child: impl Into<Markup>) -> Self {
        self.content.push(child);
        self
    }

    /// Several.
    #[must_use]
    pub fn with_all<T: Into<Markup>>(mut self, children: impl IntoIterator<Item = T>) -> Self {
        children.into_iter().for_each(|child| self.content.push(child));
        self
    }
}

/// Characters that XML does not have become U+FFFD: a text from a program's output may hold any.
fn escape(text: &str, out: &mut String) {
    let is_missing = |character: char| match character {
        '\n' | '\t' => false,
        '\u{FFFE}' | '\u{FFFF}' => true,
        other => other.is_control(),
    };
    out.push_str(&html(&text.replace(is_missing, "\u{FFFD}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(markup: impl Into<Markup>, expected: &str) {
        assert_eq!(markup.into().into_string(), expected);
    }

    #[test]
    fn elements_nest() {
        check(tag("p").class("a b").text("x").with(tag("b").text("y")).text("z"), "<p class=\"a b\">x<b>y</b>z</p>");
        check(tag("meta").attribute("charset", "utf-8"), "<meta charset=\"utf-8\">");
        check(tag("path").number("x", 1.04).number("y", 2.0), "<path x=\"1\" y=\"2\"></path>");
        check(None::<Tag>, "");
        check(tag("ul").with_all(["a", "b"].map(|t| tag("li").text(t))), "<ul><li>a</li><li>b</li></ul>");
    }

    #[test]
    fn texts_and_values_are_escaped() {
        let hostile = "</p><script>alert('1')</script>&\"";
        let escaped = "&lt;/p&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;";
        check(tag("p").attribute("title", hostile).text(hostile), &format!("<p title=\"{escaped}\">{escaped}</p>"));
        check(Markup::text("a\u{0}b\u{1b}[31m\u{ffff}"), "a\u{fffd}b\u{fffd}[31m\u{fffd}");
    }
}
