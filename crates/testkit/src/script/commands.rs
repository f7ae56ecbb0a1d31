//! A client's bytes, in any chunks, as commands.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

/// As Redis: `proto-max-bulk-len`, and its limit of words in a command.
const MAX_WORD_BYTES: usize = 512 << 20;
const MAX_WORDS: usize = 1 << 20;
/// Redis: `PROTO_INLINE_MAX_SIZE`.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Bytes that are no command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadCommand(pub(super) String);

#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) buffer: BytesMut,
    /// Below so many bytes it is no use to look again.
    wanted: usize,
}

impl Commands {
    /// Takes the next command off the buffer, if it is whole.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Bytes>>, BadCommand> {
        if self.buffer.len() < self.wanted {
            return Ok(None);
        }
        let mut cursor = Cursor { bytes: &self.buffer, at: 0 };
        let words = match cursor.command() {
            Ok(words) => words,
            Err(Stop::Incomplete { wanted }) => {
                self.wanted = wanted;
                return Ok(None);
            }
            Err(Stop::Bad(what)) => return Err(BadCommand(what)),
        };
        let end = cursor.at;
        let whole = self.buffer.split_to(end).freeze();
        self.wanted = 0;
        Ok(Some(words.into_iter().map(|(start, end)| whole.slice(start..end)).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.buffer.has_remaining()
    }
}

enum Stop {
    Incomplete { wanted: usize },
    Bad(String),
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    /// Where the words of a command are.
    fn command(&mut self) -> Result<Vec<(usize, usize)>, Stop> {
        let start = self.at;
        let line = self.line()?;
        let Some(count) = line.strip_prefix(b"*") else { return Ok(inline_words(start, line)) };
        let count = number(count, MAX_WORDS)?;
        (0..count).map(|_| self.word()).collect()
    }

    fn word(&mut self) -> Result<(usize, usize), Stop> {
        let line = self.line()?;
        let length =
            line.strip_prefix(b"$").ok_or_else(|| Stop::Bad(format!("{:?}", line.escape_ascii().to_string())))?;
        let start = self.at;
        let end = start + number(length, MAX_WORD_BYTES)?;
        if self.bytes.len() < end + 2 {
            return Err(Stop::Incomplete { wanted: end + 2 });
        }
        if &self.bytes[end..end + 2] != b"\r\n" {
            return Err(Stop::Bad("a word that is longer than its length".to_owned()));
        }
        self.at = end + 2;
        Ok((start, end))
    }

    fn line(&mut self) -> Result<&'b [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let Some(end) = memchr(b'\n', rest) else {
            if rest.len() > MAX_LINE_BYTES {
                return Err(Stop::Bad("a line without an end".to_owned()));
            }
            return Err(Stop::Incomplete { wanted: self.bytes.len() + 1 });
        };
        self.at += end + 1;
        Ok(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }
}

fn number(digits: &[u8], max: usize) -> Result<usize, Stop> {
    let number =
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).filter(|number| *number <= max);
    number.ok_or_else(|| Stop::Bad(format!("the number \"{}\"", digits.escape_ascii())))
}

/// `PING` as typed by hand: words between spaces.
fn inline_words(start: usize, line: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut at = start;
    for word in line.split(|byte| *byte == b' ') {
        if !word.is_empty() {
            words.push((at, at + word.len()));
        }
        at += word.len() + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\nPING  x\r\n";

    fn read_in_chunks(input: &[u8], chunk: usize) -> Vec<Vec<Bytes>> {
        let mut commands = Commands::default();
        let mut read = Vec::new();
        for part in input.chunks(chunk) {
            commands.buffer.extend_from_slice(part);
            while let Some(words) = commands.next().unwrap() {
                read.push(words);
            }
        }
        assert!(commands.is_empty());
        read
    }

    #[test]
    fn any_chunking_reads_the_same() {
        for chunk in 1..=TWO.len() {
            let read = read_in_chunks(TWO, chunk);
            assert_eq!(read, [vec!["GET".as_bytes(), b"a\r\nb"], vec![b"PING", b"x"]], "chunks of {chunk}");
        }
    }

    #[test]
    fn an_empty_word_and_no_words() {
        assert_eq!(read_in_chunks(b"*1\r\n$0\r\n\r\n*0\r\n", 1), [vec![Bytes::new()], vec![]]);
    }

    #[track_caller]
    fn refuse(input: &[u8]) {
        let mut commands = Commands::default();
        commands.buffer.extend_from_slice(input);
        assert!(commands.next().is_err());
    }

    #[test]
    fn what_is_no_command_is_refused() {
        refuse(b"*x\r\n");
        refuse(b"*-1\r\n");
        refuse(b"*1\r\n:3\r\n");
        refuse(b"*1\r\n$1\r\nabc\r\n");
        refuse(b"*1\r\n$99999999999\r\n");
        refuse(&vec![b'x'; MAX_LINE_BYTES + 1]);
    }
}
