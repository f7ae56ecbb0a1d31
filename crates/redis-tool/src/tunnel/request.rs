//! Commands as clients send them: off a read buffer, whole, with the places of their words.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::LazyLock;

use bytes::{Buf, BytesMut};
use pilotlight_redis::Command;
use pilotlight_redis::command::{CommandSpec, UNKNOWN};
use pilotlight_redis::commands::spec;
use pilotlight_resp::encode;

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

/// Places of words whose room is kept for the commands to come.
const MAX_KEPT_WORDS: usize = 1024;

/// Commands that came together: what was read, and where they and their words are in it.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// As the client sent them, one after the other.
    sent: BytesMut,
    /// Those that were typed as lines, as a server gets them.
    typed: Vec<u8>,
    /// Where their words begin and end, counted from the begin of the command.
    words: Vec<(usize, usize)>,
    places: Vec<Place>,
}

/// Where a command is.
#[derive(Debug)]
struct Place {
    is_typed: bool,
    bytes: (usize, usize),
    words: (usize, usize),
    spec: Option<&'static CommandSpec>,
}

/// One command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'b> {
    /// As it is sent to a server: what the client sent, except for one that was typed as a line.
    pub(crate) bytes: &'b [u8],
    /// The words, as ranges of `bytes`.
    words: &'b [(usize, usize)],
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
    /// Those that it has.
    words: Vec<(usize, usize)>,
    /// Bytes that it certainly lacks.
    wanted: usize,
    /// Nothing after a mistake can be trusted.
    failed: Option<BadRequest>,
}

/// What is at the front of a buffer, and its bytes there.
enum Found {
    Sent(usize),
    Typed(Vec<Vec<u8>>, usize),
    /// An empty command. As servers do: nothing is said to it.
    Nothing(usize),
}

impl Parser {
    pub(crate) fn new(max_command_bytes: usize) -> Self {
        Self { max_command_bytes, at: 0, lacking: None, words: Vec::new(), wanted: 0, failed: None }
    }

    /// Bytes that the current command certainly lacks.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Takes the commands that are there to their end, at most so many, into `requests`, which is empty. After an error
    /// there are none.
    ///
    /// # Errors
    /// The bytes are no command, or exceed a limit; what came before them was taken, and the same error comes from then
    /// on.
    pub(crate) fn take(&mut self, input: &mut BytesMut, max: usize, requests: &mut Requests) -> Result<(), BadRequest> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        std::mem::swap(&mut requests.words, &mut self.words);
        let (mut begin, mut first) = (0, 0);
        let mut parsed = Ok(());
        while requests.len() < max {
            match self.parse(&input[begin..], &mut requests.words) {
                Ok(Some(Found::Sent(bytes))) => {
                    requests.add(&input[begin..], bytes, begin, first);
                    begin += bytes;
                }
                Ok(Some(Found::Typed(words, bytes))) => {
                    requests.add_typed(&words);
                    begin += bytes;
                }
                Ok(Some(Found::Nothing(bytes))) => begin += bytes,
                Ok(None) => break,
                Err(failed) => {
                    self.failed = Some(failed.clone());
                    parsed = Err(failed);
                    break;
                }
            }
            first = requests.words.len();
        }
        if requests.is_empty() {
            // A command that comes in many reads is not copied with each.
            std::mem::swap(&mut requests.words, &mut self.words);
            input.advance(begin);
        } else {
            self.words.extend(requests.words.drain(first..));
            requests.sent = input.split_to(begin);
        }
        parsed
    }

    /// What is at the front of the buffer; the words of a command are added to `words`. `None`: it is not there to its
    /// end.
    fn parse(&mut self, input: &[u8], words: &mut Vec<(usize, usize)>) -> Result<Option<Found>, BadRequest> {
        self.wanted = 0;
        let (mut at, mut lacking) = match (self.lacking, input.first()) {
            (Some(lacking), _) => (self.at, lacking),
            (None, None) => return Ok(None),
            (None, Some(b'*')) => match number(input, 0)? {
                Some((count, _)) if count > MAX_WORDS => return Err(BadRequest::Malformed(WRONG_COUNT)),
                Some((0, end)) => return Ok(Some(Found::Nothing(end))),
                Some((count, end)) => (end, count),
                None => return Ok(None),
            },
            (None, Some(_)) => return line(input),
        };
        while lacking > 0 {
            let Some((begin, end)) = self.word(input, at)? else {
                (self.at, self.lacking) = (at, Some(lacking));
                return Ok(None);
            };
            words.push((begin, end));
            at = end + 2;
            lacking -= 1;
        }
        self.lacking = None;
        Ok(Some(Found::Sent(at)))
    }

    /// The word whose header is at this offset: where it begins and ends. `None`: it is not there to its end.
    #[inline]
    fn word(&mut self, input: &[u8], at: usize) -> Result<Option<(usize, usize)>, BadRequest> {
        match input.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&other) => return Err(BadRequest::NoWord(char::from(other))),
        }
        let Some((length, begin)) = number(input, at)? else { return Ok(None) };
        if length > MAX_WORD_BYTES.max(self.max_command_bytes.saturating_sub(MIB)) {
            return Err(BadRequest::Malformed(WRONG_LENGTH));
        }
        let end = begin.saturating_add(length);
        if end.saturating_add(2) > self.max_command_bytes {
            return Err(BadRequest::TooLarge(self.max_command_bytes));
        }
        match input.get(end..end + 2) {
            None => {
                self.wanted = end + 2 - input.len();
                Ok(None)
            }
            Some(b"\r\n") => Ok(Some((begin, end))),
            Some(_) => Err(BadRequest::Malformed("a word does not end where its length says")),
        }
    }
}

