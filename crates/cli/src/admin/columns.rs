//! Tables that fit where they are shown.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

impl Style {
    pub(super) fn of_stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        if std::io::stdout().is_terminal() && !plain { Self::Coloured } else { Self::Plain }
    }

    pub(super) fn paint(self, colour: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\x1b[{colour}m{text}\x1b[0m"),
        }
    }
}

/// One cell: its text, and the colour it has.
pub(super) struct Cell {
    text: String,
    colour: Option<&'static str>,
    align: Align,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

impl Cell {
    pub(super) fn coloured(self, colour: &'static str) -> Self {
        Self { colour: Some(colour), ..self }
    }

    /// Its text alone, in its colour.
    pub(super) fn painted(&self, style: Style) -> String {
        self.colour.map_or_else(|| self.text.clone(), |colour| style.paint(colour, &self.text))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// How wide a line may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// As wide as it is.
    Any,
    /// That of the terminal.
    Columns(usize),
}

impl Width {
    /// That of the terminal on the standard output, if there is one.
    pub(super) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten();
        // A terminal that does not know says 0.
        size.filter(|size| size.ws_col > 0).map_or(Self::Any, |size| Self::Columns(size.ws_col.into()))
    }
}

/// A column of a table that may have to become narrower.
pub(super) struct Column {
    head: &'static str,
    /// Where there is little room.
    short: &'static str,
    /// The lowest is left out first; `None`: never.
    rank: Option<u8>,
}

impl Column {
    pub(super) const fn kept(head: &'static str, short: &'static str) -> Self {
        Self { head, short, rank: None }
    }

    pub(super) const fn dropped(head: &'static str, short: &'static str, rank: u8) -> Self {
        Self { head, short, rank: Some(rank) }
    }
}

/// Gap between columns.
const GAP: usize = 2;
/// The least that a name is cut to.
const MIN_NAME: usize = 8;

/// The table within the width: with short heads, then without the columns that matter least, which it names below, then
/// with names cut (those of the first column).
pub(super) fn fitting(columns: &[Column], mut cells: Vec<Vec<Cell>>, style: Style, width: Width) -> String {
    let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
    let Width::Columns(width) = width else { return rows(&heads, &cells, style) };
    if total(&heads, &cells) <= width {
        return rows(&heads, &cells, style);
    }
    let mut shown: Vec<&Column> = columns.iter().collect();
    let mut heads: Vec<&str> = columns.iter().map(|column| column.short).collect();
    let mut left_out = Vec::new();
    while total(&heads, &cells) > width {
        let ranked = shown.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at)));
        let Some((_, at)) = ranked.min() else { break };
        left_out.push(shown.remove(at).head.to_lowercase());
        heads.remove(at);
        cells.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    let excess = total(&heads, &cells).saturating_sub(width);
    let longest = cells.iter().filter_map(|row| row.first()).map(Cell::width).max().unwrap_or_default();
    let most = longest.saturating_sub(excess).max(MIN_NAME);
    for name in cells.iter_mut().filter_map(|row| row.first_mut()).filter(|name| name.width() > most) {
        name.text = name.text.chars().take(most - 1).chain(['…']).collect();
    }
    let mut text = rows(&heads, &cells, style);
    if !left_out.is_empty() {
        let note = format!("too narrow for {}: --wide\n", left_out.join(", "));
        text.push_str(&folded(&note, Width::Columns(width), GAP));
    }
    text
}

/// How wide a table is.
fn total(heads: &[&str], cells: &[Vec<Cell>]) -> usize {
    let columns: usize = (0..heads.len()).map(|column| column_width(heads, cells, column)).sum();
    columns + GAP * heads.len().saturating_sub(1)
}

fn column_width(heads: &[&str], rows: &[Vec<Cell>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column)).map(Cell::width);
    cells.chain([heads[column].len()]).max().unwrap_or_default()
}

/// Lines that are too wide go on below, `indent` columns further right; they are broken at spaces, and words that are
/// too wide where the width ends. Escape sequences of colours count as text: lines with them may be narrower.
pub(super) fn folded(text: &str, width: Width, indent: usize) -> String {
    let Width::Columns(width) = width else { return text.to_owned() };
    let width = width.max(indent + MIN_NAME);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > width {
            let first_word = rest.iter().take_while(|c| **c == ' ').count() + 1;
            let space = rest[..=width].iter().rposition(|c| *c == ' ').filter(|at| *at > first_word.max(indent));
            let at = space.unwrap_or(width);
            out.push_str(rest[..at].iter().collect::<String>().trim_end());
            out.push('\n');
            let next = rest[at..].iter().skip_while(|c| **c == ' ');
            rest = std::iter::repeat_n(&' ', indent).chain(next).copied().collect();
        }
        out.extend(rest);
        out.push('\n');
    }
    out
}

pub(super) fn left(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), colour: None, align: Align::Left }
}

pub(super) fn right(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), colour: None, align: Align::Right }
}

/// Aligned columns, two spaces apart.
pub(super) fn rows(heads: &[&str], rows: &[Vec<Cell>], style: Style) -> String {
    let widths: Vec<usize> = (0..heads.len()).map(|column| column_width(heads, rows, column)).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = (String, usize, Align, Option<&str>)>| {
        let mut whole = String::new();
        for (column, (cell, length, align, colour)) in cells.enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(length));
            let cell = colour.map_or(cell.clone(), |colour| style.paint(colour, &cell));
            let gap = if column > 0 { "  " } else { "" };
            whole.push_str(&if align == Align::Left {
                format!("{gap}{cell}{pad}")
            } else {
                format!("{gap}{pad}{cell}")
            });
        }
        text.push_str(whole.trim_end());
        text.push('\n');
    };
    let align = |column: usize| rows.first().and_then(|row| row.get(column)).map_or(Align::Left, |cell| cell.align);
    line(&mut heads.iter().enumerate().map(|(at, head)| ((*head).to_owned(), head.len(), align(at), Some("1"))));
    for row in rows {
        line(&mut row.iter().map(|cell| (cell.text.clone(), cell.width(), cell.align, cell.colour)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::kept("NAME", "NAME"), Column::dropped("NUMBER", "NO", 2), Column::dropped("PID", "PID", 1)];

    #[track_caller]
    fn check(width: usize, expected: &str) {
        let cells = || vec![left("a-long-name"), right("12"), right("4711")];
        assert_eq!(fitting(&COLUMNS, vec![cells()], Style::Plain, Width::Columns(width)), expected);
        assert!(expected.lines().all(|line| line.chars().count() <= width));
    }

    #[test]
    fn a_table_fits() {
        check(25, "NAME         NUMBER   PID\na-long-name      12  4711\n");
        check(21, "NAME         NO   PID\na-long-name  12  4711\n");
        check(20, "NAME         NO\na-long-name  12\ntoo narrow for pid:\n  --wide\n");
        check(12, "NAME\na-long-name\ntoo narrow\n  for pid,\n  number:\n  --wide\n");
        check(10, "NAME\na-long-na…\ntoo narrow\n  for pid,\n  number:\n  --wide\n");
    }

    #[test]
    fn lines_go_on_below() {
        let fold = |text, width| folded(text, Width::Columns(width), 2);
        assert_eq!(fold("one two three four\nx\n", 10), "one two\n  three\n  four\nx\n");
        assert_eq!(fold("abcdefghijklmnop\n", 10), "abcdefghij\n  klmnop\n");
        assert_eq!(fold("one\n", 3), "one\n");
        assert_eq!(folded("one two\n", Width::Any, 2), "one two\n");
    }
}
