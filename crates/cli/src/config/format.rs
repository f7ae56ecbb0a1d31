//! The layout of the file: one space around `=`, none inside of brackets, one empty line at most and one before each
//! heading, lists that go over several lines indented by two. Comments stay where they are, those behind a value in
//! their column where there is room. Strings, numbers and the order of everything are left alone. Pure.
//!
//! Invariant: what is given out means what was given in, and has the same comments, or nothing is given out.

use toml::Table;
use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

/// Spaces for each bracket that is open.
const INDENT: usize = 2;

/// Why a text was not formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It is not TOML.
    #[error("the file is not TOML")]
    Syntax,
    /// The formatted text would not say the same: a mistake of ours.
    #[error("the formatted file would not say the same")]
    Changed,
}

/// Formats a text.
///
/// # Errors
/// The text is not TOML.
pub fn format(text: &str) -> Result<String, FormatError> {
    let meaning: Table = toml::from_str(text).map_err(|_| FormatError::Syntax)?;
    let formatted = spaced(lines(text));
    let same = toml::from_str::<Table>(&formatted).is_ok_and(|after| after == meaning);
    if !same || comments(text) != comments(&formatted) {
        return Err(FormatError::Changed);
    }
    Ok(formatted)
}

/// A line of the result. A text of several lines is within one.
struct Line {
    kind: LineKind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Empty,
    Comment,
    Heading,
    /// A key with its value, or a part of the value.
    Content,
}

fn comments(text: &str) -> Vec<&str> {
    let source = Source::new(text);
    let of_comment = |token: Token| {
        let span = token.span();
        (token.kind() == TokenKind::Comment).then(|| text[span.start()..span.end()].trim_end())
    };
    source.lex().filter_map(of_comment).collect()
}

fn lines(text: &str) -> Vec<Line> {
    let mut writer = Writer { text, lines: Vec::new(), line: Parts::default(), open: 0, in_value: false };
    for token in Source::new(text).lex() {
        writer.take(token);
    }
    if !writer.line.text.is_empty() {
        writer.end_line();
    }
    writer.lines
}

/// The line that is being written.
#[derive(Default)]
struct Parts {
    text: String,
    last: Option<TokenKind>,
    /// Whether white space stood before the token that comes.
    spaced: bool,
    is_comment: bool,
    is_heading: bool,
}

struct Writer<'a> {
    text: &'a str,
    lines: Vec<Line>,
    line: Parts,
    /// Brackets and braces of values that are open.
    open: usize,
    /// Behind the `=` of the line, or of the one that its list began in.
    in_value: bool,
}

impl Writer<'_> {
    fn take(&mut self, token: Token) {
        let written = &self.text[token.span().start()..token.span().end()];
        match token.kind() {
            TokenKind::Whitespace => {
                self.line.spaced = true;
                return;
            }
            TokenKind::Newline => {
                self.end_line();
                return;
            }
            TokenKind::Eof => return,
            TokenKind::Comment => self.comment(token.span().start(), written.trim_end()),
            kind => self.token(kind, written),
        }
        self.line.last = Some(token.kind());
        self.line.spaced = false;
    }

    fn token(&mut self, kind: TokenKind, written: &str) {
        let closes = matches!(kind, TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket);
        if self.in_value && closes {
            self.open = self.open.saturating_sub(1);
        }
        match self.line.last {
            None => self.line.text.push_str(&" ".repeat(INDENT * self.open)),
            Some(last) if self.needs_space(last, kind) => self.line.text.push(' '),
            Some(_) => {}
        }
        if self.line.last.is_none() && !self.in_value && kind == TokenKind::LeftSquareBracket {
            self.line.is_heading = true;
        }
        if self.in_value && matches!(kind, TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket) {
            self.open += 1;
        }
        if kind == TokenKind::Equals {
            self.in_value = true;
        }
        self.line.text.push_str(written);
    }

    fn needs_space(&self, last: TokenKind, next: TokenKind) -> bool {
        use TokenKind::{
            Comma, Dot, Equals, LeftCurlyBracket, LeftSquareBracket, RightCurlyBracket, RightSquareBracket,
        };
        if self.line.is_heading {
            return false;
        }
        match (last, next) {
            (LeftCurlyBracket, RightCurlyBracket) | (_, Comma | Dot | RightSquareBracket) => false,
            (Dot | LeftSquareBracket, _) => false,
            (Equals | Comma | LeftCurlyBracket, _) | (_, Equals | RightCurlyBracket) => true,
            // A date and its time.
            _ => self.line.spaced,
        }
    }

    /// Behind a value it keeps its column, where there is room.
    fn comment(&mut self, start: usize, written: &str) {
        if self.line.last.is_none() {
            self.line.is_comment = true;
            self.line.text.push_str(&" ".repeat(INDENT * self.open));
        } else {
            let line_start = self.text[..start].rfind('\n').map_or(0, |end| end + 1);
            let column = self.text[line_start..start].chars().count();
            let here = self.line.text.rsplit('\n').next().unwrap_or_default().chars().count();
            self.line.text.push_str(&" ".repeat(column.saturating_sub(here).max(1)));
        }
        self.line.text.push_str(written);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let kind = match line.last {
            None => LineKind::Empty,
            Some(_) if line.is_comment && self.open == 0 => LineKind::Comment,
            Some(_) if line.is_heading => LineKind::Heading,
            Some(_) => LineKind::Content,
        };
        self.in_value = self.open > 0;
        self.lines.push(Line { kind, text: line.text });
    }
}

