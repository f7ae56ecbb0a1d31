//! The report as one page that needs nothing else: no network, no fonts, no files beside it. It is whole without its
//! script, which adds a switch from light to dark and sorts tables.

mod experiment;
mod tables;

pub(crate) use experiment::figure;
pub(crate) use tables::of_table;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pilotlight_plot::markup::{Markup, Tag, tag};
use pilotlight_plot::{RULES, THEME, Tone};

use super::layout::Layout;
use super::words;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
/// A flame, in the accent's colour.
const MARK: &str = "M12 2c1 4 6 6.5 6 12a6 6 0 0 1-12 0c0-2.6 1.2-4.3 2.4-5.6.3 1.6 1 2.6 2 3.1C9.9 8 10.4 5 12 2z";

/// The page.
#[must_use]
pub(super) fn render(layout: &Layout<'_>) -> String {
    let sections = layout.sections.iter().map(|section| (section.anchor.as_str(), section.results.title.as_str()));
    let links = [("found", "What was found")].into_iter().chain(sections).chain([("method", "Method")]);
    let experiments = layout.sections.iter().map(experiment::section);
    let content = [summary(layout)].into_iter().chain(experiments).chain([method(layout)]);
    document(&format!("Pilotlight lab: {}", layout.report.machine.hostname), links, content)
}

/// A page of sections, with links to their anchors.
pub(crate) fn document<'a>(
    title: &str,
    links: impl Iterator<Item = (&'a str, &'a str)>,
    sections: impl Iterator<Item = Tag>,
) -> String {
    let main = tag("main").attribute("id", "content").with_all(sections);
    let body = tag("body").with(top()).with(contents(links)).with(main).with(tag("script").with(Markup::raw(SCRIPT)));
    let page = tag("html").attribute("lang", "en").with(head(title)).with(body);
    format!("<!DOCTYPE html>\n{}\n", Markup::from(page).into_string())
}

fn head(title: &str) -> Tag {
    // Nothing is loaded and nothing runs but what is written here.
    let styles: [&'static str; 3] = [THEME, RULES, STYLE];
    let hashes: Vec<String> = styles.iter().map(|style| hash(style)).collect();
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hashes.join(" "),
        hash(SCRIPT)
    );
    let meta = |name: &str, content: &str| tag("meta").attribute("name", name).attribute("content", content);
    tag("head")
        .with(tag("meta").attribute("charset", "utf-8"))
        .with(tag("meta").attribute("http-equiv", "Content-Security-Policy").attribute("content", policy))
        .with(meta("viewport", "width=device-width, initial-scale=1"))
        .with(meta("color-scheme", "light dark"))
        .with(meta("generator", &format!("pilotlight {}", env!("CARGO_PKG_VERSION"))))
        .with(tag("title").text(title))
        .with_all(styles.map(|style| tag("style").with(Markup::raw(style))))
}

/// A source of the page's policy.
fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("'sha256-{}'", BASE64.encode(digest))
}

fn top() -> Tag {
    let mark = tag("svg").attribute("viewBox", "0 0 24 24").attribute("aria-hidden", "true").class("mark");
    tag("header")
        .class("top")
        .with(tag("a").class("skip").attribute("href", "#content").text("Skip to the report"))
        .with(
            tag("span")
                .class("brand")
                .with(mark.with(tag("path").attribute("d", MARK)))
                .text("Pilotlight")
                .with(tag("span").class("lab").text("lab")),
        )
        .with(tag("button").attribute("id", "theme").attribute("type", "button").attribute("hidden", "").text("Theme"))
}

fn contents<'a>(links: impl Iterator<Item = (&'a str, &'a str)>) -> Tag {
    let link = |(anchor, title): (&str, &str)| {
        tag("li").with(tag("a").attribute("href", format_args!("#{anchor}")).text(title))
    };
    tag("nav").attribute("aria-label", "Contents").with(tag("ul").with_all(links.map(link)))
}

