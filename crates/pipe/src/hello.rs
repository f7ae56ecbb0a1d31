//! HELLO and WELCOME: who dials, for what, under which limits (spec §4).
//!
//! Both are a line `PIPE/1` and lines `key=value`. Unknown keys are ignored (P-12); values above a limit are lowered
//! (§10).

use crate::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME, flags};
use bytes::{BufMut, BytesMut};
use std::fmt::Write as _;

/// The longest payload of HELLO and of WELCOME, in bytes.
pub const MAX_HELLO: usize = 4096;
/// The most exchanges at once on one shared connection.
pub const MAX_EXCHANGES: u16 = 4096;
/// The most own connections of one instance.
pub const MAX_OWN: u16 = 4096;
/// `exchanges` and `max_own` of a HELLO that does not name them.
pub const DEFAULT_LIMIT: u16 = 64;
/// The highest minor version that is spoken here: 1 has upgrades (spec §12).
pub const MINOR: u16 = 1;
/// Hexadecimal digits of a token.
pub const TOKEN_LEN: usize = 32;

const VERSION_LINE: &str = "PIPE/1";
/// The longest free text (`sdk`, `service`) that is sent.
const MAX_VALUE: usize = 256;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// Many small exchanges at once, and everything about the instance.
    Shared,
    /// One exchange at a time, streaming both ways.
    Own,
    /// One answer at a time to exchanges of shared connections.
    Answer,
}

impl ConnectionKind {
    /// The kind's name in HELLO.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Own => "own",
            Self::Answer => "answer",
        }
    }
}

/// The payload of HELLO, the first frame of every connection (P-1).
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::frame::HEADER_LEN;
/// use pilotlight_pipe::hello::{ConnectionKind, DEFAULT_LIMIT, Hello, MINOR};
///
/// let hello = Hello {
///     token: "00112233445566778899aabbccddeeff".into(),
///     kind: ConnectionKind::Shared,
///     worker: None,
///     exchanges: 16,
///     max_own: DEFAULT_LIMIT,
///     minor: MINOR,
///     sdk: "example 1.0".into(),
///     pid: Some(std::process::id()),
/// };
/// let mut wire = BytesMut::new();
/// hello.encode(&mut wire);
/// assert_eq!(Hello::parse(&wire[HEADER_LEN..]), Ok(hello));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The instance's token, [`TOKEN_LEN`] hexadecimal digits.
    pub token: String,
    /// What the connection is for.
    pub kind: ConnectionKind,
    /// The gateway's worker; required unless shared (P-13).
    pub worker: Option<u32>,
    /// Shared only: exchanges at once on this connection, 0 to [`MAX_EXCHANGES`]; 0 is for control frames only.
    pub exchanges: u16,
    /// Own connections that the instance will hold open, 0 to [`MAX_OWN`].
    pub max_own: u16,
    /// The highest minor version that the service speaks (P-37), 0 unless it is named.
    pub minor: u16,
    /// Name and version of the SDK, for people.
    pub sdk: String,
    /// Process id, for people.
    pub pid: Option<u32>,
}

impl Hello {
    /// Reads a payload.
    ///
    /// # Errors
    /// The text says which rule was broken and how; it is what RESET(PROTOCOL) carries (P-4).
    pub fn parse(payload: &[u8]) -> Result<Self, HelloError> {
        let mut hello = Self {
            token: String::new(),
            kind: ConnectionKind::Shared,
            worker: None,
            exchanges: DEFAULT_LIMIT,
            max_own: DEFAULT_LIMIT,
            minor: 0,
            sdk: String::new(),
            pid: None,
        };
        for_each_pair("HELLO", payload, |key, value| {
            match key {
                "token" => hello.token = token(value)?.to_owned(),
                "kind" => hello.kind = kind(value)?,
                "worker" => hello.worker = Some(number("worker", value)?),
                "exchanges" => hello.exchanges = lowered("exchanges", value, MAX_EXCHANGES)?,
                "max_own" => hello.max_own = lowered("max_own", value, MAX_OWN)?,
                "minor" => hello.minor = lowered("minor", value, u16::MAX)?,
                "sdk" => value.clone_into(&mut hello.sdk),
                "pid" => hello.pid = value.parse().ok(),
                _ => {} // P-12
            }
            Ok(())
        })?;
        if hello.token.is_empty() {
            return Err(HelloError::Missing { frame: "HELLO", key: "token" });
        }
        if hello.kind != ConnectionKind::Shared && hello.worker.is_none() {
            return Err(HelloError::NoWorker { kind: hello.kind.name() });
        }
        Ok(hello)
    }

