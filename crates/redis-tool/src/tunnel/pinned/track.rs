//! Which reply belongs to which command, as far as that has to be known: to find the replies that are rewritten, and
//! the moment for an answer of the tunnel's own. Pure; everything else passes byte for byte, in pieces as it comes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Limits, Scanner};

use super::rewrite::Query;

/// A reply about the topology may have so many bytes; a longer one passes as it is.
const MAX_HELD_BYTES: usize = 32 * 1024 * 1024;

/// So much of a frame tells whether it is a message: `>4\r\n$12\r\npunsubscribe\r\n`.
const MAX_OPENING_BYTES: usize = 32;

/// What is awaited from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expect {
    /// So many replies that nobody looks at.
    Replies(u64),
    /// The reply to a question about the topology.
    Topology(Query),
    /// So many confirmations, which RESP3 pushes and RESP2 sends as replies.
    Confirmations(u64),
    /// Confirmations for all subscriptions of a kind.
    AllOf(Kind),
    /// Nothing: the tunnel answers.
    Local(Bytes),
    /// What comes from here on is not made of replies (`MONITOR`, `PSYNC`).
    Stream,
}

/// What can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Channel,
    Pattern,
    Shard,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tracker {
    expected: VecDeque<Expect>,
    scanner: Scanner,
    frame: Part,
    held: BytesMut,
    /// Subscriptions by kind.
    counts: [i64; 3],
    /// Channels and patterns together, as the server counts them.
    total: i64,
    total_shards: i64,
    is_stream: bool,
    /// Nothing comes after what is expected now.
    is_closing: bool,
}

/// What is done with the frame that is coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It passes; it is a reply.
    Reply,
    /// It passes; it is a message.
    Aside,
    /// It is held until its first word is known.
    Opening,
    /// It is held to its end: a confirmation.
    Confirmation,
    /// It is held to its end: an error, which may be a redirect.
    Error,
    /// It is held to its end.
    Topology(Query),
}

/// A frame that may have to be rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Held {
    Error(Bytes),
    Topology(Query, Bytes),
}

impl Kind {
    fn index(self) -> usize {
        match self {
            Self::Channel => 0,
            Self::Pattern => 1,
            Self::Shard => 2,
        }
    }
}

impl Tracker {
    pub(super) fn new() -> Self {
        // Whatever the server sends passes: the limits of memory are others here, as nothing is kept.
        let limits = Limits {
            max_bulk_bytes: usize::MAX / 4,
            max_frame_bytes: usize::MAX / 2,
            max_elements: usize::MAX / 4,
            ..Limits::default()
        };
        Self {
            expected: VecDeque::new(),
            scanner: Scanner::new(limits),
            frame: Part::Reply,
            held: BytesMut::new(),
            counts: [0; 3],
            total: 0,
            total_shards: 0,
            is_stream: false,
            is_closing: false,
        }
    }

    /// A command was sent.
    pub(super) fn expect(&mut self, expect: Expect) {
        match (&expect, self.expected.back_mut()) {
            (Expect::Replies(more), Some(Expect::Replies(count))) => *count += more,
            (Expect::Confirmations(0) | Expect::Replies(0), _) => {}
            _ => self.expected.push_back(expect),
        }
    }

    /// The command that was expected to be answered last is not.
    pub(super) fn withdraw(&mut self) {
        match self.expected.back_mut() {
            Some(Expect::Replies(count)) if *count > 1 => *count -= 1,
            _ => drop(self.expected.pop_back()),
        }
    }

    /// Nothing is expected after this any more.
    pub(super) fn close_after(&mut self) {
        self.is_closing = true;
    }

