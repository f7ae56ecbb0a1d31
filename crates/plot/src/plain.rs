//! Colours and lines as attributes of shapes: what renderers that know no custom properties of CSS (librsvg, many
//! viewers of mail and files) draw. Renderers that know them follow the style sheet, which is stronger.

use std::fmt::Write;

use crate::style::{RULES, THEME};

/// What can be an attribute of its own.
const ATTRIBUTES: [&str; 9] = [
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "paint-order",
    "text-anchor",
    "font-weight",
];

/// Elements that are drawn.
const SHAPES: [&str; 5] = ["text", "rect", "line", "path", "circle"];

/// Markup of a picture with the attributes.
pub(crate) fn painted(markup: &str) -> String {
    let rules = rules();
    let mut out = String::with_capacity(markup.len() * 2);
    let mut rest = markup;
    // Texts and values are escaped: these two are the bounds of tags and nothing else.
    while let Some((begin, end)) = rest.find('<').and_then(|begin| Some((begin, begin + rest[begin..].find('>')?))) {
        let tag = &rest[begin + 1..end];
        out.push_str(&rest[..end]);
        let name = tag.split(' ').next().unwrap_or_default();
        if SHAPES.contains(&name) {
            let classes =
                tag.split_once(" class=\"").and_then(|(_, value)| value.split('"').next()).unwrap_or_default();
            out.push_str(&attributes(&rules, name, classes));
        }
        out.push('>');
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

/// `.plot .bar.peer{fill:…}`: the element or the classes that it is for, and what it says.
struct Rule<'r> {
    element: &'r str,
    classes: Vec<&'r str>,
    declarations: Vec<(&'r str, String)>,
}

fn rules() -> Vec<Rule<'static>> {
    let rule = |text: &'static str| {
        let (selector, body) = text.trim().split_once('{')?;
        let selector = selector.trim().strip_prefix(".plot ")?;
        let mut words = selector.split('.');
        let element = words.next().unwrap_or_default();
        let declarations = body.split(';').filter_map(|one| one.split_once(':'));
        let declarations = declarations.filter(|(name, _)| ATTRIBUTES.contains(name));
        let declarations = declarations.map(|(name, value)| (name, plain(value))).collect();
        Some(Rule { element, classes: words.collect(), declarations })
    };
    RULES.split('}').filter_map(rule).collect()
}

/// A value with the colour of the light theme in the place of `var(--name)`.
fn plain(value: &str) -> String {
    let name = value.strip_prefix("var(").and_then(|rest| rest.strip_suffix(')'));
    let light = THEME.split('}').next().unwrap_or_default();
    let colour =
        name.and_then(|name| light.split([';', '{']).find_map(|one| one.strip_prefix(name)?.strip_prefix(':')));
    colour.unwrap_or(value).to_owned()
}

/// As a style sheet decides: rules with more classes are stronger, later ones are among equals.
fn attributes(rules: &[Rule<'_>], name: &str, classes: &str) -> String {
    let has = |class: &&str| classes.split(' ').any(|one| one == *class);
    let mut fitting: Vec<_> = rules
        .iter()
        .filter(|rule| (rule.element.is_empty() || rule.element == name) && rule.classes.iter().all(has))
        .collect();
    fitting.sort_by_key(|rule| rule.classes.len());
    let mut out = String::new();
    for attribute in ATTRIBUTES {
        let mut values = fitting.iter().flat_map(|rule| &rule.declarations).filter(|(name, _)| *name == attribute);
        if let Some((_, value)) = values.next_back() {
            let _ = write!(out, " {attribute}=\"{value}\"");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use crate::{Bar, Bars, Curve, Distribution, Kind, Range};

    /// Every shape of a file says its colour without custom properties.
    #[track_caller]
    fn check(svg: &str) {
        let body = svg.split("</style>").nth(1).unwrap();
        let mut shapes = 0;
        for tag in body.split('<').filter_map(|tag| tag.split('>').next()) {
            let name = tag.split(' ').next().unwrap();
            if !super::SHAPES.contains(&name) {
                continue;
            }
            shapes += 1;
            let value = |attribute: &str| {
                let begin = format!(" {attribute}=\"");
                tag.split_once(&begin).map_or("", |(_, rest)| rest.split('"').next().unwrap())
            };
            let is_colour = |text: &str| text.starts_with('#') && matches!(text.len(), 4 | 7);
            let (fill, stroke) = (value("fill"), value("stroke"));
            assert!(is_colour(fill) || is_colour(stroke), "{tag}");
            assert!([fill, stroke].iter().all(|it| it.is_empty() || *it == "none" || is_colour(it)), "{tag}");
            // Otherwise its inside is black.
            assert!(name == "line" || !fill.is_empty(), "{tag}");
        }
        assert!(shapes > 5, "{svg}");
    }

    #[test]
    fn every_shape_has_a_plain_colour() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..1000_u64).for_each(|value| histogram.record(value * 1000).unwrap());
        let kinds = [Kind::Subject, Kind::Peer, Kind::Peer, Kind::Floor, Kind::Elsewhere];
        let curves = kinds.iter().filter_map(|kind| Curve::new("a <b>", *kind, &histogram)).collect();
        let distribution = Distribution { title: "times".to_owned(), axis: "percentile".to_owned(), curves };
        check(&distribution.draw(900.0).file());
        let range = Some(Range { value: 5.0, low: 4.0, high: 9.0 });
        let bar = |kind: &Kind| Bar { label: "x".to_owned(), kind: *kind, range, text: "5 ms".to_owned() };
        let mut bars: Vec<_> = kinds.iter().map(bar).collect();
        bars.push(Bar { label: "y".to_owned(), kind: Kind::Peer, range: None, text: "failed".to_owned() });
        let bars = Bars { title: "values".to_owned(), unit: "ms".to_owned(), bars };
        check(&bars.draw(900.0).file());
        check(&bars.draw(300.0).file());
    }
}