impl Requests {
    /// One command of these words.
    #[cfg(test)]
    pub(crate) fn of_words(words: &[&[u8]]) -> Self {
        let mut requests = Self::default();
        requests.add_typed(words);
        requests
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The commands from one on.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = Request<'_>> {
        self.places[first.min(self.len())..].iter().map(|place| self.at(place))
    }

    /// The one with this number.
    pub(crate) fn get(&self, index: usize) -> Option<Request<'_>> {
        self.places.get(index).map(|place| self.at(place))
    }

    fn at(&self, place: &Place) -> Request<'_> {
        let Place { is_typed, bytes, words, spec } = *place;
        let source = if is_typed { &self.typed[..] } else { &self.sent[..] };
        Request { bytes: &source[bytes.0..bytes.1], words: &self.words[words.0..words.1], spec }
    }

    /// Forgets all, and keeps the room for as many.
    pub(crate) fn clear(&mut self) {
        self.sent = BytesMut::new();
        self.typed = Vec::new();
        self.places.clear();
        self.words.clear();
        self.words.shrink_to(MAX_KEPT_WORDS);
    }

    /// Adds the command at the front of `input`, whose words are those from `first` on.
    #[inline]
    fn add(&mut self, input: &[u8], bytes: usize, begin: usize, first: usize) {
        let word = |at: usize| self.words.get(at).map_or(&[][..], |&(begin, end)| &input[begin..end]);
        let spec = lookup(word(first), word(first + 1));
        let words = (first, self.words.len());
        self.places.push(Place { is_typed: false, bytes: (begin, begin + bytes), words, spec });
    }

    fn add_typed(&mut self, words: &[impl AsRef<[u8]>]) {
        let (begin, first) = (self.typed.len(), self.words.len());
        encode::array_header(&mut self.typed, words.len());
        for word in words {
            encode::bulk(&mut self.typed, word.as_ref());
            let end = self.typed.len() - 2 - begin;
            self.words.push((end - word.as_ref().len(), end));
        }
        let word = |at: usize| words.get(at).map_or(&[][..], AsRef::as_ref);
        let spec = lookup(word(0), word(1));
        let bytes = (begin, self.typed.len());
        self.places.push(Place { is_typed: true, bytes, words: (first, self.words.len()), spec });
    }
}

impl<'b> Request<'b> {
    /// How many words it has, the name included.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// One of its words; empty if it has fewer.
    pub(crate) fn word(&self, at: usize) -> &'b [u8] {
        self.words.get(at).map_or(&[], |&(begin, end)| &self.bytes[begin..end])
    }

    /// The words from one on.
    pub(crate) fn words_from(&self, first: usize) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        let bytes = self.bytes;
        self.words[first.min(self.words.len())..].iter().map(move |&(begin, end)| &bytes[begin..end])
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
        let is_container = || known(spec.name.as_bytes()).is_some_and(|known| !known.subcommands.is_empty());
        (if spec.arity < 0 { len < arity } else { len != arity }) || (spec.words == 1 && is_container())
    }

    /// Whether it is not known at all.
    pub(crate) fn is_unknown(&self) -> bool {
        self.spec.is_none()
    }

    /// The same as the client takes it.
    pub(crate) fn command(&self) -> Command<'b> {
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

