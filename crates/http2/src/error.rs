//! What a client may do wrong, and with which code it is told so.

use crate::hpack::error::HpackError;

/// An error code (RFC 9113 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// NO_ERROR
    pub const NO_ERROR: Self = Self(0);
    /// PROTOCOL_ERROR
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// INTERNAL_ERROR
    pub const INTERNAL_ERROR: Self = Self(2);
    /// FLOW_CONTROL_ERROR
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// STREAM_CLOSED
    pub const STREAM_CLOSED: Self = Self(5);
    /// FRAME_SIZE_ERROR
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// REFUSED_STREAM
    pub const REFUSED_STREAM: Self = Self(7);
    /// CANCEL
    pub const CANCEL: Self = Self(8);
    /// COMPRESSION_ERROR
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// CONNECT_ERROR
    pub const CONNECT_ERROR: Self = Self(10);
    /// ENHANCE_YOUR_CALM
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// RFC 9113 §3.4
    #[error("it does not begin with the preface of HTTP/2 and SETTINGS (RFC 9113 section 3.4)")]
    Preface,
    /// §4.2
    #[error("a frame has another length than its type may have (RFC 9113 section 4.2)")]
    FrameSize,
    /// §4.3, §6.10
    #[error("a header block is interrupted, or goes on without a beginning (RFC 9113 section 4.3)")]
    Block,
    /// RFC 7541
    #[error("{0} (RFC 7541)")]
    Hpack(#[from] HpackError),
    /// §5.1.1
    #[error("a stream has a number that no stream of a client may have now (RFC 9113 section 5.1.1)")]
    StreamNumber,
    /// §5.1
    #[error("a frame is for a stream that has not begun (RFC 9113 section 5.1)")]
    IdleStream,
    /// §5.1
    #[error("a header block is for a stream that has ended (RFC 9113 section 5.1)")]
    ClosedStream,
    /// §6.1, §6.2
    #[error("a frame has more padding than payload (RFC 9113 section 6.1)")]
    Padding,
    /// §6.5
    #[error("a setting has a value that it may not have (RFC 9113 section 6.5.2)")]
    Setting,
    /// §6.9
    #[error("a window grows beyond 2^31-1, or by nothing, or is not kept to (RFC 9113 section 6.9)")]
    Window,
    /// §6.9.1: WINDOW_UPDATE by nothing.
    #[error("a window grows by nothing (RFC 9113 section 6.9)")]
    NoIncrement,
    /// §8.4
    #[error("a client pushes (RFC 9113 section 8.4)")]
    Push,
    /// More than four times [`crate::Limits::header_list`], or in more than [`crate::MAX_CONTINUATIONS`] frames.
    #[error("a header block is larger, or in more frames, than the limit")]
    LargeBlock,
    /// More than [`crate::MAX_RESET_STREAMS`].
    #[error("it has reset more streams than the gateway can end as fast")]
    Resets,
}

impl Violation {
    /// What the client is told.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::FrameSize => ErrorCode::FRAME_SIZE_ERROR,
            Self::Hpack(HpackError::Bomb) | Self::LargeBlock | Self::Resets => ErrorCode::ENHANCE_YOUR_CALM,
            Self::Hpack(_) => ErrorCode::COMPRESSION_ERROR,
            Self::ClosedStream => ErrorCode::STREAM_CLOSED,
            Self::Window => ErrorCode::FLOW_CONTROL_ERROR,
            Self::Preface
            | Self::Block
            | Self::StreamNumber
            | Self::IdleStream
            | Self::Padding
            | Self::Setting
            | Self::NoIncrement
            | Self::Push => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

/// Why nothing more goes over a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// RST_STREAM, by either side.
    #[error("the stream was reset with error code {}", .0.0)]
    Reset(ErrorCode),
    /// The connection is over, or the stream is.
    #[error("the stream's connection is over")]
    Closed,
}
