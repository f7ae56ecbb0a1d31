//! Frames: the 8-byte header, the table of types, and cutting whole frames from what was read (spec §3).
//!
//! Owns the layout of the header and the check of its length. It does not know what a payload means.
//!
//! ```text
//!  0               4       5       6               8
//!  +---------------+-------+-------+---------------+------------------
//!  | length  u32   | type  | flags | exchange u16  | payload …
//!  +---------------+-------+-------+---------------+------------------
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes of a frame header.
pub const HEADER_LEN: usize = 8;

/// The largest payload that either side may send unless WELCOME says more (spec §10).
pub const MAX_FRAME: usize = 65_536;

/// The header of a frame, as it is on the wire.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
///
/// let header = FrameHeader { length: 5, kind: FrameType::DATA, flags: flags::END, exchange: 7 };
/// let bytes = header.encode();
/// assert_eq!(bytes, [5, 0, 0, 0, 6, 1, 7, 0]);
/// assert_eq!(FrameHeader::decode(&bytes), header);
/// assert!(header.is_end() && !header.is_ignorable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload that follow the header.
    pub length: u32,
    /// The type, see [`FrameType`].
    pub kind: u8,
    /// See [`flags`]; unknown bits are ignored (P-7).
    pub flags: u8,
    /// The exchange, 0 for the connection itself.
    pub exchange: u16,
}

impl FrameHeader {
    /// Reads a header. Every value of the 8 bytes is a header; whether it is allowed is decided elsewhere.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        let [a, b, c, d, kind, flags, e, f] = *bytes;
        Self { length: u32::from_le_bytes([a, b, c, d]), kind, flags, exchange: u16::from_le_bytes([e, f]) }
    }

    /// Writes a header.
    #[inline]
    #[must_use]
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.length.to_le_bytes();
        let [e, f] = self.exchange.to_le_bytes();
        [a, b, c, d, self.kind, self.flags, e, f]
    }

    /// Whether END is set.
    #[inline]
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.flags & flags::END != 0
    }

    /// Whether UPGRADE is set, which means something on REQUEST and RESPONSE of an own connection only (P-38, P-40).
    #[inline]
    #[must_use]
    pub fn is_upgrade(&self) -> bool {
        self.flags & flags::UPGRADE != 0
    }

    /// Whether a receiver that does not know the type skips the frame (P-7).
    #[must_use]
    pub fn is_ignorable(&self) -> bool {
        self.flags & flags::IGNORABLE != 0
    }
}

/// The types of frames, as constants of the header's `kind`.
#[derive(Debug)]
pub enum FrameType {}

impl FrameType {
    /// Service: the first frame of a connection.
    pub const HELLO: u8 = 1;
    /// Gateway: the answer to HELLO.
    pub const WELCOME: u8 = 2;
    /// Gateway: request head and the first part of the body.
    pub const REQUEST: u8 = 3;
    /// Service: response head and the first part of the body.
    pub const RESPONSE: u8 = 4;
    /// Service: response head with a status from 100 to 199.
    pub const INFO: u8 = 5;
    /// Both: body bytes.
    pub const DATA: u8 = 6;
    /// Both: the fields after a body; END is implied.
    pub const TRAILERS: u8 = 7;
    /// Service: no more of the request's body, please.
    pub const STOP: u8 = 8;
    /// Both: the exchange (or, on exchange 0, the connection) ends here.
    pub const RESET: u8 = 9;
    /// Both: answer with PONG.
    pub const PING: u8 = 10;
    /// Both: the answer to PING.
    pub const PONG: u8 = 11;
    /// Both: finish what there is, begin nothing new.
    pub const DRAIN: u8 = 12;
    /// Gateway: more connections, please.
    pub const MORE: u8 = 13;
    /// Service: a log line of an exchange.
    pub const LOG: u8 = 14;

