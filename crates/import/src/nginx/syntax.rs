//! The syntax of nginx: words, `;`, and blocks in braces.

use crate::directive::{Directive, MAX_DEPTH};
use crate::model::ImportError;

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, ImportError> {
    let mut reader = Reader { chars: text.chars().peekable(), line: 1 };
    reader.block(0)
}

enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn wrong<T>(&self, message: &str) -> Result<T, ImportError> {
        Err(ImportError { line: self.line, message: message.to_owned() })
    }

    fn next(&mut self) -> Option<char> {
        let next = self.chars.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, ImportError> {
        if depth > MAX_DEPTH {
            return self.wrong("blocks are nested too deeply");
        }
        let mut all = Vec::new();
        let mut now: Option<Directive> = None;
        loop {
            match (self.token()?, now.take()) {
                (Token::Word(word), None) => {
                    now = Some(Directive { line: self.line, name: word, ..Directive::default() });
                }
                (Token::Word(word), Some(mut directive)) => {
                    directive.args.push(word);
                    now = Some(directive);
                }
                (Token::Semicolon, Some(directive)) => all.push(directive),
                (Token::Open, Some(mut directive)) => {
                    let block = match directive.name.ends_with("_by_lua_block") {
                        true => self.skip_block()?,
                        false => self.block(depth + 1)?,
                    };
                    directive.block = Some(block);
                    all.push(directive);
                }
                (Token::Close, None) if depth > 0 => return Ok(all),
                (Token::End, None) if depth == 0 => return Ok(all),
                (Token::End, _) => return self.wrong("the file ends within a block or a directive"),
                (Token::Semicolon | Token::Open, None) => return self.wrong("a directive is expected here"),
                (Token::Close, None) => return self.wrong("this brace closes nothing"),
                (Token::Close, Some(directive)) => {
                    return self.wrong(&format!("`{}` does not end with a semicolon", directive.label()));
                }
            }
        }
    }

    /// Passes over a block that is in another language.
    fn skip_block(&mut self) -> Result<Vec<Directive>, ImportError> {
        let mut open = 1_usize;
        while let Some(c) = self.next() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(Vec::new());
            }
        }
        self.wrong("the file ends within a block")
    }

    fn token(&mut self) -> Result<Token, ImportError> {
        loop {
            match self.chars.peek() {
                None => return Ok(Token::End),
                Some('#') => while self.next().is_some_and(|c| c != '\n') {},
                Some(c) if c.is_whitespace() || *c == '\u{feff}' => {
                    self.next();
                }
                Some(_) => break,
            }
        }
        match self.next() {
            None => Ok(Token::End),
            Some(';') => Ok(Token::Semicolon),
            Some('{') => Ok(Token::Open),
            Some('}') => Ok(Token::Close),
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some(first) => Ok(self.word(first)),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Token, ImportError> {
        let mut word = String::new();
        while let Some(c) = self.next() {
            match c {
                c if c == quote => return Ok(Token::Word(word)),
                '\\' => match self.next() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(c @ ('"' | '\'' | '\\')) => word.push(c),
                    Some(c) => word.extend(['\\', c]),
                    None => break,
                },
                c => word.push(c),
            }
        }
        self.wrong("the file ends within quotes")
    }

    /// A word ends at a space, a semicolon or an opening brace, but for that of `${name}` and one behind a backslash.
    fn word(&mut self, first: char) -> Token {
        let mut word = String::new();
        let mut last = first;
        loop {
            word.push(last);
            if last == '\\' {
                word.extend(self.next());
            }
            let is_variable = last == '$';
            match self.chars.peek() {
                Some(&c) if !c.is_whitespace() && c != ';' && (c != '{' || is_variable) => last = c,
                _ => return Token::Word(word),
            }
            self.next();
        }
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
    fn words_quotes_comments_and_blocks() {
        for (text, expected) in [
            ("a b;c;", r#"1:a["b"] 1:c[]"#),
            ("a \"b ; \\\" c\" 'd';", r#"1:a["b ; \" c", "d"]"#),
            ("# x {\nserver { # y\n listen 80; }", r#"2:server[]{3:listen["80"]}"#),
            ("a ${x}y;", r#"1:a["${x}y"]"#),
            ("location ~ \\.php$ { }", r#"1:location["~", "\\.php$"]{}"#),
            ("a\n  b\n  c;", r#"1:a["b", "c"]"#),
            ("content_by_lua_block { if x then { } end } a;", "1:content_by_lua_block[]{} 1:a[]"),
            ("\u{feff}a;", "1:a[]"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_nginx_is_named_by_its_line() {
        for (text, expected) in [
            ("a\nb", "2: the file ends within a block or a directive"),
            ("a;\n}", "2: this brace closes nothing"),
            ("s { a }", "1: `a` does not end with a semicolon"),
            (";", "1: a directive is expected here"),
            ("a \"", "1: the file ends within quotes"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert_eq!(shown(&"a{".repeat(100)), "1: blocks are nested too deeply");
    }
}