    /// Appends the whole frame. `sdk` is cut to 256 bytes and loses its control characters.
    pub fn encode(&self, out: &mut BytesMut) {
        frame(out, FrameType::HELLO, |text| {
            line(text, "token", &self.token);
            line(text, "kind", self.kind.name());
            if let Some(worker) = self.worker {
                line(text, "worker", worker);
            }
            if self.kind == ConnectionKind::Shared {
                line(text, "exchanges", self.exchanges);
            }
            line(text, "max_own", self.max_own);
            line(text, "minor", self.minor);
            line(text, "sdk", clean(&self.sdk));
            if let Some(pid) = self.pid {
                line(text, "pid", pid);
            }
        });
    }
}

/// The payload of WELCOME, the answer to an accepted HELLO (P-3).
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::frame::{HEADER_LEN, MAX_FRAME};
/// use pilotlight_pipe::hello::{MINOR, Welcome};
///
/// let welcome =
///     Welcome { worker: 0, max_frame: MAX_FRAME as u32, minor: MINOR, service: "users".into(), instance: 1 };
/// let mut wire = BytesMut::new();
/// welcome.encode(&mut wire);
/// assert_eq!(Welcome::parse(&wire[HEADER_LEN..]), Ok(welcome));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The worker that this connection belongs to.
    pub worker: u32,
    /// The largest payload either side may send, at least [`MAX_FRAME`].
    pub max_frame: u32,
    /// The minor version of this connection: the lower one of what both sides speak (P-37).
    pub minor: u16,
    /// The service's configured name.
    pub service: String,
    /// The instance's number.
    pub instance: u64,
}

impl Welcome {
    /// Reads a payload.
    ///
    /// # Errors
    /// The payload is not text of the version that this crate speaks, or a value is missing or out of its range.
    pub fn parse(payload: &[u8]) -> Result<Self, HelloError> {
        let (mut worker, mut max_frame, mut service, mut instance) = (None, MAX_FRAME as u32, String::new(), 0);
        let mut minor = 0;
        for_each_pair("WELCOME", payload, |key, value| {
            match key {
                "worker" => worker = Some(number("worker", value)?),
                "max_frame" => max_frame = number("max_frame", value)?,
                "minor" => minor = number("minor", value)?,
                "service" => value.clone_into(&mut service),
                "instance" => instance = number("instance", value)?,
                _ => {} // P-12
            }
            Ok(())
        })?;
        if (max_frame as usize) < MAX_FRAME {
            return Err(HelloError::Value {
                key: "max_frame",
                value: max_frame.to_string(),
                expected: "65536 or more",
            });
        }
        let worker = worker.ok_or(HelloError::Missing { frame: "WELCOME", key: "worker" })?;
        Ok(Self { worker, max_frame, minor, service, instance })
    }

    /// Appends the whole frame. `service` is cut to 256 bytes and loses its control characters.
    pub fn encode(&self, out: &mut BytesMut) {
        frame(out, FrameType::WELCOME, |text| {
            line(text, "worker", self.worker);
            line(text, "max_frame", self.max_frame);
            line(text, "minor", self.minor);
            line(text, "service", clean(&self.service));
            line(text, "instance", self.instance);
        });
    }
}

/// Why a payload is neither HELLO nor WELCOME.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Above [`MAX_HELLO`].
    #[error("P-4: {frame} of {length} bytes is longer than {MAX_HELLO}")]
    TooLong {
        /// HELLO or WELCOME.
        frame: &'static str,
        /// The payload's length.
        length: usize,
    },
    /// Not UTF-8.
    #[error("P-4: {frame} is not UTF-8 text")]
    NotText {
        /// HELLO or WELCOME.
        frame: &'static str,
    },
    /// Another major version.
    #[error("P-12: version {got:?} is not spoken here; spoken: PIPE/1")]
    Version {
        /// The first line, cut to 32 characters.
        got: String,
    },
    /// A line without LF at its end or without `=`.
    #[error("P-4: line {line} of {frame} is not `key=value` ended by LF")]
    Line {
        /// HELLO or WELCOME.
        frame: &'static str,
        /// Counted from 1.
        line: usize,
    },
    /// A required key is missing.
    #[error("P-4: {frame} has no {key}")]
    Missing {
        /// HELLO or WELCOME.
        frame: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A value that its key does not take.
    #[error("P-4: {key}={value} is not {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value, cut to 32 characters.
        value: String,
        /// What would do.
        expected: &'static str,
    },
    /// The token is not a token. Its text is not shown.
    #[error("P-4: the token is not {TOKEN_LEN} hexadecimal digits")]
    Token,
    /// An own or answer connection without a worker.
    #[error("P-13: a connection of kind {kind} must name a worker")]
    NoWorker {
        /// The kind's name.
        kind: &'static str,
    },
}

