//! Where requests end among the bytes that hyper reads, and whether their chunked framing is exact to the byte (RFC 9112 §7.1).
//!
//! hyper takes a bare LF for the end of a line in a trailer section. Whoever is in front of the gateway may not, and take for a request
//! what is a trailer here, or the other way round. So the bytes are followed before hyper has them, and end at the first one that is wrong:
//! hyper gets an error in its place, refuses the request and closes the connection.
//!
//! ```text
//!            blank line, no body
//!          ┌──────┐
//!          ▼      │  Content-Length
//!   ────▶ Head ───┴─────────────────▶ Length ───▶ Head
//!          │ Transfer-Encoding
//!          ▼              0                  blank line
//!        Size ◀─▶ Data, Size ─▶ Trailer ─────────────────▶ Head
//! ```
//!
//! Heads are hyper's to judge; here is only found out how the body behind one is framed. Where the two would differ, hyper refuses the request.
//!
//! Invariant: however the bytes are cut into reads, the same byte is the first that is wrong.

/// Of a line of a head that came in pieces: enough for any that frames a body.
const MAX_KEPT_LINE: usize = 1024;
/// Before the minor version in a request line.
const VERSION: &[u8] = b" HTTP/1.";
/// The largest body of which hyper takes the length.
const MAX_LENGTH: u64 = u64::MAX - 2;
/// Digits of a chunk's size: hyper refuses more.
const MAX_SIZE_DIGITS: u8 = 16;

/// The position of the first byte that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong(pub(super) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    /// So many digits of a chunk's size.
    Size(u64, u8),
    /// Behind the digits, up to CR.
    Extension(u64),
    /// LF of that line.
    SizeEnd(u64),
    Data(u64),
    /// CR behind a chunk.
    DataCr,
    DataLf,
    /// The beginning of a line of the trailer section.
    Trailer,
    /// Within such a line.
    TrailerLine,
    TrailerLf,
    /// LF of the blank line.
    LastLf,
    /// A byte was wrong.
    Over,
}

/// How the body behind a head is framed.
#[derive(Debug, Default, Clone, Copy)]
enum Body {
    #[default]
    None,
    Length(u64),
    Chunked,
}

