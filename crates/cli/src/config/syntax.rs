//! TOML mistakes, and how far the rest of a file with such mistakes can be trusted.
//!
//! The parser goes on after a mistake. An unquoted text or a bad number harms its own line only; a broken heading or an
//! unclosed list may move everything after it into the wrong section, so later findings would be noise.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue, Error};

use super::diagnostic::{Code, Diagnostic, Span};
use super::shown::shown;

/// What the parser complained about.
#[derive(Debug)]
pub(super) struct Syntax {
    pub(super) found: Vec<Diagnostic>,
    lines: Lines,
    /// Lines with a mistake in them.
    bad_lines: BTreeSet<usize>,
    /// The first byte after which the structure is in doubt.
    in_doubt_from: Option<usize>,
}

impl Syntax {
    /// Parses a text as far as it goes.
    pub(super) fn parse(text: &str) -> (DeTable<'_>, Self) {
        let (tree, mut errors) = DeTable::parse_recoverable(text);
        let tree = tree.into_inner();
        let mut syntax =
            Syntax { found: Vec::new(), lines: Lines::of(text), bad_lines: BTreeSet::new(), in_doubt_from: None };
        if !errors.is_empty() {
            errors.sort_by_key(start_of);
            syntax.read(text, errors, &Spans::of(text, &tree));
        }
        (tree, syntax)
    }

    fn read(&mut self, text: &str, mut errors: Vec<Error>, spans: &Spans) {
        let never_closed = never_closed(&errors, spans);
        if let Some(start) = never_closed {
            errors.retain(|error| start_of(error) < start);
        }
        let mut reported = BTreeSet::new();
        // A heading that is there twice brings its keys along.
        let mut repeated_until = 0;
        for error in &errors {
            let span = error.span().unwrap_or(text.len()..text.len());
            let is_repeated = error.message().starts_with("duplicate key");
            if is_repeated && span.start < repeated_until {
                continue;
            }
            let line = self.lines.index(span.start);
            if is_repeated && text[self.lines.start(line)..].trim_start().starts_with('[') {
                repeated_until = text[span.start..].find("\n[").map_or(text.len(), |at| span.start + at);
            }
            // Inside one list or one pair of braces the first mistake is the cause of the rest.
            let bracket = spans.bracket_at(span.start);
            let is_first = bracket.is_none_or(|bracket| reported.insert(bracket.start));
            if self.bad_lines.insert(line) && is_first {
                self.found.push(diagnostic(text, error, span.clone(), spans));
            }
            if !is_local(error.message()) {
                self.doubt(bracket.map_or(span.start, |bracket| bracket.start));
            }
        }
        if let Some(start) = never_closed {
            self.bad_lines.insert(self.lines.index(start));
            self.doubt(start);
            let diagnostic = Diagnostic::error(Code::Syntax, start..start + 1, "this bracket is never closed");
            self.found.push(diagnostic.help("close it with `]` (a list) or `}` (a table)"));
        }
    }

    fn doubt(&mut self, from: usize) {
        self.in_doubt_from = Some(self.in_doubt_from.map_or(from, |earlier| earlier.min(from)));
    }

    /// Whether a part of the file may be hidden.
    pub(super) fn is_partial(&self) -> bool {
        self.in_doubt_from.is_some()
    }

    /// Keeps the findings that cannot be the consequence of a syntax mistake, and adds the mistakes themselves.
    pub(super) fn merge(mut self, later: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let mut found = std::mem::take(&mut self.found);
        found.extend(later.into_iter().filter(|diagnostic| self.trusts(diagnostic)));
        found
    }

    fn trusts(&self, diagnostic: &Diagnostic) -> bool {
        let Some(span) = &diagnostic.span else {
            return self.bad_lines.is_empty();
        };
        if self.bad_lines.contains(&self.lines.index(span.start)) {
            return false;
        }
        let about_the_rest = matches!(diagnostic.code, Code::MissingKey | Code::UnknownService | Code::Unused);
        self.in_doubt_from.is_none_or(|from| span.start < from && !about_the_rest)
    }
}

/// Where the lines of a text begin.
#[derive(Debug)]
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let after_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { starts: std::iter::once(0).chain(after_ends).collect() }
    }

    /// The line that holds the byte, counted from 0.
    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) - 1
    }

    fn start(&self, index: usize) -> usize {
        self.starts[index]
    }
}

/// The values of a tree as places in its text, each list in the order of the text and without overlaps.
#[derive(Debug, Default)]
struct Spans {
    /// Outermost lists and tables written with brackets or braces.
    brackets: Vec<Span>,
    /// Texts, numbers, dates, true and false.
    plain: Vec<Span>,
}

impl Spans {
    fn of(text: &str, tree: &DeTable<'_>) -> Self {
        let mut spans = Spans::default();
        spans.add_table(text, tree, false);
        spans.brackets.sort_by_key(|span| span.start);
        spans.plain.sort_by_key(|span| span.start);
        spans
    }

    /// The bracket that the byte is inside of or just behind.
    fn bracket_at(&self, offset: usize) -> Option<&Span> {
        let before = self.brackets.partition_point(|span| span.start < offset);
        self.brackets[..before].last().filter(|span| offset <= span.end)
    }

    /// The plain value that the byte is in or just behind.
    fn plain_at(&self, offset: usize) -> Option<Span> {
        let before = self.plain.partition_point(|span| span.start <= offset);
        self.plain[..before].last().filter(|span| offset <= span.end).cloned()
    }

