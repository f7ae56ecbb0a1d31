//! RESET: why an exchange, or a connection, ends (spec §8).

use crate::frame::{FrameHeader, FrameType, HEADER_LEN, flags};
use bytes::{BufMut, BytesMut};

/// The longest text of RESET and LOG in bytes; what is longer is cut (spec §10).
pub const MAX_TEXT: usize = 1024;

/// Why the exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ResetCode {
    /// The client has gone, or an answer to such a RESET.
    Cancelled = 1,
    /// The time that `deadline_ms` allowed is over.
    Deadline = 2,
    /// Not begun, nothing happened: any method may be sent to another instance.
    Refused = 3,
    /// As `Refused`, and the service has too much to do.
    Overloaded = 4,
    /// The handler failed.
    Internal = 5,
    /// A rule of the protocol was broken (P-10).
    Protocol = 6,
    /// The request's body is larger than the service takes.
    TooLarge = 7,
}

impl ResetCode {
    /// The code's name in the specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "CANCELLED",
            Self::Deadline => "DEADLINE",
            Self::Refused => "REFUSED",
            Self::Overloaded => "OVERLOADED",
            Self::Internal => "INTERNAL",
            Self::Protocol => "PROTOCOL",
            Self::TooLarge => "TOO_LARGE",
        }
    }

    fn from_wire(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::Cancelled,
            2 => Self::Deadline,
            3 => Self::Refused,
            4 => Self::Overloaded,
            5 => Self::Internal,
            6 => Self::Protocol,
            7 => Self::TooLarge,
            _ => return None,
        })
    }
}

/// The payload of RESET.
///
/// ```
/// use bytes::BytesMut;
/// use pilotlight_pipe::frame::HEADER_LEN;
/// use pilotlight_pipe::reset::{Reset, ResetCode};
///
/// let reset = Reset::new(ResetCode::Refused, "the database is away");
/// let mut wire = BytesMut::new();
/// reset.encode(&mut wire, 7);
/// assert_eq!(Reset::parse(&wire[HEADER_LEN..]), Ok(reset));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Why.
    pub code: ResetCode,
    /// With `Overloaded`: for how long, in milliseconds; otherwise 0.
    pub retry_after_ms: u32,
    /// For people; at most [`MAX_TEXT`] bytes are sent.
    pub text: String,
}

impl Reset {
    /// A RESET without a time to wait.
    #[must_use]
    pub fn new(code: ResetCode, text: impl Into<String>) -> Self {
        Self { code, retry_after_ms: 0, text: text.into() }
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut BytesMut, exchange: u16) {
        let text = cut(&self.text);
        let length = 8 + text.len();
        out.reserve(HEADER_LEN + length);
        let header = FrameHeader { length: length as u32, kind: FrameType::RESET, flags: flags::NONE, exchange };
        out.put_slice(&header.encode());
        out.put_u16_le(self.code as u16);
        out.put_u16_le(0);
        out.put_u32_le(self.retry_after_ms);
        out.put_slice(text.as_bytes());
    }

    /// Reads a payload. A code that is not in the specification counts as [`ResetCode::Internal`] and is named in the
    /// text; text that is not UTF-8 is read with replacement characters.
    ///
    /// # Errors
    /// The payload is shorter than its fixed part.
    pub fn parse(payload: &[u8]) -> Result<Self, ResetError> {
        let Some((&[a, b, _, _, c, d, e, f], text)) = payload.split_first_chunk::<8>() else {
            return Err(ResetError::Short { length: payload.len() });
        };
        let wire = u16::from_le_bytes([a, b]);
        let mut text = cut(&String::from_utf8_lossy(text)).to_owned();
        let code = ResetCode::from_wire(wire).unwrap_or_else(|| {
            text = format!("unknown code {wire}: {text}");
            ResetCode::Internal
        });
        Ok(Self { code, retry_after_ms: u32::from_le_bytes([c, d, e, f]), text })
    }
}

/// Why a payload is not one of RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResetError {
    /// Shorter than `code, 0, retry_after_ms`.
    #[error("P-11: a RESET of {length} bytes is shorter than its 8 fixed bytes")]
    Short {
        /// The payload's length.
        length: usize,
    },
}

/// The first [`MAX_TEXT`] bytes, cut between characters.
pub(crate) fn cut(text: &str) -> &str {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let mut end = MAX_TEXT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn round(reset: &Reset, exchange: u16) -> Reset {
        let mut out = BytesMut::new();
        reset.encode(&mut out, exchange);
        let header = FrameHeader::decode(out.first_chunk().unwrap());
        assert_eq!((header.kind, header.flags, header.exchange), (FrameType::RESET, 0, exchange));
        assert_eq!(header.length as usize, out.len() - HEADER_LEN);
        Reset::parse(&out[HEADER_LEN..]).unwrap()
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let seen = round(&Reset::new(ResetCode::Internal, "é".repeat(600) + "!"), 3);
        assert_eq!(seen.text, "é".repeat(512));
        let seen = round(&Reset::new(ResetCode::Internal, format!("a{}", "é".repeat(600))), 3);
        assert_eq!(seen.text.len(), 1023);
    }

    #[test]
    fn short_and_unknown() {
        assert_eq!(Reset::parse(&[1, 0, 0]), Err(ResetError::Short { length: 3 }));
        let seen = Reset::parse(&[99, 0, 0, 0, 0, 0, 0, 0, b'x']).unwrap();
        assert_eq!(seen, Reset::new(ResetCode::Internal, "unknown code 99: x"));
    }

    proptest! {
        #[test]
        fn decode_of_encode(code in 1u16..=7, retry_after_ms in any::<u32>(), text in ".{0,200}", exchange in any::<u16>()) {
            let reset = Reset { code: ResetCode::from_wire(code).unwrap(), retry_after_ms, text };
            prop_assert_eq!(round(&reset, exchange), reset);
        }

        #[test]
        fn never_panics(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Reset::parse(&payload).is_ok(), payload.len() >= 8);
        }
    }
}