/// A command that was typed as a line, with the quotes that servers know.
fn line(input: &[u8]) -> Result<Option<Found>, BadRequest> {
    let Some(end) = input.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n') else {
        return if input.len() >= MAX_LINE_BYTES { Err(BadRequest::Malformed("too long a line")) } else { Ok(None) };
    };
    let line = &input[..=end];
    let first = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
    // A page that a browser shows may send a form to any port of this machine: the lines of its body would be commands.
    if first.eq_ignore_ascii_case(b"post") || first.eq_ignore_ascii_case(b"host:") {
        return Err(BadRequest::Http);
    }
    match words::split_bytes(line) {
        Ok(words) if words.is_empty() => Ok(Some(Found::Nothing(line.len()))),
        Ok(words) => Ok(Some(Found::Typed(words, line.len()))),
        Err(_) => Err(BadRequest::Malformed("unbalanced quotes in request")),
    }
}

#[derive(Default)]
struct Known {
    spec: Option<&'static CommandSpec>,
    /// If the second word is part of the name: those that are known, with their descriptions.
    subcommands: Vec<(&'static str, &'static CommandSpec)>,
}

/// A name in any case.
#[derive(Clone, Copy)]
struct Name<'n>(&'n [u8]);

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|byte| state.write_u8(byte.to_ascii_uppercase()));
    }
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
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByName<'n> = HashMap<Name<'n>, Known, BuildHasherDefault<NameHasher>>;

/// By the first word.
static KNOWN: LazyLock<ByName<'static>> = LazyLock::new(|| {
    let mut known = ByName::default();
    for &spec in spec::ALL {
        match spec.name.split_once(' ') {
            Some((first, second)) => known.entry(Name(first.as_bytes())).or_default().subcommands.push((second, spec)),
            None => known.entry(Name(spec.name.as_bytes())).or_default().spec = Some(spec),
        }
    }
    known
});

fn known(first: &[u8]) -> Option<&Known> {
    // A longer one is not hashed: it may have megabytes.
    if first.len() > MAX_NAME_BYTES {
        return None;
    }
    let all: &ByName<'_> = &KNOWN;
    all.get(&Name(first))
}

fn lookup(first: &[u8], second: &[u8]) -> Option<&'static CommandSpec> {
    let known = known(first)?;
    let is_it = |(name, _): &&(&str, _)| name.as_bytes().eq_ignore_ascii_case(second);
    known.subcommands.iter().find(is_it).map(|&(_, spec)| spec).or(known.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands of a stream, however it is cut.
    #[track_caller]
    fn check(stream: &[u8], expected: &[&[&str]]) {
        for piece in 1..=stream.len() {
            let (mut parser, mut input, mut found) = (Parser::new(1 << 20), BytesMut::new(), Vec::new());
            let mut requests = Requests::default();
            let words = |request: Request<'_>| -> Vec<String> {
                request.words_from(0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
            };
            for piece in stream.chunks(piece) {
                input.extend_from_slice(piece);
                parser.take(&mut input, usize::MAX, &mut requests).unwrap();
                found.extend(requests.from(0).map(words));
                requests.clear();
            }
            assert_eq!(found, expected, "in pieces of {piece}");
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
        let parse = |stream: &[u8]| {
            Parser::new(100).take(&mut BytesMut::from(stream), 9, &mut Requests::default()).unwrap_err()
        };
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
    fn what_came_before_a_mistake_is_taken_and_no_more_than_is_wanted() {
        let (mut parser, mut requests) = (Parser::new(100), Requests::default());
        let mut input = BytesMut::from(&b"*1\r\n$4\r\nPING\r\nPING x\r\n*1\r\n$4\r\nQUIT\r\n*1\r\n:"[..]);
        parser.take(&mut input, 2, &mut requests).unwrap();
        let lengths = |requests: &Requests| requests.from(0).map(|request| request.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&requests), [1, 2]);
        requests.clear();
        let error = parser.take(&mut input, 2, &mut requests).unwrap_err();
        assert_eq!((lengths(&requests), error.clone()), (vec![1], BadRequest::NoWord(':')));
        requests.clear();
        assert_eq!(parser.take(&mut input, 2, &mut requests), Err(error));
        assert!(requests.is_empty());
    }

    #[test]
    fn names_are_known_with_their_subcommands() {
        let name = |words: &[&[u8]]| Requests::of_words(words).get(0).map(|request| request.name()).unwrap();
        assert_eq!(name(&[b"get", b"k"]), "GET");
        assert_eq!(name(&[b"Client", b"setname", b"x"]), "CLIENT SETNAME");
        assert_eq!(name(&[b"config", b"what"]), "CONFIG");
        assert_eq!(name(&[b"NEW.SEARCH", b"i"]), "");
        let slot = |words: &[&[u8]]| Requests::of_words(words).get(0).unwrap().command().slot();
        assert_eq!(slot(&[b"NEW.SEARCH", b"foo"]), slot(&[b"GET", b"foo"]));
        assert_eq!(slot(&[b"EVAL", b"return 1", b"1", b"foo"]), slot(&[b"GET", b"foo"]));
    }
}