    fn add_table(&mut self, text: &str, table: &DeTable<'_>, is_inside: bool) {
        for value in table.values() {
            self.add(text, value.get_ref(), &value.span(), is_inside);
        }
    }

    fn add(&mut self, text: &str, value: &DeValue<'_>, span: &Span, is_inside: bool) {
        let is_bracket = match value {
            // If the first item begins where the list does, the items are [[headings]].
            DeValue::Array(list) => list.iter().next().is_none_or(|item| item.span().start != span.start),
            DeValue::Table(_) => text[span.start..].starts_with('{'),
            _ => false,
        };
        if is_bracket && !is_inside {
            self.brackets.push(span.clone());
        }
        let is_inside = is_inside || is_bracket;
        match value {
            DeValue::Array(list) => {
                for item in list.iter() {
                    self.add(text, item.get_ref(), &item.span(), is_inside);
                }
            }
            DeValue::Table(table) => self.add_table(text, table, is_inside),
            _ => self.plain.push(span.clone()),
        }
    }
}

fn start_of(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// Mistakes that leave the structure of the file as it was meant.
fn is_local(message: &str) -> bool {
    message.starts_with("string values must be quoted")
        || message.starts_with("duplicate key")
        || message.starts_with("missing escaped value")
        || message.starts_with("invalid basic string")
        || ["integer", "float", "date", "time", "number"]
            .iter()
            .any(|kind| message.starts_with(&format!("invalid {kind}")))
}

/// The start of the bracket that the parser still had open at the end of the text: the first one with a mistake in it.
fn never_closed(errors: &[Error], spans: &Spans) -> Option<usize> {
    let is_open = |error: &&Error| {
        let message = error.message();
        message.starts_with("unclosed inline table")
            || (message.starts_with("unclosed array") && !is_heading_mistake(message))
    };
    let end = errors.iter().rfind(is_open).map(start_of)?;
    let with_mistake = errors.iter().filter_map(|error| spans.bracket_at(start_of(error)));
    let to_the_end = spans.brackets.iter().filter(|bracket| bracket.end >= end);
    with_mistake.chain(to_the_end).map(|bracket| bracket.start).min()
}

fn is_heading_mistake(message: &str) -> bool {
    message.starts_with("unclosed table") || message.starts_with("unclosed array table")
}

fn diagnostic(text: &str, error: &Error, span: Span, spans: &Spans) -> Diagnostic {
    let message = error.message();
    let written = text.get(span.clone()).unwrap_or_default();
    let syntax = |span: Span, message: &str, help: &str| Diagnostic::error(Code::Syntax, span, message).help(help);
    if message.starts_with("duplicate key") {
        let help = match written {
            "routes" => "write [[routes]], with two brackets, once for each route",
            "cache" => "keep one of the two; a route's cache = \"5s\" is default_ttl = \"5s\" in [routes.cache]",
            _ => "keep one of the two, or give one another name",
        };
        return syntax(span, &format!("{} is there twice", shown(written)), help);
    }
    if message.starts_with("cannot extend value of type") {
        let help = match written {
            "cache" => "keep one of the two: with `cache = false` there is no [cache] and no [cache.redis]",
            _ => "keep one of the two",
        };
        return syntax(span, &format!("{} is a value above, so it cannot be a section", shown(written)), help);
    }
    if message.starts_with("missing comma") {
        return syntax(
            span,
            "a comma or a closing bracket is missing here",
            "separate the values with `,` and end them with `]` or `}`",
        );
    }
    if message.starts_with("invalid unquoted key") && written == ":" {
        return syntax(span, "a key is followed by `=`, not by `:`", "write key = value");
    }
    if is_heading_mistake(message) {
        return syntax(span, "the heading has no closing `]`", "write [name], or [[name]] for one of a list");
    }
    if message.starts_with("key with no value") {
        return syntax(span, "a key without a value", "write key = value; a text stands in quotes: key = \"text\"");
    }
    let whole = spans.plain_at(span.start).filter(|whole| whole.end >= span.end).unwrap_or(span);
    let written = text.get(whole.clone()).unwrap_or_default().trim();
    if written.is_empty() {
        return syntax(whole, "a value is missing here", "write a value, or take the line away");
    }
    let is_unquoted = !written.starts_with(['"', '\'', '[', '{']);
    if is_unquoted && is_local(message) {
        let help = match written {
            "yes" | "on" | "True" | "TRUE" => "write true".to_owned(),
            "no" | "off" | "False" | "FALSE" => "write false".to_owned(),
            _ if written.contains(['"', '\\', '\n']) => "a text stands in quotes".to_owned(),
            _ => format!("a text stands in quotes: {}", shown(&format!("\"{written}\""))),
        };
        return syntax(whole, &format!("{} is not a value", shown(written)), &help);
    }
    if message.starts_with("invalid basic string") && !written.ends_with('"') {
        return syntax(whole, "the text has no closing quote", "close it with `\"`");
    }
    if message.starts_with("missing escaped value") {
        return syntax(
            whole,
            "a `\\` is followed by a character that it cannot escape",
            "write `\\\\`, or put the text in single quotes: '…'",
        );
    }
    let help = "the rules of the format are at https://toml.io";
    syntax(whole, &format!("not TOML: {}", message.replace('\n', " ")), help)
}