/// Follows the requests of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// Of the head that is being read.
    body: Body,
    /// A line of it has come.
    has_begun: bool,
    /// What has come of its last line.
    line: Vec<u8>,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self { state: State::Head, body: Body::None, has_begun: false, line: Vec::new() }
    }

    /// Whether a body is being read: the request is not whole.
    pub(super) fn is_in_body(&self) -> bool {
        self.state != State::Head
    }

    /// Whether a byte was wrong.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Goes on behind these bytes. The version of a request line becomes one that hyper knows.
    pub(super) fn follow(&mut self, bytes: &mut [u8]) -> Result<(), Wrong> {
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            at += match self.state {
                State::Head => self.head(rest).map_err(|Wrong(more)| Wrong(at + more))?,
                State::Length(left) => {
                    let taken = taken(left, rest);
                    let left = left - taken as u64;
                    self.state = if left == 0 { State::Head } else { State::Length(left) };
                    taken
                }
                State::Data(left) => {
                    let taken = taken(left, rest);
                    let left = left - taken as u64;
                    self.state = if left == 0 { State::DataCr } else { State::Data(left) };
                    taken
                }
                state => {
                    self.state = rest.first().and_then(|byte| step(state, *byte)).unwrap_or(State::Over);
                    if self.is_over() {
                        return Err(Wrong(at));
                    }
                    1
                }
            };
        }
        Ok(())
    }

    /// Takes lines of a head; returns how many bytes.
    fn head(&mut self, bytes: &mut [u8]) -> Result<usize, Wrong> {
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &bytes[start..]) {
            let end = start + length;
            let line = &bytes[start..end];
            start = end + 1;
            let line = if self.line.is_empty() {
                line
            } else {
                self.keep(line);
                &self.line[..]
            };
            if matches!(line, [] | b"\r") {
                self.line.clear();
                // RFC 9112 §2.2: empty lines before a request mean nothing.
                if std::mem::take(&mut self.has_begun) {
                    self.state = match std::mem::take(&mut self.body) {
                        Body::None | Body::Length(0) => State::Head,
                        Body::Length(length) => State::Length(length),
                        Body::Chunked => State::Size(0, 0),
                    };
                    return Ok(start);
                }
                continue;
            }
            let later = if self.has_begun { None } else { later_version(line) };
            self.has_begun = true;
            if let Some(b't' | b'T' | b'c' | b'C') = line.first() {
                let Some(body) = field(line, self.body) else {
                    // Made a length that is no number, it is refused with an answer.
                    let Some(last) = end.checked_sub(1).and_then(|last| bytes.get_mut(last)) else {
                        self.state = State::Over;
                        return Err(Wrong(end));
                    };
                    *last = b'x';
                    self.line.clear();
                    continue;
                };
                self.body = body;
            }
            self.line.clear();
            understand(bytes, end, later);
        }
        self.keep(&bytes[start..]);
        if !self.has_begun {
            let (later, end) = (later_version(&self.line), bytes.len());
            understand(bytes, end, later);
        }
        Ok(bytes.len())
    }

    /// Keeps a part of a line: the end of a request line, the beginning of a field. Beyond what is kept of one that frames there are only spaces.
    fn keep(&mut self, part: &[u8]) {
        if !self.has_begun && self.line.len() + part.len() > MAX_KEPT_LINE {
            self.line.drain(..self.line.len().saturating_sub(VERSION.len() + 2));
            self.line.extend_from_slice(&part[part.len().saturating_sub(MAX_KEPT_LINE / 2)..]);
            return;
        }
        let room = MAX_KEPT_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..room.min(part.len())]);
    }
}

/// How far before the end of a request line, or of its beginning, the minor version stands if it is higher than any that hyper knows.
fn later_version(line: &[u8]) -> Option<usize> {
    let (line, cr) = line.strip_suffix(b"\r").map_or((line, 0), |line| (line, 1));
    let (minor, before) = line.split_last()?;
    (matches!(minor, b'2'..=b'9') && before.ends_with(VERSION)).then_some(1 + cr)
}

/// RFC 9110 §2.5: a higher minor version is taken for the highest that is known. One that came with an earlier read was changed then.
fn understand(bytes: &mut [u8], end: usize, later: Option<usize>) {
    if let Some(minor) = later.and_then(|back| bytes.get_mut(end.checked_sub(back)?)) {
        *minor = b'1';
    }
}

fn taken(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
}

/// What a line of a head makes of the framing: RFC 9112 §6.3, `Transfer-Encoding` overrides. `None`: a length that nobody sends.
fn field(line: &[u8], body: Body) -> Option<Body> {
    let Some(colon) = memchr::memchr(b':', line) else { return Some(body) };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.eq_ignore_ascii_case(b"transfer-encoding") {
        return Some(Body::Chunked);
    }
    if !name.eq_ignore_ascii_case(b"content-length") || matches!(body, Body::Chunked) {
        return Some(body);
    }
    if line.len() >= MAX_KEPT_LINE {
        return None;
    }
    let digits = value.trim_ascii();
    let number = digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    // What is no number is refused by hyper; a number beyond its own is for it a head that is too large.
    match number {
        Some(MAX_LENGTH..) => None,
        number => Some(number.map_or(Body::None, Body::Length)),
    }
}