    /// Whether everything has come, and nothing more will.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing && self.expected.is_empty()
    }

    /// Appends answers of the tunnel whose turn it is.
    pub(super) fn locals(&mut self, out: &mut Vec<u8>) {
        if !self.scanner.is_idle() {
            return;
        }
        while let Some(Expect::Local(answer)) = self.expected.front() {
            out.extend_from_slice(answer);
            self.expected.pop_front();
        }
    }

    /// Takes what the server sent, appends to `out` what is for the client, and stops after a frame that may have to be
    /// rewritten. Says how much of the input it has taken.
    pub(super) fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Option<Held>) {
        let mut at = 0;
        while at < input.len() {
            if self.is_stream {
                out.extend_from_slice(&input[at..]);
                return (input.len(), None);
            }
            if self.scanner.is_idle() {
                self.locals(out);
                if self.expected.front() == Some(&Expect::Stream) {
                    self.is_stream = true;
                    continue;
                }
                self.frame = self.part(input[at]);
            }
            let Ok(step) = self.scanner.scan(&input[at..]) else {
                // No RESP, so there is nothing in it that the tunnel knows.
                self.release(out);
                self.is_stream = true;
                continue;
            };
            let piece = &input[at..at + step.consumed];
            at += step.consumed;
            match self.frame {
                Part::Reply | Part::Aside => out.extend_from_slice(piece),
                _ => self.hold(piece, step.is_end, out),
            }
            if step.is_end
                && let Some(held) = self.end(out)
            {
                return (at, Some(held));
            }
        }
        self.locals(out);
        (at, None)
    }

    /// What a frame is that begins with this byte.
    fn part(&self, first: u8) -> Part {
        let subscribes = self.total > 0
            || self.total_shards > 0
            || matches!(self.expected.front(), Some(Expect::Confirmations(_) | Expect::AllOf(_)));
        match (first, self.expected.front()) {
            (b'-', _) => Part::Error,
            (b'>', _) if !subscribes => Part::Aside,
            (b'>' | b'*', _) if subscribes => Part::Opening,
            (_, Some(Expect::Topology(query))) => Part::Topology(*query),
            _ => Part::Reply,
        }
    }

    fn hold(&mut self, piece: &[u8], is_end: bool, out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        if self.frame == Part::Opening && (is_end || self.held.len() >= MAX_OPENING_BYTES) {
            self.frame = match (word(&self.held), self.held.first(), self.expected.front()) {
                (b"message" | b"pmessage" | b"smessage", ..) => Part::Aside,
                (
                    b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe" | b"sunsubscribe",
                    ..,
                ) => Part::Confirmation,
                (_, Some(b'>'), _) => Part::Aside,
                (_, _, Some(Expect::Topology(query))) => Part::Topology(*query),
                _ => Part::Reply,
            };
        }
        let is_too_long = self.held.len() > MAX_HELD_BYTES;
        if is_too_long && self.frame != Part::Aside {
            self.frame = Part::Reply;
        }
        if matches!(self.frame, Part::Reply | Part::Aside) {
            self.release(out);
        }
    }

    fn release(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.held);
        self.held.clear();
    }

    /// A frame is complete.
    fn end(&mut self, out: &mut Vec<u8>) -> Option<Held> {
        let frame = self.held.split().freeze();
        match self.frame {
            Part::Aside | Part::Opening => {}
            Part::Reply => self.answered(),
            Part::Confirmation => {
                out.extend_from_slice(&frame);
                self.confirmed(&frame);
            }
            Part::Error => {
                self.answered();
                return Some(Held::Error(frame));
            }
            Part::Topology(query) => {
                self.answered();
                return Some(Held::Topology(query, frame));
            }
        }
        None
    }

    /// A reply has come, for whatever was next.
    fn answered(&mut self) {
        match self.expected.front_mut() {
            Some(Expect::Replies(count)) if *count > 1 => *count -= 1,
            // An error is the only reply of a command that has several otherwise.
            Some(_) => {
                self.expected.pop_front();
            }
            None => {}
        }
    }

    fn confirmed(&mut self, frame: &[u8]) {
        let word = word(frame);
        let kind = match word.first() {
            Some(b'p') => Kind::Pattern,
            Some(b's') if word.starts_with(b"ss") || word.starts_with(b"sun") => Kind::Shard,
            _ => Kind::Channel,
        };
        // `… :7\r\n`: how many there are now.
        let text = frame.strip_suffix(b"\r\n").unwrap_or(frame);
        let digits = text.iter().rposition(|byte| *byte == b':').map_or(&[][..], |colon| &text[colon + 1..]);
        let now: i64 = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let total = if kind == Kind::Shard { &mut self.total_shards } else { &mut self.total };
        let count = &mut self.counts[kind.index()];
        *count = (*count + now - *total).max(0);
        *total = now;
        let is_over = *count == 0 || now == 0;
        match self.expected.front_mut() {
            Some(Expect::Confirmations(left)) if *left > 1 => *left -= 1,
            Some(Expect::Confirmations(_)) => self.answered(),
            Some(Expect::AllOf(all)) if *all == kind && is_over => self.answered(),
            _ => {}
        }
    }
}

