//! How much of a client is taken.

/// CONTINUATION frames of one header block (CVE-2024-27316). One of 64 KiB needs three.
pub const MAX_CONTINUATIONS: u32 = 128;
/// Streams that the client has reset and whose requests have not ended yet, beyond [`Limits::streams`]: more end the
/// connection (CVE-2023-44487).
pub const MAX_RESET_STREAMS: usize = 128;
/// Streams that were reset here, the latest ones, of which frames that were on their way are ignored. RFC 9113 §5.1
/// requires that, and allows to limit for how long: of earlier ones DATA is answered with RST_STREAM (STREAM_CLOSED),
/// which makes the stream one of these again, and a header section ends the connection (STREAM_CLOSED).
pub(crate) const MAX_REMEMBERED: usize = 64;
/// What a window may be (§6.9.1).
pub(crate) const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Windows before anybody has said anything (§6.9.2).
pub(crate) const DEFAULT_WINDOW: i64 = 65_535;

/// Bounds of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams that are open at once; further ones are refused.
    pub streams: u32,
    /// Bytes of a header section as RFC 9113 §6.5.2 counts them: names, values, and 32 for each field. A larger one is
    /// answered with 431; one that is four times as large, packed or unpacked, ends the connection.
    pub header_list: usize,
    /// Bytes that a client may send of one stream before they are taken.
    pub stream_window: u32,
    /// The same for all streams.
    pub connection_window: u32,
    /// Bytes that wait to be written; while there are more, streams have no room.
    pub unwritten: usize,
}

impl Limits {
    /// Bytes of a header block as it is sent.
    pub(crate) fn max_block(&self) -> usize {
        self.header_list.saturating_mul(4)
    }

    /// Bytes that a header block unpacks to.
    pub(crate) fn max_unpacked(&self) -> usize {
        self.header_list.saturating_mul(4)
    }
}
