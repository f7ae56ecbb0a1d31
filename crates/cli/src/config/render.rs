//! Reports as text with the line quoted, and as JSON. What stands in the file is never sent to a terminal unescaped.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::diagnostic::{Diagnostic, Severity, Span};
use super::report::Report;
use super::shown::{counted, printable};

/// Most findings that one report for people shows; the rest is counted.
const MAX_SHOWN: usize = 100;
/// Most characters of a line that are quoted; a longer line is cut on both sides of the place.
const MAX_QUOTED_CHARS: usize = 160;
/// Characters kept in front of the place when a long line is cut.
const CHARS_BEFORE_PLACE: usize = 60;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    Plain,
    /// With ANSI colours, for a terminal.
    Coloured,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

impl Report {
    /// The report for people.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        text(self, style)
    }

    /// The report for programs: one JSON object, described in `docs/configuration.md`.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for Report {}

/// A place in a text as people count it: from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The position of a byte; one beyond the end counts as the end.
pub(super) fn position(text: &str, offset: usize) -> Position {
    let offset = floor_char_boundary(text, offset);
    let start = line_start(text, offset);
    let line = text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1;
    // A byte order mark is not a character that an editor counts.
    let column = text[start..offset].chars().filter(|c| *c != '\u{feff}').count() + 1;
    Position { line, column }
}

fn text(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for found in report.diagnostics().iter().take(MAX_SHOWN) {
        write_one(&mut out, report, found, style);
        out.push('\n');
    }
    let hidden = (report.error_count() + report.warning_count()).saturating_sub(MAX_SHOWN);
    if hidden > 0 {
        push_line(&mut out, &format!("… and {hidden} more that are not shown"));
    }
    if !report.diagnostics().is_empty() {
        push_line(&mut out, &summary(report));
    }
    out
}

fn json(report: &Report) -> String {
    let diagnostics: Vec<Value> = report.diagnostics().iter().map(|found| json_one(report, found)).collect();
    let told = json!({
        "file": report.file,
        "errors": report.error_count(),
        "warnings": report.warning_count(),
        "partial": report.partial,
        "diagnostics": diagnostics,
    });
    pilotlight_printable::json(told.to_string())
}

fn write_one(out: &mut String, report: &Report, found: &Diagnostic, style: Style) {
    let colour = match found.severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
    };
    let severity = style.paint(colour, found.severity.as_str());
    let place = found.span.as_ref().map_or_else(String::new, |span| {
        let at = position(&report.text, span.start);
        format!("{}:{}:", at.line, at.column)
    });
    let file = printable(&report.file);
    push_line(out, &format!("{} {severity}: {}", style.paint("1", &format!("{file}:{place}")), lines(&found.message)));
    let mut gutter = 0;
    if let Some(span) = &found.span {
        gutter = position(&report.text, span.start).line.to_string().len();
        quote(out, &report.text, span, gutter, &|carets| style.paint(colour, carets));
    }
    if let Some((span, what)) = &found.related {
        let at = position(&report.text, span.start);
        push_line(out, &format!("{:gutter$} = {} at {file}:{}:{}", "", lines(what), at.line, at.column));
    }
    if let Some(help) = &found.help {
        push_line(out, &format!("{:gutter$} = {}: {}", "", style.paint("1;36", "help"), lines(help)));
    }
}

/// The line of the span's start, and carets under the part of the span that is in it.
fn quote(out: &mut String, text: &str, span: &Span, gutter: usize, paint: &dyn Fn(&str) -> String) {
    let start = floor_char_boundary(text, span.start);
    let end = floor_char_boundary(text, span.end.max(start));
    let from = line_start(text, start);
    let to = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let line = text[from..to].trim_end_matches('\r');
    let place = text[from..start.min(from + line.len())].chars().count();
    let marked = text[start..end.clamp(start, to)].trim_end().chars().count();

    let skipped = if line.chars().count() > MAX_QUOTED_CHARS { place.saturating_sub(CHARS_BEFORE_PLACE) } else { 0 };
    let mut cells: Vec<String> = line.chars().skip(skipped).take(MAX_QUOTED_CHARS).map(cell).collect();
    let cut_after = line.chars().count() > skipped + cells.len();
    let mut indent: usize = cells.iter().take(place - skipped).map(|cell| cell.chars().count()).sum();
    let width: usize = cells.iter().skip(place - skipped).take(marked).map(|cell| cell.chars().count()).sum();
    if skipped > 0 {
        cells.insert(0, "…".to_owned());
        indent += 1;
    }
    if cut_after {
        cells.push("…".to_owned());
    }
    let number = position(text, start).line;
    push_line(out, &format!("{number:gutter$} | {}", cells.concat()));
    push_line(out, &format!("{:gutter$} | {:indent$}{}", "", "", paint(&"^".repeat(width.max(1)))));
}