fn for_each_pair<'a>(
    frame: &'static str,
    payload: &'a [u8],
    mut take: impl FnMut(&'a str, &'a str) -> Result<(), HelloError>,
) -> Result<(), HelloError> {
    if payload.len() > MAX_HELLO {
        return Err(HelloError::TooLong { frame, length: payload.len() });
    }
    let text = str::from_utf8(payload).map_err(|_| HelloError::NotText { frame })?;
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or("");
    if first.strip_suffix('\n') != Some(VERSION_LINE) {
        return Err(HelloError::Version { got: shown(first.trim_end_matches('\n')) });
    }
    for (index, line) in lines.enumerate() {
        let pair = line.strip_suffix('\n').and_then(|line| line.split_once('='));
        let (key, value) = pair.ok_or(HelloError::Line { frame, line: index + 2 })?;
        take(key, value)?;
    }
    Ok(())
}

fn token(value: &str) -> Result<&str, HelloError> {
    let good = value.len() == TOKEN_LEN && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then_some(value).ok_or(HelloError::Token)
}

fn kind(value: &str) -> Result<ConnectionKind, HelloError> {
    match value {
        "shared" => Ok(ConnectionKind::Shared),
        "own" => Ok(ConnectionKind::Own),
        "answer" => Ok(ConnectionKind::Answer),
        _ => Err(HelloError::Value { key: "kind", value: shown(value), expected: "shared, own or answer" }),
    }
}

fn number<T: std::str::FromStr>(key: &'static str, value: &str) -> Result<T, HelloError> {
    value.parse().map_err(|_| HelloError::Value { key, value: shown(value), expected: "a number in range" })
}

/// Spec §10: a value above the limit is lowered to it.
fn lowered(key: &'static str, value: &str, max: u16) -> Result<u16, HelloError> {
    Ok(number::<u32>(key, value)?.min(u32::from(max)) as u16)
}

fn shown(value: &str) -> String {
    value.chars().take(32).collect()
}

fn clean(value: &str) -> String {
    let mut text: String = value.chars().filter(|c| !c.is_control()).collect();
    while text.len() > MAX_VALUE {
        text.pop();
    }
    text
}

fn frame(out: &mut BytesMut, kind: u8, fill: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_slice(&[0; HEADER_LEN]);
    out.put_slice(VERSION_LINE.as_bytes());
    out.put_u8(b'\n');
    fill(out);
    let length = (out.len() - start - HEADER_LEN) as u32;
    let header = FrameHeader { length, kind, flags: flags::NONE, exchange: 0 };
    out[start..start + HEADER_LEN].copy_from_slice(&header.encode());
}

