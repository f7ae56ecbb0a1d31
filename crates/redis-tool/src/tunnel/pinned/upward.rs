//! From the client to the node: commands pass as they are, in pieces as they come. Only their first words are looked
//! at, to know what kind of reply each gets, and what is about the connection's login is kept back: that is the
//! tunnel's own.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Limits, Scanner, encode};

use super::rewrite::Query;
use super::track::{Expect, Kind};
use crate::tunnel::differences;
use crate::tunnel::request::{BadRequest, MAX_LINE_BYTES, MAX_WORDS, Parser, Request, Requests, WRONG_COUNT};
use crate::tunnel::shared::Shared;

/// A first word that is longer is no name of a command that matters here.
const MAX_WORD_BYTES: usize = 64;

/// Bytes of a command that is kept back (`AUTH`, `HELLO`), and of one before the client has authenticated.
const MAX_KEPT_BYTES: usize = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Upward {
    scanner: Scanner,
    parser: Parser,
    /// Within a command that passes.
    is_passing: bool,
    /// Within one that is kept back.
    is_kept: bool,
    is_known: bool,
    is_stream: bool,
    /// Nothing more is taken.
    is_over: bool,
    /// The command that passes is to be answered.
    is_expected: bool,
    replies: Replies,
}

/// `CLIENT REPLY`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replies {
    On,
    Off,
    /// Not to the next command.
    Skip,
}

/// What is to be done with a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is for the node.
    Forward(Bytes),
    /// The tunnel is to expect this; it belongs to what is forwarded next.
    Expect(Expect),
    /// The connection is to be closed after what is expected.
    Close(Bytes),
    /// The same, and the command that was last expected to be answered is not, as it never ends.
    Break(Bytes),
}

/// The first words of a command.
enum Head {
    /// More bytes are needed to know.
    Incomplete,
    /// Typed as a line of so many bytes; whether there is anything in it.
    Line(usize, bool),
    /// No words: a header of so many bytes, to which servers say nothing.
    Empty(usize),
    Words {
        count: usize,
        words: [Bytes; 3],
    },
    /// No command, and what servers say of it.
    Strange(Cow<'static, str>),
}

impl Upward {
    pub(super) fn new(is_known: bool) -> Self {
        let limits = Limits {
            max_bulk_bytes: usize::MAX / 4,
            max_frame_bytes: usize::MAX / 2,
            max_elements: usize::MAX / 4,
            ..Limits::default()
        };
        Self {
            scanner: Scanner::new(limits),
            parser: Parser::new(MAX_KEPT_BYTES),
            is_passing: false,
            is_kept: false,
            is_known,
            is_stream: false,
            is_over: false,
            is_expected: false,
            replies: Replies::On,
        }
    }

    /// Takes what can be taken off `input`.
    pub(super) fn feed(&mut self, input: &mut BytesMut, shared: &Shared, steps: &mut Vec<Step>) {
        while !input.is_empty() {
            if self.is_over {
                return input.clear();
            }
            if self.is_stream {
                steps.push(Step::Forward(input.split().freeze()));
                return;
            }
            if self.is_passing {
                match self.scanner.scan(input) {
                    Ok(step) => {
                        self.is_passing = !step.is_end;
                        steps.push(Step::Forward(input.split_to(step.consumed).freeze()));
                    }
                    // A node may see more in it, such as a login in what follows.
                    Err(_) if self.is_expected => {
                        steps.push(Step::Break(refusal("invalid bulk length")));
                        self.is_over = true;
                    }
                    Err(_) => self.end(steps, "invalid bulk length"),
                }
                continue;
            }
            if self.is_kept || !self.is_known {
                if !self.keep(input, shared, steps) {
                    return;
                }
                continue;
            }
            match head(input) {
                Head::Incomplete => return,
                Head::Strange(why) => self.end(steps, &why),
                Head::Empty(length) => steps.push(Step::Forward(input.split_to(length).freeze())),
                Head::Line(length, is_any) => {
                    let first = input.iter().take(6).map(u8::to_ascii_lowercase).collect::<Vec<_>>();
                    if first.starts_with(b"post ") || first.starts_with(b"host:") {
                        // A browser was led here: what follows is not what anybody typed.
                        steps.push(Step::Close(Bytes::new()));
                        self.is_over = true;
                        continue;
                    }
                    if is_about_login(&input[..length]) {
                        self.is_kept = true;
                        continue;
                    }
                    self.expect(steps, Expect::Replies(u64::from(is_any)));
                    steps.push(Step::Forward(input.split_to(length).freeze()));
                }
                Head::Words { count, words } => self.begin(count, &words, steps),
            }
        }
    }

