//! Aligned columns for people. Colours on a terminal only, and not with `NO_COLOR`.

use std::io::IsTerminal;

/// Whether the standard output takes colours.
pub(super) fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

pub(super) fn red(text: &str) -> String {
    if has_colours() { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}

pub(super) fn green(text: &str) -> String {
    if has_colours() { format!("\x1b[32m{text}\x1b[0m") } else { text.to_owned() }
}

/// Rows below their heads, two blanks apart. Heads that begin with `>` belong to columns of numbers, which end at the
/// same place.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let head = |column: usize| heads[column].trim_start_matches('>');
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head(column).len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), head) in cells.zip(&widths).zip(heads) {
            let pad = " ".repeat(width - cell.chars().count().min(*width));
            let (before, after) = if head.starts_with('>') { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        line.trim_end().to_owned()
    };
    let title = line(&mut (0..heads.len()).map(head));
    let title = if has_colours() { format!("\x1b[1m{title}\x1b[0m") } else { title };
    let body = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(title).chain(body).map(|line| line + "\n").collect()
}

/// `1 key`, `2 keys`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Bytes, short: `1.5 MiB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut tenths, mut unit) = (count, 0, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        tenths = (whole % 1024) * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 || whole >= 100 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenths} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "10".to_owned()], vec!["bcd".to_owned(), "7".to_owned()]];
        assert_eq!(table(&["NODE", ">KEYS"], &rows), "NODE  KEYS\na       10\nbcd      7\n");
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (150 << 20, "150 MiB"), (1 << 40, "1.0 TiB")];
        for (count, text) in sizes {
            assert_eq!(bytes(count), text);
        }
    }
}
