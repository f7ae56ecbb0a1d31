//! Commands as clients send them: off a read buffer, whole, with the places of their words.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use pilotlight_redis::Command;
use pilotlight_redis::command::{CommandSpec, UNKNOWN};
use pilotlight_redis::commands::spec;
use pilotlight_resp::encode;
use smallvec::SmallVec;

use crate::words;

/// Bytes of a command that is typed as a line, and of the header of a word.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;

/// Words of one command, as servers count them.
pub(crate) const MAX_WORDS: usize = i32::MAX as usize;

/// Bytes of one word, as servers have it: a larger one would have them close the connection, which is not this client's
/// alone. Who has set them another limit sets `--max-command-mib` as well, which leaves room for the other words.
const MAX_WORD_BYTES: usize = 512 * MIB;
const MIB: usize = 1 << 20;

/// What servers say of a header with more, or with none that is a number.
pub(crate) const WRONG_COUNT: &str = "invalid multibulk length";
const WRONG_LENGTH: &str = "invalid bulk length";

/// The longest name that is looked up. There is no longer one.
const MAX_NAME_BYTES: usize = 32;

/// Where words begin and end; those of nearly every command need no heap.
type Words = SmallVec<[(usize, usize); 4]>;

/// One command.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// As it is sent to a server: what the client sent, except for one that was typed as a line.
    pub(crate) bytes: Bytes,
    /// The words, as ranges of `bytes`.
    words: Words,
    /// What it is; `None`: not known.
    spec: Option<&'static CommandSpec>,
}

/// Why a client cannot be understood. The connection is closed after it is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    #[error("Protocol error: {0}")]
    Malformed(&'static str),
    #[error("Protocol error: expected '$', got '{0}'")]
    NoWord(char),
    #[error("Protocol error: a command of more than {0} bytes (--max-command-mib)")]
    TooLarge(usize),
    /// Nothing is said to a browser that was led here.
    #[error("HTTP is not spoken here")]
    Http,
}

/// Takes commands off a buffer, resuming where it stopped.
#[derive(Debug)]
pub(crate) struct Parser {
    max_command_bytes: usize,
    /// How far the current command was read.
    at: usize,
    /// Words that it still lacks; `None`: its header was not read.
    lacking: Option<usize>,
    words: Words,
    /// Bytes that it certainly lacks.
    wanted: usize,
    /// Nothing after a mistake can be trusted.
    failed: Option<BadRequest>,
}

impl Parser {
    pub(crate) fn new(max_command_bytes: usize) -> Self {
        Self { max_command_bytes, at: 0, lacking: None, words: Words::new(), wanted: 0, failed: None }
    }

    /// Bytes that the current command certainly lacks.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// The next command, if it is there to its end. After an error there is none.
    ///
    /// # Errors
    /// The bytes are no command, or exceed a limit; the same error comes from then on.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Request>, BadRequest> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let next = self.parse(input);
        self.failed = next.as_ref().err().cloned();
        next
    }

    fn parse(&mut self, input: &mut BytesMut) -> Result<Option<Request>, BadRequest> {
        loop {
            self.wanted = 0;
            let Some(lacking) = self.lacking else {
                match input.first() {
                    None => return Ok(None),
                    Some(b'*') => match number(input, 0)? {
                        Some((count, _)) if count > MAX_WORDS => {
                            return Err(BadRequest::Malformed(WRONG_COUNT));
                        }
                        Some((count, end)) if count > 0 => {
                            (self.at, self.lacking) = (end, Some(count));
                            self.words.clear();
                            continue;
                        }
                        // As servers do: nothing is said to an empty command.
                        Some((_, end)) => {
                            let _ = input.split_to(end);
                            continue;
                        }
                        None => return Ok(None),
                    },
                    Some(_) => match line(input)? {
                        Some(words) if words.is_empty() => continue,
                        Some(words) => return Ok(Some(Request::of(&words))),
                        None => return Ok(None),
                    },
                }
            };
            if lacking == 0 {
                self.lacking = None;
                let bytes = input.split_to(std::mem::take(&mut self.at)).freeze();
                return Ok(Some(Request::new(bytes, std::mem::take(&mut self.words))));
            }
            match input.get(self.at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(&other) => return Err(BadRequest::NoWord(char::from(other))),
            }
            let Some((length, begin)) = number(input, self.at)? else { return Ok(None) };
            if length > MAX_WORD_BYTES.max(self.max_command_bytes.saturating_sub(MIB)) {
                return Err(BadRequest::Malformed(WRONG_LENGTH));
            }
            let end = begin.saturating_add(length);
            if end.saturating_add(2) > self.max_command_bytes {
                return Err(BadRequest::TooLarge(self.max_command_bytes));
            }
            let Some(after) = input.get(end..end + 2) else {
                self.wanted = end + 2 - input.len();
                return Ok(None);
            };
            if after != b"\r\n" {
                return Err(BadRequest::Malformed("a word does not end where its length says"));
            }
            self.words.push((begin, end));
            self.at = end + 2;
            self.lacking = Some(lacking - 1);
        }
    }
}