    /// A command begins whose first words are these.
    fn begin(&mut self, count: usize, words: &[Bytes; 3], steps: &mut Vec<Step>) {
        let [name, second, third] = words;
        let is = |word: &Bytes, text: &str| word.eq_ignore_ascii_case(text.as_bytes());
        if KEPT.iter().any(|word| name.eq_ignore_ascii_case(word)) {
            self.is_kept = true;
            return;
        }
        (self.is_passing, self.is_expected) = (true, false);
        let is_client_reply = is(name, "client") && is(second, "reply");
        if is_client_reply && is(third, "off") {
            self.replies = Replies::Off;
            return;
        }
        if is_client_reply && is(third, "skip") && self.replies != Replies::Off {
            self.replies = Replies::Skip;
            return;
        }
        if is_client_reply && is(third, "on") {
            self.replies = Replies::On;
        }
        let names = (count as u64).saturating_sub(1);
        let expect = match name.to_ascii_lowercase().as_slice() {
            b"monitor" => {
                self.expect(steps, Expect::Replies(1));
                Expect::Stream
            }
            b"sync" | b"psync" => {
                self.is_stream = true;
                Expect::Stream
            }
            // Without a name there is an error.
            b"subscribe" | b"psubscribe" | b"ssubscribe" => Expect::Confirmations(names.max(1)),
            b"unsubscribe" if names == 0 => Expect::AllOf(Kind::Channel),
            b"punsubscribe" if names == 0 => Expect::AllOf(Kind::Pattern),
            b"sunsubscribe" if names == 0 => Expect::AllOf(Kind::Shard),
            b"unsubscribe" | b"punsubscribe" | b"sunsubscribe" => Expect::Confirmations(names),
            _ => Query::of(name, second).map_or(Expect::Replies(1), Expect::Topology),
        };
        let is_confirmed = match expect {
            Expect::AllOf(_) => true,
            Expect::Confirmations(_) => names > 0,
            _ => false,
        };
        if is_confirmed && self.replies == Replies::Off {
            // Servers take confirmations for messages, and leave away replies only.
            steps.push(Step::Expect(expect));
        } else if is_confirmed && self.replies == Replies::Skip {
            self.replies = Replies::On;
            steps.push(Step::Expect(expect));
        } else {
            self.expect(steps, expect);
        }
    }

    /// What came is no command; the node is not to find one in it, or behind it, that the tunnel has not seen.
    fn end(&mut self, steps: &mut Vec<Step>, why: &str) {
        steps.push(Step::Close(refusal(why)));
        self.is_over = true;
    }

    fn expect(&mut self, steps: &mut Vec<Step>, expect: Expect) {
        self.is_expected = self.replies == Replies::On;
        match self.replies {
            Replies::On => steps.push(Step::Expect(expect)),
            Replies::Off => {}
            Replies::Skip => self.replies = Replies::On,
        }
    }