    /// The name of a type in the specification, `None` if the type is not in it.
    #[must_use]
    pub fn name(kind: u8) -> Option<&'static str> {
        Some(match kind {
            Self::HELLO => "HELLO",
            Self::WELCOME => "WELCOME",
            Self::REQUEST => "REQUEST",
            Self::RESPONSE => "RESPONSE",
            Self::INFO => "INFO",
            Self::DATA => "DATA",
            Self::TRAILERS => "TRAILERS",
            Self::STOP => "STOP",
            Self::RESET => "RESET",
            Self::PING => "PING",
            Self::PONG => "PONG",
            Self::DRAIN => "DRAIN",
            Self::MORE => "MORE",
            Self::LOG => "LOG",
            _ => return None,
        })
    }
}

/// The bits of the header's `flags`.
pub mod flags {
    /// No flag.
    pub const NONE: u8 = 0;
    /// This direction of the exchange is complete after this frame.
    pub const END: u8 = 0x01;
    /// On REQUEST: the connection may leave the protocol (P-38). On RESPONSE: it leaves it behind this frame (P-40).
    pub const UPGRADE: u8 = 0x02;
    /// A receiver that does not know the type skips the frame.
    pub const IGNORABLE: u8 = 0x80;
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header announces more than the receiver takes.
    #[error("P-6: a payload of {length} bytes is longer than max_frame ({max_frame})")]
    TooLong {
        /// What the header says.
        length: u32,
        /// The limit.
        max_frame: usize,
    },
}

/// Splits one whole frame off the front of `buf`: the header and its payload, a slice of the same memory. `None` if the
/// frame is not complete yet; [`missing`] says how many bytes it wants.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::frame::{FrameType, MAX_FRAME, encode_frame, flags, split_frame};
///
/// let mut read = BytesMut::new();
/// encode_frame(&mut read, FrameType::DATA, flags::NONE, 7, b"hello");
/// read.extend_from_slice(&[9, 0]); // the next frame has only begun
/// let (header, payload) = split_frame(&mut read, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!((header.exchange, &payload[..]), (7, &b"hello"[..]));
/// assert_eq!(split_frame(&mut read, MAX_FRAME)?, None);
/// assert_eq!(read.len(), 2);
/// # Ok::<(), pilotlight_pipe::frame::FrameError>(())
/// ```
///
/// # Errors
/// The length is above `max_frame`. It is checked before anything is sized by it (P-6); `buf` is left as it was.
#[inline]
pub fn split_frame(buf: &mut BytesMut, max_frame: usize) -> Result<Option<(FrameHeader, Bytes)>, FrameError> {
    let Some((header, payload)) = whole_frame(buf, max_frame)? else {
        return Ok(None);
    };
    let whole = HEADER_LEN + payload.len();
    let mut frame = buf.split_to(whole);
    frame.advance(HEADER_LEN);
    Ok(Some((header, frame.freeze())))
}

/// The frame at the front of `buf`, which stays there. `None` if it is not complete yet.
///
/// ```
/// use pilotlight_pipe::frame::{FrameError, MAX_FRAME, whole_frame};
///
/// let read = *b"\x02\0\0\0\x06\x01\x07\0hi";
/// let (header, payload) = whole_frame(&read, MAX_FRAME)?.expect("a whole frame");
/// assert_eq!((header.exchange, payload), (7, &b"hi"[..]));
/// assert_eq!(whole_frame(&read, 1), Err(FrameError::TooLong { length: 2, max_frame: 1 }));
/// # Ok::<(), FrameError>(())
/// ```
///
/// # Errors
/// As [`split_frame`].
#[inline]
pub fn whole_frame(buf: &[u8], max_frame: usize) -> Result<Option<(FrameHeader, &[u8])>, FrameError> {
    let Some(header) = peek(buf, max_frame)? else {
        return Ok(None);
    };
    let payload = buf.get(HEADER_LEN..HEADER_LEN + header.length as usize);
    Ok(payload.map(|payload| (header, payload)))
}

