//! JSON with the line of each value, and comments as Unit allows them. Bounded in depth.

/// Values within values.
const MAX_DEPTH: usize = 64;

/// A value and the line that it begins in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Json {
    pub(crate) line: usize,
    pub(crate) value: Kind,
}

/// What it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    Truth(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Table(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn table(&self) -> &[(String, Json)] {
        match &self.value {
            Kind::Table(table) => table,
            _ => &[],
        }
    }

    pub(crate) fn list(&self) -> &[Json] {
        match &self.value {
            Kind::List(list) => list,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        match self.value {
            Kind::Number(number) if (0.0..1e15).contains(&number) => Some(number as u64),
            _ => None,
        }
    }

    /// A text, or the texts of a list.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.text().into_iter().chain(self.list().iter().filter_map(Json::text)).collect()
    }
}

/// Reads a text, or says in which line it is no JSON.
pub(crate) fn parse(text: &str) -> Result<Json, usize> {
    let mut reader = Reader { text, at: 0, line: 1 };
    let value = reader.value(0).ok_or(reader.line)?;
    reader.blank();
    if reader.at == text.len() { Ok(value) } else { Err(reader.line) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) {
        let passed = self.text.get(self.at..self.at + bytes).unwrap_or_default();
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at += bytes;
    }

    fn blank(&mut self) {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len()
            };
            if length == 0 {
                return;
            }
            self.skip(length);
        }
    }

    fn take(&mut self, word: &str) -> bool {
        self.blank();
        let is_next = self.rest().starts_with(word);
        if is_next {
            self.skip(word.len());
        }
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.blank();
        if depth > MAX_DEPTH {
            return None;
        }
        let line = self.line;
        let value = match self.rest().chars().next()? {
            '{' => self.table(depth)?,
            '[' => self.list(depth)?,
            '"' => Kind::Text(self.string()?),
            't' => self.take("true").then_some(Kind::Truth(true))?,
            'f' => self.take("false").then_some(Kind::Truth(false))?,
            'n' => self.take("null").then_some(Kind::Null)?,
            _ => {
                let rest = self.rest();
                let end = rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
                let number = rest[..end].parse().ok()?;
                self.skip(end);
                Kind::Number(number)
            }
        };
        Some(Json { line, value })
    }

    fn table(&mut self, depth: usize) -> Option<Kind> {
        self.skip(1);
        let mut table = Vec::new();
        if self.take("}") {
            return Some(Kind::Table(table));
        }
        loop {
            self.blank();
            let name = self.string()?;
            if !self.take(":") {
                return None;
            }
            table.push((name, self.value(depth + 1)?));
            if !self.take(",") {
                return self.take("}").then_some(Kind::Table(table));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Kind> {
        self.skip(1);
        let mut list = Vec::new();
        if self.take("]") {
            return Some(Kind::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            if !self.take(",") {
                return self.take("]").then_some(Kind::List(list));
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let rest = self.rest().strip_prefix('"')?;
        let (mut text, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next()? {
                (end, '"') => break end,
                (_, '\\') => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'u' => {
                        let code: String = (0..4).filter_map(|_| chars.next()).map(|(_, c)| c).collect();
                        text.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?).unwrap_or('\u{FFFD}'));
                    }
                    'b' | 'f' | 'r' => {}
                    c => text.push(c),
                },
                (_, '\n') => return None,
                (_, c) => text.push(c),
            }
        };
        self.skip(end + 2);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_their_lines() {
        let read = parse("// c\n{ \"a\": [1, true],\n/* d\n */ \"b\\u0041\": \"x\\ny\" }\n").unwrap();
        assert_eq!(read.line, 2);
        let [(a, list), (b, text)] = read.table() else { panic!("{read:?}") };
        assert_eq!((a.as_str(), list.line, list.list()[0].number()), ("a", 2, Some(1)));
        assert_eq!((b.as_str(), text.line, text.text()), ("bA", 4, Some("x\ny")));
    }

    #[test]
    fn what_is_no_json_has_a_line() {
        for (text, line) in [("", 1), ("{", 1), ("{\n\"a\" 1}", 2), ("[1,]", 1), ("{} x", 1), ("\"a", 1), ("tru", 1)] {
            assert_eq!(parse(text), Err(line), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