impl Request {
    fn new(bytes: Bytes, words: Words) -> Self {
        let mut request = Self { bytes, words, spec: None };
        request.spec = lookup(request.word(0), request.word(1));
        request
    }

    fn of(words: &[Vec<u8>]) -> Self {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        Self::of_words(&words)
    }

    /// A command of these words.
    pub(crate) fn of_words(words: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        encode::array_header(&mut bytes, words.len());
        let mut places = Words::with_capacity(words.len());
        for word in words {
            encode::bulk(&mut bytes, word);
            let end = bytes.len() - 2;
            places.push((end - word.len(), end));
        }
        Self::new(bytes.into(), places)
    }

    /// How many words it has, the name included.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// One of its words; empty if it has fewer.
    pub(crate) fn word(&self, at: usize) -> &[u8] {
        self.words.get(at).map_or(&[], |&(begin, end)| &self.bytes[begin..end])
    }

    /// The words from one on.
    pub(crate) fn words_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.words[first.min(self.words.len())..].iter().map(|&(begin, end)| &self.bytes[begin..end])
    }

    /// Whether a word is this, which is in capitals, in any case.
    pub(crate) fn is(&self, at: usize, upper: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(upper.as_bytes())
    }

    /// The description; of what is not known, the one that takes the first argument for the key.
    pub(crate) fn spec(&self) -> &'static CommandSpec {
        self.spec.unwrap_or(&UNKNOWN)
    }

    /// Its name in capitals, with a subcommand; empty if it is not known.
    pub(crate) fn name(&self) -> &'static str {
        self.spec.map_or("", |spec| spec.name)
    }

    /// Whether a server would refuse it for its words alone: too few or too many, or no such subcommand. What is not
    /// known may be known to the server.
    pub(crate) fn is_malformed(&self) -> bool {
        let Some(spec) = self.spec else { return false };
        let (arity, len) = (usize::from(spec.arity.unsigned_abs()), self.len());
        let is_container = || KNOWN.get(spec.name.as_bytes()).is_some_and(|known| known.is_container);
        (if spec.arity < 0 { len < arity } else { len != arity }) || (spec.words == 1 && is_container())
    }

    /// Whether it is not known at all.
    pub(crate) fn is_unknown(&self) -> bool {
        self.spec.is_none()
    }

    /// The same as the client takes it.
    pub(crate) fn command(&self) -> Command<'_> {
        let spec = self.spec();
        self.words_from(usize::from(spec.words)).fold(Command::new(spec), |command, word| command.arg(word))
    }
}

/// `*3\r\n`, `$5\r\n` at an offset: the number, and the offset behind it. A negative one counts as 0 words.
#[inline]
fn number(input: &[u8], at: usize) -> Result<Option<(usize, usize)>, BadRequest> {
    // Nearly every header has one digit, or two.
    match input.get(at + 1..) {
        Some(&[digit @ b'0'..=b'9', b'\r', b'\n', ..]) => Ok(Some((usize::from(digit - b'0'), at + 4))),
        Some(&[tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..]) => {
            Ok(Some((usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), at + 5)))
        }
        _ => any_number(input, at),
    }
}

fn any_number(input: &[u8], at: usize) -> Result<Option<(usize, usize)>, BadRequest> {
    let is_minus = input.get(at + 1) == Some(&b'-') && input.get(at) == Some(&b'*');
    let first = at + 1 + usize::from(is_minus);
    let mut next = first;
    let wrong = BadRequest::Malformed(if input.get(at) == Some(&b'*') { WRONG_COUNT } else { WRONG_LENGTH });
    let mut number = 0_usize;
    loop {
        match input.get(next) {
            None => return Ok(None),
            // As servers read it: `02` is no number.
            Some(b'0'..=b'9') if next > first && input.get(first) == Some(&b'0') => return Err(wrong),
            Some(&digit @ b'0'..=b'9') if next - at < 12 => number = number * 10 + usize::from(digit - b'0'),
            Some(b'\r') if next > first => break,
            Some(_) => return Err(wrong),
        }
        next += 1;
    }
    match input.get(next + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((if is_minus { 0 } else { number }, next + 2))),
        Some(_) => Err(wrong),
    }
}

/// A command that was typed as a line, off the buffer, with the quotes that servers know.
fn line(input: &mut BytesMut) -> Result<Option<Vec<Vec<u8>>>, BadRequest> {
    let Some(end) = input.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n') else {
        return if input.len() >= MAX_LINE_BYTES { Err(BadRequest::Malformed("too long a line")) } else { Ok(None) };
    };
    let line = input.split_to(end + 1);
    let first = line[..].split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
    // A page that a browser shows may send a form to any port of this machine: the lines of its body would be commands.
    if first.eq_ignore_ascii_case(b"post") || first.eq_ignore_ascii_case(b"host:") {
        return Err(BadRequest::Http);
    }
    words::split_bytes(&line).map(Some).map_err(|_| BadRequest::Malformed("unbalanced quotes in request"))
}

struct Known {
    spec: Option<&'static CommandSpec>,
    /// The second word is part of the name.
    is_container: bool,
}

