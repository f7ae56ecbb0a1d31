//! Findings for people, by area and as wide as the terminal, and for programs.

use std::io::IsTerminal as _;

use pilotlight_printable::printable;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};

use super::finding::{Area, Finding, Level, counted};

/// Where facts begin: behind the longest level.
const INDENT: usize = 10;
/// Columns where there is no terminal, and the most that are used of one.
const COLUMNS: usize = 80;
const MAX_COLUMNS: usize = 120;
const MIN_COLUMNS: usize = 40;

/// How it looks.
pub(super) struct Look {
    is_coloured: bool,
    columns: usize,
}

impl Look {
    pub(super) fn of_stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let is_terminal = std::io::stdout().is_terminal();
        let columns = tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|n| *n > 0);
        Self { is_coloured: is_terminal && !plain, columns: columns.unwrap_or(COLUMNS).clamp(MIN_COLUMNS, MAX_COLUMNS) }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// For people.
pub(super) fn as_text(findings: &[Finding], look: &Look) -> String {
    let mut text = String::new();
    for area in Area::ALL {
        let of_area = findings.iter().filter(|finding| finding.area == area);
        for (index, finding) in of_area.enumerate() {
            if index == 0 {
                text.push_str(&format!(
                    "{}{}\n",
                    if text.is_empty() { "" } else { "\n" },
                    look.paint("1", area.as_str())
                ));
            }
            text.push_str(&one(finding, look));
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let problems = count(Level::Problem);
    let (colour, said) = match problems {
        0 => ("32", "no problem".to_owned()),
        _ => ("31", counted(problems, "problem")),
    };
    text + &format!("\n{}, {}\n", look.paint(colour, &said), counted(count(Level::Note), "note"))
}

fn one(finding: &Finding, look: &Look) -> String {
    let colour = match finding.level {
        Level::Ok => "32",
        Level::Note => "33",
        Level::Problem => "31",
    };
    let level = finding.level.as_str();
    let space = " ".repeat(INDENT - 2 - level.len());
    let mut text = format!("  {}{space}", look.paint(colour, level));
    text.push_str(&wrapped(&printable(&finding.fact), look.columns, INDENT));
    text.push('\n');
    if let Some(remedy) = &finding.remedy {
        text.push_str(&" ".repeat(INDENT));
        text.push_str("→ ");
        text.push_str(&wrapped(&printable(remedy), look.columns, INDENT + 2));
        text.push('\n');
    }
    text
}

/// A text in lines that go on under their beginning; what is between backquotes stays whole, to be copied.
fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    let mut word = String::new();
    let mut is_quoted = false;
    let mut add = |word: &mut String| {
        if word.is_empty() {
            return;
        }
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && indent + last + 1 + word.chars().count() > columns {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        word.clear();
    };
    for c in text.chars() {
        match c {
            '`' => {
                is_quoted = !is_quoted;
                word.push(c);
            }
            c if c.is_whitespace() && !is_quoted => add(&mut word),
            c => word.push(c),
        }
    }
    add(&mut word);
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// For programs.
pub(super) fn as_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        json!({
            "area": finding.area.as_str(), "level": finding.level.as_str(), "fact": finding.fact, "remedy": finding.remedy,
        })
    };
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.area);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "problems": count(Level::Problem),
        "notes": count(Level::Note),
        "findings": sorted.into_iter().map(one).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_go_on_under_their_beginning() {
        let findings = [
            Area::Program.ok("pilotlight 1"),
            Area::Limits.note("one two three four five six seven", "run `ulimit -n 20000` first"),
            Area::Limits.problem("bad\u{1b}[2J", "mend it"),
        ];
        let text = as_text(&findings, &Look { is_coloured: false, columns: 40 });
        let expected = "program
  ok      pilotlight 1

limits
  note    one two three four five six
          seven
          → run `ulimit -n 20000` first
  problem bad\\x1b[2J
          → mend it

1 problem, 1 note
";
        assert_eq!(text, expected);
        let coloured = as_text(&findings[..1], &Look { is_coloured: true, columns: 80 });
        assert!(
            coloured.contains("\x1b[32mok\x1b[0m      pilotlight 1") && coloured.contains("no problem"),
            "{coloured}"
        );
    }

    #[test]
    fn json_has_all_of_it() {
        let document = as_json(&[Area::Files.problem("a", "b"), Area::Program.ok("c")]);
        assert_eq!(document["problems"], 1);
        assert_eq!(
            document["findings"],
            json!([
                { "area": "program", "level": "ok", "fact": "c", "remedy": null },
                { "area": "files", "level": "problem", "fact": "a", "remedy": "b" },
            ])
        );
    }
}