fn summary(layout: &Layout<'_>) -> Tag {
    let report = layout.report;
    let mut section =
        tag("section").class("card summary").attribute("id", "found").attribute("aria-labelledby", "found-title");
    section = section
        .with(tag("p").class("eyebrow").text(format_args!("{} · {}", report.machine.hostname, words::began(report))))
        .with(tag("h1").attribute("id", "found-title").text("What was found"));
    let warnings = words::warnings(report);
    if !warnings.is_empty() {
        let items = warnings.into_iter().map(|warning| tag("li").text(warning));
        section = section.with(tag("ul").class("warnings").attribute("aria-label", "Warnings").with_all(items));
    }
    section = section.with(words::tally(report).map(|tally| tag("p").class("lead").text(tally)));
    let found = layout.sections.iter().map(|section| {
        let (tone, held) = words::held(section.report, section.results);
        let title = tag("a").attribute("href", format_args!("#{}", section.anchor)).text(&section.results.title);
        let findings = words::findings(section.results).into_iter().map(|finding| tag("li").text(finding));
        tag("div").class("found").with(tag("h2").with(title)).with(chip(tone, &held)).with(list("ul", findings))
    });
    section = section.with_all(found);
    let facts = [("Machine", words::machine(report)), ("Noise", words::noise(report)), ("Run", words::run(report))];
    let columns = facts.map(|(title, facts)| {
        let rows =
            facts.into_iter().map(|(name, value)| tag("div").with(tag("dt").text(name)).with(tag("dd").text(value)));
        tag("div").with(tag("h2").text(title)).with(tag("dl").with_all(rows))
    });
    section
        .with(tag("div").class("facts").with_all(columns))
        .with(tag("h2").class("minor").text("Command"))
        .with(code(&words::command(report)))
}

fn method(layout: &Layout<'_>) -> Tag {
    let sentences = [
        "Every round measures every variant once, and their order turns from round to round. Ratios are taken within a \
         round, so what disturbs the machine for longer than a round disturbs both sides.",
        "A number is the median of the rounds, with its 95 % bootstrap interval. Bars begin at zero; the line across a bar is its interval.",
        "In every group one variant is measured twice, as two equals, whose ratio has a 99 % interval. Where they differ, or the machine is too noisy, nothing is \
         compared. Both measurements count in what it is compared with. A difference is stated only where its interval excludes equality, chance would make rounds so \
         one-sided in less than 1 % of cases (signed-rank test), and it is larger than what the two equals show.",
        "A program that dies, hangs or answers wrongly has failed, and none of its rounds counts.",
        "Times of an open loop are from the moment at which a request was due, whatever became of those before it.",
    ];
    let again = format!("Seed {}: the same command draws the same random choices.", layout.report.seed);
    tag("section")
        .class("card")
        .attribute("id", "method")
        .attribute("aria-labelledby", "method-title")
        .with(tag("h2").attribute("id", "method-title").text("Method"))
        .with(list("ul", sentences.into_iter().map(str::to_owned).chain([again]).map(|text| tag("li").text(text))))
}

/// A word that says how something came out.
fn chip(tone: Tone, words: &str) -> Tag {
    let (class, mark) = match tone {
        Tone::Good => ("chip good", "✓ "),
        Tone::Bad => ("chip bad", "✗ "),
        Tone::Plain => ("chip", ""),
    };
    let mark = (!mark.is_empty()).then(|| tag("span").attribute("aria-hidden", "true").text(mark));
    tag("span").class(class).with(mark).text(words)
}

fn list(name: &'static str, items: impl Iterator<Item = Tag>) -> Option<Tag> {
    let items: Vec<Tag> = items.collect();
    (!items.is_empty()).then(|| tag(name).with_all(items))
}

/// Text as it is typed. It can be scrolled with the keyboard.
fn code(text: &str) -> Tag {
    tag("pre").attribute("tabindex", "0").with(tag("code").text(text))
}
