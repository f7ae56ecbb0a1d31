//! Lines as words, by the quoting of `redis-cli`, and bytes as quoted text. Pure.

/// One word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// What it means, without quotes and escapes.
    pub(crate) bytes: Vec<u8>,
    /// Where it begins in the line, its quote included.
    pub(crate) start: usize,
}

/// A quote is not closed, or something follows a closing quote at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at column {column})")]
pub(crate) struct QuoteError {
    what: &'static str,
    /// Where the quote begins, counted in bytes from 1.
    column: usize,
}

/// Splits a line at blanks. Within `"…"`, `\n \r \t \b \a \xHH` are what they are in C, and any other escaped byte is
/// itself; within `'…'` only `\'` is.
pub(crate) fn split(line: &[u8]) -> Result<Vec<Word>, QuoteError> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_blank(*byte)) {
            at += 1;
        }
        if at >= line.len() {
            return Ok(words);
        }
        let mut word = Word { bytes: Vec::new(), start: at };
        at = take(line, at, &mut word.bytes)?;
        words.push(word);
    }
}

/// The words alone.
pub(crate) fn split_bytes(line: &[u8]) -> Result<Vec<Vec<u8>>, QuoteError> {
    Ok(split(line)?.into_iter().map(|word| word.bytes).collect())
}

/// Splits the beginning of a line that is still being typed: an open quote ends with the line. The last word is empty
/// if a blank precedes the end.
pub(crate) fn split_unfinished(line: &str) -> Vec<Word> {
    let bytes = line.as_bytes();
    let mut words = match split(bytes) {
        Ok(words) => words,
        Err(_) => {
            let closed = |quote: &str| split(format!("{line}{quote}").as_bytes());
            closed("\"").or_else(|_| closed("'")).unwrap_or_else(|_| blank_separated(bytes))
        }
    };
    let is_between = bytes.last().is_none_or(|byte| is_blank(*byte)) && split(bytes).is_ok();
    if is_between {
        words.push(Word { bytes: Vec::new(), start: bytes.len() });
    }
    words
}

/// Words without any quoting, for lines whose quotes are wrong.
pub(crate) fn blank_separated(line: &[u8]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = 0;
    for part in line.split(|byte| is_blank(*byte)) {
        if !part.is_empty() {
            words.push(Word { bytes: part.to_vec(), start });
        }
        start += part.len() + 1;
    }
    words
}

/// Bytes in double quotes, everything that is not printable ASCII escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    escape(&mut out, bytes);
    out.push('"');
    out
}

/// The same without the quotes around it.
pub(crate) fn escape(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'"' => out.push_str("\\\""),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x07 => out.push_str("\\a"),
            0x08 => out.push_str("\\b"),
            0x20..=0x7e => out.push(char::from(*byte)),
            other => {
                out.push_str("\\x");
                out.push(hex_digit(other >> 4));
                out.push(hex_digit(other & 15));
            }
        }
    }
}

/// Bytes as a word that may be typed: quoted only where they have to be.
pub(crate) fn typed(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.is_empty() && bytes.iter().all(|byte| plain(byte) || *byte >= 0x80) => text.to_owned(),
        _ => quoted(bytes),
    }
}

/// Takes one word from `at` on, and says where it ends.
fn take(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, QuoteError> {
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' | b'\'' => return take_quoted(line, at, byte, out),
            byte if is_blank(byte) => break,
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(at)
}

fn take_quoted(line: &[u8], open: usize, quote: u8, out: &mut Vec<u8>) -> Result<usize, QuoteError> {
    let error = |what| QuoteError { what, column: open + 1 };
    let mut at = open + 1;
    loop {
        let Some(&byte) = line.get(at) else { return Err(error("a quote is not closed")) };
        if byte == quote {
            return match line.get(at + 1) {
                Some(next) if !is_blank(*next) => Err(error("a closing quote is to be followed by a blank")),
                _ => Ok(at + 1),
            };
        }
        let (decoded, length) = match (byte, line.get(at + 1)) {
            (b'\\', Some(&escaped)) if quote == b'"' => escape_of(escaped, line.get(at + 2..at + 4)),
            (b'\\', Some(b'\'')) => (b'\'', 2),
            _ => (byte, 1),
        };
        out.push(decoded);
        at += length;
    }
}

fn escape_of(escaped: u8, following: Option<&[u8]>) -> (u8, usize) {
    match (escaped, following) {
        (b'x', Some(&[high, low])) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex_value(high) << 4 | hex_value(low), 4)
        }
        (b'n', _) => (b'\n', 2),
        (b'r', _) => (b'\r', 2),
        (b't', _) => (b'\t', 2),
        (b'b', _) => (0x08, 2),
        (b'a', _) => (0x07, 2),
        (other, _) => (other, 2),
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0)
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

fn hex_digit(value: u8) -> char {
    char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&[u8]]) {
        assert_eq!(split_bytes(line.as_bytes()).unwrap(), expected, "{line}");
    }

    #[test]
    fn quotes_are_those_of_redis_cli() {
        check("", &[]);
        check("  set  a\tb\r\n", &[b"set", b"a", b"b"]);
        check(r#"set "a b" 'c d'"#, &[b"set", b"a b", b"c d"]);
        check(r#""\x41\xff\n\r\t\b\a\q\"" x"#, &[b"A\xff\n\r\t\x08\x07q\"", b"x"]);
        check(r#"'\x41 \' "'"#, &[br#"\x41 ' ""#]);
        check(r#"a"b c" '' """#, &[b"ab c", b"", b""]);
        check(r#""\x4""#, &[b"x4"]);
        for wrong in [r#"a "b"#, "a 'b", r#""a"b"#, "'a'b", r#""\"#] {
            assert!(split(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(split(b"get \"a").unwrap_err().to_string(), "a quote is not closed (at column 5)");
    }

    #[test]
    fn what_is_quoted_reads_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split_bytes(quoted(&all).as_bytes()).unwrap(), [all]);
        assert_eq!(quoted(b"a\"\\\x00\xff\n"), r#""a\"\\\x00\xff\n""#);
        for bytes in ["", "a", "a b", "\u{e9}", "a\"b", "'"] {
            assert_eq!(split_bytes(typed(bytes.as_bytes()).as_bytes()).unwrap(), [bytes.as_bytes()], "{bytes}");
        }
    }

    #[test]
    fn an_unfinished_line_has_a_last_word() {
        let last = |line| split_unfinished(line).pop().map(|word| (word.bytes, word.start));
        assert_eq!(last(""), Some((vec![], 0)));
        assert_eq!(last("get"), Some((b"get".to_vec(), 0)));
        assert_eq!(last("get "), Some((vec![], 4)));
        assert_eq!(last("get us"), Some((b"us".to_vec(), 4)));
        assert_eq!(last("get \"a b"), Some((b"a b".to_vec(), 4)));
        assert_eq!(last("get 'a "), Some((b"a ".to_vec(), 4)));
    }
}