/// FNV-1a: names are short, and nobody but this program decides what is in the table.
struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByName<T> = HashMap<&'static [u8], T, BuildHasherDefault<NameHasher>>;

/// By name, in capitals.
static KNOWN: LazyLock<ByName<Known>> = LazyLock::new(|| {
    let mut known: ByName<Known> = HashMap::default();
    for &spec in spec::ALL {
        let none = || Known { spec: None, is_container: false };
        if let Some((first, _)) = spec.name.split_once(' ') {
            known.entry(first.as_bytes()).or_insert_with(none).is_container = true;
        }
        known.entry(spec.name.as_bytes()).or_insert_with(none).spec = Some(spec);
    }
    known
});

fn lookup(first: &[u8], second: &[u8]) -> Option<&'static CommandSpec> {
    let mut name = [0; 2 * MAX_NAME_BYTES + 1];
    let upper = name.get_mut(..first.len()).filter(|_| first.len() <= MAX_NAME_BYTES)?;
    upper.copy_from_slice(first);
    upper.make_ascii_uppercase();
    let known = KNOWN.get(&*upper)?;
    if known.is_container && !second.is_empty() && second.len() <= MAX_NAME_BYTES {
        let end = first.len() + 1 + second.len();
        name[first.len()] = b' ';
        name[first.len() + 1..end].copy_from_slice(second);
        name[first.len() + 1..end].make_ascii_uppercase();
        if let Some(Known { spec: Some(spec), .. }) = KNOWN.get(&name[..end]) {
            return Some(spec);
        }
    }
    known.spec
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands of a stream, however it is cut.
    #[track_caller]
    fn check(stream: &[u8], expected: &[&[&str]]) {
        for piece in 1..=stream.len() {
            let (mut parser, mut input, mut found) = (Parser::new(1 << 20), BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                input.extend_from_slice(piece);
                while let Some(request) = parser.next(&mut input).unwrap() {
                    found.push(request);
                }
            }
            let words = |request: &Request| -> Vec<String> {
                request.words_from(0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
            };
            assert_eq!(found.iter().map(words).collect::<Vec<_>>(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn commands_are_found_however_they_are_cut() {
        check(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", &[&["GET", "k"], &["PING"]]);
        check(b"*0\r\n*-1\r\n\r\nset k  v\r\n*1\r\n$0\r\n\r\n", &[&["set", "k", "v"], &[""]]);
        check(b"set 'a b' \"\\x41\\n\" x\"y\"\r\n", &[&["set", "a b", "A\n", "xy"]]);
        check(b"*2\r\n$4\r\nECHO\r\n$6\r\n*1\r\n$1\r\n", &[&["ECHO", "*1\r\n$1"]]);
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        let parse = |stream: &[u8]| Parser::new(100).next(&mut BytesMut::from(stream)).unwrap_err();
        assert_eq!(parse(b"*1\r\n:1\r\n"), BadRequest::NoWord(':'));
        assert_eq!(parse(b"*1\r\n$1\r\nabc"), BadRequest::Malformed("a word does not end where its length says"));
        assert_eq!(parse(b"*1\r\n$98\r\n"), BadRequest::TooLarge(100));
        assert_eq!(parse(b"POST / HTTP/1.1\r\n"), BadRequest::Http);
        assert_eq!(parse(b"*x\r\n"), BadRequest::Malformed("invalid multibulk length"));
        assert_eq!(parse(b"*2147483648\r\n"), BadRequest::Malformed("invalid multibulk length"));
        assert_eq!(parse(b"*3000000000\r\n"), BadRequest::Malformed("invalid multibulk length"));
        assert_eq!(parse(b"*1\r\n$x\r\n"), BadRequest::Malformed("invalid bulk length"));
        assert_eq!(parse(b"*1\r\n$536870913\r\n"), BadRequest::Malformed("invalid bulk length"));
        // A server would close the connection that all clients share.
        assert_eq!(parse(b"*01\r\n"), BadRequest::Malformed("invalid multibulk length"));
        assert_eq!(parse(b"*-\r\n"), BadRequest::Malformed("invalid multibulk length"));
        assert_eq!(parse(b"*1\r\n$04\r\n"), BadRequest::Malformed("invalid bulk length"));
        assert_eq!(parse(b"SET k \"v\r\n"), BadRequest::Malformed("unbalanced quotes in request"));
    }

    #[test]
    fn names_are_known_with_their_subcommands() {
        let name = |words: &[&[u8]]| Request::of_words(words).name();
        assert_eq!(name(&[b"get", b"k"]), "GET");
        assert_eq!(name(&[b"Client", b"setname", b"x"]), "CLIENT SETNAME");
        assert_eq!(name(&[b"config", b"what"]), "CONFIG");
        assert_eq!(name(&[b"NEW.SEARCH", b"i"]), "");
        let slot = |words: &[&[u8]]| Request::of_words(words).command().slot().map(|slot| slot.number());
        assert_eq!(slot(&[b"NEW.SEARCH", b"foo"]), slot(&[b"GET", b"foo"]));
        assert_eq!(slot(&[b"EVAL", b"return 1", b"1", b"foo"]), slot(&[b"GET", b"foo"]));
    }
}
