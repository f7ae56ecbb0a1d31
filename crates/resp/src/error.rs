//! Why bytes are not RESP.

/// The bytes are not RESP, or exceed a limit. Frame boundaries are lost: the connection has to be closed.
///
/// Which error is found does not depend on how the stream was cut into reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed reply at byte {offset} of its frame: {kind}")]
pub struct DecodeError {
    /// The offending byte, counted from the first byte of the frame; for a limit, the first byte of the element
    /// that exceeds it.
    pub offset: usize,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    /// No type of RESP starts with this byte.
    #[error("unknown type byte {0:#04x}")]
    UnknownType(u8),
    /// CR LF is missing where it has to be, or CR or LF stands alone in a line.
    #[error("CR LF expected")]
    LineEnd,
    /// An integer is not decimal, or does not fit 64 bits.
    #[error("invalid integer")]
    Integer,
    /// A length or count is not decimal, or negative where that does not mean null.
    #[error("invalid length")]
    Length,
    /// Neither `t` nor `f`.
    #[error("invalid boolean")]
    Boolean,
    /// Not a number, `inf` or `nan`.
    #[error("invalid double")]
    Double,
    /// Not an optional sign and decimal digits.
    #[error("invalid big number")]
    BigNumber,
    /// A verbatim string without three bytes of format and a colon.
    #[error("invalid verbatim string")]
    Verbatim,
    /// A streamed string goes on with something else than `;`.
    #[error("chunk of a streamed string expected")]
    Chunk,
    /// `.` where no streamed aggregate can end: outside of one, after the key of a map, after attributes.
    #[error("misplaced end of a streamed aggregate")]
    End,
    /// A string of this many bytes exceeds [`Limits::max_bulk_bytes`](crate::Limits::max_bulk_bytes).
    #[error("a string of {0} bytes exceeds the limit")]
    BulkTooLong(u64),
    /// A line exceeds [`Limits::max_line_bytes`](crate::Limits::max_line_bytes).
    #[error("a line exceeds the limit")]
    LineTooLong,
    /// Aggregates are nested deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("aggregates are nested too deeply")]
    TooDeep,
    /// This announced count brings the frame above [`Limits::max_elements`](crate::Limits::max_elements).
    #[error("{0} more elements exceed the limit")]
    TooManyElements(u64),
    /// The frame exceeds [`Limits::max_frame_bytes`](crate::Limits::max_frame_bytes).
    #[error("the frame exceeds the limit")]
    FrameTooLong,
}

impl DecodeErrorKind {
    /// Whether the bytes may be RESP and are only too many: the part that is too large is in front of the input, as
    /// nothing of it was taken.
    pub(crate) fn is_limit(self) -> bool {
        matches!(self, Self::BulkTooLong(_) | Self::LineTooLong | Self::TooManyElements(_) | Self::FrameTooLong)
    }
}
