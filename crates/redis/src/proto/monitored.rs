//! What `MONITOR` says of one command: `1339518083.107412 [0 127.0.0.1:60866] "set" "a" "\x00"`.

use std::time::Duration;

use bytes::Bytes;

/// One command as `MONITOR` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Monitored {
    /// When the server ran it: time since 1970, by the server's clock.
    pub at: Duration,
    /// The database that was selected.
    pub database: u16,
    /// Who sent it: `host:port`, `unix:` and a path, or `lua` for a script.
    pub source: Box<str>,
    /// Its words, the name first, spelt as they were sent. Servers leave out those of `AUTH`, and some other secrets.
    pub words: Vec<Bytes>,
}

impl Monitored {
    /// Reads one line; `None`: it is none of `MONITOR`.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let (at, rest) = split_at(line, b" [")?;
        let (origin, words) = split_at(rest, b"] ")?;
        let (seconds, micros) = std::str::from_utf8(at).ok()?.split_once('.')?;
        let (database, source) = std::str::from_utf8(origin).ok()?.split_once(' ')?;
        Some(Self {
            at: Duration::from_secs(seconds.parse().ok()?) + Duration::from_micros(micros.parse().ok()?),
            database: database.parse().ok()?,
            source: source.into(),
            words: read_words(words)?,
        })
    }
}

fn split_at<'l>(line: &'l [u8], mark: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let at = memchr::memmem::find(line, mark)?;
    Some((&line[..at], &line[at + mark.len()..]))
}

/// Words in quotes with blanks between them. `(redacted)` stands in quotes, too.
fn read_words(mut rest: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    while let Some(quoted) = rest.strip_prefix(b"\"") {
        let (word, after) = read_word(quoted)?;
        words.push(word);
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
    rest.is_empty().then_some(words)
}

/// A word up to its closing quote, as the servers' `sdscatrepr` writes it, and what follows it.
fn read_word(mut rest: &[u8]) -> Option<(Bytes, &[u8])> {
    let mut word = Vec::new();
    loop {
        let (&first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((word.into(), rest)),
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b'x' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
                    }
                    itself => itself,
                });
            }
            byte => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, source: &str, words: &[&[u8]]) {
        let read = Monitored::read(line.as_bytes()).unwrap();
        assert_eq!((read.at, read.database), (Duration::new(1_339_518_083, 107_412_000), 3));
        assert_eq!(
            (&*read.source, read.words),
            (source, words.iter().map(|word| Bytes::copy_from_slice(word)).collect())
        );
    }

    #[test]
    fn commands_of_all_sources() {
        check(r#"1339518083.107412 [3 127.0.0.1:60866] "set" "a" """#, "127.0.0.1:60866", &[b"set", b"a", b""]);
        check(r#"1339518083.107412 [3 [::1]:60866] "PING""#, "[::1]:60866", &[b"PING"]);
        check(r#"1339518083.107412 [3 unix:/run/a b.sock] "PING""#, "unix:/run/a b.sock", &[b"PING"]);
        check(r#"1339518083.107412 [3 lua] "get" "] \"[""#, "lua", &[b"get", b"] \"["]);
    }

    #[test]
    fn any_byte() {
        let quoted = r#""\x00\xff\n\r\t\a\b\\\" \x7f""#;
        check(
            &format!("1339518083.107412 [3 lua] \"set\" {quoted}"),
            "lua",
            &[b"set", b"\0\xff\n\r\t\x07\x08\\\" \x7f"],
        );
    }

    #[test]
    fn anything_else_is_none() {
        for line in [
            "",
            "OK",
            "1.2 [0 a]",
            "x.2 [0 a] \"b\"",
            "1.2 [0 a] b",
            "1.2 [0 a] \"b",
            r#"1.2 [0 a] "\x0"#,
            "1.2 [x a] \"b\"",
        ] {
            assert_eq!(Monitored::read(line.as_bytes()), None, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>, tail: Vec<u8>) {
            Monitored::read(&line);
            Monitored::read(&[b"1.2 [0 a] \"".as_slice(), &tail].concat());
        }
    }
}
