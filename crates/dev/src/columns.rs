//! Lines of several services, side by side: a column of names, each in a colour of its own, and what they printed.

use std::fmt::Write;

use pilotlight_printable::printable;

/// The least room for a text beside the names; in a narrower terminal lines are not cut into pieces.
const MIN_TEXT: usize = 20;
/// Most places of the column of names.
const MAX_NAME: usize = 20;
/// Most pieces of one line; what is left is for `pilotlight logs`.
const MAX_PIECES: usize = 64;

/// Colours that are read well on black and on white, as numbers of SGR (ECMA-48 §8.3.117). Red is for errors.
const SERVICE_COLOURS: [u8; 6] = [36, 35, 33, 32, 34, 96];
const RED: u8 = 31;

/// Whether escape sequences are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Yes.
    On,
    /// No: it is no terminal, or `NO_COLOR` is set (<https://no-color.org>).
    Off,
}

/// How lines are laid out.
#[derive(Clone, Debug)]
pub struct Columns {
    colours: Colours,
    /// Places for a name.
    name: usize,
    names: Vec<String>,
}

impl Columns {
    /// For services of these names, which get their colours in this order.
    #[must_use]
    pub fn new(names: Vec<String>, colours: Colours) -> Self {
        let name = names.iter().map(|name| places(name)).max().unwrap_or(0).clamp(4, MAX_NAME);
        Self { colours, name, names }
    }

    /// A line that a service printed, with its line end, for a terminal of `width` places; `None`: it is no terminal,
    /// and the line stays whole.
    #[must_use]
    pub fn line(&self, service: &str, text: &str, width: Option<usize>) -> String {
        let index = self.names.iter().position(|name| name == service).unwrap_or(self.names.len());
        self.laid_out(service, SERVICE_COLOURS[index % SERVICE_COLOURS.len()], text, width)
    }

    /// A line of `pilotlight dev` itself.
    #[must_use]
    pub fn own(&self, text: &str, width: Option<usize>) -> String {
        self.laid_out("dev", 2, text, width)
    }

    /// A line of `pilotlight dev` about what went wrong.
    #[must_use]
    pub fn error(&self, text: &str, width: Option<usize>) -> String {
        self.laid_out("dev", RED, text, width)
    }

    fn laid_out(&self, name: &str, colour: u8, text: &str, width: Option<usize>) -> String {
        let (name, text) = (printable(name), printable(text));
        let (name, text) = (cut(&name, self.name), text.replace('\t', "    "));
        let gap = " ".repeat(self.name.saturating_sub(places(name)));
        let (on, off) = match self.colours {
            Colours::On => (format!("\x1b[{colour}m"), "\x1b[0m"),
            Colours::Off => (String::new(), ""),
        };
        let room = width.and_then(|width| width.checked_sub(self.name + 3)).filter(|room| *room >= MIN_TEXT);
        let (mut out, mut rest, mut pieces) = (String::with_capacity(text.len() + 64), text.as_str(), 0);
        loop {
            let piece = room.map_or(rest, |room| cut(rest, room));
            rest = &rest[piece.len()..];
            // Writing to a String cannot fail.
            let _ = match pieces {
                0 => writeln!(out, "{on}{name}{gap} |{off} {piece}"),
                MAX_PIECES => writeln!(out, "{on}{:width$} |{off} …", "", width = self.name),
                _ => writeln!(out, "{on}{:width$} |{off} {piece}", "", width = self.name),
            };
            pieces += 1;
            if rest.is_empty() || pieces > MAX_PIECES {
                return out;
            }
        }
    }
}

/// As much of the text as fits.
fn cut(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += places_of(character);
        if used > room && at > 0 {
            return &text[..at];
        }
    }
    text
}

fn places(text: &str) -> usize {
    text.chars().map(places_of).sum()
}

/// Wide characters have two places; whatever might be one counts as one, as a line that is too short does no harm.
fn places_of(character: char) -> usize {
    if character >= '\u{1100}' && !('\u{2000}'..='\u{2e7f}').contains(&character) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(colours: Colours) -> Columns {
        Columns::new(vec!["web".to_owned(), "worker".to_owned()], colours)
    }

    #[test]
    fn names_stand_in_a_column() {
        let columns = columns(Colours::Off);
        assert_eq!(columns.line("web", "hello", None), "web    | hello\n");
        assert_eq!(columns.line("worker", "a\tb", None), "worker | a    b\n");
        assert_eq!(columns.own("ready", None), "dev    | ready\n");
        assert_eq!(
            columns.line("web", &"x".repeat(25), Some(30)),
            format!("web    | {}\n       | {}\n", "x".repeat(21), "x".repeat(4))
        );
    }

    #[test]
    fn each_service_has_its_colour_and_none_off_a_terminal() {
        let on = columns(Colours::On);
        assert_eq!(on.line("web", "x", None), "\x1b[36mweb    |\x1b[0m x\n");
        assert_eq!(on.line("worker", "x", None), "\x1b[35mworker |\x1b[0m x\n");
        assert!(!columns(Colours::Off).line("web", "\x1b[31mred", None).contains('\x1b'));
    }

    #[test]
    fn a_line_without_end_has_one() {
        let line = columns(Colours::Off).line("web", &"x".repeat(100_000), Some(40));
        assert_eq!(line.lines().count(), MAX_PIECES + 1);
        assert!(line.ends_with("| …\n"));
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_the_terminal(text in "\\PC{0,200}", width in 40_usize..120) {
            for line in columns(Colours::Off).line("web", &text, Some(width)).lines() {
                prop_assert!(places(line) <= width);
            }
        }
    }
}