/// One byte of the framing of chunks; `None` if it is wrong.
fn step(state: State, byte: u8) -> Option<State> {
    Some(match (state, byte) {
        (State::Size(size, digits), _) if byte.is_ascii_hexdigit() => {
            if digits == MAX_SIZE_DIGITS {
                return None;
            }
            let digit = (byte as char).to_digit(16).map_or(0, u64::from);
            State::Size(size << 4 | digit, digits + 1)
        }
        (State::Size(_, 0), _) => return None,
        (State::Size(size, _) | State::Extension(size), b'\r') => State::SizeEnd(size),
        (State::Size(size, _), b';' | b' ' | b'\t') => State::Extension(size),
        (State::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => State::Extension(size),
        (State::SizeEnd(0), b'\n') | (State::TrailerLf, b'\n') => State::Trailer,
        (State::SizeEnd(size), b'\n') => State::Data(size),
        (State::DataCr, b'\r') => State::DataLf,
        (State::DataLf, b'\n') => State::Size(0, 0),
        (State::Trailer, b'\r') => State::LastLf,
        (State::TrailerLine, b'\r') => State::TrailerLf,
        (State::Trailer | State::TrailerLine, b'\t' | b' '..=b'~' | 0x80..) => State::TrailerLine,
        (State::LastLf, b'\n') => State::Head,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// The first wrong byte, with a cut after each of these lengths in turn.
    fn first_wrong(bytes: &[u8], cuts: &[usize]) -> (Option<usize>, bool) {
        let mut framing = Framing::new();
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while at < bytes.len() {
            let next = bytes.len().min(at + cuts.next().map_or(usize::MAX / 2, |cut| *cut.max(&1)));
            if let Err(Wrong(wrong)) = framing.follow(&mut bytes[at..next].to_vec()) {
                assert!(framing.is_over());
                return (Some(at + wrong), true);
            }
            at = next;
        }
        (None, framing.is_in_body())
    }

    /// `wrong` is the position of the first wrong byte behind the head.
    #[track_caller]
    fn check(body: &[u8], wrong: Option<usize>, in_body: bool) {
        let whole = [HEAD, body].concat();
        for cut in 1..4 {
            assert_eq!(
                first_wrong(&whole, &[cut]),
                (wrong.map(|at| HEAD.len() + at), in_body),
                "{}",
                body.escape_ascii()
            );
        }
        assert_eq!(first_wrong(&whole, &[]), (wrong.map(|at| HEAD.len() + at), in_body));
    }

    /// What hyper gets of a request line, with each way to cut it.
    #[test]
    fn later_minor_versions_are_the_highest_that_is_known() {
        for (line, wanted) in [
            ("GET / HTTP/1.2", "GET / HTTP/1.1"),
            ("GET /HTTP/1.5 HTTP/1.9", "GET /HTTP/1.5 HTTP/1.1"),
            ("GET / HTTP/1.0", "GET / HTTP/1.0"),
            ("GET / HTTP/2.2", "GET / HTTP/2.2"),
        ] {
            let whole = format!("\r\n{line}\r\nx: HTTP/1.3\r\n HTTP/1.4\r\n\r\n").into_bytes();
            for cut in 1..=whole.len() {
                let (mut framing, mut given) = (Framing::new(), Vec::new());
                for piece in whole.chunks(cut) {
                    let mut piece = piece.to_vec();
                    framing.follow(&mut piece).unwrap();
                    given.extend(piece);
                }
                let expected = String::from_utf8(whole.clone()).unwrap().replacen(line, wanted, 1);
                assert_eq!(String::from_utf8(given).unwrap(), expected, "cut {cut}");
            }
        }
    }

    #[test]
    fn a_version_behind_a_long_target() {
        let line = format!("GET /{} HTTP/1.7\r\n", "a".repeat(5_000));
        for cut in [1, 7, 100, 1_000, 4_000] {
            let (mut framing, mut given) = (Framing::new(), Vec::new());
            for piece in line.as_bytes().chunks(cut) {
                let mut piece = piece.to_vec();
                framing.follow(&mut piece).unwrap();
                given.extend(piece);
            }
            assert_eq!(String::from_utf8(given).unwrap(), line.replace("1.7", "1.1"), "cut {cut}");
        }
    }

    #[test]
    fn lengths_that_hyper_does_not_know() {
        for (length, is_taken) in
            [("18446744073709551612", true), ("18446744073709551613", false), ("18446744073709551615", false)]
        {
            let mut head = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            assert!(Framing::new().follow(&mut head).is_ok());
            assert_eq!(head.windows(2).any(|pair| pair == b"x\n"), !is_taken, "{length}: hyper gets no number");
        }
    }

    #[test]
    fn exact_chunks() {
        check(b"0\r\n\r\n", None, false);
        check(b"3\r\nabc\r\n0\r\n\r\n", None, false);
        check(b"3;a=\"b\" ; c\r\na\n\r\r\n00\r\nX: y\r\nZ:\r\n\r\n", None, false);
        check(b"3\r\nab", None, true);
        check(b"0\r\nX: y\r\n", None, true);
        check(b"0\r\n\r\nGET / HTTP/1.1\r\n\r\nPOST / HTTP/1.0\r\ncontent-length: 5\r\n\r\n0\r\n\n!", None, false);
    }

    #[test]
    fn what_is_not_exact() {
        check(b"0\r\n\nPOST", Some(3), true);
        check(b"0\r\nX: a\r\n\n", Some(9), true);
        check(b"0\r\nX: a\n\n", Some(7), true);
        check(b"0\r\n\r\r\n", Some(4), true);
        check(b"0\r\nX: a\rb\r\n", Some(8), true);
        check(b"0\n\r\n", Some(1), true);
        check(b"1;x\nb", Some(3), true);
        check(b"\r\n", Some(0), true);
        check(b";\r\n", Some(0), true);
        check(b"x\r\n", Some(0), true);
        check(b"1\r\nab", Some(4), true);
        check(b"1\r\na\n", Some(4), true);
        check(b"11111111111111111\r\n", Some(16), true);
    }

    #[test]
    fn heads_of_all_kinds() {
        for head in [
            &b"\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n"[..],
            b"POST / HTTP/1.1\nTRANSFER-ENCODING:\tchunked\n\n",
            b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length:   3\r\nX: transfer-encoding: chunked\r\n\r\nabcPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            for cut in 1..20 {
                let whole = [head, b"0\r\n\n"].concat();
                assert_eq!(first_wrong(&whole, &[cut]).0, Some(head.len() + 3), "{}", head.escape_ascii());
            }
        }
        let long = [b"POST / HTTP/1.1\r\nContent-Length:", &vec![b' '; 2000][..], b"5\r\n\r\n"].concat();
        for cut in [700, long.len()] {
            let (mut framing, mut given) = (Framing::new(), Vec::new());
            for piece in long.chunks(cut) {
                let mut piece = piece.to_vec();
                framing.follow(&mut piece).unwrap();
                given.extend(piece);
            }
            assert!(given.ends_with(b"5x\n\r\n"), "no number, which hyper refuses");
        }
        assert_eq!(first_wrong(b"TRACE / HTTP/1.1\r\nC: \r\n\r\n", &[3]), (None, false));
        assert_eq!(first_wrong(b"GET / HTTP/1.1\r\nX-Transfer-Encoding: chunked\r\n\r\n0\n\n", &[]), (None, false));
    }

    fn part() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(HEAD.to_vec()),
            Just(b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n".to_vec()),
            Just(b"3\r\nabc\r\n".to_vec()),
            Just(b"0\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"X: y\r\n".to_vec()),
            "[\r\n0-3a;:x ]{0,6}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            parts in proptest::collection::vec(part(), 0..20),
            cuts in proptest::collection::vec(1usize..9, 1..5),
        ) {
            let whole = parts.concat();
            prop_assert_eq!(first_wrong(&whole, &cuts), first_wrong(&whole, &[]));
        }
    }
}
