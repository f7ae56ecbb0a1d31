//! `help` at the prompt.

use std::fmt::Write as _;

use crate::cli::commands::{Entry, Table};

const GENERAL: &str = "\
help COMMAND           what a command does and takes
help @GROUP            the commands of a group: GROUPS
N COMMAND …            the command N times
ON ALL COMMAND …       the command at all nodes; ON PRIMARIES, ON NODE host:port
connect URL            another server; connect HOST PORT
:format FORMAT         human, raw, csv, json, quoted-json, table
:set hints             what a command takes is shown while it is typed; :set nohints
clear, exit, quit

Tab completes commands, options and keys; Ctrl-R looks for a line in the history. Ctrl-C takes a line back, or ends a command that runs.
Lines with passwords, and lines that begin with a blank, are not kept in the history.
";

/// The text for `help` and its arguments.
pub(super) fn text(table: &Table, words: &[Vec<u8>], has_colors: bool) -> String {
    let Some(first) = words.first() else {
        return GENERAL.replace("GROUPS", &table.groups().join(", "));
    };
    let first = String::from_utf8_lossy(first).into_owned();
    let style = Style { has_colors };
    if let Some(group) = first.strip_prefix('@') {
        let of_group: Vec<_> = table.iter().filter(|(_, entry)| entry.group.eq_ignore_ascii_case(group)).collect();
        let mut out = String::new();
        for (name, entry) in &of_group {
            let _ = writeln!(out, "{} {}\n  {}", style.bold(name), entry.syntax, entry.summary);
        }
        return if of_group.is_empty() { format!("no group {group:?}: {}\n", table.groups().join(", ")) } else { out };
    }
    let name = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    match table.find(words) {
        Some((name, entry, _)) => one(table, name, entry, &style),
        None => format!("no command {name:?}: Tab after its beginning lists commands\n"),
    }
}

fn one(table: &Table, name: &str, entry: &Entry, style: &Style) -> String {
    let mut out = format!("\n  {} {}\n", style.bold(name), entry.syntax);
    for (what, text) in [("summary", &entry.summary), ("since", &entry.since), ("group", &entry.group)] {
        if !text.is_empty() {
            let _ = writeln!(out, "  {what}: {text}");
        }
    }
    let subs = table.subcommands(name);
    if !subs.is_empty() {
        let _ = writeln!(out, "  subcommands: {}", subs.join(", "));
    }
    out.push('\n');
    out
}

struct Style {
    has_colors: bool,
}

impl Style {
    fn bold(&self, text: &str) -> String {
        if self.has_colors { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_groups_are_explained() {
        let table = Table::built_in();
        let of = |line: &str| text(&table, &line.split_whitespace().map(|word| word.into()).collect::<Vec<_>>(), false);
        assert!(of("").contains("help @GROUP") && of("").contains("sorted_set"));
        assert!(of("get").starts_with("\n  GET key\n  summary: "));
        assert!(of("config").contains("subcommands: GET, "));
        assert!(of("@hash").contains("HGET key field"));
        assert!(of("nonsense").starts_with("no command"));
    }
}