    /// A command that the node does not get as it is. False: it is not complete.
    fn keep(&mut self, input: &mut BytesMut, shared: &Shared, steps: &mut Vec<Step>) -> bool {
        let mut requests = Requests::default();
        if let Err(error) = self.parser.take(input, 1, &mut requests) {
            let told = if error == BadRequest::Http { String::new() } else { format!("-ERR {error}\r\n") };
            steps.push(Step::Close(told.into()));
            self.is_over = true;
            return true;
        }
        let Some(request) = requests.get(0) else { return false };
        self.is_kept = false;
        let answer = |text: &str| Expect::Local(Bytes::copy_from_slice(text.as_bytes()));
        let expect = match request.name() {
            "AUTH" if request.len() < 2 => answer("-ERR wrong number of arguments for 'auth' command\r\n"),
            "AUTH" if request.len() > 3 => answer("-ERR syntax error\r\n"),
            "AUTH" if !shared.is_password(request.word(request.len() - 1)) => answer(WRONG_PASSWORD),
            "AUTH" => {
                self.is_known = true;
                answer("+OK\r\n")
            }
            "HELLO" => match self.hello(&request, shared) {
                Ok(hello) => {
                    self.expect(steps, Expect::Replies(1));
                    steps.push(Step::Forward(hello.into()));
                    return true;
                }
                Err(text) => answer(&text),
            },
            "QUIT" => {
                steps.push(Step::Close(Bytes::from_static(b"+OK\r\n")));
                self.is_over = true;
                return true;
            }
            _ if !self.is_known => answer("-NOAUTH Authentication required.\r\n"),
            "RESET" if request.len() > 1 => answer("-ERR wrong number of arguments for 'reset' command\r\n"),
            "RESET" => answer(&format!("-ERR {}\r\n", differences::RESET)),
            _ => {
                self.expect(steps, Expect::Replies(1));
                steps.push(Step::Forward(Bytes::copy_from_slice(request.bytes)));
                return true;
            }
        };
        self.expect(steps, expect);
        true
    }

