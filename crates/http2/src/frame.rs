//! Frames (RFC 9113 §4, §6): their headers, and how they are written.

use bytes::{BufMut, BytesMut};

use crate::error::ErrorCode;

/// Bytes before the first frame of a client (§3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of the header of a frame.
pub const FRAME_HEADER: usize = 9;
/// The largest payload that is taken: the default of SETTINGS_MAX_FRAME_SIZE (§6.5.2).
pub const MAX_FRAME: usize = 16 * 1024;

/// The types of frames (§6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// The flags of frames (§6).
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The header of a frame (§4.1).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameHeader {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHeader {
    /// `None`: it is not whole.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[high, middle, low, kind, flags, a, b, c, d] = bytes.first_chunk::<FRAME_HEADER>()?;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // The highest bit is reserved, and ignored.
        Some(Self { length, kind, flags, stream: u32::from_be_bytes([a, b, c, d]) & !(1 << 31) })
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes the header of a frame.
#[inline]
pub(crate) fn put_header(header: FrameHeader, out: &mut BytesMut) {
    let FrameHeader { length, kind, flags, stream } = header;
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

/// Writes a whole frame without flags but `flags`.
pub(crate) fn put_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut BytesMut) {
    put_header(FrameHeader { length: payload.len(), kind, flags, stream }, out);
    out.extend_from_slice(payload);
}

pub(crate) fn put_reset(stream: u32, code: ErrorCode, out: &mut BytesMut) {
    put_frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
}

pub(crate) fn put_window_update(stream: u32, increment: u32, out: &mut BytesMut) {
    put_frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes(), out);
}

pub(crate) fn put_goaway(last: u32, code: ErrorCode, out: &mut BytesMut) {
    put_header(FrameHeader { length: 8, kind: kind::GOAWAY, flags: 0, stream: 0 }, out);
    out.put_u32(last);
    out.put_u32(code.0);
}

/// Writes a header block, in as many frames as it needs (§6.2, §6.10).
#[inline]
pub(crate) fn put_block(stream: u32, block: &[u8], flags: u8, out: &mut BytesMut) {
    let (first, mut rest) = block.split_at(block.len().min(MAX_FRAME));
    let end = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
    out.reserve(FRAME_HEADER + first.len());
    put_frame(kind::HEADERS, flags | end(rest), stream, first, out);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(MAX_FRAME));
        rest = behind;
        put_frame(kind::CONTINUATION, end(rest), stream, piece, out);
    }
}

/// A payload without its padding (§6.1, §6.2); `None` if there is more padding than payload.
pub(crate) fn without_padding(header: FrameHeader, payload: &[u8]) -> Option<&[u8]> {
    if !header.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}