/// The lines as one text, with empty ones where they belong.
fn spaced(lines: Vec<Line>) -> String {
    let mut kept: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        match line.kind {
            LineKind::Empty if kept.last().is_none_or(|last| last.kind == LineKind::Empty) => continue,
            LineKind::Heading => {
                // Comments right above a heading are its own.
                let own = kept.iter().rev().take_while(|line| line.kind == LineKind::Comment).count();
                let at = kept.len() - own;
                if at > 0 && kept[at - 1].kind != LineKind::Empty {
                    kept.insert(at, Line { kind: LineKind::Empty, text: String::new() });
                }
            }
            _ => {}
        }
        kept.push(line);
    }
    while kept.last().is_some_and(|line| line.kind == LineKind::Empty) {
        kept.pop();
    }
    kept.into_iter().map(|line| line.text + "\n").collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(format(text).as_deref(), Ok(expected), "{text}");
        assert_eq!(format(expected).as_deref(), Ok(expected), "not a fixed point");
    }

    #[test]
    fn spaces_and_empty_lines() {
        check("\n\na=1\n\n\n\nb  =   2", "a = 1\n\nb = 2\n");
        check("  a.b = { x=1,y = [ 1,2 ] , z={} }\n", "a.b = { x = 1, y = [1, 2], z = {} }\n");
        check("a=1\n[ b . \"c d\" ]\nx=1\n  [[ r ]]\n", "a = 1\n\n[b.\"c d\"]\nx = 1\n\n[[r]]\n");
        check("a=1.5\nd = 1979-05-27 07:32:00\r\ne=-1\n", "a = 1.5\nd = 1979-05-27 07:32:00\ne = -1\n");
        check("", "");
        check("\n", "");
    }

    #[test]
    fn comments_stay_with_what_they_are_about() {
        check("a=1 # one  \n# two\n[b]\n", "a = 1 # one\n\n# two\n[b]\n");
        check("# top\n[b]\n", "# top\n[b]\n");
        check("dev = true      # x\nlonger = 1 # y\n", "dev = true      # x\nlonger = 1 # y\n");
        check("dev=true       # x\n", "dev = true     # x\n");
    }

    #[test]
    fn lists_over_several_lines() {
        check(
            "a = [\n1, # one\n    # two\n      [2,\n3],\n   ]\nb=1\n",
            "a = [\n  1, # one\n  # two\n  [2,\n    3],\n]\nb = 1\n",
        );
        check("a = \"\"\"x\n   y\"\"\"   # z\n", "a = \"\"\"x\n   y\"\"\"   # z\n");
    }

    #[test]
    fn what_is_no_toml_is_refused() {
        for text in ["a = ", "a = 1 2", "[a", "a: 1", "a = \"x", "= 1", "a = [1"] {
            assert_eq!(format(text), Err(FormatError::Syntax), "{text}");
        }
    }

    #[test]
    fn our_own_files_are_laid_out_so() {
        for text in [include_str!("../starter.toml"), include_str!("../../../../pilotlight.toml")] {
            assert_eq!(format(text).unwrap(), text);
        }
    }

    /// Pieces of files, in any order: many of them are TOML.
    fn file() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("a"),
            Just("b.c"),
            Just("\"d e\""),
            Just(" = "),
            Just("="),
            Just("1"),
            Just("\"x # y\""),
            Just("'z'"),
            Just("[1, 2]"),
            Just("[\n"),
            Just("]"),
            Just("{ x = 1 }"),
            Just("{"),
            Just("}"),
            Just(","),
            Just("\n"),
            Just("\n\n\n"),
            Just("  "),
            Just("\t"),
            Just("# c \n"),
            Just("\n[t]\n"),
            Just("\n[[r]] # d\n"),
            Just("\r\n"),
            Just("\"\"\"m\n n\"\"\""),
            Just("1979-05-27 07:32:00"),
            Just("k1=1\n"),
            Just("k2 = [ 1,\n# c\n 2 ]\n"),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn twice_is_once(text in file()) {
            match format(&text) {
                Ok(once) => prop_assert_eq!(format(&once), Ok(once)),
                Err(why) => prop_assert_eq!(why, FormatError::Syntax),
            }
        }

        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            prop_assert_ne!(format(&text), Err(FormatError::Changed));
        }
    }
}