fn line(out: &mut BytesMut, key: &str, value: impl std::fmt::Display) {
    // Writing to a BytesMut fails only at usize::MAX bytes; all values here are bounded.
    let written = writeln!(out, "{key}={value}");
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::split_frame;
    use proptest::prelude::*;

    const TOKEN: &str = "0123456789abcdef0123456789ABCDEF";

    #[track_caller]
    fn check(text: &str, expected: Result<Hello, &str>) {
        assert_eq!(Hello::parse(text.as_bytes()).map_err(|error| error.to_string()), expected.map_err(String::from));
    }

    fn hello() -> Hello {
        Hello {
            token: TOKEN.into(),
            kind: ConnectionKind::Shared,
            worker: None,
            exchanges: 64,
            max_own: 64,
            minor: 0,
            sdk: String::new(),
            pid: None,
        }
    }

    #[test]
    fn defaults_unknown_keys_and_lowered_values() {
        check(&format!("PIPE/1\ntoken={TOKEN}\n"), Ok(hello()));
        check(&format!("PIPE/1\nfuture=yes\ntoken={TOKEN}\nsdk=a=b\n"), Ok(Hello { sdk: "a=b".into(), ..hello() }));
        check(&format!("PIPE/1\ntoken={TOKEN}\nexchanges=99999\n"), Ok(Hello { exchanges: 4096, ..hello() }));
        check(&format!("PIPE/1\ntoken={TOKEN}\nexchanges=0\n"), Ok(Hello { exchanges: 0, ..hello() }));
        check(&format!("PIPE/1\ntoken={TOKEN}\nminor=3\n"), Ok(Hello { minor: 3, ..hello() }));
        let own = Hello { kind: ConnectionKind::Own, worker: Some(3), ..hello() };
        check(&format!("PIPE/1\ntoken={TOKEN}\nkind=own\nworker=3\n"), Ok(own));
    }

    #[test]
    fn mistakes_name_the_rule() {
        check("", Err("P-12: version \"\" is not spoken here; spoken: PIPE/1"));
        check("PIPE/2\n", Err("P-12: version \"PIPE/2\" is not spoken here; spoken: PIPE/1"));
        check("PIPE/1", Err("P-12: version \"PIPE/1\" is not spoken here; spoken: PIPE/1"));
        check("PIPE/1\n", Err("P-4: HELLO has no token"));
        check("PIPE/1\ntoken=xyz\n", Err("P-4: the token is not 32 hexadecimal digits"));
        check("PIPE/1\ntoken\n", Err("P-4: line 2 of HELLO is not `key=value` ended by LF"));
        check(&format!("PIPE/1\ntoken={TOKEN}"), Err("P-4: line 2 of HELLO is not `key=value` ended by LF"));
        check(&format!("PIPE/1\ntoken={TOKEN}\nkind=x\n"), Err("P-4: kind=x is not shared, own or answer"));
        check(&format!("PIPE/1\ntoken={TOKEN}\nexchanges=-1\n"), Err("P-4: exchanges=-1 is not a number in range"));
        check(&format!("PIPE/1\ntoken={TOKEN}\nkind=own\n"), Err("P-13: a connection of kind own must name a worker"));
        check(&format!("PIPE/1\nx={}\n", "y".repeat(5000)), Err("P-4: HELLO of 5010 bytes is longer than 4096"));
    }

    #[test]
    fn welcome_needs_a_worker_and_a_large_enough_frame() {
        let missing = HelloError::Missing { frame: "WELCOME", key: "worker" };
        assert_eq!(Welcome::parse(b"PIPE/1\n"), Err(missing));
        assert!(Welcome::parse(b"PIPE/1\nworker=1\nmax_frame=100\n").is_err());
        let least = Welcome::parse(b"PIPE/1\nworker=1\n").unwrap();
        assert_eq!((least.max_frame, least.minor), (65_536, 0));
    }

    fn kinds() -> impl Strategy<Value = ConnectionKind> {
        prop_oneof![Just(ConnectionKind::Shared), Just(ConnectionKind::Own), Just(ConnectionKind::Answer)]
    }

    proptest! {
        #[test]
        fn hello_decode_of_encode(
            token in "[0-9a-f]{32}", kind in kinds(), worker in any::<u32>(), exchanges in 0u16..=4096,
            max_own in 0u16..=4096, minor in any::<u16>(), sdk in "[ -~é]{0,100}", pid in any::<Option<u32>>(),
        ) {
            let exchanges = if kind == ConnectionKind::Shared { exchanges } else { DEFAULT_LIMIT };
            let hello = Hello { token, kind, worker: Some(worker), exchanges, max_own, minor, sdk, pid };
            let mut out = BytesMut::new();
            hello.encode(&mut out);
            let (header, payload) = split_frame(&mut out, MAX_FRAME).unwrap().unwrap();
            prop_assert_eq!((header.kind, header.exchange, out.len()), (FrameType::HELLO, 0, 0));
            prop_assert_eq!(Hello::parse(&payload).unwrap(), hello);
        }

        #[test]
        fn welcome_decode_of_encode(worker in any::<u32>(), max_frame in 65_536u32.., minor in any::<u16>(), service in "[a-z-]{1,40}", instance in any::<u64>()) {
            let welcome = Welcome { worker, max_frame, minor, service, instance };
            let mut out = BytesMut::new();
            welcome.encode(&mut out);
            let (_, payload) = split_frame(&mut out, MAX_FRAME).unwrap().unwrap();
            prop_assert_eq!(Welcome::parse(&payload).unwrap(), welcome);
        }

        #[test]
        fn random_bytes_never_panic_and_errors_name_a_rule(tail in prop::collection::vec(any::<u8>(), 0..200), text in "(PIPE/1\n)?([a-z]{1,6}=[ -~]{0,9}\n?){0,6}") {
            for bytes in [&tail[..], text.as_bytes()] {
                if let Err(error) = Hello::parse(bytes) { prop_assert!(error.to_string().starts_with("P-")); }
                if let Err(error) = Welcome::parse(bytes) { prop_assert!(error.to_string().starts_with("P-")); }
            }
        }
    }
}
