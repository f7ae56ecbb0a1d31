//! The payloads of the frames about a connection or an instance: PING, PONG, DRAIN, MORE, LOG (spec §3).

use crate::frame::{FrameHeader, FrameType, HEADER_LEN, encode_frame, flags};
use crate::reset::cut;
use bytes::{BufMut, BytesMut};

/// Why a payload is not one of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The payload has another length than its type has.
    #[error("P-11: a {name} of {length} bytes; its payload has {expected}")]
    Length {
        /// The type's name.
        name: &'static str,
        /// The payload's length.
        length: usize,
        /// What the type has.
        expected: &'static str,
    },
    /// MORE with a kind that is not in the specification.
    #[error("P-11: MORE asks for connections of the unknown kind {kind}")]
    MoreKind {
        /// What the payload says.
        kind: u16,
    },
}

/// The payload of DRAIN: finish, begin nothing new.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::Drain;
/// use pilotlight_pipe::frame::{FrameType, MAX_FRAME, split_frame};
///
/// let mut wire = BytesMut::new();
/// Drain { grace_ms: 5000 }.encode(&mut wire);
/// let (header, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!(header.kind, FrameType::DRAIN);
/// assert_eq!(Drain::parse(&payload)?.grace_ms, 5000);
/// # Ok::<(), pilotlight_pipe::session::ProtocolError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// From the gateway: the time until the service is killed, in milliseconds.
    pub grace_ms: u32,
}

impl Drain {
    /// Appends the whole frame.
    pub fn encode(self, out: &mut BytesMut) {
        encode_frame(out, FrameType::DRAIN, flags::NONE, 0, &self.grace_ms.to_le_bytes());
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// The payload is not 4 bytes long.
    pub fn parse(payload: &[u8]) -> Result<Self, ControlError> {
        Ok(Self { grace_ms: u32::from_le_bytes(exactly("DRAIN", payload, "4 bytes")?) })
    }
}

/// What MORE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum MoreKind {
    /// Connections for one exchange at a time.
    Own = 1,
    /// Connections for many small exchanges at once.
    Shared = 2,
}

/// The payload of MORE: dial `count` connections for `worker`, please.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::{More, MoreKind};
/// use pilotlight_pipe::frame::HEADER_LEN;
///
/// let more = More { kind: MoreKind::Own, count: 2, worker: 1 };
/// let mut wire = BytesMut::new();
/// more.encode(&mut wire);
/// assert_eq!(More::parse(&wire[HEADER_LEN..]), Ok(more));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct More {
    /// Of which kind.
    pub kind: MoreKind,
    /// How many.
    pub count: u16,
    /// The worker that each HELLO names.
    pub worker: u32,
}

impl More {
    /// Appends the whole frame.
    pub fn encode(self, out: &mut BytesMut) {
        let [a, b] = (self.kind as u16).to_le_bytes();
        let [c, d] = self.count.to_le_bytes();
        let [e, f, g, h] = self.worker.to_le_bytes();
        encode_frame(out, FrameType::MORE, flags::NONE, 0, &[a, b, c, d, e, f, g, h]);
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// The payload is not 8 bytes long or its kind is unknown.
    pub fn parse(payload: &[u8]) -> Result<Self, ControlError> {
        let [a, b, c, d, e, f, g, h] = exactly("MORE", payload, "8 bytes")?;
        let kind = match u16::from_le_bytes([a, b]) {
            1 => MoreKind::Own,
            2 => MoreKind::Shared,
            kind => return Err(ControlError::MoreKind { kind }),
        };
        Ok(Self { kind, count: u16::from_le_bytes([c, d]), worker: u32::from_le_bytes([e, f, g, h]) })
    }
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something is odd.
    Warn = 2,
    /// Something happened.
    Info = 3,
    /// Details for debugging.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

/// The payload of LOG: one line of the exchange that the frame names.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::{Log, LogLevel};
/// use pilotlight_pipe::frame::HEADER_LEN;
///
/// let line = Log { level: LogLevel::Warn, text: "the cache is cold".into() };
/// let mut wire = BytesMut::new();
/// line.encode(&mut wire, 7);
/// assert_eq!(Log::parse(&wire[HEADER_LEN..]), Ok(line));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How grave.
    pub level: LogLevel,
    /// The line; at most [`crate::reset::MAX_TEXT`] bytes are sent.
    pub text: String,
}

impl Log {
    /// Appends the whole frame.
    pub fn encode(&self, out: &mut BytesMut, exchange: u16) {
        let text = cut(&self.text);
        let length = 1 + text.len();
        out.reserve(HEADER_LEN + length);
        let header = FrameHeader { length: length as u32, kind: FrameType::LOG, flags: flags::NONE, exchange };
        out.put_slice(&header.encode());
        out.put_u8(self.level as u8);
        out.put_slice(text.as_bytes());
    }

