//! The response direction of one exchange, the same on own and answer connections (P-20).

use super::{Part, Violation, violation};
use crate::frame::{FrameHeader, FrameType};

/// A frame of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    /// INFO.
    Info,
    /// RESPONSE.
    Response(Part),
    /// RESPONSE with UPGRADE, the final frame: the connection is a byte stream behind it (P-40).
    Switched,
    /// DATA.
    Data(Part),
    /// TRAILERS, the final frame.
    Trailers,
    /// RESET, the final frame.
    Reset,
}

impl AnswerPart {
    /// Whether it is the final frame.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Response(Part::Last) | Self::Switched | Self::Data(Part::Last) | Self::Trailers | Self::Reset
        )
    }
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Streaming,
    Ended,
}

impl Phase {
    /// RESPONSE with UPGRADE came where that was offered.
    pub(super) fn switch(&mut self, header: &FrameHeader) -> Result<(), Violation> {
        if header.is_end() {
            return Err(violation(header, "P-40", "a connection that has switched does not end with its RESPONSE"));
        }
        *self = Self::Ended;
        Ok(())
    }

    pub(super) fn receive(&mut self, header: &FrameHeader) -> Result<AnswerPart, Violation> {
        let part = match (*self, header.kind) {
            (Self::Ended, _) => return Err(violation(header, "P-20", "the answer has ended")),
            (_, FrameType::RESET) => AnswerPart::Reset,
            (Self::Waiting, FrameType::INFO) if header.is_end() => {
                return Err(violation(header, "P-20", "INFO does not end an answer"));
            }
            (Self::Waiting, FrameType::INFO) => AnswerPart::Info,
            (Self::Waiting, FrameType::RESPONSE) => AnswerPart::Response(Part::of(header)),
            (Self::Waiting, FrameType::DATA | FrameType::TRAILERS) => {
                return Err(violation(header, "P-20", "RESPONSE comes first"));
            }
            (Self::Streaming, FrameType::DATA) => AnswerPart::Data(Part::of(header)),
            (Self::Streaming, FrameType::TRAILERS) => AnswerPart::Trailers,
            (Self::Streaming, FrameType::RESPONSE | FrameType::INFO) => {
                return Err(violation(header, "P-20", "there is one RESPONSE, and no INFO after it"));
            }
            _ => return Err(violation(header, "P-11", "not a frame of an answer")),
        };
        *self = match part {
            part if part.is_final() => Self::Ended,
            AnswerPart::Info => Self::Waiting,
            _ => Self::Streaming,
        };
        Ok(part)
    }
}