/// The first element of a frame that begins with a list whose first element is a string.
fn word(frame: &[u8]) -> &[u8] {
    let after = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    let found = || {
        let list = frame.get(after(frame)?..)?;
        let string = list.strip_prefix(b"$")?;
        let text = string.get(after(string)?..)?;
        text.get(..text.iter().position(|byte| *byte == b'\r')?)
    };
    found().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What is rewritten is shown as `<…>`.
    #[track_caller]
    fn check(expected: &[Expect], stream: &str, shown: &str) {
        for piece in 1..=stream.len() {
            let mut tracker = Tracker::new();
            expected.iter().for_each(|expect| tracker.expect(expect.clone()));
            let mut out = Vec::new();
            tracker.locals(&mut out);
            for piece in stream.as_bytes().chunks(piece) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, held) = tracker.feed(rest, &mut out);
                    rest = &rest[taken..];
                    if let Some(Held::Error(frame) | Held::Topology(_, frame)) = held {
                        out.push(b'<');
                        out.extend_from_slice(&frame);
                        out.push(b'>');
                    }
                    tracker.locals(&mut out);
                }
            }
            assert_eq!(String::from_utf8_lossy(&out), shown, "in pieces of {piece}");
        }
    }

    fn local() -> Expect {
        Expect::Local(Bytes::from_static(b"+mine\r\n"))
    }

    #[test]
    fn only_the_answer_to_a_question_about_the_topology_is_held() {
        let slots = Expect::Topology(Query::Slots);
        check(
            &[Expect::Replies(2), slots.clone(), Expect::Replies(1)],
            "*1\r\n:1\r\n$2\r\n:1\r\n*1\r\n:5\r\n*0\r\n",
            "*1\r\n:1\r\n$2\r\n:1\r\n<*1\r\n:5\r\n>*0\r\n",
        );
        check(&[slots], ">2\r\n+a\r\n+b\r\n*0\r\n", ">2\r\n+a\r\n+b\r\n<*0\r\n>");
        check(&[Expect::Replies(2)], "-ERR a\r\n:1\r\n", "<-ERR a\r\n>:1\r\n");
    }

    #[test]
    fn own_answers_come_in_their_turn() {
        check(&[local(), Expect::Replies(1), local()], "$1\r\nx\r\n", "+mine\r\n$1\r\nx\r\n+mine\r\n");
        check(&[Expect::Replies(2), local(), Expect::Replies(1)], ":1\r\n:2\r\n:3\r\n", ":1\r\n:2\r\n+mine\r\n:3\r\n");
    }

    #[test]
    fn messages_are_not_taken_for_replies() {
        let confirmation = |kind: char, word: &str, count: u32| {
            format!("{kind}3\r\n${}\r\n{word}\r\n$1\r\nc\r\n:{count}\r\n", word.len())
        };
        for kind in ['*', '>'] {
            let message = format!("{kind}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$40\r\n{}\r\n", "*".repeat(40));
            let stream = [
                confirmation(kind, "subscribe", 1),
                message.clone(),
                confirmation(kind, "subscribe", 2),
                message.clone(),
                confirmation(kind, "unsubscribe", 1),
                confirmation(kind, "unsubscribe", 0),
                "*0\r\n".to_owned(),
            ]
            .concat();
            let expected = [Expect::Confirmations(2), Expect::AllOf(Kind::Channel), Expect::Topology(Query::Nodes)];
            check(&expected, &stream, &stream.replace("*0\r\n", "<*0\r\n>"));
        }
    }

    /// Frames and no frames.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            vec(any::<u8>(), 0..40),
            vec(any::<u8>(), 0..200)
                .prop_map(|data| [format!("${}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat()),
            (0..5_usize, prop_oneof![Just('*'), Just('>'), Just('%'), Just('|'), Just('~')])
                .prop_map(|(count, kind)| format!("{kind}{count}\r\n").into_bytes()),
            prop_oneof![
                Just("-MOVED 1 a:1\r\n"),
                Just(":5\r\n"),
                Just("$9\r\nsubscribe\r\n"),
                Just("$7\r\nmessage\r\n"),
                Just("_\r\n"),
            ]
            .prop_map(|text| text.as_bytes().to_vec()),
        ];
        vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    fn expectation() -> impl Strategy<Value = Expect> {
        prop_oneof![
            (1..9_u64).prop_map(Expect::Replies),
            (1..3_u64).prop_map(Expect::Confirmations),
            Just(Expect::AllOf(Kind::Pattern)),
            Just(Expect::Topology(Query::Slots)),
        ]
    }

    proptest! {
        /// Whatever comes, in whatever pieces, leaves as it came, in its order; only what is held may be replaced.
        #[test]
        fn nothing_is_lost_or_altered(stream in stream(), expected in vec(expectation(), 0..9), piece in 1..60_usize) {
            let mut tracker = Tracker::new();
            expected.into_iter().for_each(|expect| tracker.expect(expect));
            let mut out = Vec::new();
            for piece in stream.chunks(piece) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, held) = tracker.feed(rest, &mut out);
                    rest = &rest[taken..];
                    if let Some(Held::Error(frame) | Held::Topology(_, frame)) = held {
                        out.extend_from_slice(&frame);
                    }
                }
            }
            tracker.release(&mut out);
            prop_assert_eq!(out, stream);
        }
    }

    #[test]
    fn a_stream_passes_whatever_it_is() {
        check(
            &[Expect::Replies(1), Expect::Stream],
            "+OK\r\n+1 [0 a] \"x\"\r\nno resp",
            "+OK\r\n+1 [0 a] \"x\"\r\nno resp",
        );
        check(&[Expect::Replies(5)], "+OK\r\nwhat?", "+OK\r\nwhat?");
    }
}