    /// Reads a payload. A level that is not in the specification counts as [`LogLevel::Info`], text that is not UTF-8
    /// is read with replacement characters and cut to the limit: a log line never ends a connection.
    ///
    /// # Errors
    /// The payload is empty.
    pub fn parse(payload: &[u8]) -> Result<Self, ControlError> {
        let Some((&level, text)) = payload.split_first() else {
            return Err(ControlError::Length { name: "LOG", length: 0, expected: "at least 1 byte" });
        };
        let level = match level {
            1 => LogLevel::Error,
            2 => LogLevel::Warn,
            4 => LogLevel::Debug,
            5 => LogLevel::Trace,
            _ => LogLevel::Info,
        };
        Ok(Self { level, text: cut(&String::from_utf8_lossy(text)).to_owned() })
    }
}

/// Appends a PING.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::encode_ping;
///
/// let mut wire = BytesMut::new();
/// encode_ping(&mut wire, *b"are you?");
/// assert_eq!(&wire[..], b"\x08\0\0\0\x0a\0\0\0are you?");
/// ```
pub fn encode_ping(out: &mut BytesMut, bytes: [u8; 8]) {
    encode_frame(out, FrameType::PING, flags::NONE, 0, &bytes);
}

/// Appends the PONG that answers a PING (P-35).
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::{encode_ping, encode_pong, parse_ping};
/// use pilotlight_pipe::frame::HEADER_LEN;
///
/// let (mut asked, mut answered) = (BytesMut::new(), BytesMut::new());
/// encode_ping(&mut asked, *b"are you?");
/// encode_pong(&mut answered, parse_ping(&asked[HEADER_LEN..])?);
/// assert_eq!(answered[HEADER_LEN..], asked[HEADER_LEN..]);
/// # Ok::<(), pilotlight_pipe::control::ControlError>(())
/// ```
pub fn encode_pong(out: &mut BytesMut, bytes: [u8; 8]) {
    encode_frame(out, FrameType::PONG, flags::NONE, 0, &bytes);
}

/// The 8 bytes of a PING or PONG.
///
/// ```
/// use pilotlight_pipe::control::parse_ping;
///
/// assert_eq!(parse_ping(b"are you?")?, *b"are you?");
/// assert!(parse_ping(b"short").is_err());
/// # Ok::<(), pilotlight_pipe::control::ControlError>(())
/// ```
///
/// # Errors
/// The payload is not 8 bytes long.
pub fn parse_ping(payload: &[u8]) -> Result<[u8; 8], ControlError> {
    exactly("PING", payload, "8 bytes")
}

/// Appends a STOP (P-21).
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::control::encode_stop;
/// use pilotlight_pipe::frame::{FrameType, MAX_FRAME, split_frame};
///
/// let mut wire = BytesMut::new();
/// encode_stop(&mut wire, 7);
/// let (header, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!((header.kind, header.exchange, payload.len()), (FrameType::STOP, 7, 0));
/// # Ok::<(), pilotlight_pipe::frame::FrameError>(())
/// ```
pub fn encode_stop(out: &mut BytesMut, exchange: u16) {
    encode_frame(out, FrameType::STOP, flags::NONE, exchange, &[]);
}

fn exactly<const N: usize>(
    name: &'static str,
    payload: &[u8],
    expected: &'static str,
) -> Result<[u8; N], ControlError> {
    payload.try_into().map_err(|_| ControlError::Length { name, length: payload.len(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{MAX_FRAME, split_frame};
    use proptest::prelude::*;

    #[track_caller]
    fn payload(kind: u8, mut out: BytesMut) -> bytes::Bytes {
        let (header, payload) = split_frame(&mut out, MAX_FRAME).unwrap().unwrap();
        assert_eq!(header.kind, kind);
        assert!(out.is_empty());
        payload
    }

    #[test]
    fn drain_more_log_ping_round() {
        let mut out = BytesMut::new();
        Drain { grace_ms: 1500 }.encode(&mut out);
        assert_eq!(Drain::parse(&payload(FrameType::DRAIN, out)), Ok(Drain { grace_ms: 1500 }));

        let more = More { kind: MoreKind::Shared, count: 3, worker: 0x0102_0304 };
        let mut out = BytesMut::new();
        more.encode(&mut out);
        let bytes = payload(FrameType::MORE, out);
        assert_eq!(&bytes[..], [2, 0, 3, 0, 4, 3, 2, 1]);
        assert_eq!(More::parse(&bytes), Ok(more));

        let log = Log { level: LogLevel::Warn, text: "odd".into() };
        let mut out = BytesMut::new();
        log.encode(&mut out, 7);
        assert_eq!(Log::parse(&payload(FrameType::LOG, out)), Ok(log));

        let mut out = BytesMut::new();
        encode_ping(&mut out, *b"12345678");
        assert_eq!(parse_ping(&payload(FrameType::PING, out)), Ok(*b"12345678"));
    }

    #[test]
    fn wrong_lengths_and_kinds_are_named() {
        assert_eq!(Drain::parse(b"123").unwrap_err().to_string(), "P-11: a DRAIN of 3 bytes; its payload has 4 bytes");
        assert_eq!(More::parse(&[9, 0, 1, 0, 0, 0, 0, 0]), Err(ControlError::MoreKind { kind: 9 }));
        assert_eq!(parse_ping(b"1").unwrap_err().to_string(), "P-11: a PING of 1 bytes; its payload has 8 bytes");
        assert!(Log::parse(b"").is_err());
        assert_eq!(Log::parse(&[77, 0xff]).unwrap(), Log { level: LogLevel::Info, text: "\u{fffd}".into() });
    }

    proptest! {
        #[test]
        fn random_payloads_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(Drain::parse(&bytes).is_ok(), bytes.len() == 4);
            prop_assert!(bytes.len() == 8 || More::parse(&bytes).is_err());
            prop_assert_eq!(Log::parse(&bytes).is_ok(), !bytes.is_empty());
        }
    }
}