    /// `HELLO` without its login, which is checked. What is no option is not passed on: it might be another login.
    fn hello(&mut self, request: &Request<'_>, shared: &Shared) -> Result<Vec<u8>, String> {
        let mut words: Vec<&[u8]> = request.words_from(0).take(2).collect();
        let (mut at, mut is_known) = (2, self.is_known);
        while at < request.len() {
            if request.is(at, "AUTH") && at + 2 < request.len() {
                is_known = shared.is_password(request.word(at + 2));
                if !is_known {
                    return Err(WRONG_PASSWORD.to_owned());
                }
                at += 3;
            } else if request.is(at, "SETNAME") && at + 1 < request.len() {
                words.extend([request.word(at), request.word(at + 1)]);
                at += 2;
            } else {
                let option = String::from_utf8_lossy(request.word(at)).replace(['\r', '\n'], " ");
                return Err(format!("-ERR Syntax error in HELLO option '{option}'\r\n"));
            }
        }
        if !is_known {
            return Err("-NOAUTH HELLO must be called with the client already authenticated\r\n".to_owned());
        }
        self.is_known = true;
        let mut hello = Vec::new();
        encode::command(&mut hello, &words);
        Ok(hello)
    }
}

fn refusal(why: &str) -> Bytes {
    format!("-ERR {PREFIX}{why}\r\n").into()
}

/// Before what servers say of bytes that are no command.
const PREFIX: &str = "Protocol error: ";

/// Commands about the connection's login.
const KEPT: [&[u8]; 3] = [b"auth", b"hello", b"reset"];

/// Whether a line is one of those, or may be one to a server that knows quotes. Servers take a vertical tab for a blank
/// before the first word.
fn is_about_login(line: &[u8]) -> bool {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let begin = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let first = line[begin..].split(|byte| is_blank(byte) || *byte == 0).next().unwrap_or_default();
    first.iter().any(|byte| matches!(byte, b'"' | b'\'')) || KEPT.iter().any(|name| first.eq_ignore_ascii_case(name))
}

const WRONG_PASSWORD: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn head(input: &[u8]) -> Head {
    match input.first() {
        Some(b'*') => {}
        Some(_) => {
            return match input.iter().position(|byte| *byte == b'\n') {
                Some(end) => Head::Line(end + 1, input[..end].iter().any(|byte| !byte.is_ascii_whitespace())),
                None if input.len() > MAX_LINE_BYTES => Head::Strange("too big inline request".into()),
                None => Head::Incomplete,
            };
        }
        None => return Head::Incomplete,
    }
    let (count, mut at) = match number(input, 1) {
        Number::Is(count, at) => (count, at),
        Number::Incomplete => return Head::Incomplete,
        Number::Strange => return Head::Strange(WRONG_COUNT.into()),
    };
    if count > MAX_WORDS {
        return Head::Strange(WRONG_COUNT.into());
    }
    if count == 0 {
        return Head::Empty(at);
    }
    let mut words = [Bytes::new(), Bytes::new(), Bytes::new()];
    for (index, place) in words.iter_mut().enumerate().take(count) {
        if let Some(other) = input.get(at).filter(|byte| **byte != b'$') {
            return Head::Strange(BadRequest::NoWord(char::from(*other)).to_string().split_off(PREFIX.len()).into());
        }
        let (length, begin) = match number(input, at + 1) {
            Number::Is(length, begin) => (length, begin),
            Number::Incomplete => return Head::Incomplete,
            Number::Strange => return Head::Strange("invalid bulk length".into()),
        };
        // A long word is an argument.
        if length > MAX_WORD_BYTES {
            break;
        }
        let Some(word) = input.get(begin..begin + length) else { return Head::Incomplete };
        *place = Bytes::copy_from_slice(word);
        // Only these have a second word that matters.
        let is_container =
            ["cluster", "sentinel", "client"].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if index == 0 && !is_container {
            break;
        }
        at = begin + length + 2;
    }
    Head::Words { count, words }
}

enum Number {
    Is(usize, usize),
    Incomplete,
    Strange,
}

/// A number and its line end. A negative one counts as 0 words.
fn number(input: &[u8], begin: usize) -> Number {
    let is_negative = input.get(begin) == Some(&b'-') && begin == 1;
    let begin = begin + usize::from(is_negative);
    let mut number = 0_usize;
    for (at, byte) in input.iter().enumerate().skip(begin) {
        match byte {
            b'0'..=b'9' if at - begin < 12 => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if at > begin => {
                return match input.get(at + 1) {
                    Some(b'\n') => Number::Is(if is_negative { 0 } else { number }, at + 2),
                    Some(_) => Number::Strange,
                    None => Number::Incomplete,
                };
            }
            _ => return Number::Strange,
        }
    }
    Number::Incomplete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::shared::with_default_limits;

    /// What the node gets, and what is expected, however the stream is cut.
    #[track_caller]
    fn check(password: Option<&str>, stream: &[u8], forwarded: &[u8], expected: &[Expect]) {
        let shared = with_default_limits(password);
        for piece in 1..=stream.len() {
            let mut upward = Upward::new(password.is_none());
            let (mut input, mut steps) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                input.extend_from_slice(piece);
                upward.feed(&mut input, &shared, &mut steps);
            }
            let (mut bytes, mut expects) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Forward(piece) => bytes.extend_from_slice(&piece),
                    Step::Expect(expect) => expects.push(expect),
                    Step::Close(_) | Step::Break(_) => {}
                }
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(&bytes), text(forwarded), "in pieces of {piece}");
            assert_eq!(expects, expected, "in pieces of {piece}");
        }
    }

    fn command(words: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode::command(&mut bytes, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        bytes
    }

    fn local(text: &str) -> Expect {
        Expect::Local(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn commands_pass_as_they_are() {
        let long = "*".repeat(100);
        let stream =
            [command(&["SET", "k", &long]), command(&["cluster", "slots"]), b"PING\r\n".to_vec(), command(&[&long])];
        let one = Expect::Replies(1);
        let expected = [one.clone(), Expect::Topology(Query::Slots), one.clone(), one];
        check(None, &stream.concat(), &stream.concat(), &expected);
    }

    #[test]
    fn subscriptions_and_replies_that_were_not_wanted() {
        let stream = [
            command(&["SUBSCRIBE", "a", "b"]),
            command(&["unsubscribe"]),
            command(&["CLIENT", "REPLY", "SKIP"]),
            command(&["GET", "k"]),
            command(&["CLIENT", "REPLY", "SKIP"]),
            command(&["CLIENT", "REPLY", "SKIP"]),
            command(&["SUBSCRIBE", "c"]),
            command(&["CLIENT", "REPLY", "OFF"]),
            command(&["GET", "k"]),
            command(&["SUBSCRIBE"]),
            command(&["PSUBSCRIBE", "a", "b"]),
            command(&["PUNSUBSCRIBE"]),
            command(&["CLIENT", "REPLY", "ON"]),
        ]
        .concat();
        let expected = [
            Expect::Confirmations(2),
            Expect::AllOf(Kind::Channel),
            Expect::Confirmations(1),
            Expect::Confirmations(2),
            Expect::AllOf(Kind::Pattern),
            Expect::Replies(1),
        ];
        check(None, &stream, &stream, &expected);
    }

    #[test]
    fn logins_are_kept_back() {
        let stream = [command(&["AUTH", "secret"]), command(&["HELLO", "3", "AUTH", "u", "secret", "SETNAME", "n"])];
        let hello = command(&["HELLO", "3", "SETNAME", "n"]);
        check(None, &stream.concat(), &hello, &[local("+OK\r\n"), Expect::Replies(1)]);
        let early = [command(&["GET", "k"]), stream.concat(), command(&["GET", "k"])].concat();
        let expected =
            [local("-NOAUTH Authentication required.\r\n"), local("+OK\r\n"), Expect::Replies(1), Expect::Replies(1)];
        check(Some("secret"), &early, &[hello, command(&["GET", "k"])].concat(), &expected);
        check(Some("other"), &command(&["AUTH", "secret"]), b"", &[local(WRONG_PASSWORD)]);
        // Whatever is typed.
        for line in ["auth secret\r\n", " AUTH u secret\n", "\x0bauth secret\n", "*-1\r\nauth secret\r\n"] {
            let empty = line.strip_suffix("auth secret\r\n").filter(|it| it.starts_with('*')).unwrap_or_default();
            let mut upward = Upward::new(true);
            let (mut input, mut steps) = (BytesMut::from(line), Vec::new());
            upward.feed(&mut input, &with_default_limits(None), &mut steps);
            let forwarded = steps.iter().filter_map(|step| match step {
                Step::Forward(piece) => Some(&piece[..]),
                _ => None,
            });
            let forwarded = forwarded.collect::<Vec<_>>().concat();
            assert!(!forwarded.starts_with(b"auth") && !forwarded.starts_with(b" AUTH"), "{line:?}");
            assert!(forwarded.len() <= empty.len() || line.starts_with('\x0b'), "{line:?}: {forwarded:?}");
        }
        let hello = command(&["HELLO", "3", "AUTH", "u", "secret", "AUTH", "v", "secret"]);
        check(None, &hello, &command(&["HELLO", "3"]), &[Expect::Replies(1)]);
        check(None, b"HELLO 2 AUTH u secret\r\n", &command(&["HELLO", "2"]), &[Expect::Replies(1)]);
        let named = command(&["HELLO", "3", "SETNAME", "AUTH", "AUTH", "u", "secret"]);
        check(None, &named, &command(&["HELLO", "3", "SETNAME", "AUTH"]), &[Expect::Replies(1)]);
        let reset = "-ERR the tunnel: RESET would end its login at the node; connect again instead\r\n";
        check(None, b"reset\r\nPING\r\n", b"PING\r\n", &[local(reset), Expect::Replies(1)]);
    }

    #[test]
    fn what_is_no_command_never_reaches_the_node() {
        for stream in [
            "*3000000000\r\n",
            "*1x\r\nauth a\r\n",
            "*1\rX$4\r\nPING\r\nauth a\r\n",
            "*1\r\n:1\r\nauth a\r\n",
            "\"auth a\r\n",
        ] {
            let mut upward = Upward::new(true);
            let mut steps = Vec::new();
            upward.feed(&mut BytesMut::from(stream), &with_default_limits(None), &mut steps);
            assert!(
                matches!(&steps[..], [Step::Close(text)] if text.starts_with(b"-ERR Protocol error: ")),
                "{stream:?}"
            );
        }
        let mut upward = Upward::new(true);
        let mut steps = Vec::new();
        let stream = "*2\r\n$3\r\nGET\r\n$1\rXk\r\nauth a\r\n";
        upward.feed(&mut BytesMut::from(stream), &with_default_limits(None), &mut steps);
        assert!(matches!(steps.last(), Some(Step::Break(_))), "{steps:?}");
    }
}