/// How many bytes are missing until `buf` begins with a whole frame; 0 when it does. An incomplete header wants only
/// the rest of the header.
///
/// ```
/// use pilotlight_pipe::frame::{MAX_FRAME, missing};
///
/// let frame = b"\x02\0\0\0\x06\x01\x07\0hi";
/// assert_eq!(missing(&frame[..3], MAX_FRAME)?, 5); // of the header
/// assert_eq!(missing(&frame[..9], MAX_FRAME)?, 1);
/// assert_eq!(missing(frame, MAX_FRAME)?, 0);
/// # Ok::<(), pilotlight_pipe::frame::FrameError>(())
/// ```
///
/// # Errors
/// As [`split_frame`].
pub fn missing(buf: &[u8], max_frame: usize) -> Result<usize, FrameError> {
    Ok(match peek(buf, max_frame)? {
        None => HEADER_LEN - buf.len(),
        Some(header) => (HEADER_LEN + header.length as usize).saturating_sub(buf.len()),
    })
}

/// Appends a whole frame. The payload is the caller's to keep within `max_frame`.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::frame::{FrameType, encode_frame, flags};
///
/// let mut wire = BytesMut::new();
/// encode_frame(&mut wire, FrameType::DATA, flags::END, 7, b"hi");
/// assert_eq!(&wire[..], b"\x02\0\0\0\x06\x01\x07\0hi");
/// ```
#[inline]
pub fn encode_frame(out: &mut BytesMut, kind: u8, flags: u8, exchange: u16, payload: &[u8]) {
    debug_assert!(payload.len() <= MAX_FRAME, "a payload of {} bytes is longer than max_frame", payload.len());
    out.reserve(HEADER_LEN + payload.len());
    out.put_slice(&FrameHeader { length: payload.len() as u32, kind, flags, exchange }.encode());
    out.put_slice(payload);
}

#[inline]
fn peek(buf: &[u8], max_frame: usize) -> Result<Option<FrameHeader>, FrameError> {
    let Some(bytes) = buf.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let header = FrameHeader::decode(bytes);
    if header.length as usize > max_frame {
        return Err(FrameError::TooLong { length: header.length, max_frame });
    }
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_header_is_little_endian() {
        let header = FrameHeader { length: 0x0102_0304, kind: 6, flags: 0x81, exchange: 0x0506 };
        assert_eq!(header.encode(), [4, 3, 2, 1, 6, 0x81, 6, 5]);
        assert_eq!(FrameHeader::decode(&header.encode()), header);
        assert!(header.is_end() && header.is_ignorable());
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_the_payload_comes() {
        let header = FrameHeader { length: 65_537, kind: 6, flags: 0, exchange: 1 };
        let mut buf = BytesMut::from(&header.encode()[..]);
        let error = FrameError::TooLong { length: 65_537, max_frame: MAX_FRAME };
        assert_eq!(split_frame(&mut buf, MAX_FRAME), Err(error));
        assert_eq!(missing(&buf, MAX_FRAME), Err(error));
        assert_eq!(buf.len(), HEADER_LEN);
    }

    #[test]
    fn missing_counts_header_then_payload() {
        let mut buf = BytesMut::new();
        encode_frame(&mut buf, FrameType::DATA, 0, 1, b"hello");
        let wanted: Vec<_> = (0..=buf.len()).map(|n| missing(&buf[..n], MAX_FRAME).unwrap()).collect();
        assert_eq!(wanted, [8, 7, 6, 5, 4, 3, 2, 1, 5, 4, 3, 2, 1, 0]);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            frames in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            cuts in prop::collection::vec(1usize..400, 1..20),
        ) {
            let mut wire = BytesMut::new();
            for (kind, flags, exchange, payload) in &frames {
                encode_frame(&mut wire, *kind, *flags, *exchange, payload);
            }
            let (mut buf, mut seen, mut rest, mut turn) = (BytesMut::new(), Vec::new(), &wire[..], 0);
            while !rest.is_empty() {
                let take = cuts[turn % cuts.len()].min(rest.len());
                turn += 1;
                buf.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
                while let Some((header, payload)) = split_frame(&mut buf, MAX_FRAME).unwrap() {
                    prop_assert_eq!(header.length as usize, payload.len());
                    seen.push((header.kind, header.flags, header.exchange, payload.to_vec()));
                }
            }
            prop_assert_eq!(seen, frames);
            prop_assert!(buf.is_empty());
        }
    }
}