/// What a character of a quoted line looks like on the terminal.
fn cell(character: char) -> String {
    match character {
        '\t' => "    ".to_owned(),
        '\u{feff}' => String::new(),
        c => printable(c.encode_utf8(&mut [0; 4])),
    }
}

/// A text of several lines, each with its control characters escaped: advice may repeat what the file says.
fn lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

fn summary(report: &Report) -> String {
    let mut parts = Vec::new();
    if report.error_count() > 0 {
        parts.push(counted(report.error_count(), "error"));
    }
    if report.warning_count() > 0 {
        parts.push(counted(report.warning_count(), "warning"));
    }
    let partial = if report.partial { "; there may be more once the syntax is right" } else { "" };
    format!("{}: {}{partial}", printable(&report.file), parts.join(", "))
}

fn json_one(report: &Report, found: &Diagnostic) -> Value {
    json!({
        "severity": found.severity.as_str(),
        "code": found.code.as_str(),
        "at": found.span.as_ref().map(|span| json_span(report, span)),
        "message": found.message,
        "help": found.help,
        "related": found.related.as_ref().map(|(span, what)| json!({ "at": json_span(report, span), "message": what })),
    })
}

fn json_span(report: &Report, span: &Span) -> Value {
    let start = position(&report.text, span.start);
    let end = position(&report.text, span.end.max(span.start));
    json!({ "line": start.line, "column": start.column, "end_line": end.line, "end_column": end.column })
}

fn push_line(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", line.trim_end());
}

fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |at| at + 1)
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::diagnostic::Code;

    #[track_caller]
    fn check(text: &str, span: Span, expected: &str) {
        let found = Diagnostic::error(Code::Syntax, span, "wrong");
        let report = Report::new("f.toml".to_owned(), text.to_owned(), vec![found]);
        assert_eq!(report.render(Style::Plain), expected);
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        check("a = 1\nbc = 2\n", 6..8, "f.toml:2:1: error: wrong\n2 | bc = 2\n  | ^^\n\nf.toml: 1 error\n");
    }

    #[test]
    fn tabs_control_characters_and_byte_order_marks_keep_the_caret_in_place() {
        check(
            "\u{feff}\ta\x1b[31m = é",
            4..5,
            "f.toml:1:2: error: wrong\n1 |     a\\x1b[31m = é\n  |     ^\n\nf.toml: 1 error\n",
        );
    }

    #[test]
    fn places_at_and_beyond_the_end_are_the_end() {
        check("ab", 2..2, "f.toml:1:3: error: wrong\n1 | ab\n  |   ^\n\nf.toml: 1 error\n");
        check("", 9..12, "f.toml:1:1: error: wrong\n1 |\n  | ^\n\nf.toml: 1 error\n");
        check("ab\r\n", 3..4, "f.toml:1:4: error: wrong\n1 | ab\n  |   ^\n\nf.toml: 1 error\n");
    }

    #[test]
    fn a_span_over_several_lines_is_marked_in_its_first() {
        check("a = [1,\n2]\n", 4..10, "f.toml:1:5: error: wrong\n1 | a = [1,\n  |     ^^^\n\nf.toml: 1 error\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let found = Diagnostic::error(Code::Syntax, 500..501, "wrong");
        let rendered = Report::new("f".to_owned(), text, vec![found]).render(Style::Plain);
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[1], format!("1 | …{}X{}…", "a".repeat(60), "b".repeat(99)));
        assert_eq!(lines[2], format!("  | {}^", " ".repeat(61)));
    }

    #[test]
    fn many_findings_are_counted_not_shown() {
        let found = vec![Diagnostic::error(Code::Syntax, 0..1, "wrong"); MAX_SHOWN + 7];
        let rendered = Report::new("f".to_owned(), "a".to_owned(), found).render(Style::Plain);
        assert!(rendered.contains("… and 7 more"), "{rendered}");
        assert!(rendered.ends_with("f: 107 errors\n"), "{rendered}");
    }

    #[test]
    fn colours_only_when_asked_for() {
        let report = Report::new("f".to_owned(), "a".to_owned(), vec![Diagnostic::warning(Code::Unused, 0..1, "odd")]);
        assert!(!report.render(Style::Plain).contains('\x1b'));
        assert!(report.render(Style::Coloured).contains("\x1b[1;33mwarning\x1b[0m"));
    }
}
