//! The syntax of a Caddyfile: a directive is a line, its block begins with a brace at the end of the line.

use crate::directive::{Directive, MAX_DEPTH};
use crate::model::ImportError;

/// Reads a whole file. The addresses of a site are the name and the arguments of a directive; global options have no
/// name.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, ImportError> {
    let words = Lexer { chars: text.chars().peekable(), line: 1 }.words()?;
    let mut reader = Reader { words: &words, at: 0 };
    let all = reader.block(0)?;
    Ok(all)
}

/// A word of a line.
struct Word {
    line: usize,
    /// The line that it ends in: quotes may have several.
    end: usize,
    text: String,
    is_quoted: bool,
}

impl Word {
    fn is(&self, brace: &str) -> bool {
        !self.is_quoted && self.text == brace
    }
}

struct Lexer<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.chars.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
    }

    fn words(mut self) -> Result<Vec<Word>, ImportError> {
        let mut words: Vec<Word> = Vec::new();
        // Lines that a backslash joins count as one.
        let mut joined = 0;
        while let Some(&c) = self.chars.peek() {
            if c.is_whitespace() || c == '\u{feff}' {
                self.next();
                continue;
            }
            if c == '#' {
                while self.chars.peek().is_some_and(|c| *c != '\n') {
                    self.next();
                }
                continue;
            }
            let line = self.line;
            let (text, is_quoted) = match c {
                '"' | '`' => (self.quoted(c)?, true),
                _ => {
                    let word = self.word();
                    if word.is_empty() {
                        joined += 1;
                        continue;
                    }
                    match word.strip_prefix("<<").filter(|mark| !mark.is_empty()) {
                        Some(mark) => (self.heredoc(mark)?, true),
                        None => (word, false),
                    }
                }
            };
            let last = words.last().map_or(0, |word| word.end);
            let (line, end) = if joined > 0 && last + joined == line { (last, last) } else { (line, self.line) };
            if line != last {
                joined = 0;
            }
            words.push(Word { line, end, text, is_quoted });
        }
        Ok(words)
    }

    /// A word; empty for a backslash that joins lines.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.chars.peek() {
            if c.is_whitespace() {
                break;
            }
            self.next();
            if c == '\\' && self.chars.peek().is_some_and(|c| matches!(c, '\n' | '\r')) {
                while self.next().is_some_and(|c| c != '\n') {}
                break;
            }
            word.push(c);
        }
        word
    }

    fn quoted(&mut self, quote: char) -> Result<String, ImportError> {
        let line = self.line;
        self.next();
        let mut word = String::new();
        while let Some(c) = self.next() {
            match c {
                c if c == quote => return Ok(word),
                '\\' if quote == '"' && self.chars.peek() == Some(&'"') => word.extend(self.next()),
                c => word.push(c),
            }
        }
        Err(ImportError { line, message: "the file ends within quotes".to_owned() })
    }

    fn heredoc(&mut self, mark: &str) -> Result<String, ImportError> {
        let line = self.line;
        let mut text = String::new();
        while self.next().is_some_and(|c| c != '\n') {}
        while self.chars.peek().is_some() {
            let mut one = String::new();
            while let Some(c) = self.chars.next_if(|c| *c != '\n') {
                one.push(c);
            }
            if one.trim() == mark {
                return Ok(text);
            }
            self.next();
            text.push_str(&one);
            text.push('\n');
        }
        Err(ImportError { line, message: format!("{mark} does not come again") })
    }
}

struct Reader<'w> {
    words: &'w [Word],
    at: usize,
}

impl<'w> Reader<'w> {
    fn next(&mut self) -> Option<&'w Word> {
        let word = self.words.get(self.at);
        self.at += 1;
        word
    }

    /// Whether the next word stands in the same line.
    fn goes_on(&self, word: &Word) -> bool {
        self.words.get(self.at).is_some_and(|next| next.line == word.end)
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let mut all = Vec::new();
        while let Some(first) = self.next() {
            let wrong = |message: &str| Err(ImportError { line: first.line, message: message.to_owned() });
            if depth > MAX_DEPTH {
                return wrong("blocks are nested too deeply");
            }
            if first.is("}") {
                return if depth > 0 { Ok(all) } else { wrong("this brace closes nothing") };
            }
            let mut directive = Directive { line: first.line, ..Directive::default() };
            let mut word = first;
            loop {
                if word.is("{") && (!self.goes_on(word) || self.words.get(self.at).is_some_and(|next| next.is("}"))) {
                    directive.block = Some(self.block(depth + 1)?);
                    break;
                }
                match directive.name.is_empty() && directive.args.is_empty() && std::ptr::eq(word, first) {
                    true => directive.name.clone_from(&word.text),
                    false => directive.args.push(word.text.clone()),
                }
                // Addresses of a site go on in the next line behind a comma.
                let is_open = depth == 0 && !word.is_quoted && word.text.ends_with(',');
                if !self.goes_on(word) && !is_open {
                    break;
                }
                match self.next() {
                    Some(next) => word = next,
                    None => break,
                }
            }
            all.push(directive);
        }
        if depth > 0 {
            let line = self.words.last().map_or(1, |word| word.line);
            return Err(ImportError { line, message: "the file ends within a block".to_owned() });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        fn of(all: &[Directive]) -> String {
            let one = |d: &Directive| {
                let block = d.block.as_ref().map_or(String::new(), |block| format!("{{{}}}", of(block)));
                format!("{}:{}{:?}{block}", d.line, d.name, d.args)
            };
            all.iter().map(one).collect::<Vec<_>>().join(" ")
        }
        match parse(text) {
            Ok(all) => of(&all),
            Err(error) => format!("{}: {}", error.line, error.message),
        }
    }

    #[test]
    fn lines_quotes_comments_and_blocks() {
        for (text, expected) in [
            ("a.example\nreverse_proxy :3000", r#"1:a.example[] 2:reverse_proxy[":3000"]"#),
            ("{\n email a@b\n}", r#"1:[]{2:email["a@b"]}"#),
            ("a,\nb {\n respond \"x # y\" # z\n}", r#"1:a,["b"]{3:respond["x # y"]}"#),
            ("a {\n header X `\"{\"`\n}", r#"1:a[]{2:header["X", "\"{\""]}"#),
            ("a {\n x 1 \\\n   2\n y\n}", r#"1:a[]{2:x["1", "2"] 4:y[]}"#),
            ("a { }\nb {\n}", "1:a[]{} 2:b[]{}"),
            ("x {\n respond <<END\n  hi }\n END\n y\n}", r#"1:x[]{2:respond["  hi }\n"] 5:y[]}"#),
            ("a {\n redir https://b{uri}\n}", r#"1:a[]{2:redir["https://b{uri}"]}"#),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_caddyfile_is_named_by_its_line() {
        for (text, expected) in [
            ("a {\n b", "2: the file ends within a block"),
            ("a\n}", "2: this brace closes nothing"),
            ("a \"b\n", "1: the file ends within quotes"),
            ("a <<X\n b\n", "1: X does not come again"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert!(shown(&"a {\n".repeat(100)).ends_with("blocks are nested too deeply"));
    }
}
